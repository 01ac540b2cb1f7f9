//! Agent at its edges: HTTP and Kafka, against a real database and a real broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod adjustments;
mod deals;
mod documents;
mod fill;
mod ledger;
mod ledger_kept;
mod owed;
mod payout_moves;
mod payout_races;
mod payout_runs;
mod privacy;
mod put_aside;
mod rates;
mod read_lists;
mod read_performance;
mod read_summary;
mod reversals;
mod statements;
mod waiting;

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

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";
const DEVELOPER_UPSERTED: &str = "platform.chessboard.developer-upserted.v1";

const ACCRUAL_CHANGED: &str = "platform.agent.accrual-changed.v1";
const PAYOUT_STATUS_CHANGED: &str = "platform.agent.payout-status-changed.v1";

/// The routes of the platform's people, and those of agents.
const PLATFORM: &str = "/api/platform-manager/agent";
const MY: &str = "/api/v1/my";

const CABINET: &str = "agent.cabinet.use";
const COMMISSIONS: &str = "agent.commissions.manage@platform";
const PAYOUTS: &str = "agent.payouts.manage@platform";

/// The service that most tests share: each has agents, deals and developers of its own. What it does by itself it does soon.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[]))
}

/// An agent service of a test's own, with `settings` over these.
fn start(settings: &[(&str, &str)]) -> Running {
    let soon = [("AGENT_PAYOUT_RUN_POLL_MS", "100"), ("AGENT_UNRATED_POLL_SECONDS", "1")];
    Running::start::<Service>(&[&soon, settings].concat())
}

/// Whoever has these permissions.
fn holder(user: Uuid, permissions: &[&str]) -> Claims {
    permissions.iter().fold(Claims::user(user), |claims, permission| claims.permission(*permission))
}

/// An agent in their cabinet.
fn cabinet(agent: Uuid) -> Client {
    service().caller(&holder(agent, &[CABINET]))
}

/// Somebody who decides what is owed.
fn commissions() -> Client {
    service().caller(&holder(guid(), &[COMMISSIONS]))
}

/// Somebody who pays it.
fn payouts() -> Client {
    service().caller(&holder(guid(), &[PAYOUTS]))
}

/// A number that grows with each use: the sequence of an event, the version of a thing.
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

/// A developer as chessboard tells of them.
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

/// A deal as crm tells of it, after each of its changes.
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
}

impl Deal {
    /// In Application.
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
        }
    }

    /// `deal-created`
    fn created(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "Amount": self.amount, "CreatedByUserId": self.client, "CreatedAt": at,
            "RowVersion": self.row_version,
        })
    }

    /// `deal-stage-changed`, of a change to this status.
    fn moves(&mut self, to: &'static str, at: &str) -> Value {
        let group = |status| if status == "Sale" { "Contract" } else { status };
        let from = std::mem::replace(&mut self.status, to);
        self.row_version += 1;
        json!({
            "DealId": self.id, "TenantId": self.developer, "FromStepId": guid(), "ToStepId": guid(),
            "FromStepGroup": group(from), "ToStepGroup": group(to), "FromStatus": from, "ToStatus": to,
            "ChangedByUserId": guid(), "ChangedAt": at, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "CreatedByUserId": self.client, "Amount": self.amount,
            "RowVersion": self.row_version,
        })
    }

    /// `deal-cancelled`, of the change before.
    fn cancelled(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "CancelledByUserId": guid(),
            "CancelReason": "передумал", "CancelledAt": at, "RowVersion": self.row_version,
        })
    }

    /// `deal-completed`, of the change before.
    fn completed(&self, at: &str) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "AgentUserId": self.agent,
            "Amount": self.amount, "CompletedAt": at, "RowVersion": self.row_version,
        })
    }

    /// Has crm tell of a change to this status, and waits until it has been taken.
    async fn bring_to(&mut self, status: &'static str, at: &str) {
        let told = self.moves(status, at);
        tell(service(), STAGE_CHANGED, &told).await;
    }
}

/// Publishes an event, and waits until this service has taken it.
async fn tell(service: &Running, topic: &str, told: &Value) {
    let (key, sequence) = (key_of(told), next());
    service.bus().publish(topic, key, sequence, told).await;
    taken(service, topic, key, sequence).await;
}

/// What an event is about.
fn key_of(told: &Value) -> Uuid {
    id_of(if told["DealId"].is_null() { &told["Id"] } else { &told["DealId"] })
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

/// Waits until every event that a service has committed is on the bus, and the bus was read to its end.
async fn published_all(service: &Running) {
    let sql = service.sql().await;
    eventually("the outbox to be published", async || {
        sql.query("select from outbox limit 1", &[]).await.unwrap().is_empty().then_some(())
    })
    .await;
    service.bus().read_to_end().await;
}

/// Has the platform pay for whatever a developer sells, from always on.
async fn pay(developer: Uuid, rate_bps: i64) {
    let rates = json!([{"RateBps": rate_bps, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
}

/// The accruals of a deal, oldest first.
async fn accruals_of(deal: Uuid) -> Vec<Value> {
    let path = format!("{PLATFORM}/commission-accruals?DealId={deal}&Sort=CreatedAt&PageSize=100");
    list(&commissions().get(&path).await.expect(200)["Items"]).to_vec()
}

/// Has a run made over what is payable now to these agents, and waits until it has been worked off.
async fn run(agents: &[Uuid]) -> Value {
    let by = payouts();
    let body = json!({
        "RunKey": guid().to_string(), "PeriodFrom": in_days(-300), "PeriodTo": in_millis(-1), "AgentUserIds": agents,
    });
    let made = by.post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
    let path = format!("{PLATFORM}/payout-runs/{}", text(&made["Id"]));
    eventually("the run to be worked off", async || {
        let run = by.get(&path).await.expect(200);
        (run["Status"] == "Completed").then_some(run)
    })
    .await
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
