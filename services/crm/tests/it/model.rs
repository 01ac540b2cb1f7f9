//! Compares the service with a plain model of its rules, on random histories, sequential and
//! concurrent.

mod compare;
mod concurrent;
mod coverage;
mod effects;
mod pipeline;
mod request;
mod rules;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::issuer::Claims;
use testkit::service::Running;
use uuid::Uuid;

use self::compare::normalize_times;
use self::coverage::Coverage;
use self::effects::{created_deal, expired_deal};
use self::pipeline::{Plan, plan};
use self::request::{Operation, RandomRequest, Request, SHORT_LIFE_MILLIS, people, random_request};
use self::rules::{Context, Outcome, decide, decide_creation};
use self::world::{Contract, Deal, Developer, GROUPS, Object, Person, Role, Step, World};
use crate::{
    CARE, COMPANY_UPSERTED, DEVELOPER_UPSERTED, EMPLOYMENT, MANAGE, MANAGE_OWN, OBJECT_UPSERTED, OWN,
    PIPELINE_OWN, PLATFORM, READ_OWN, agency, company, developer, employment, eventually, guid, id_of,
    in_millis, list, object, parse_time, publish, rub, start, text, user_with, with,
};

const OBJECTS: usize = 3;
/// The statuses of object events. A status that is listed twice is twice as frequent.
const OBJECT_STATUSES: [&str; 5] = ["Available", "Available", "Booked", "Sold", "Unavailable"];

/// An action of a history.
#[derive(Clone, Debug)]
enum Action {
    Create {
        person: usize,
        object: usize,
        /// Selects a `RequestId`. From 0 to 3: one of two ids of the user. From 4: an id that has
        /// created a deal, if any.
        request: Option<usize>,
        amount: Option<i64>,
    },
    Request(RandomRequest),
    /// Sends contract data, an override to Sale and a completion of a deal.
    DriveToEnd {
        deal: usize,
        by: usize,
    },
    ChangePipeline(Plan),
    /// Publishes an object event of chessboard, sometimes with an old version.
    ObjectEvent {
        object: usize,
        status: usize,
        price: i64,
        is_old: bool,
    },
    CompanyEvent {
        developer: usize,
        status: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let amount = prop::option::weighted(0.3, 1..1_000_i64);
    let created = (0..64_usize, 0..OBJECTS + 1, prop::option::weighted(0.4, 0..8_usize), amount);
    prop_oneof![
        3 => created.prop_map(|(person, object, request, amount)| {
            Action::Create { person, object, request, amount }
        }),
        24 => random_request().prop_map(Action::Request),
        1 => (0..64_usize, 0..2_usize).prop_map(|(deal, by)| Action::DriveToEnd { deal, by }),
        2 => plan().prop_map(Action::ChangePipeline),
        1 => (0..OBJECTS, 0..OBJECT_STATUSES.len(), 1..1_000_i64, any::<bool>()).prop_map(
            |(object, status, price, is_old)| Action::ObjectEvent { object, status, price, is_old }
        ),
        1 => (0..2_usize, 0..4_usize).prop_map(|(developer, status)| Action::CompanyEvent { developer, status }),
    ]
}

/// A service, and its expected state in the model.
struct ModelRun<'s> {
    service: &'s Running,
    world: World,
    clients: Vec<Client>,
    /// Deals by the user and the number of the request that created them.
    requests: BTreeMap<(Uuid, usize), Uuid>,
    /// The number of actions so far.
    count: usize,
    /// The outcomes so far, since histories prove nothing about outcomes that never happen.
    coverage: Coverage,
}

fn claims(person: Person) -> Claims {
    let permissions: &[&str] = match person.role {
        Role::Platform => &[MANAGE],
        Role::Care => &[CARE],
        Role::Manager => &[MANAGE_OWN, PIPELINE_OWN],
        Role::Reader => &[READ_OWN],
    };
    Claims { sub: person.id.to_string(), ..user_with(person.company, permissions) }
}

