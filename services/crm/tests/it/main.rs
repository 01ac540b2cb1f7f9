//! CRM at its edges: HTTP and Kafka, against a real database, a real broker and a real selections.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod deal_booking;
mod deal_contract;
mod deal_create;
mod deal_end;
mod deal_history;
mod deal_move;
mod deal_override;
mod documents;
mod expiries;
mod fill;
mod model;
mod pipeline_steps;
mod privacy;
mod races;
mod read_board;
mod read_deals;
mod read_lists;
mod read_statements;
mod read_walks;
mod selection_cards;
mod sync_replicas;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crm::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Answer, Client};
use testkit::faults::Faults;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";
const OBJECT_UPSERTED: &str = "platform.chessboard.property-object-upserted.v1";

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";
const BOOKING_CREATED: &str = "platform.crm.booking-created.v1";
const BOOKING_EXPIRED: &str = "platform.crm.booking-expired.v1";

/// The routes of the platform's people, and those of a developer's.
const PLATFORM: &str = "/api/platform-manager/crm";
const OWN: &str = "/api/v1/crm";

const MANAGE: &str = "crm.deals.manage@platform";
const CARE: &str = "crm.deals.care@platform";
const READ_OWN: &str = "crm.deals.read-own";
const MANAGE_OWN: &str = "crm.deals.manage-own";
const PIPELINE_OWN: &str = "crm.pipeline.manage-own";

/// The selections that CRM calls.
fn selections() -> &'static Running {
    static SELECTIONS: OnceLock<Running> = OnceLock::new();
    SELECTIONS.get_or_init(|| Running::start::<selections::Service>(&[]))
}

/// What stands between the shared CRM and selections. Tests that use it answer in place of selections for ids of
/// their own, and break nothing.
fn between() -> &'static Faults {
    static BETWEEN: OnceLock<Faults> = OnceLock::new();
    BETWEEN.get_or_init(|| Faults::before(selections().internal_url()))
}

/// The service that most tests share: each has developers of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", "100")]))
}

/// A CRM of a test's own, with `settings` over the defaults.
fn start(settings: &[(&str, &str)]) -> Running {
    let url = between().url();
    let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").expect("a secret of its own");
    Running::start::<Service>(
        &[&[("SELECTIONS_URL", url.as_str()), ("CLIENT_SECRET", secret)], settings].concat(),
    )
}

