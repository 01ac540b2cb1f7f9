//! Everybody at once, on few deals and objects: the timeline's versions give the order that must explain every answer.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use runtime::clock;
use serde_json::{Value, json};
use testkit::client::Answer;
use time::OffsetDateTime;
use uuid::Uuid;

use super::asked::{Asked, Request, What, asked};
use super::books::{created, expired};
use super::rules::{Around, Outcome, decide};
use super::world::{Deal, Person, World};
use super::{Play, begin, compare, explains};
use crate::{PLATFORM, contract, eventually, guid, id_of, list, moment, start, text};

/// How many ask at once, how much each, and how often all of them.
const ACTORS: usize = 8;
const REQUESTS: usize = 20;
const ROUNDS: usize = 5;

/// A request, its answer, and when it was under way, on a clock that only counts; and when its answer was there, on the one that
/// changes are dated by.
struct Heard {
    deal: usize,
    request: Request,
    answer: Answer,
    begun: usize,
    ended: usize,
    answered_at: OffsetDateTime,
}

/// A deal with all that it ever was: at `n` the state of version `n + 1`; and for each change whose it was.
struct Past {
    states: Vec<Deal>,
    /// The place of the answer among those heard; of a job none.
    causes: Vec<Option<usize>>,
}

impl Past {
    /// The versions that a request may have met: not one that another came after before it began, nor one of after its answer.
    fn window(&self, heard: &[Heard], of: &Heard) -> std::ops::RangeInclusive<usize> {
        let causes =
            || self.causes.iter().enumerate().filter_map(|(at, cause)| Some((at, &heard[(*cause)?])));
        let first = causes().filter(|(_, cause)| cause.ended < of.begun).map(|(at, _)| at + 1).max();
        let is_later = |state: &Deal| moment(&state.updated_at) > of.answered_at;
        let last = self.states.iter().skip(1).position(is_later);
        first.unwrap_or(0)..=last.unwrap_or(self.states.len() - 1)
    }
}

/// Everything that the other deals of an object may have been to a request.
fn surroundings<'w>(world: &'w World, pasts: &[Past], heard: &[Heard], of: &Heard) -> Vec<Around<'w>> {
    let deal = &world.deals[of.deal];
    let rivals = || {
        pasts.iter().enumerate().filter(|(at, past)| *at != of.deal && past.states[0].object == deal.object)
    };
    let may_be = |is: &dyn Fn(&Deal) -> bool| {
        let met = |past: &Past| past.states[past.window(heard, of)].iter().map(is).collect::<BTreeSet<_>>();
        let met: Vec<_> = rivals().map(|(_, past)| met(past)).collect();
        let some = met.iter().any(|met| met.contains(&true));
        let none = met.iter().all(|met| met.contains(&false));
        [some.then_some(true), none.then_some(false)]
    };
    let (booked, completed) =
        (may_be(&|deal| deal.booking.is_some()), may_be(&|deal| deal.group == "Completed"));
    let around = Around::of(world, deal);
    let all = booked.into_iter().flatten().flat_map(|booked_elsewhere| {
        completed.into_iter().flatten().map(move |completed_elsewhere| Around {
            booked_elsewhere,
            completed_elsewhere,
            ..around
        })
    });
    all.collect()
}

/// Four deals of two objects, which soon have what Sale asks for.
async fn fill(play: &mut Play<'_>) {
    for number in 0..4 {
        let object = play.world.objects[number % 2].clone();
        let body = json!({"PropertyObjectId": object.id, "ClientUserId": guid()});
        let made = play.clients[0].post(&format!("{PLATFORM}/deals"), body).await.expect(201);
        let by = play.world.people[0];
        let step = id_of(&made["StepId"]);
        let request = Request { by, what: What::Agent(None), version: None };
        let deal = created(&request, &object.id, step, object.price, object.tenant, &made);
        let path = format!("{PLATFORM}/deals/{}/contract", deal.id);
        let card = play.clients[0].put(&path, contract()).await.expect(200);
        let data =
            super::world::Contract { kind: Some("Ddu"), payment: Some("Mortgage"), ..Default::default() };
        let request = Request { what: What::Contract { contract: data, amount: None }, ..request };
        let around = Around {
            developer: play.world.developer(object.tenant),
            is_off: false,
            booked_elsewhere: false,
            completed_elsewhere: false,
        };
        let Outcome::Changed(deal) = decide(&deal, around, &request, &card) else { panic!("contract data") };
        play.world.deals.push(*deal);
    }
}

