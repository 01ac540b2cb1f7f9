//! The service against a plain model of its rules: random histories, one request after the other and all at once.

mod asked;
mod books;
mod compare;
mod crowd;
mod pipeline;
mod rules;
mod tally;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::client::{Answer, Client};
use testkit::issuer::Claims;
use testkit::service::Running;
use uuid::Uuid;

use self::asked::{Asked, Request, What, asked, people};
use self::books::{created, expired};
use self::compare::plain;
use self::pipeline::{Plan, plan};
use self::rules::{Around, Outcome, creation, decide};
use self::tally::Tally;
use self::world::{Contract, Deal, Developer, GROUPS, Object, Person, Role, Step, World};
use crate::{
    CARE, COMPANY_UPSERTED, DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN, OBJECT_UPSERTED, OWN, PIPELINE_OWN,
    PLATFORM, READ_OWN, company, developer, eventually, guid, holder, id_of, in_millis, list, moment, object,
    rub, start, tell, text, with,
};

/// How soon a booking expires that is made to, in milliseconds: long enough for the request to arrive before.
const SOON: i64 = 2_000;
const OBJECTS: usize = 3;
const STATUSES: [&str; 5] = ["Available", "Available", "Booked", "Sold", "Unavailable"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    Created {
        person: usize,
        object: usize,
        /// With an id of a request: below four one of two of their own, above one that made a deal before, if there is one.
        request: Option<usize>,
        amount: Option<i64>,
    },
    Asked(Asked),
    /// A deal is brought to its end, if it may come there: contract data, Sale, completion.
    Driven {
        deal: usize,
        by: usize,
    },
    Planned(Plan),
    /// Chessboard tells of an object, an old version now and then.
    ObjectTold {
        object: usize,
        status: usize,
        price: i64,
        is_old: bool,
    },
    CompanyTold {
        developer: usize,
        status: usize,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let amount = prop::option::weighted(0.3, 1..1_000_i64);
    let created = (0..64_usize, 0..OBJECTS + 1, prop::option::weighted(0.4, 0..8_usize), amount);
    prop_oneof![
        3 => created.prop_map(|(person, object, request, amount)| {
            Happening::Created { person, object, request, amount }
        }),
        24 => asked().prop_map(Happening::Asked),
        1 => (0..64_usize, 0..2_usize).prop_map(|(deal, by)| Happening::Driven { deal, by }),
        2 => plan().prop_map(Happening::Planned),
        1 => (0..OBJECTS, 0..STATUSES.len(), 1..1_000_i64, any::<bool>()).prop_map(
            |(object, status, price, is_old)| Happening::ObjectTold { object, status, price, is_old }
        ),
        1 => (0..2_usize, 0..4_usize).prop_map(|(developer, status)| Happening::CompanyTold { developer, status }),
    ]
}

/// A service and what the model says that it holds.
struct Play<'s> {
    service: &'s Running,
    world: World,
    clients: Vec<Client>,
    /// Deals by whose and which request made them.
    requests: BTreeMap<(Uuid, usize), Uuid>,
    count: usize,
    /// What came of everything, so that nobody takes histories in which nothing happens for a proof.
    tally: Tally,
}

fn claims(person: Person) -> Claims {
    let permissions: &[&str] = match person.role {
        Role::Platform => &[MANAGE],
        Role::Care => &[CARE],
        Role::Manager => &[MANAGE_OWN, PIPELINE_OWN],
        Role::Reader => &[READ_OWN],
    };
    Claims { sub: person.id.to_string(), ..holder(person.company, permissions) }
}

/// Two developers with objects of theirs, as events tell of them, and everybody who asks.
async fn begin(service: &Running) -> Play<'_> {
    let ids = [guid(), guid()];
    let people = people(ids);
    let clients: Vec<_> = people.iter().map(|person| service.caller(&claims(*person))).collect();
    let (mut developers, mut objects) = (Vec::new(), Vec::new());
    for id in ids {
        tell(service, DEVELOPER_UPSERTED, "Id", &developer(id)).await;
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
        let tenant = ids[usize::from(number == 2)];
        let told = with(object(guid(), tenant, "Available"), "Price", rub(500));
        tell(service, OBJECT_UPSERTED, "Id", &told).await;
        objects.push(Object { id: id_of(&told["Id"]), tenant, price: 500, status: "Available" });
    }
    let world = World { developers, objects, people, deals: Vec::new() };
    Play { service, world, clients, requests: BTreeMap::new(), count: 0, tally: Tally::default() }
}

