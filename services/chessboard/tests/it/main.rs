//! Tests of chessboard over HTTP and Kafka, with a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that fails also fails its test")]

mod access;
mod cat_cards;
mod cat_facets;
mod cat_feed;
mod cat_figures;
mod cat_filters;
mod cat_grid;
mod cat_guests;
mod cat_history;
mod cat_index;
mod cat_lists;
mod cat_model;
mod cat_privacy;
mod cat_search;
mod cat_statements;
mod cat_visibility;
mod cat_written;
mod catalog_fill;
mod dev_log;
mod dev_orders;
mod dev_privacy;
mod dev_profile;
mod dev_projects;
mod dev_races;
mod dev_refusals;
mod dev_settings;
mod dev_sync;
mod dev_transitions;
mod documents;
mod ext_buildings;
mod ext_objects;
mod ext_projects;
mod ext_races;
mod feed_imports;
mod feed_runs;
mod languages;
mod obj_buildings;
mod obj_events;
mod obj_grid;
mod obj_history;
mod obj_holds;
mod obj_killed_workers;
mod obj_projects;
mod obj_propagation;
mod obj_races;
mod obj_refusals;
mod obj_single;
mod objects;
mod restored;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use chessboard::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response};
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const COMPANY_SUSPENDED: &str = "platform.identity.company-suspended.v1";
const EXTERNAL_UPSERTED: &str = "external.chessboard.developer-upserted.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";

const ADMIN: &str = "/api/v1/admin/developers";
const ME: &str = "/api/v1/developers/me";

const MANAGE: &str = "chessboard.developers.manage";
const MANAGE_ALL: &str = "chessboard.developers.manage@platform";

/// Returns the service that most tests share. Each test has its own developers.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| Running::start::<Service>(&[]))
}