/// What one of them does, as they come; each has a name of their own.
async fn act(play: &Play<'_>, by: Person, asked: Vec<Asked>, clock: &AtomicUsize, heard: &Mutex<Vec<Heard>>) {
    let client = play.service.caller(&super::claims(by));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let mut seen: Vec<_> = play.world.deals.iter().map(|deal| deal.row_version).collect();
    for asked in asked {
        let at = asked.deal % seen.len();
        let deal = &play.world.deals[at];
        let mut request = asked.about(&play.world, deal, seen[at]);
        // They are the first two of the model's people by what they may do: the platform, and the developer.
        let is_platforms = matches!(request.what, What::Override { .. } | What::Preview(_));
        if is_platforms && !by.is_of_platform() {
            request.what = What::Cancel("x".to_owned());
        }
        request.by = by;
        let begun = tick();
        let answer = request.send(&client, deal.id).await;
        let (ended, answered_at) = (tick(), clock::now());
        let card = if answer.body["Deal"].is_null() { &answer.body } else { &answer.body["Deal"] };
        if let Some(version) = card["RowVersion"].as_i64() {
            seen[at] = version;
        }
        heard.lock().unwrap().push(Heard { deal: at, request, answer, begun, ended, answered_at });
    }
}

fn card(answer: &Answer) -> &Value {
    if answer.body["Deal"].is_null() { &answer.body } else { &answer.body["Deal"] }
}

/// Whose change each version of a deal was, by its timeline.
async fn actors(play: &Play<'_>, deal: &Deal) -> Vec<(Option<Uuid>, String)> {
    let sql = play.service.sql().await;
    let rows = "select distinct on (row_version) row_version, actor_user_id::text from timeline \
        where deal_id = $1::text::uuid and row_version > $2 order by row_version, position";
    let found = sql.query(rows, &[&deal.id.to_string(), &deal.row_version]).await.unwrap();
    let versions: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    let last = deal.row_version + i64::try_from(versions.len()).unwrap();
    assert_eq!(versions, (deal.row_version + 1..=last).collect::<Vec<_>>(), "versions without a gap");
    let view = play.clients[0].get(&format!("{PLATFORM}/deals/{}", deal.id)).await.expect(200);
    assert_eq!(view["RowVersion"], last);
    let path = format!("{PLATFORM}/deals/{}/timeline?PageSize=100", deal.id);
    let page = play.clients[0].get(&path).await.expect(200);
    let at = |version: i64| {
        let row = list(&page["Items"]).iter().rfind(|row| row["RowVersion"] == version);
        row.map(|row| text(&row["CreatedAt"]).to_owned()).unwrap_or_default()
    };
    let actor = |id: Option<String>| id.map(|id| id.parse().unwrap());
    found.iter().map(|row| (actor(row.get(1)), at(row.get(0)))).collect()
}

/// The states of a deal, of which each follows from the one before by the change that was answered with its version.
fn retell(
    world: &World,
    first: &Deal,
    at: usize,
    actors: &[(Option<Uuid>, String)],
    heard: &[Heard],
) -> Past {
    let mut past = Past { states: vec![first.clone()], causes: Vec::new() };
    for (actor, moment) in actors {
        let before = past.states.last().unwrap();
        let Some(actor) = actor else {
            past.states.push(expired(before, moment));
            past.causes.push(None);
            continue;
        };
        let version = before.row_version + 1;
        let cause = heard.iter().position(|heard| {
            heard.deal == at
                && heard.request.by.id == *actor
                && heard.answer.status < 300
                && !matches!(heard.request.what, What::Note(_) | What::Preview(_))
                && card(&heard.answer)["RowVersion"] == version
        });
        let cause = cause.unwrap_or_else(|| panic!("nobody was answered version {version} of {before:?}"));
        let heard = &heard[cause];
        let around = Around::of(world, before);
        let next = [(false, false), (true, false), (false, true), (true, true)].into_iter().find_map(
            |(booked, completed)| {
                let around = Around { booked_elsewhere: booked, completed_elsewhere: completed, ..around };
                let outcome = decide(before, around, &heard.request, &heard.answer.body);
                match outcome {
                    Outcome::Changed(ref next)
                        if explains(&outcome, before, &heard.request, &heard.answer) =>
                    {
                        Some(next.clone())
                    }
                    _ => None,
                }
            },
        );
        let next = next.unwrap_or_else(|| {
            panic!("{:?}\nof {before:?}\nis answered {}", heard.request, heard.answer.text)
        });
        past.states.push(*next);
        past.causes.push(Some(cause));
    }
    past
}

