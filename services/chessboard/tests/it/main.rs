//! Chessboard at its edges: HTTP and Kafka, against a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod cat_cards;
mod cat_facets;
mod cat_figures;
mod cat_filters;
mod cat_grid;
mod cat_guests;
mod cat_history;
mod cat_lists;
mod cat_model;
mod cat_privacy;
mod cat_search;
mod cat_statements;
mod cat_withheld;
mod cat_written;
mod catalog_fill;
mod dev_log;
mod dev_moves;
mod dev_orders;
mod dev_own;
mod dev_privacy;
mod dev_profile;
mod dev_projects;
mod dev_races;
mod dev_refusals;
mod dev_sync;
mod documents;
mod obj_buildings;
mod obj_events;
mod obj_grid;
mod obj_holds;
mod obj_kills;
mod obj_projects;
mod obj_propagation;
mod obj_races;
mod obj_refusals;
mod obj_single;
mod objects;
mod own;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use chessboard::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Answer, Client};
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const COMPANY_SUSPENDED: &str = "platform.identity.company-suspended.v1";
const OUTSIDE_UPSERTED: &str = "external.chessboard.developer-upserted.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";

const ADMIN: &str = "/api/v1/admin/developers";
const ME: &str = "/api/v1/developers/me";

const MANAGE: &str = "chessboard.developers.manage";
const MANAGE_ALL: &str = "chessboard.developers.manage@platform";

/// The service that most tests share: each has developers of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| Running::start::<Service>(&[]))
}

/// Whoever has these permissions, of this company or of none.
fn holder(company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// An administrator of the platform.
fn operator() -> Client {
    service().caller(&holder(None, &[MANAGE_ALL]))
}

/// A manager of the developer `company`.
fn manager(company: Uuid) -> Client {
    service().caller(&holder(Some(company), &[MANAGE]))
}

/// A number that grows with each use: the sequence of an event.
fn next() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A company as identity tells of it.
fn company(id: Uuid, status: &str, version: i64) -> Value {
    json!({
        "CompanyId": id, "Type": "Developer", "Status": status, "Name": "Ромашка", "LegalName": "ООО «Ромашка»",
        "Version": version,
    })
}

/// Has identity tell of a company.
async fn tell_company(told: &Value) {
    service().bus().publish(COMPANY_UPSERTED, id_of(&told["CompanyId"]), next(), told).await;
}

/// Has identity tell of a suspension, beside what it tells of the company.
async fn tell_suspension(told: &Value) {
    let told = with(with(told.clone(), "SuspendedAt", "2026-11-22T10:00:00Z"), "Reason", "debts");
    service().bus().publish(COMPANY_SUSPENDED, id_of(&told["CompanyId"]), next(), &told).await;
}

/// A profile as the outside system tells of it.
fn outside(id: Uuid, company: Uuid, version: i64) -> Value {
    json!({
        "ExternalChessboardDeveloperId": id, "CompanyId": company, "Version": version, "Name": "Внешняя",
        "LegalName": "ООО «Внешняя»", "LogoFileId": guid(), "FoundedYear": 1999,
    })
}

/// Has the outside system tell of a profile.
async fn tell_outside(told: &Value) {
    let key = text(&told["ExternalChessboardDeveloperId"]).to_owned();
    let headers = [("ce_id", guid().to_string()), ("ce_source", "/outside".to_owned())];
    let payload = told.to_string();
    service().bus().publish_raw(OUTSIDE_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
}

fn path(developer: Uuid, below: &str) -> String {
    format!("{ADMIN}/{developer}{below}")
}

/// The developer as the platform sees them, if there is one.
async fn look_up(developer: Uuid) -> Option<Value> {
    let answer = operator().get(&path(developer, "")).await;
    (answer.status == 200).then_some(answer.body)
}

async fn read(developer: Uuid) -> Value {
    look_up(developer).await.expect("a developer")
}

/// Waits until a developer is as they should be.
async fn read_when(developer: Uuid, what: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || look_up(developer).await.filter(&is_there)).await
}

/// A developer of an Active company, in Draft, as identity makes them.
async fn create_developer() -> Uuid {
    let id = guid();
    tell_company(&company(id, "Active", 1)).await;
    read_when(id, "the developer", |_| true).await;
    id
}

/// A body that fills what a profile needs.
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

/// Has a developer filled and published.
async fn publish(developer: Uuid) -> Value {
    operator().put(&path(developer, ""), profile()).await.expect(200);
    operator().post(&path(developer, "/publish"), json!({})).await.expect(200)
}

/// A published developer of an Active company.
async fn create_published_developer() -> Uuid {
    let id = create_developer().await;
    publish(id).await;
    id
}

/// What a log has, oldest first.
async fn entries(developer: Uuid) -> Vec<Value> {
    let page = operator().get(&path(developer, "/events?PageSize=100")).await.expect(200);
    assert_eq!(page["NextCursor"], Value::Null);
    list(&page["Items"]).iter().rev().cloned().collect()
}

/// Returns every `developer-upserted` event of a developer, an event too many among them.
async fn profile_events(developer: Uuid) -> Vec<Published> {
    let events = service().published(developer).await.into_iter();
    events.filter(|event| event.topic == DEVELOPER_UPSERTED).collect()
}

/// Returns the versions of [`profile_events`].
async fn profile_versions(developer: Uuid) -> Vec<i64> {
    profile_events(developer).await.iter().map(|event| event.payload["Version"].as_i64().unwrap()).collect()
}

/// Waits until `count` messages of this key are dead letters, and returns the reasons in their order.
async fn dead_letters(key: impl ToString, count: usize) -> Vec<String> {
    let (sql, key) = (service().sql().await, key.to_string());
    let ask = async || {
        let rows =
            sql.query("select error from dead_letter where key = $1 order by id", &[&key]).await.unwrap();
        (rows.len() >= count).then(|| rows.iter().map(|row| row.get(0)).collect::<Vec<_>>())
    };
    let reasons = eventually("the dead letters", ask).await;
    assert_eq!(reasons.len(), count, "{reasons:?}");
    reasons
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

/// This member of every object of a list.
fn each<'v>(objects: &'v Value, member: &str) -> Vec<&'v Value> {
    list(objects).iter().map(|object| &object[member]).collect()
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