/// Publishes two developers with objects and an agency with agents, and creates all users.
async fn start_run(service: &Running) -> ModelRun<'_> {
    let ids = [guid(), guid()];
    let people = people(ids);
    let clients: Vec<_> = people.iter().map(|person| service.caller(&claims(*person))).collect();
    let (mut developers, mut objects) = (Vec::new(), Vec::new());
    for id in ids {
        publish(service, DEVELOPER_UPSERTED, "Id", &developer(id)).await;
        let pipeline = clients[0].get(&format!("{PLATFORM}/pipeline-steps?TenantId={id}")).await.expect(200);
        let live = list(&pipeline["Steps"]).iter().map(|step| Step {
            id: id_of(&step["Id"]),
            group: GROUPS.into_iter().find(|group| *group == text(&step["Group"])).unwrap(),
            name: text(&step["Name"]).to_owned(),
            is_default: step["IsDefault"] == true,
        });
        let live = live.collect();
        developers.push(Developer { id, is_active: true, pipeline_version: 1, live, archived: Vec::new() });
    }
    for number in 0..OBJECTS {
        // The last object belongs to the second developer.
        let tenant = ids[usize::from(number == 2)];
        let event = with(object(guid(), tenant, "Available"), "Price", rub(500));
        publish(service, OBJECT_UPSERTED, "Id", &event).await;
        objects.push(Object { id: id_of(&event["Id"]), tenant, price: 500, status: "Available" });
    }
    let company = guid();
    publish(service, COMPANY_UPSERTED, "CompanyId", &agency(company, "Active")).await;
    let agents = [guid(), guid()];
    for agent in agents {
        publish(service, EMPLOYMENT, "UserId", &employment(agent, company, Some("Active"))).await;
    }
    let world = World { developers, objects, agents, people, deals: Vec::new() };
    ModelRun { service, world, clients, requests: BTreeMap::new(), count: 0, coverage: Coverage::default() }
}

