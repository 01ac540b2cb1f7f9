//! Concurrent requests on few deals and objects. The versions of the timeline give an order, which
//! must explain every response.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use runtime::clock;
use serde_json::{Value, json};
use testkit::client::Response;
use time::OffsetDateTime;
use uuid::Uuid;

use super::effects::{created_deal, expired_deal};
use super::request::{Operation, RandomRequest, Request, random_request};
use super::rules::{Context, Outcome, decide};
use super::world::{Deal, Person, World};
use super::{ModelRun, compare, is_expected, start_run};
use crate::{PLATFORM, contract, eventually, guid, id_of, list, parse_time, start, text};

/// The number of concurrent actors.
const ACTORS: usize = 8;
/// The number of requests of each actor.
const REQUESTS: usize = 20;
const ROUNDS: usize = 5;

/// A request with its response.
struct Exchange {
    deal: usize,
    request: Request,
    response: Response,
    /// Start and end on a logical clock.
    begun: usize,
    ended: usize,
    /// Time of the response on the clock of the service.
    answered_at: OffsetDateTime,
}

/// The history of a deal.
struct History {
    /// The states in the order of their versions. The first one precedes all requests.
    states: Vec<Deal>,
    /// The index of the exchange that made each change, `None` for the job.
    causes: Vec<Option<usize>>,
}

impl History {
    /// Returns the indexes of the states that a request may have read.
    ///
    /// Excludes states that were replaced before the request began, and states newer than its
    /// response.
    fn window(&self, exchanges: &[Exchange], exchange: &Exchange) -> std::ops::RangeInclusive<usize> {
        let causes =
            || self.causes.iter().enumerate().filter_map(|(at, cause)| Some((at, &exchanges[(*cause)?])));
        let first = causes().filter(|(_, cause)| cause.ended < exchange.begun).map(|(at, _)| at + 1).max();
        let is_later = |state: &Deal| parse_time(&state.updated_at) > exchange.answered_at;
        let last = self.states.iter().skip(1).position(is_later);
        first.unwrap_or(0)..=last.unwrap_or(self.states.len() - 1)
    }
}

/// Returns every context that the other deals of the object may have given to a request.
///
/// `booked_elsewhere` and `completed_elsewhere` are true if one of these deals is booked or
/// Completed. The request may have read each of them in any state of its window.
fn possible_contexts<'w>(
    world: &'w World,
    histories: &[History],
    exchanges: &[Exchange],
    exchange: &Exchange,
) -> Vec<Context<'w>> {
    let deal = &world.deals[exchange.deal];
    let other_deals = || {
        histories
            .iter()
            .enumerate()
            .filter(|(at, history)| *at != exchange.deal && history.states[0].object == deal.object)
    };
    let possible_values = |predicate: &dyn Fn(&Deal) -> bool| {
        let values = |history: &History| {
            history.states[history.window(exchanges, exchange)].iter().map(predicate).collect::<BTreeSet<_>>()
        };
        let values: Vec<_> = other_deals().map(|(_, history)| values(history)).collect();
        let may_be_true = values.iter().any(|values| values.contains(&true));
        let may_be_false = values.iter().all(|values| values.contains(&false));
        [may_be_true.then_some(true), may_be_false.then_some(false)]
    };
    let (booked, completed) =
        (possible_values(&|deal| deal.booking.is_some()), possible_values(&|deal| deal.group == "Completed"));
    let context = Context::of(world, deal);
    let all = booked.into_iter().flatten().flat_map(|booked_elsewhere| {
        completed.into_iter().flatten().map(move |completed_elsewhere| Context {
            booked_elsewhere,
            completed_elsewhere,
            ..context
        })
    });
    all.collect()
}

/// Creates four deals of two objects with the contract data that Sale requires.
async fn create_deals(run: &mut ModelRun<'_>) {
    for number in 0..4 {
        let object = run.world.objects[number % 2].clone();
        let body = json!({"PropertyObjectId": object.id, "ClientUserId": guid()});
        let created = run.clients[0].post(&format!("{PLATFORM}/deals"), body).await.expect(201);
        let by = run.world.people[0];
        let step = id_of(&created["StepId"]);
        let request = Request { by, operation: Operation::Agent(None), version: None };
        let deal = created_deal(&request, &object.id, step, object.price, object.tenant, &created);
        let path = format!("{PLATFORM}/deals/{}/contract", deal.id);
        let card = run.clients[0].put(&path, contract()).await.expect(200);
        let data =
            super::world::Contract { kind: Some("Ddu"), payment: Some("Mortgage"), ..Default::default() };
        let request = Request { operation: Operation::Contract { contract: data, amount: None }, ..request };
        let context = Context {
            developer: run.world.developer(object.tenant),
            agents: run.world.agents,
            price: object.price,
            is_unavailable: false,
            booked_elsewhere: false,
            completed_elsewhere: false,
        };
        let Outcome::Changed(deal) = decide(&deal, context, &request, &card) else { panic!("contract data") };
        run.world.deals.push(*deal);
    }
}