/// Returns the claims of a user with these permissions, in a company or in none.
fn user_claims(company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// Returns the client of a platform administrator.
fn administrator() -> Client {
    service().caller(&user_claims(None, &[MANAGE_ALL]))
}

/// Returns the client of a manager of the developer `company`.
fn manager(company: Uuid) -> Client {
    service().caller(&user_claims(Some(company), &[MANAGE]))
}

/// Returns the next sequence of an event.
fn next_sequence() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the payload of a company event of identity.
fn company_event(id: Uuid, status: &str, version: i64) -> Value {
    json!({
        "CompanyId": id, "Type": "Developer", "Status": status, "Name": "Ромашка", "LegalName": "ООО «Ромашка»",
        "Version": version,
    })
}

/// Publishes a `company-upserted` event.
async fn publish_company(event: &Value) {
    service().bus().publish(COMPANY_UPSERTED, id_of(&event["CompanyId"]), next_sequence(), event).await;
}

/// Publishes a `company-suspended` event.
async fn publish_suspension(event: &Value) {
    let event = with(with(event.clone(), "SuspendedAt", "2026-11-22T10:00:00Z"), "Reason", "debts");
    service().bus().publish(COMPANY_SUSPENDED, id_of(&event["CompanyId"]), next_sequence(), &event).await;
}

/// Returns the payload of an event of the external system.
fn external_profile(id: Uuid, company: Uuid, version: i64) -> Value {
    json!({
        "ExternalChessboardDeveloperId": id, "CompanyId": company, "Version": version, "Name": "Внешняя",
        "LegalName": "ООО «Внешняя»", "LogoFileId": guid(), "FoundedYear": 1999,
    })
}

/// Publishes an event of the external system.
async fn publish_external_profile(event: &Value) {
    let key = text(&event["ExternalChessboardDeveloperId"]).to_owned();
    let headers = [("ce_id", guid().to_string()), ("ce_source", "/external".to_owned())];
    let payload = event.to_string();
    service().bus().publish_raw(EXTERNAL_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
}

fn path(developer: Uuid, below: &str) -> String {
    format!("{ADMIN}/{developer}{below}")
}

/// Returns the developer as an administrator reads it, if it exists.
async fn find_developer(developer: Uuid) -> Option<Value> {
    let response = administrator().get(&path(developer, "")).await;
    (response.status == 200).then_some(response.body)
}

async fn read_developer(developer: Uuid) -> Value {
    find_developer(developer).await.expect("a developer")
}

/// Waits until the developer meets a condition, and returns it.
async fn read_when(developer: Uuid, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || find_developer(developer).await.filter(&condition)).await
}

/// Creates a Draft developer by an event of an Active company.
async fn create_developer() -> Uuid {
    let id = guid();
    publish_company(&company_event(id, "Active", 1)).await;
    read_when(id, "the developer", |_| true).await;
    id
}

/// Returns a body of a complete profile.
fn profile() -> Value {
    json!({
        "Name": "Ромашка", "LegalName": "ООО «Ромашка»", "Description": "Строим дома", "LogoFileId": guid(),
        "Website": "https://example.org/о-нас", "ContactPhone": "8 (495) 123-45-67",
        "ContactEmail": "anna@example.org", "FoundedYear": 1999, "Highlights": highlights(),
    })
}

fn highlights() -> Value {
    json!({
        "ContractVersion": 1, "ObjectsDeliveredCount": 12, "ObjectsInProgressCount": 0, "YearsOnMarket": null,
        "ReliabilityValue": 9.5, "ReliabilityMax": 10, "AwardTitles": ["Лучший дом 2025"],
    })
}

/// Completes and publishes a profile.
async fn publish_profile(developer: Uuid) -> Value {
    administrator().put(&path(developer, ""), profile()).await.expect(200);
    administrator().post(&path(developer, "/publish"), json!({})).await.expect(200)
}

/// Creates a Published developer of an Active company.
async fn create_published_developer() -> Uuid {
    let id = create_developer().await;
    publish_profile(id).await;
    id
}

/// Returns the entries of a log, oldest first.
async fn log_entries(developer: Uuid) -> Vec<Value> {
    let page = administrator().get(&path(developer, "/events?PageSize=100")).await.expect(200);
    assert_eq!(page["NextCursor"], Value::Null);
    list(&page["Items"]).iter().rev().cloned().collect()
}

/// Returns all `developer-upserted` events of a developer.
async fn profile_events(developer: Uuid) -> Vec<Published> {
    let events = service().published(developer).await.into_iter();
    events.filter(|event| event.topic == DEVELOPER_UPSERTED).collect()
}

/// Returns the versions of [`profile_events`].
async fn profile_versions(developer: Uuid) -> Vec<i64> {
    profile_events(developer).await.iter().map(|event| event.payload["Version"].as_i64().unwrap()).collect()
}

/// Waits until `count` messages of this key are dead letters, and returns their reasons.
async fn dead_letters(key: impl ToString, count: usize) -> Vec<String> {
    let (sql, key) = (service().sql().await, key.to_string());
    let find = async || {
        let rows =
            sql.query("select error from dead_letter where key = $1 order by id", &[&key]).await.unwrap();
        (rows.len() >= count).then(|| rows.iter().map(|row| row.get(0)).collect::<Vec<_>>())
    };
    let reasons = eventually("the dead letters", find).await;
    assert_eq!(reasons.len(), count, "{reasons:?}");
    reasons
}

/// Returns the number of dead letters of this key that no later state has superseded.
async fn count_dead_letters(key: impl ToString) -> i64 {
    let count = "select count(*) from dead_letter where key = $1 and superseded_by is null";
    service().sql().await.query_one(count, &[&key.to_string()]).await.unwrap().get(0)
}

/// Waits until a message of this key is a dead letter, and returns the reason.
async fn dead_letter(key: impl ToString) -> String {
    dead_letters(key, 1).await.remove(0)
}

fn id_of(value: &Value) -> Uuid {
    text(value).parse().expect("a Guid")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns a field of each object of a list.
fn each<'v>(objects: &'v Value, field: &str) -> Vec<&'v Value> {
    list(objects).iter().map(|object| &object[field]).collect()
}

fn with(mut object: Value, field: &str, value: impl Into<Value>) -> Value {
    object[field] = value.into();
    object
}

fn without(mut object: Value, field: &str) -> Value {
    object.as_object_mut().expect("an object").remove(field);
    object
}

fn count(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}
