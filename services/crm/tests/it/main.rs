//! Tests of crm over HTTP and Kafka, with a real database, broker and service selections.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed helper fails its test")]

mod access;
mod additions;
mod copies;
mod deal_booking;
mod deal_contract;
mod deal_create;
mod deal_end;
mod deal_history;
mod deal_move;
mod deal_override;
mod deal_selections;
mod deal_terms;
mod documents;
mod expensive;
mod expiries;
mod exports;
mod languages;
mod model;
mod override_register;
mod pipeline_steps;
mod privacy;
mod races;
mod read_board;
mod read_deals;
mod read_lists;
mod read_search;
mod read_statements;
mod read_walks;
mod restored;
mod revival;
mod rows;
mod saved_views;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crm::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response};
use testkit::faults::FaultProxy;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::OnceCell;
use uuid::Uuid;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const EMPLOYMENT: &str = "platform.identity.employee-status-changed.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";
const OBJECT_UPSERTED: &str = "platform.chessboard.property-object-upserted.v1";

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";
const BOOKING_CREATED: &str = "platform.crm.booking-created.v1";
const BOOKING_EXPIRED: &str = "platform.crm.booking-expired.v1";

/// The base paths of platform routes and of company routes.
const PLATFORM: &str = "/api/platform-manager/crm";
const OWN: &str = "/api/v1/crm";

const MANAGE: &str = "crm.deals.manage@platform";
const CARE: &str = "crm.deals.care@platform";
const READ_OWN: &str = "crm.deals.read-own";
const MANAGE_OWN: &str = "crm.deals.manage-own";
const PIPELINE_OWN: &str = "crm.pipeline.manage-own";

/// Returns the selections service that crm calls.
fn selections() -> &'static Running {
    static SELECTIONS: OnceLock<Running> = OnceLock::new();
    SELECTIONS.get_or_init(|| Running::start::<selections::Service>(&[]))
}

/// Returns the proxy between the shared crm and selections.
///
/// The proxy is shared, so a test records and replaces responses for its own ids only.
fn selections_proxy() -> &'static FaultProxy {
    static PROXY: OnceLock<FaultProxy> = OnceLock::new();
    PROXY.get_or_init(|| FaultProxy::start(selections().internal_url()))
}

/// Returns the service that most tests share. Tests create their own developers.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", "100")]))
}

/// Starts a crm for one test. `settings` override the defaults.
fn start(settings: &[(&str, &str)]) -> Running {
    let url = selections_proxy().url();
    let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").expect("the client crm");
    Running::start::<Service>(
        &[&[("SELECTIONS_URL", url.as_str()), ("CLIENT_SECRET", secret)], settings].concat(),
    )
}