/// Sends the requests of one actor, one after the other.
async fn run_actor(
    run: &ModelRun<'_>,
    by: Person,
    requests: Vec<RandomRequest>,
    clock: &AtomicUsize,
    exchanges: &Mutex<Vec<Exchange>>,
) {
    let client = run.service.caller(&super::claims(by));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let mut seen: Vec<_> = run.world.deals.iter().map(|deal| deal.row_version).collect();
    for random in requests {
        let at = random.deal % seen.len();
        let deal = &run.world.deals[at];
        let mut request = random.request_for(&run.world, deal, seen[at]);
        // An actor has the role of the first or the second user of the model: platform or
        // developer.
        let is_platform_only =
            matches!(request.operation, Operation::Override { .. } | Operation::Preview(_));
        if is_platform_only && !by.is_of_platform() {
            request.operation = Operation::Cancel("x".to_owned());
        }
        request.by = by;
        let begun = tick();
        let response = request.send(&client, deal.id).await;
        let (ended, answered_at) = (tick(), clock::now());
        if let Some(version) = card(&response)["RowVersion"].as_i64() {
            seen[at] = version;
        }
        exchanges.lock().unwrap().push(Exchange { deal: at, request, response, begun, ended, answered_at });
    }
}

/// Returns the card of a deal: the body of a response, or its member `Deal`.
fn card(response: &Response) -> &Value {
    if response.body["Deal"].is_null() { &response.body } else { &response.body["Deal"] }
}

/// Reads the actor and the time of each later version of a deal from its timeline.
async fn actors(run: &ModelRun<'_>, deal: &Deal) -> Vec<(Option<Uuid>, String)> {
    let sql = run.service.sql().await;
    let rows = "select distinct on (row_version) row_version, actor_user_id::text from timeline \
        where deal_id = $1::text::uuid and row_version > $2 order by row_version, position";
    let found = sql.query(rows, &[&deal.id.to_string(), &deal.row_version]).await.unwrap();
    let versions: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    let last = deal.row_version + i64::try_from(versions.len()).unwrap();
    assert_eq!(versions, (deal.row_version + 1..=last).collect::<Vec<_>>(), "versions without a gap");
    let view = run.clients[0].get(&format!("{PLATFORM}/deals/{}", deal.id)).await.expect(200);
    assert_eq!(view["RowVersion"], last);
    let path = format!("{PLATFORM}/deals/{}/timeline?PageSize=100", deal.id);
    let page = run.clients[0].get(&path).await.expect(200);
    let at = |version: i64| {
        let row = list(&page["Items"]).iter().rfind(|row| row["RowVersion"] == version);
        row.map(|row| text(&row["CreatedAt"]).to_owned()).unwrap_or_default()
    };
    let actor = |id: Option<String>| id.map(|id| id.parse().unwrap());
    found.iter().map(|row| (actor(row.get(1)), at(row.get(0)))).collect()
}

/// Rebuilds the states of a deal. Each state follows from the previous one by the request whose
/// response has its version.
fn replay(
    world: &World,
    first: &Deal,
    at: usize,
    actors: &[(Option<Uuid>, String)],
    exchanges: &[Exchange],
) -> History {
    let mut history = History { states: vec![first.clone()], causes: Vec::new() };
    for (actor, time) in actors {
        let before = history.states.last().unwrap();
        let Some(actor) = actor else {
            history.states.push(expired_deal(before, time));
            history.causes.push(None);
            continue;
        };
        let version = before.row_version + 1;
        let cause = exchanges.iter().position(|exchange| {
            exchange.deal == at
                && exchange.request.by.id == *actor
                && exchange.response.status < 300
                && !matches!(exchange.request.operation, Operation::Note(_) | Operation::Preview(_))
                && card(&exchange.response)["RowVersion"] == version
        });
        let cause = cause.unwrap_or_else(|| panic!("no response has version {version} of {before:?}"));
        let exchange = &exchanges[cause];
        let context = Context::of(world, before);
        // The states of the other deals are not rebuilt yet, so each context is tried.
        let next = [(false, false), (true, false), (false, true), (true, true)].into_iter().find_map(
            |(booked, completed)| {
                let context = Context { booked_elsewhere: booked, completed_elsewhere: completed, ..context };
                let outcome = decide(before, context, &exchange.request, &exchange.response.body);
                match outcome {
                    Outcome::Changed(ref next)
                        if is_expected(&outcome, before, &exchange.request, &exchange.response) =>
                    {
                        Some(next.clone())
                    }
                    _ => None,
                }
            },
        );
        let next = next.unwrap_or_else(|| {
            panic!("{:?}\nof {before:?}\nis answered {}", exchange.request, exchange.response.text)
        });
        history.states.push(*next);
        history.causes.push(Some(cause));
    }
    history
}

