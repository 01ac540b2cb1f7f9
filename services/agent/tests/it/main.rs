//! Tests of agent over HTTP and Kafka, with a real database and an embedded or a real broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed helper fails its test")]

mod access;
mod adjustments;
mod approval_limit;
mod approval_races;
mod assignment_races;
mod assignments;
mod batches;
mod bonuses;
mod dead_letters;
mod deals;
mod documents;
mod event_order;
mod expensive;
mod fixtures;
mod former_agents;
mod languages;
mod ledger;
mod ledger_integrity;
mod money_log;
mod own_money;
mod payout_preview;
mod payout_races;
mod payout_runs;
mod payout_transitions;
mod privacy;
mod rates;
mod read_lists;
mod read_performance;
mod read_summary;
mod reversals;
mod rows;
mod statements;
mod unrated_deals;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use agent::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::{eventually, guid, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";
const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";

const ACCRUAL_CHANGED: &str = "platform.agent.accrual-changed.v1";
const PAYOUT_STATUS_CHANGED: &str = "platform.agent.payout-status-changed.v1";

/// The base paths of platform routes and of the agents' own routes.
const PLATFORM: &str = "/api/platform-manager/agent";
const MY: &str = "/api/v1/my";

const CABINET: &str = "agent.cabinet.use";
const COMMISSIONS: &str = "agent.commissions.manage@platform";
const PAYOUTS: &str = "agent.payouts.manage@platform";

/// Returns the service that most tests share.
/// Each test has agents, deals and developers of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[]))
}

/// Starts a service whose jobs run often. `settings` override the defaults.
fn start(settings: &[(&str, &str)]) -> Running {
    let defaults = [("AGENT_PAYOUT_RUN_POLL_MS", "100"), ("AGENT_UNRATED_POLL_SECONDS", "1")];
    Running::start::<Service>(&[&defaults, settings].concat())
}

fn claims_of(user: Uuid, permissions: &[&str]) -> Claims {
    permissions.iter().fold(Claims::user(user), |claims, permission| claims.permission(*permission))
}

/// Returns a client of an agent.
fn cabinet(agent: Uuid) -> Client {
    service().caller(&claims_of(agent, &[CABINET]))
}

/// Returns a client of an employee who manages commissions.
fn commissions() -> Client {
    service().caller(&claims_of(guid(), &[COMMISSIONS]))
}

/// Returns a client of an employee who manages payouts.
fn payouts() -> Client {
    service().caller(&claims_of(guid(), &[PAYOUTS]))
}

/// Returns an increasing number for the sequence of an event or the version of an entity.
fn next() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn money(amount: i64, currency: &str) -> Value {
    json!({"AmountMinor": amount, "Currency": currency})
}

fn rub(amount: i64) -> Value {
    money(amount, "RUB")
}

/// Creates the payload of `developer-upserted`.
fn developer(id: Uuid, name: &str) -> Value {
    json!({
        "Id": id, "Status": "Published", "Name": name, "LegalName": null, "LogoFileId": null, "FoundedYear": null,
        "Highlights": {
            "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null, "YearsOnMarket": null,
            "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
        },
        "Version": next(),
    })
}

/// A deal of CRM after its latest change.
#[derive(Clone, Debug)]
struct Deal {
    id: Uuid,
    developer: Uuid,
    object: Uuid,
    client: Uuid,
    agent: Option<Uuid>,
    amount: Value,
    status: &'static str,
    row_version: i64,
    /// The user who moves the deal.
    changed_by: Uuid,
}

impl Deal {
    /// Creates a deal in Application.
    fn new(agent: impl Into<Option<Uuid>>, developer: Uuid, amount: Value) -> Self {
        Self {
            id: guid(),
            developer,
            object: guid(),
            client: guid(),
            agent: agent.into(),
            amount,
            status: "Application",
            row_version: 1,
            changed_by: guid(),
        }
    }