impl ModelRun<'_> {
    async fn perform(&mut self, action: &Action) {
        self.count += 1;
        match action {
            Action::Create { person, object, request, amount } => {
                let known = self.requests.keys().nth(request.unwrap_or(0) / 2);
                match known.filter(|_| request.is_some_and(|request| request > 3)).copied() {
                    Some((by, number)) => {
                        let by = self.world.people.iter().position(|person| person.id == by).unwrap();
                        self.create(by, *object, Some(number), *amount).await;
                    }
                    None => self.create(*person, *object, request.map(|request| request % 2), *amount).await,
                }
            }
            Action::Request(random) => {
                let at = random.deal % self.world.deals.len();
                let deal = &self.world.deals[at];
                let request = random.request_for(&self.world, deal, deal.row_version);
                self.send(at, request).await;
            }
            Action::DriveToEnd { deal, by } => self.drive_to_end(*deal, *by).await,
            Action::ChangePipeline(plan) => {
                let outcome = plan.perform(&mut self.world, &self.clients, self.count).await;
                self.coverage.add("pipeline", outcome);
            }
            Action::ObjectEvent { object: at, status, price, is_old } => {
                let known = &mut self.world.objects[*at];
                let status = OBJECT_STATUSES[*status];
                let event = with(object(known.id, known.tenant, status), "Price", rub(*price));
                let event = if *is_old { with(event, "Version", 0_i64) } else { event };
                publish(self.service, OBJECT_UPSERTED, "Id", &event).await;
                if !is_old {
                    (known.status, known.price) = (status, *price);
                }
            }
            Action::CompanyEvent { developer, status } => {
                let known = &mut self.world.developers[*developer];
                let status = ["Active", "Active", "Suspended", "Archived"][*status];
                publish(self.service, COMPANY_UPSERTED, "CompanyId", &company(known.id, status)).await;
                known.is_active = status == "Active";
            }
        }
        self.wait_for_expiries().await;
    }

    async fn create(&mut self, person: usize, object: usize, request: Option<usize>, amount: Option<i64>) {
        let at = person % self.world.people.len();
        let by = self.world.people[at];
        let object = self.world.objects.get(object).map_or_else(guid, |object| object.id);
        let agent =
            [None, Some(self.world.agents[0]), Some(self.world.agents[1]), Some(guid())][self.count % 4];
        let body = json!({
            "PropertyObjectId": object, "ClientUserId": guid(), "AgentUserId": agent,
            "Amount": amount.map(rub),
            "RequestId": request.map(|number| Uuid::from_u128(by.id.as_u128() ^ (number as u128 + 1))),
        });
        let family = if by.is_of_platform() { PLATFORM } else { OWN };
        let response = self.clients[at].post(&format!("{family}/deals"), body.clone()).await;
        let repeated = request.and_then(|number| self.requests.get(&(by.id, number)));
        if let Some(known) = repeated {
            let known = self.world.deals.iter().find(|deal| deal.id == *known).unwrap();
            assert_eq!(response.expect(200)["RowVersion"], known.row_version);
            self.coverage.add("create", "same");
            return;
        }
        // A creation needs only the user of this request. Operation and version are not read.
        let creation_request = Request { by, operation: Operation::Agent(None), version: None };
        match decide_creation(&self.world, &creation_request, object, agent, amount) {
            Err((status, code)) => {
                response.expect_problem(status, code);
                self.coverage.add("create", code);
            }
            Ok((step, amount)) => {
                let location = response.header("location").to_owned();
                let created = response.expect(201);
                let tenant = self.world.object(object).unwrap().tenant;
                let deal = created_deal(&creation_request, &object, step, amount, tenant, &created);
                assert_eq!(
                    (&created["ClientUserId"], &created["AgentUserId"]),
                    (&body["ClientUserId"], &body["AgentUserId"])
                );
                assert!(location.ends_with(&format!("{family}/deals/{}", deal.id)), "{location}");
                if let Some(number) = request {
                    self.requests.insert((by.id, number), deal.id);
                }
                self.world.deals.push(deal);
                self.coverage.add("create", "changed");
            }
        }
    }

    /// Brings a deal to its completion, by an employee of the developer or by a platform manager.
    async fn drive_to_end(&mut self, deal: usize, by: usize) {
        let at = deal % self.world.deals.len();
        let tenant = self.world.deals[at].tenant;
        let arbiter = self.world.people[0];
        let sells = |person: &&Person| person.role == Role::Manager && person.company == Some(tenant);
        let seller = *self.world.people.iter().rfind(sells).unwrap();
        let contract = Contract { kind: Some("Dkp"), payment: Some("Cash"), ..Contract::default() };
        let comment = "решено".to_owned();
        for (by, operation) in [
            (seller, Operation::Contract { contract, amount: None }),
            (arbiter, Operation::Override { target: "Sale", comment }),
            ([seller, arbiter][by], Operation::Complete("77:01".to_owned())),
        ] {
            self.send(at, Request { by, operation, version: None }).await;
        }
    }

    /// Sends a request about a deal and compares its response with the rules.
    async fn send(&mut self, at: usize, request: Request) {
        let deal = &self.world.deals[at];
        let client = self.client(request.by);
        let response = request.send(client, deal.id).await;
        let outcome = decide(deal, Context::of(&self.world, deal), &request, &response.body);
        assert!(
            is_expected(&outcome, deal, &request, &response),
            "{request:?}\nof {deal:?}\nis answered {} {}\ninstead of {outcome:?}",
            response.status,
            response.text
        );
        self.coverage.add(request.operation.name(), outcome.name());
        if let Outcome::Changed(next) | Outcome::Noted(next) = outcome
            && !matches!(request.operation, Operation::Preview(_))
        {
            self.world.deals[at] = *next;
        }
    }

    fn client(&self, by: Person) -> &Client {
        let at = self.world.people.iter().position(|person| person.id == by.id).unwrap();
        &self.clients[at]
    }

    /// Waits until the job has ended each booking that expires soon. The job does not end a booking
    /// in Contract, so the method waits until the expiry time has passed.
    async fn wait_for_expiries(&mut self) {
        for deal in &mut self.world.deals {
            let Some(booking) = &deal.booking else { continue };
            if parse_time(&booking.expires_at) > parse_time(&in_millis(SHORT_LIFE_MILLIS + 500)) {
                continue;
            }
            if deal.group == "Contract" {
                while parse_time(&booking.expires_at) > parse_time(&in_millis(-100)) {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                continue;
            }
            let sql = self.service.sql().await;
            let ended = "select created_at::text from timeline where deal_id = $1::text::uuid and kind = 'BookingExpired' \
                and payload ->> 'BookingId' = $2";
            let (id, booking) = (deal.id.to_string(), booking.id.to_string());
            eventually("the expiry", async || sql.query_opt(ended, &[&id, &booking]).await.unwrap()).await;
            let path = format!("{PLATFORM}/deals/{id}");
            let at = text(&self.clients[0].get(&path).await.expect(200)["UpdatedAt"]).to_owned();
            *deal = expired_deal(deal, &at);
        }
    }

    /// Compares all data that the service shows with the model.
    async fn compare(&self) {
        let by = &self.clients[0];
        crate::wait_until_all_published(self.service).await;
        for deal in &self.world.deals {
            compare::deal(self.service, by, &self.world, deal).await;
        }
        for developer in &self.world.developers {
            compare::pipeline(by, developer).await;
            compare::board(by, &self.world, developer).await;
        }
    }
}