/// Asserts that a response follows from a state of its deal and of the other deals of the object.
fn assert_explained(world: &World, histories: &[History], exchanges: &[Exchange], at: usize) {
    let exchange = &exchanges[at];
    let history = &histories[exchange.deal];
    let contexts = possible_contexts(world, histories, exchanges, exchange);
    let own_change = history.causes.iter().position(|cause| *cause == Some(at));
    // A change was decided on the version before its own, a refusal or a no-op on any possible
    // version.
    let states = match own_change {
        Some(before) => &history.states[before..=before],
        None => &history.states[history.window(exchanges, exchange)],
    };
    let is_read = matches!(exchange.request.operation, Operation::Preview(_));
    let decide_all = |state: &Deal| -> Vec<Outcome> {
        contexts
            .iter()
            .map(|context| decide(state, *context, &exchange.request, &exchange.response.body))
            .collect()
    };
    // Only the request that made a change, or a preview, has a change in its answer.
    let may_show_change = own_change.is_some() || is_read;
    let is_explained = states.iter().any(|state| {
        decide_all(state).iter().any(|outcome| {
            let is_possible = may_show_change || !matches!(outcome, Outcome::Changed(_));
            is_possible && is_expected(outcome, state, &exchange.request, &exchange.response)
        })
    });
    let is_conflict =
        exchange.response.status == 409 && exchange.response.body["code"] == "CRM_DEAL_CONFLICT";
    // The request would have changed a state that another change replaced before the response.
    let is_lost_race = || {
        let overtaken = &states[..states.len() - 1];
        overtaken
            .iter()
            .any(|state| decide_all(state).iter().any(|outcome| matches!(outcome, Outcome::Changed(_))))
    };
    assert!(
        is_explained || is_conflict && !is_read && is_lost_race(),
        "{:?}\nis answered {} {}\nwhile the deal was {states:#?}\namong {contexts:?}",
        exchange.request,
        exchange.response.status,
        exchange.response.text
    );
}

async fn run_concurrently(run: &mut ModelRun<'_>, runner: &mut TestRunner) {
    create_deals(run).await;
    let (clock, exchanges) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let plans = (0..ACTORS).map(|number| {
        let by = Person { id: guid(), ..run.world.people[number % 2] };
        let requests = (0..REQUESTS).map(|_| random_request().new_tree(runner).unwrap().current()).collect();
        (by, requests)
    });
    let plans: Vec<(Person, Vec<RandomRequest>)> = plans.collect();
    join_all(plans.into_iter().map(|(by, requests)| run_actor(run, by, requests, &clock, &exchanges))).await;
    let exchanges = exchanges.into_inner().unwrap();

    // Bookings expire within seconds or in days. Those within seconds end before the timelines are
    // read.
    let sql = run.service.sql().await;
    let ids: Vec<_> = run.world.deals.iter().map(|deal| deal.id.to_string()).collect();
    let due = "select 1 from booking join deal on deal.id = deal_id where deal.id = any($1::text[]::uuid[]) and booking.status = 'Active' \
        and step_group <> 'Contract' and expires_at < now() + interval '10 seconds'";
    eventually("the expiries", async || sql.query(due, &[&ids]).await.unwrap().is_empty().then_some(()))
        .await;

    let mut histories = Vec::new();
    for (at, deal) in run.world.deals.iter().enumerate() {
        let actors = actors(run, deal).await;
        histories.push(replay(&run.world, deal, at, &actors, &exchanges));
    }
    for at in 0..exchanges.len() {
        assert_explained(&run.world, &histories, &exchanges, at);
    }
    let succeeded = exchanges.iter().filter(|exchange| exchange.response.status < 300).count();
    assert!(succeeded > ACTORS, "only {succeeded} of {} were answered with a success", exchanges.len());
    run.world.deals =
        histories.into_iter().map(|history| history.states.into_iter().next_back().unwrap()).collect();
    let notes: BTreeSet<_> = exchanges
        .iter()
        .filter(|exchange| {
            exchange.response.status == 201 && matches!(exchange.request.operation, Operation::Note(_))
        })
        .map(|exchange| id_of(&exchange.response.body["Id"]))
        .collect();
    crate::wait_until_all_published(run.service).await;
    for deal in &run.world.deals {
        compare::deal_with_notes(run.service, &run.clients[0], &run.world, deal, &notes).await;
    }
    for object in &run.world.objects {
        let of_object = || run.world.deals.iter().filter(|deal| deal.object == object.id);
        assert!(of_object().filter(|deal| deal.booking.is_some()).count() <= 1, "INV-BKG-1");
        assert!(of_object().filter(|deal| deal.group == "Completed").count() <= 1, "INV-DEAL-10");
    }
}

/// RULE-CRM-036: every change is in the timeline, in one order without a gap, and that order
/// explains each response. Bookings expire during the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_responses_are_explained_by_one_order() {
    let settings = [("CRM_BOOKING_EXPIRY_INTERVAL_MS", "20"), ("CRM_BOOKING_TTL_SECONDS", "1")];
    let service = start(&settings);
    let mut runner = TestRunner::default();
    for _ in 0..ROUNDS {
        let mut run = start_run(&service).await;
        run_concurrently(&mut run, &mut runner).await;
    }
}