/// Holds an answer to what the deal, and the others of its object, were while it was under way.
fn assert_explained(world: &World, pasts: &[Past], heard: &[Heard], at: usize) {
    let one = &heard[at];
    let past = &pasts[one.deal];
    let around = surroundings(world, pasts, heard, one);
    let own = past.causes.iter().position(|cause| *cause == Some(at));
    // A change was decided upon the version before its own, a refusal or a no-op upon any that it may have met.
    let states = match own {
        Some(before) => &past.states[before..=before],
        None => &past.states[past.window(heard, one)],
    };
    let is_read = matches!(one.request.what, What::Preview(_));
    let decided = |state: &Deal| -> Vec<Outcome> {
        around.iter().map(|around| decide(state, *around, &one.request, &one.answer.body)).collect()
    };
    let is_plain = states.iter().any(|state| {
        decided(state).iter().any(|outcome| {
            let is_own = own.is_some() || is_read || !matches!(outcome, Outcome::Changed(_));
            is_own && explains(outcome, state, &one.request, &one.answer)
        })
    });
    // It would have changed the deal that it met, which another change of the same deal came after before its answer.
    let is_conflict = one.answer.status == 409 && one.answer.body["code"] == "CRM_DEAL_CONFLICT";
    let is_lost_race = || {
        let overtaken = &states[..states.len() - 1];
        overtaken
            .iter()
            .any(|state| decided(state).iter().any(|outcome| matches!(outcome, Outcome::Changed(_))))
    };
    assert!(
        is_plain || is_conflict && !is_read && is_lost_race(),
        "{:?}\nis answered {} {}\nwhile the deal was {states:#?}\namong {around:?}",
        one.request,
        one.answer.status,
        one.answer.text
    );
}

async fn crowd(play: &mut Play<'_>, runner: &mut TestRunner) {
    fill(play).await;
    let (clock, heard) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let everybody = (0..ACTORS).map(|number| {
        let by = Person { id: guid(), ..play.world.people[number % 2] };
        let asked = (0..REQUESTS).map(|_| asked().new_tree(runner).unwrap().current()).collect();
        (by, asked)
    });
    let everybody: Vec<(Person, Vec<Asked>)> = everybody.collect();
    join_all(everybody.into_iter().map(|(by, asked)| act(play, by, asked, &clock, &heard))).await;
    let heard = heard.into_inner().unwrap();

    // Whatever expires has done so before the books are read.
    let sql = play.service.sql().await;
    let ids: Vec<_> = play.world.deals.iter().map(|deal| deal.id.to_string()).collect();
    let due = "select 1 from booking join deal on deal.id = deal_id where deal.id = any($1::text[]::uuid[]) and booking.status = 'Active' \
        and step_group <> 'Contract' and expires_at < now() + interval '10 seconds'";
    eventually("the expiries", async || sql.query(due, &[&ids]).await.unwrap().is_empty().then_some(()))
        .await;

    let mut pasts = Vec::new();
    for (at, deal) in play.world.deals.iter().enumerate() {
        let actors = actors(play, deal).await;
        pasts.push(retell(&play.world, deal, at, &actors, &heard));
    }
    for at in 0..heard.len() {
        assert_explained(&play.world, &pasts, &heard, at);
    }
    let succeeded = heard.iter().filter(|heard| heard.answer.status < 300).count();
    assert!(succeeded > ACTORS, "only {succeeded} of {} were answered with a success", heard.len());
    play.world.deals = pasts.into_iter().map(|past| past.states.into_iter().next_back().unwrap()).collect();
    let notes: BTreeSet<_> = heard
        .iter()
        .filter(|heard| heard.answer.status == 201 && matches!(heard.request.what, What::Note(_)))
        .map(|heard| id_of(&heard.answer.body["Id"]))
        .collect();
    crate::published_all(play.service).await;
    for deal in &play.world.deals {
        compare::deal_beside(play.service, &play.clients[0], &play.world, deal, &notes).await;
    }
    for object in &play.world.objects {
        let of_object = || play.world.deals.iter().filter(|deal| deal.object == object.id);
        assert!(of_object().filter(|deal| deal.booking.is_some()).count() <= 1, "INV-BKG-1");
        assert!(of_object().filter(|deal| deal.group == "Completed").count() <= 1, "INV-DEAL-10");
    }
}

/// Section 4, Races: what was answered 200 is in the timeline, in one order without a gap, and that order explains each
/// refusal; bookings that nobody keeps expire meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_is_explained_by_one_order() {
    let settings = [("CRM_BOOKING_EXPIRY_INTERVAL_MS", "20"), ("CRM_BOOKING_TTL_SECONDS", "1")];
    let service = start(&settings);
    let mut runner = TestRunner::default();
    for _ in 0..ROUNDS {
        let mut play = begin(&service).await;
        crowd(&mut play, &mut runner).await;
    }
}