/// Returns true if a response is the one that the outcome requires.
fn is_expected(outcome: &Outcome, deal: &Deal, request: &Request, response: &Response) -> bool {
    let body = &response.body;
    let card = if body["Deal"].is_null() { body } else { &body["Deal"] };
    let success = if matches!(request.operation, Operation::Book(_)) { 201 } else { 200 };
    let is_card = |of: &Deal| normalize_times(card) == normalize_times(&of.card());
    match (outcome, &request.operation) {
        (Outcome::Refused(status, code), _) => response.status == *status && body["code"] == *code,
        (Outcome::Same, Operation::Preview(_)) => response.status == 200 && is_preview(body, deal, deal, &[]),
        (Outcome::Changed(next), Operation::Preview(_)) => {
            let events: &[&str] = if next.group == "Cancelled" {
                &["deal-stage-changed", "deal-cancelled"]
            } else {
                &["deal-stage-changed"]
            };
            response.status == 200 && is_preview(body, deal, next, events)
        }
        (Outcome::Same, _) => response.status == 200 && is_card(deal),
        (Outcome::Changed(next), Operation::Book(_) | Operation::Prolong(_)) => {
            let booking = next.booking.as_ref().unwrap();
            let shown = json!({
                "Id": booking.id, "DealId": deal.id, "PropertyObjectId": deal.object, "Status": "Active",
                "ExpiresAt": booking.expires_at, "EndedAt": null,
            });
            let mut members = shown.as_object().unwrap().iter();
            response.status == success
                && is_card(next)
                && members.all(|(name, value)| normalize_times(&body[name]) == normalize_times(value))
        }
        (Outcome::Changed(next), _) => response.status == success && is_card(next),
        (Outcome::Noted(next), _) => {
            let row = next.rows.last().unwrap();
            let expected = json!([row.kind, row.payload, row.actor, row.role, row.row_version]);
            let members = ["Kind", "Payload", "ActorUserId", "ActorRole", "RowVersion"];
            response.status == 201
                && members.map(|member| body[member].clone()).to_vec() == *expected.as_array().unwrap()
        }
    }
}

fn is_preview(found: &Value, from: &Deal, to: &Deal, events: &[&str]) -> bool {
    let expected = json!({
        "NoOp": events.is_empty(), "From": from.card(),
        "To": {"Status": to.status(), "StepId": to.step, "StepGroup": to.group},
        "CancelsBooking": to.group == "Cancelled" && from.booking.is_some(), "Events": events,
    });
    // The model does not compute `ObjectAvailability`, which `revival.rs` tests.
    let found = crate::without(found.clone(), "ObjectAvailability");
    normalize_times(&found) == normalize_times(&expected)
}

/// The number of histories that always run.
const HISTORIES: u32 = 20;
/// The greatest number of further histories, which run until every required outcome has happened.
const MAX_MORE_HISTORIES: u32 = 180;

/// RULE-CRM-035, RULE-EVT-012, RULE-EVT-013, RULE-EVT-015: status, code, card, timeline, stages,
/// bookings, pipeline, board and events of random histories are those of a plain model. The
/// histories cover every outcome that [`coverage`] requires.
#[test]
fn random_history_matches_the_plain_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", "50")]);
    let cases = Config {
        cases: HISTORIES + MAX_MORE_HISTORIES,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let history = prop::collection::vec(action(), 40..100);
    let all = Mutex::new(Coverage::default());
    let checked = TestRunner::new(cases).run(&history, |history| {
        if all.lock().unwrap().is_complete_after(HISTORIES) {
            return Ok(());
        }
        tokio.block_on(async {
            let mut run = start_run(&service).await;
            // A history starts with two deals of one object and a deal of the other developer.
            for (object, amount) in [(0, None), (0, Some(7)), (2, None)] {
                run.create(0, object, None, amount).await;
            }
            for action in &history {
                run.perform(action).await;
            }
            run.compare().await;
            for row in run.world.deals.iter().flat_map(|deal| &deal.rows) {
                run.coverage.add("row", row.kind);
            }
            all.lock().unwrap().merge(run.coverage);
        });
        Ok(())
    });
    checked.unwrap();
    all.into_inner().unwrap().assert_complete();
}