impl Play<'_> {
    async fn happen(&mut self, happening: &Happening) {
        self.count += 1;
        match happening {
            Happening::Created { person, object, request, amount } => {
                let made = self.requests.keys().nth(request.unwrap_or(0) / 2);
                match made.filter(|_| request.is_some_and(|request| request > 3)).copied() {
                    Some((by, number)) => {
                        let by = self.world.people.iter().position(|person| person.id == by).unwrap();
                        self.create(by, *object, Some(number), *amount).await;
                    }
                    None => self.create(*person, *object, request.map(|request| request % 2), *amount).await,
                }
            }
            Happening::Asked(asked) => {
                let at = asked.deal % self.world.deals.len();
                let deal = &self.world.deals[at];
                let request = asked.about(&self.world, deal, deal.row_version);
                self.put(at, request).await;
            }
            Happening::Driven { deal, by } => self.drive(*deal, *by).await,
            Happening::Planned(plan) => {
                let came = plan.play(&mut self.world, &self.clients, self.count).await;
                self.tally.add("pipeline", came);
            }
            Happening::ObjectTold { object: at, status, price, is_old } => {
                let known = &mut self.world.objects[*at];
                let status = STATUSES[*status];
                let told = with(object(known.id, known.tenant, status), "Price", rub(*price));
                let told = if *is_old { with(told, "Version", 0_i64) } else { told };
                tell(self.service, OBJECT_UPSERTED, "Id", &told).await;
                if !is_old {
                    (known.status, known.price) = (status, *price);
                }
            }
            Happening::CompanyTold { developer, status } => {
                let known = &mut self.world.developers[*developer];
                let status = ["Active", "Active", "Suspended", "Archived"][*status];
                tell(self.service, COMPANY_UPSERTED, "CompanyId", &company(known.id, status)).await;
                known.is_active = status == "Active";
            }
        }
        self.let_expire().await;
    }

    async fn create(&mut self, person: usize, object: usize, request: Option<usize>, amount: Option<i64>) {
        let at = person % self.world.people.len();
        let by = self.world.people[at];
        let object = self.world.objects.get(object).map_or_else(guid, |object| object.id);
        let body = json!({
            "PropertyObjectId": object, "ClientUserId": guid(), "AgentUserId": self.count.is_multiple_of(2).then(guid),
            "Amount": amount.map(rub),
            "RequestId": request.map(|number| Uuid::from_u128(by.id.as_u128() ^ (number as u128 + 1))),
        });
        let family = if by.is_of_platform() { PLATFORM } else { OWN };
        let answer = self.clients[at].post(&format!("{family}/deals"), body.clone()).await;
        let repeated = request.and_then(|number| self.requests.get(&(by.id, number)));
        if let Some(known) = repeated {
            let known = self.world.deals.iter().find(|deal| deal.id == *known).unwrap();
            assert_eq!(answer.expect(200)["RowVersion"], known.row_version);
            self.tally.add("create", "same");
            return;
        }
        let request_of = Request { by, what: What::Agent(None), version: None };
        match creation(&self.world, &request_of, object) {
            Err((status, code)) => {
                answer.expect_problem(status, code);
                self.tally.add("create", code);
            }
            Ok((step, price)) => {
                let location = answer.header("location").to_owned();
                let made = answer.expect(201);
                let tenant = self.world.object(object).unwrap().tenant;
                let deal = created(&request_of, &object, step, amount.unwrap_or(price), tenant, &made);
                assert_eq!(
                    (&made["ClientUserId"], &made["AgentUserId"]),
                    (&body["ClientUserId"], &body["AgentUserId"])
                );
                assert!(location.ends_with(&format!("{family}/deals/{}", deal.id)), "{location}");
                if let Some(number) = request {
                    self.requests.insert((by.id, number), deal.id);
                }
                self.world.deals.push(deal);
                self.tally.add("create", "changed");
            }
        }
    }

    /// By its developer's people, or as far as that goes by the platform's.
    async fn drive(&mut self, deal: usize, by: usize) {
        let at = deal % self.world.deals.len();
        let tenant = self.world.deals[at].tenant;
        let arbiter = self.world.people[0];
        let sells = |person: &&Person| person.role == Role::Manager && person.company == Some(tenant);
        let seller = *self.world.people.iter().rfind(sells).unwrap();
        let contract = Contract { kind: Some("Dkp"), payment: Some("Cash"), ..Contract::default() };
        let comment = "решено".to_owned();
        for (by, what) in [
            (seller, What::Contract { contract, amount: None }),
            (arbiter, What::Override { target: "Sale", comment }),
            ([seller, arbiter][by], What::Complete("77:01".to_owned())),
        ] {
            self.put(at, Request { by, what, version: None }).await;
        }
    }

    /// Puts a request about a deal, and holds its answer to what the rules say.
    async fn put(&mut self, at: usize, request: Request) {
        let deal = &self.world.deals[at];
        let client = self.client(request.by);
        let answer = request.send(client, deal.id).await;
        let outcome = decide(deal, Around::of(&self.world, deal), &request, &answer.body);
        assert!(
            explains(&outcome, deal, &request, &answer),
            "{request:?}\nof {deal:?}\nis answered {} {}\ninstead of {outcome:?}",
            answer.status,
            answer.text
        );
        self.tally.add(request.what.name(), outcome.name());
        if let Outcome::Changed(next) | Outcome::Noted(next) = outcome
            && !matches!(request.what, What::Preview(_))
        {
            self.world.deals[at] = *next;
        }
    }

    fn client(&self, by: Person) -> &Client {
        let at = self.world.people.iter().position(|person| person.id == by.id).unwrap();
        &self.clients[at]
    }

    /// Waits for the job where it is to end a booking, and for the moment of those that it is to leave alone.
    async fn let_expire(&mut self) {
        for deal in &mut self.world.deals {
            let Some(booking) = &deal.booking else { continue };
            if moment(&booking.expires_at) > moment(&in_millis(SOON + 500)) {
                continue;
            }
            if deal.group == "Contract" {
                while moment(&booking.expires_at) > moment(&in_millis(-100)) {
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
            *deal = expired(deal, &at);
        }
    }

    /// Everything, as the service shows it.
    async fn compare(&self) {
        let by = &self.clients[0];
        crate::published_all(self.service).await;
        for deal in &self.world.deals {
            compare::deal(self.service, by, &self.world, deal).await;
        }
        for developer in &self.world.developers {
            compare::pipeline(by, developer).await;
            compare::board(by, &self.world, developer).await;
        }
    }
}

/// Whether an answer is what this outcome is answered with.
fn explains(outcome: &Outcome, deal: &Deal, request: &Request, answer: &Answer) -> bool {
    let body = &answer.body;
    let card = if body["Deal"].is_null() { body } else { &body["Deal"] };
    let success = if matches!(request.what, What::Book(_)) { 201 } else { 200 };
    let is_card = |of: &Deal| plain(card) == plain(&of.card());
    match (outcome, &request.what) {
        (Outcome::Refused(status, code), _) => answer.status == *status && body["code"] == *code,
        (Outcome::Same, What::Preview(_)) => answer.status == 200 && is_preview(body, deal, deal, &[]),
        (Outcome::Changed(next), What::Preview(_)) => {
            let told: &[&str] = if next.group == "Cancelled" {
                &["deal-stage-changed", "deal-cancelled"]
            } else {
                &["deal-stage-changed"]
            };
            answer.status == 200 && is_preview(body, deal, next, told)
        }
        (Outcome::Same, _) => answer.status == 200 && is_card(deal),
        (Outcome::Changed(next), What::Book(_) | What::Prolong(_)) => {
            let booking = next.booking.as_ref().unwrap();
            let shown = json!({
                "Id": booking.id, "DealId": deal.id, "PropertyObjectId": deal.object, "Status": "Active",
                "ExpiresAt": booking.expires_at, "EndedAt": null,
            });
            let mut members = shown.as_object().unwrap().iter();
            answer.status == success
                && is_card(next)
                && members.all(|(name, value)| plain(&body[name]) == plain(value))
        }
        (Outcome::Changed(next), _) => answer.status == success && is_card(next),
        (Outcome::Noted(next), _) => {
            let row = next.rows.last().unwrap();
            let expected = json!([row.kind, row.payload, row.actor, row.role, row.row_version]);
            let members = ["Kind", "Payload", "ActorUserId", "ActorRole", "RowVersion"];
            answer.status == 201
                && members.map(|member| body[member].clone()).to_vec() == *expected.as_array().unwrap()
        }
    }
}

fn is_preview(found: &Value, from: &Deal, to: &Deal, told: &[&str]) -> bool {
    let expected = json!({
        "NoOp": told.is_empty(), "From": from.card(),
        "To": {"Status": to.status(), "StepId": to.step, "StepGroup": to.group},
        "CancelsBooking": to.group == "Cancelled" && from.booking.is_some(), "Events": told,
    });
    plain(found) == plain(&expected)
}

/// Histories that are played at first, and those that are played until everything has happened that may.
const HISTORIES: u32 = 20;
const MORE: u32 = 180;

/// Sections 3 to 6, operation by operation: status, code, card, timeline, stages, bookings, pipeline, board and events,
/// whatever happens in whatever order; and each operation comes to everything that it may come to.
#[test]
fn a_history_is_that_of_a_plain_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", "50")]);
    let cases = Config {
        cases: HISTORIES + MORE,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let history = prop::collection::vec(happening(), 40..100);
    let all = Mutex::new(Tally::default());
    let checked = TestRunner::new(cases).run(&history, |history| {
        if all.lock().unwrap().is_enough(HISTORIES) {
            return Ok(());
        }
        tokio.block_on(async {
            let mut play = begin(&service).await;
            // Somebody is there already: two for one object, and one of the other developer's.
            for (object, amount) in [(0, None), (0, Some(7)), (2, None)] {
                play.create(0, object, None, amount).await;
            }
            for happening in &history {
                play.happen(happening).await;
            }
            play.compare().await;
            for row in play.world.deals.iter().flat_map(|deal| &deal.rows) {
                play.tally.add("row", row.kind);
            }
            all.lock().unwrap().take(play.tally);
        });
        Ok(())
    });
    checked.unwrap();
    all.into_inner().unwrap().assert_whole();
}