/// Whoever has these permissions, of this company or of none.
fn holder(company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// A manager of the platform.
fn platform() -> Client {
    service().caller(&holder(None, &[MANAGE]))
}

/// Somebody of the platform's care service.
fn care() -> Client {
    service().caller(&holder(None, &[CARE]))
}

/// Somebody who changes the deals and the pipeline of this developer.
fn manager(company: Uuid) -> Client {
    service().caller(&holder(Some(company), &[MANAGE_OWN, PIPELINE_OWN]))
}

/// A number that grows with each use: the sequence of an event, the version of a thing.
fn next() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A company as identity tells of it.
fn company(id: Uuid, status: &str) -> Value {
    json!({
        "CompanyId": id, "Type": "Developer", "Status": status, "Name": "Ромашка", "LegalName": "ООО «Ромашка»",
        "Version": next(),
    })
}

/// A developer as chessboard tells of them.
fn developer(id: Uuid) -> Value {
    json!({
        "Id": id, "Status": "Published", "Name": "Ромашка", "LegalName": null, "LogoFileId": null, "FoundedYear": null,
        "Highlights": {
            "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null, "YearsOnMarket": null,
            "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
        },
        "Version": next(),
    })
}

/// An object of a developer as chessboard tells of it.
fn object(id: Uuid, tenant: Uuid, status: &str) -> Value {
    json!({
        "Id": id, "BuildingId": guid(), "ProjectId": guid(), "TenantId": tenant, "ProjectName": "Лесной",
        "BuildingName": "1", "Number": "12", "Kind": "Flat", "Rooms": 2, "IsStudio": false, "Floor": 3,
        "AreaTotal": 54.3, "Finishing": "None", "Price": rub(700_000_000), "Status": status, "LayoutFileId": null,
        "IsPublic": true, "Version": next(),
    })
}

fn rub(amount: i64) -> Value {
    json!({"AmountMinor": amount, "Currency": "RUB"})
}

/// Has identity tell of a company, and waits until it has been taken.
async fn tell_company(told: &Value) {
    tell(service(), COMPANY_UPSERTED, "CompanyId", told).await;
}

/// Has chessboard tell of a developer, and waits until it has been taken.
async fn tell_developer(told: &Value) {
    tell(service(), DEVELOPER_UPSERTED, "Id", told).await;
}

/// Has chessboard tell of an object, and waits until it has been taken.
async fn tell_object(told: &Value) {
    tell(service(), OBJECT_UPSERTED, "Id", told).await;
}

/// Publishes an event, and waits until this service has taken it.
async fn tell(service: &Running, topic: &str, id: &str, told: &Value) {
    let (key, sequence) = (id_of(&told[id]), next());
    service.bus().publish(topic, key, sequence, told).await;
    taken(service, topic, key, sequence).await;
}

/// Waits until a service has taken an event.
async fn taken(service: &Running, topic: &str, key: Uuid, sequence: i64) {
    let (sql, key) = (service.sql().await, key.to_string());
    let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
    eventually("the event to be taken", async || {
        sql.query_opt(seen, &[&topic, &key, &sequence]).await.unwrap()
    })
    .await;
}

/// A developer with the default pipeline.
async fn create_developer() -> Uuid {
    let id = guid();
    tell_developer(&developer(id)).await;
    id
}

/// An object of this developer that is Available.
async fn create_object(developer: Uuid) -> Uuid {
    let id = guid();
    tell_object(&object(id, developer, "Available")).await;
    id
}

/// A body that makes a deal of an object.
fn application(object: Uuid) -> Value {
    json!({"PropertyObjectId": object, "ClientUserId": guid(), "AgentUserId": guid()})
}

/// A deal, of an object and a developer of its own.
#[derive(Clone, Copy, Debug)]
struct Deal {
    id: Uuid,
    object: Uuid,
    developer: Uuid,
}

/// In Application.
async fn create_deal() -> Deal {
    let developer = create_developer().await;
    create_deal_of(developer, create_object(developer).await).await
}

/// Another one of an object.
async fn create_deal_of(developer: Uuid, object: Uuid) -> Deal {
    let made = platform().post(&format!("{PLATFORM}/deals"), application(object)).await.expect(201);
    Deal { id: id_of(&made["DealId"]), object, developer }
}

impl Deal {
    /// Its routes for the platform.
    fn path(&self, below: &str) -> String {
        format!("{PLATFORM}/deals/{}{below}", self.id)
    }

    /// Its routes for its developer.
    fn own(&self, below: &str) -> String {
        format!("{OWN}/deals/{}{below}", self.id)
    }

    async fn read(&self) -> Value {
        platform().get(&self.path("")).await.expect(200)
    }

    async fn row_version(&self) -> i64 {
        self.read().await["RowVersion"].as_i64().unwrap()
    }

    /// Has it overridden, with contract data where Sale asks for them, or completed by its developer.
    async fn bring_to(&self, status: &str) {
        let by = platform();
        if matches!(status, "Sale" | "Completed") {
            by.put(&self.path("/contract"), contract()).await.expect(200);
        }
        let target = if status == "Completed" { "Sale" } else { status };
        by.post(&self.path("/override-status"), json!({"TargetStatus": target, "Comment": "x"}))
            .await
            .expect(200);
        if status == "Completed" {
            let body = json!({"RegistryRecordNumber": "77:01"});
            manager(self.developer).post(&self.own("/complete"), body).await.expect(200);
        }
    }

    /// Answers the booking.
    async fn book(&self) -> Value {
        platform().post(&self.path("/booking"), json!({})).await.expect(201)
    }

    /// Its timeline, oldest first.
    async fn timeline(&self) -> Vec<Value> {
        let page = platform().get(&self.path("/timeline?PageSize=100")).await.expect(200);
        assert_eq!(page["NextCursor"], Value::Null);
        list(&page["Items"]).iter().rev().cloned().collect()
    }

    /// Returns all its events in the order of its changes.
    async fn events(&self) -> Vec<Published> {
        events_of(service(), self.id).await
    }
}

/// Returns all events of a deal in the order of its changes. No further event follows.
async fn events_of(service: &Running, deal: Uuid) -> Vec<Published> {
    by_change(service.published(deal).await)
}

/// Waits until every event that a service has committed is on the bus, and the bus was read to its end.
async fn published_all(service: &Running) {
    let sql = service.sql().await;
    eventually("the outbox to be published", async || {
        sql.query("select from outbox limit 1", &[]).await.unwrap().is_empty().then_some(())
    })
    .await;
    service.bus().read_to_end().await;
}

/// Sorts events of one key. Kafka orders the events of one topic alone.
fn by_change(mut events: Vec<Published>) -> Vec<Published> {
    events.sort_by_key(Published::sequence);
    events
}

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// Returns the payloads of one topic, in their order.
fn payloads<'e>(events: &'e [Published], topic: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event.topic == topic).map(|event| &event.payload).collect()
}

/// Contract data that Sale asks for.
fn contract() -> Value {
    json!({"ContractType": "Ddu", "PaymentMethod": "Mortgage"})
}

/// The live steps of a developer, in their order.
async fn steps(developer: Uuid) -> Vec<Value> {
    let pipeline =
        platform().get(&format!("{PLATFORM}/pipeline-steps?TenantId={developer}")).await.expect(200);
    list(&pipeline["Steps"]).iter().filter(|step| step["ArchivedAt"].is_null()).cloned().collect()
}

/// The live steps of a group, in their order.
async fn steps_of(developer: Uuid, group: &str) -> Vec<Uuid> {
    let steps = steps(developer).await;
    steps.iter().filter(|step| step["Group"] == group).map(|step| id_of(&step["Id"])).collect()
}

/// A moment so many days ahead, as requests write it.
fn in_days(days: i64) -> String {
    in_millis(days * 86_400_000)
}

/// The same by milliseconds.
fn in_millis(millis: i64) -> String {
    // The database keeps no less than a microsecond.
    let at = runtime::clock::now().truncate_to_microsecond() + time::Duration::milliseconds(millis);
    at.format(&Rfc3339).expect("a time")
}

fn moment(text: &str) -> OffsetDateTime {
    OffsetDateTime::parse(text, &Rfc3339).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn id_of(value: &Value) -> Uuid {
    text(value).parse().expect("a Guid")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// This member of every object of a list.
fn each<'v>(objects: &'v [Value], member: &str) -> Vec<&'v Value> {
    objects.iter().map(|object| &object[member]).collect()
}

fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    object[member] = value.into();
    object
}

fn without(mut object: Value, member: &str) -> Value {
    object.as_object_mut().expect("an object").remove(member);
    object
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}