/// Returns the claims of a new user with permissions, with or without a company.
fn user_with(company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// Returns a client of a platform manager.
fn platform() -> Client {
    service().caller(&user_with(None, &[MANAGE]))
}

/// Returns a client of the care service.
fn care() -> Client {
    service().caller(&user_with(None, &[CARE]))
}

/// Returns a client of an employee who manages the deals and the pipeline of a developer.
fn manager(company: Uuid) -> Client {
    service().caller(&user_with(Some(company), &[MANAGE_OWN, PIPELINE_OWN]))
}

/// Returns an increasing number, for the sequences of events and the versions of entities.
fn next_number() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the payload of a company event of identity.
fn company(id: Uuid, status: &str) -> Value {
    json!({
        "CompanyId": id, "Type": "Developer", "Status": status, "Name": "Ромашка", "LegalName": "ООО «Ромашка»",
        "Version": next_number(),
    })
}

/// Returns the payload of an agency's event of identity.
fn agency(id: Uuid, status: &str) -> Value {
    with(company(id, status), "Type", "Agency")
}

/// Returns the payload of an employment event of identity. `to` is `None` for a user who has left.
fn employment(user: Uuid, company: Uuid, to: Option<&str>) -> Value {
    json!({
        "UserId": user, "CompanyId": company, "From": null, "To": to, "ByUserId": guid(),
        "At": "2026-05-01T10:00:00Z",
    })
}

/// Returns the payload of a developer event of chessboard.
fn developer(id: Uuid) -> Value {
    json!({
        "Id": id, "Status": "Published", "Name": "Ромашка", "LegalName": null, "LogoFileId": null, "FoundedYear": null,
        "Highlights": {
            "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null, "YearsOnMarket": null,
            "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
        },
        "Version": next_number(),
    })
}

/// Returns the payload of an object event of chessboard.
fn object(id: Uuid, tenant: Uuid, status: &str) -> Value {
    json!({
        "Id": id, "BuildingId": guid(), "ProjectId": guid(), "TenantId": tenant, "ProjectName": "Лесной",
        "BuildingName": "1", "Number": "12", "Kind": "Flat", "Rooms": 2, "IsStudio": false, "Floor": 3,
        "AreaTotal": 54.3, "Finishing": "None", "Price": rub(700_000_000), "Status": status, "LayoutFileId": null,
        "IsPublic": true, "Version": next_number(),
    })
}

fn rub(amount: i64) -> Value {
    json!({"AmountMinor": amount, "Currency": "RUB"})
}

/// Publishes a company event and waits until the shared service has applied it.
async fn publish_company(event: &Value) {
    publish(service(), COMPANY_UPSERTED, "CompanyId", event).await;
}

/// Publishes a developer event and waits until the shared service has applied it.
async fn publish_developer(event: &Value) {
    publish(service(), DEVELOPER_UPSERTED, "Id", event).await;
}

/// Publishes an employment event and waits until the shared service has applied it.
async fn publish_employment(event: &Value) {
    publish(service(), EMPLOYMENT, "UserId", event).await;
}

/// Publishes an object event and waits until the shared service has applied it.
async fn publish_object(event: &Value) {
    publish(service(), OBJECT_UPSERTED, "Id", event).await;
}

/// Publishes an event and waits until a service has applied it. `id` names the member with the key.
async fn publish(service: &Running, topic: &str, id: &str, event: &Value) {
    let (key, sequence) = (id_of(&event[id]), next_number());
    service.bus().publish(topic, key, sequence, event).await;
    wait_until_applied(service, topic, key, sequence).await;
}

/// Waits until a service has applied an event.
async fn wait_until_applied(service: &Running, topic: &str, key: Uuid, sequence: i64) {
    let (sql, key) = (service.sql().await, key.to_string());
    let applied = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
    eventually("the event to be applied", async || {
        sql.query_opt(applied, &[&topic, &key, &sequence]).await.unwrap()
    })
    .await;
}

/// Creates a developer with the default pipeline.
async fn create_developer() -> Uuid {
    let id = guid();
    publish_developer(&developer(id)).await;
    id
}

/// Creates an Available object of a developer.
async fn create_object(developer: Uuid) -> Uuid {
    let id = guid();
    publish_object(&object(id, developer, "Available")).await;
    id
}

/// Publishes an active agency to a service, with an active employee of it.
async fn create_agent(service: &Running) -> Uuid {
    let (agent, company) = (guid(), guid());
    publish(service, COMPANY_UPSERTED, "CompanyId", &agency(company, "Active")).await;
    publish(service, EMPLOYMENT, "UserId", &employment(agent, company, Some("Active"))).await;
    agent
}

/// Returns an agent of an agency, whom the shared service knows.
async fn agent() -> Uuid {
    static AGENT: OnceCell<Uuid> = OnceCell::const_new();
    *AGENT.get_or_init(|| create_agent(service())).await
}

/// Returns a body that creates a deal of an object.
async fn creation_body(object: Uuid) -> Value {
    json!({"PropertyObjectId": object, "ClientUserId": guid(), "AgentUserId": agent().await})
}

/// A deal of a test with its object and its developer.
#[derive(Clone, Copy, Debug)]
struct Deal {
    id: Uuid,
    object: Uuid,
    developer: Uuid,
}

/// Creates a deal in Application, with a new object and a new developer.
async fn create_deal() -> Deal {
    let developer = create_developer().await;
    create_deal_of(developer, create_object(developer).await).await
}

/// Creates a deal of an object.
async fn create_deal_of(developer: Uuid, object: Uuid) -> Deal {
    let created =
        platform().post(&format!("{PLATFORM}/deals"), creation_body(object).await).await.expect(201);
    Deal { id: id_of(&created["DealId"]), object, developer }
}

impl Deal {
    /// Returns a platform route of the deal.
    fn path(&self, below: &str) -> String {
        format!("{PLATFORM}/deals/{}{below}", self.id)
    }

    /// Returns a company route of the deal.
    fn own(&self, below: &str) -> String {
        format!("{OWN}/deals/{}{below}", self.id)
    }

    async fn read(&self) -> Value {
        platform().get(&self.path("")).await.expect(200)
    }

    async fn row_version(&self) -> i64 {
        self.read().await["RowVersion"].as_i64().unwrap()
    }

    /// Brings the deal into a status: by an override, or by a completion of the developer.
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

    /// Books the object and returns the booking.
    async fn book(&self) -> Value {
        platform().post(&self.path("/booking"), json!({})).await.expect(201)
    }

    /// Returns the timeline, oldest first.
    async fn timeline(&self) -> Vec<Value> {
        let page = platform().get(&self.path("/timeline?PageSize=100")).await.expect(200);
        assert_eq!(page["NextCursor"], Value::Null);
        list(&page["Items"]).iter().rev().cloned().collect()
    }

    /// Returns all events of the deal in the order of its changes.
    async fn events(&self) -> Vec<Published> {
        events_of(service(), self.id).await
    }
}

/// Waits until all events of a deal are published, and returns them in the order of its changes.
async fn events_of(service: &Running, deal: Uuid) -> Vec<Published> {
    sort_by_sequence(service.published(deal).await)
}

/// Waits until every committed event of a service is published and the test has read it.
async fn wait_until_all_published(service: &Running) {
    let sql = service.sql().await;
    eventually("the outbox to be published", async || {
        sql.query("select from outbox limit 1", &[]).await.unwrap().is_empty().then_some(())
    })
    .await;
    service.bus().read_to_end().await;
}

/// Sorts events of one key, since Kafka orders events within a topic only.
fn sort_by_sequence(mut events: Vec<Published>) -> Vec<Published> {
    events.sort_by_key(Published::sequence);
    events
}

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// Returns the payloads of one topic in their order.
fn payloads<'e>(events: &'e [Published], topic: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event.topic == topic).map(|event| &event.payload).collect()
}