    /// Creates the payload of `deal-created`.
    fn created(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "Amount": self.amount, "CreatedByUserId": self.client, "CreatedAt": at,
            "RowVersion": self.row_version,
        })
    }

    /// Changes the status, raises the version by 1, and creates the payload of
    /// `deal-stage-changed`.
    ///
    /// The payload has no `PreviousRowVersion`, so the service does not notice a missing change.
    fn stage_changed(&mut self, to: &'static str, at: &str) -> Value {
        let group = |status| if status == "Sale" { "Contract" } else { status };
        let from = std::mem::replace(&mut self.status, to);
        self.row_version += 1;
        json!({
            "DealId": self.id, "TenantId": self.developer, "FromStepId": guid(), "ToStepId": guid(),
            "FromStepGroup": group(from), "ToStepGroup": group(to), "FromStatus": from, "ToStatus": to,
            "ChangedByUserId": self.changed_by, "ChangedAt": at, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "CreatedByUserId": self.client, "Amount": self.amount,
            "RowVersion": self.row_version,
        })
    }

    /// Creates the payload of `deal-cancelled` for the latest change.
    fn cancelled(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "CancelledByUserId": guid(),
            "CancelReason": "передумал", "CancelledAt": at, "RowVersion": self.row_version,
        })
    }

    /// Creates the payload of `deal-completed` for the latest change.
    fn completed(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "AgentUserId": self.agent,
            "Amount": self.amount, "CompletedAt": at, "RowVersion": self.row_version,
        })
    }

    /// Changes the status, raises the version by 1, delivers `deal-stage-changed`, and waits until
    /// the service has applied it.
    async fn move_to(&mut self, status: &'static str, at: &str) {
        let payload = self.stage_changed(status, at);
        deliver(service(), STAGE_CHANGED, &payload).await;
    }
}

/// Publishes an event, and waits until the service has applied it.
async fn deliver(service: &Running, topic: &str, payload: &Value) {
    let (key, sequence) = (key_of(payload), next());
    service.bus().publish(topic, key, sequence, payload).await;
    await_applied(service, topic, key, sequence).await;
}

/// Returns the key of an event by its payload.
fn key_of(payload: &Value) -> Uuid {
    let keys = [&payload["DealId"], &payload["CompanyId"], &payload["Id"]];
    id_of(keys.into_iter().find(|key| !key.is_null()).expect("a key"))
}

/// Waits until a service has applied an event.
async fn await_applied(service: &Running, topic: &str, key: Uuid, sequence: i64) {
    let (sql, key) = (service.cached_sql().await, key.to_string());
    let applied = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
    eventually("the event to be applied", async || {
        sql.query_opt(applied, &[&topic, &key, &sequence]).await.unwrap()
    })
    .await;
}

/// Waits until every event that is committed now is published, and the bus is read to its end.
async fn await_published(service: &Running) {
    let sql = service.cached_sql().await;
    let last: Option<i64> = sql.query_one("select max(id) from outbox", &[]).await.unwrap().get(0);
    eventually("the outbox to be published", async || {
        let left = sql.query("select from outbox where id <= $1 limit 1", &[&last]).await.unwrap();
        left.is_empty().then_some(())
    })
    .await;
    service.bus().read_to_end().await;
}

/// Replaces the rate card of a developer by one rate, which is valid from 2000 on.
async fn set_rate(developer: Uuid, rate_bps: i64) {
    let rates = json!([{"RateBps": rate_bps, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
}

/// Returns the accruals of a deal, oldest first.
async fn accruals_of(deal: Uuid) -> Vec<Value> {
    let path = format!("{PLATFORM}/commission-accruals?DealId={deal}&Sort=CreatedAt&PageSize=100");
    list(&commissions().get(&path).await.expect(200)["Items"]).to_vec()
}

/// Pays the accruals of agents that were approved before now, and returns the completed run.
async fn run_payouts(agents: &[Uuid]) -> Value {
    let by = payouts();
    let body = json!({
        "RunKey": guid().to_string(), "PeriodFrom": in_days(-300), "PeriodTo": in_millis(-1), "AgentUserIds": agents,
    });
    let started = by.post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
    let path = format!("{PLATFORM}/payout-runs/{}", text(&started["Id"]));
    eventually("the run to be completed", async || {
        let run = by.get(&path).await.expect(200);
        (run["Status"] == "Completed").then_some(run)
    })
    .await
}

/// Returns the time in `days` days in RFC 3339.
fn in_days(days: i64) -> String {
    in_millis(days * 86_400_000)
}

/// Returns the time in `millis` milliseconds in RFC 3339.
fn in_millis(millis: i64) -> String {
    // The database stores microseconds.
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

/// Returns a member of every object of a list.
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