/// Returns the contract data that Sale requires.
fn contract() -> Value {
    json!({"ContractType": "Ddu", "PaymentMethod": "Mortgage"})
}

/// Returns the live steps of a developer in their order.
async fn steps(developer: Uuid) -> Vec<Value> {
    let pipeline =
        platform().get(&format!("{PLATFORM}/pipeline-steps?TenantId={developer}")).await.expect(200);
    list(&pipeline["Steps"]).iter().filter(|step| step["ArchivedAt"].is_null()).cloned().collect()
}

/// Returns the ids of the live steps of a group in their order.
async fn steps_of(developer: Uuid, group: &str) -> Vec<Uuid> {
    let steps = steps(developer).await;
    steps.iter().filter(|step| step["Group"] == group).map(|step| id_of(&step["Id"])).collect()
}

/// Returns the time `days` ahead, as requests write it.
fn in_days(days: i64) -> String {
    in_millis(days * 86_400_000)
}

/// Returns the time `millis` milliseconds ahead, as requests write it.
fn in_millis(millis: i64) -> String {
    // The database stores microseconds.
    let at = runtime::clock::now().truncate_to_microsecond() + time::Duration::milliseconds(millis);
    at.format(&Rfc3339).expect("a time")
}

fn parse_time(text: &str) -> OffsetDateTime {
    OffsetDateTime::parse(text, &Rfc3339).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn id_of(value: &Value) -> Uuid {
    text(value).parse().expect("a Guid")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns one member of every object of a list.
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

fn count(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}
