//! Fixtures for tests of payouts: stored accruals with their deals, and payout runs.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;
use testkit::{eventually, guid};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{CABINET, COMMISSIONS, PAYOUTS, PLATFORM, claims_of, id_of, list, rows, with};

/// Returns a client of an employee who manages payouts.
pub fn payer(service: &Running) -> Client {
    service.caller(&claims_of(guid(), &[PAYOUTS]))
}

/// Returns a client of an employee who manages commissions.
pub fn decider(service: &Running) -> Client {
    service.caller(&claims_of(guid(), &[COMMISSIONS]))
}

/// Returns a client of an agent.
pub fn cabinet(service: &Running, agent: Uuid) -> Client {
    service.caller(&claims_of(agent, &[CABINET]))
}

/// An accrual to store. By default it was approved a day ago.
#[derive(Clone)]
pub struct AccrualFixture {
    pub agent: Uuid,
    pub amount: i64,
    pub currency: &'static str,
    pub kind: &'static str,
    pub status: &'static str,
    pub approved_at: OffsetDateTime,
    pub earned_at: OffsetDateTime,
    pub developer: Uuid,
    /// The Base that the accrual adjusts. Both belong to one sale.
    pub adjusts: Option<StoredAccrual>,
}

/// A stored accrual.
#[derive(Clone, Copy, Debug)]
pub struct StoredAccrual {
    pub id: Uuid,
    pub deal: Uuid,
}

pub fn now() -> OffsetDateTime {
    runtime::clock::now()
}

pub fn ago(time: time::Duration) -> OffsetDateTime {
    now() - time
}

pub fn rfc3339(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).expect("a time")
}

impl AccrualFixture {
    pub fn approved(agent: Uuid, amount: i64) -> Self {
        let yesterday = ago(time::Duration::days(1));
        Self {
            agent,
            amount,
            currency: "RUB",
            kind: "Base",
            status: "Approved",
            approved_at: yesterday,
            earned_at: yesterday,
            developer: guid(),
            adjusts: None,
        }
    }

    pub fn pending(self) -> Self {
        Self { status: "Pending", ..self }
    }

    pub fn in_currency(self, currency: &'static str) -> Self {
        Self { currency, ..self }
    }

    pub fn approved_at(self, approved_at: OffsetDateTime) -> Self {
        Self { approved_at, ..self }
    }

    pub fn earned_at(self, earned_at: OffsetDateTime) -> Self {
        Self { earned_at, ..self }
    }

    pub fn adjusting(self, base: StoredAccrual) -> Self {
        Self { kind: "Correction", adjusts: Some(base), ..self }
    }

    /// Stores the accrual, with a deal unless it adjusts a Base, and adds it to its account.
    pub async fn write(self, service: &Running) -> StoredAccrual {
        self.write_all(service, 1).await[0]
    }

    /// Stores `count` equal accruals as [`write_each`] does.
    pub async fn write_all(self, service: &Running, count: usize) -> Vec<StoredAccrual> {
        write_each(service, std::iter::repeat_n(self, count)).await
    }

    /// Creates the row of the deal, or returns `None` for an adjustment.
    fn deal_row(&self) -> Option<Value> {
        let sold = rows::sold(self.agent, "Sale", &rfc3339(self.earned_at));
        self.adjusts.is_none().then(|| with(sold, "developer_company_id", self.developer.to_string()))
    }

    fn accrual_row(&self, deal: Uuid) -> Value {
        let approved_at = rfc3339(self.approved_at);
        let mut row = rows::accrual(self.agent, deal);
        for (member, value) in [
            // The version of the sale in `rows::sold`.
            ("sale_row_version", json!(1)),
            ("developer_company_id", json!(self.developer)),
            ("kind", json!(self.kind)),
            // The rate in `rows::accrual` is 10 %.
            ("base_amount", json!(self.amount.saturating_abs().saturating_mul(10))),
            ("amount", json!(self.amount)),
            ("currency", json!(self.currency)),
            ("status", json!(self.status)),
            ("adjusts_accrual_id", json!(self.adjusts.map(|base| base.id))),
            ("earned_at", json!(rfc3339(self.earned_at))),
            ("approved_at", if self.status == "Pending" { Value::Null } else { json!(approved_at) }),
        ] {
            row[member] = value;
        }
        row
    }
}

/// Stores accruals at once, and adds them to their accounts.
///
/// Each accrual has a deal of its own, except an adjustment, which has the deal of its Base.
pub async fn write_each(
    service: &Running,
    fixtures: impl IntoIterator<Item = AccrualFixture>,
) -> Vec<StoredAccrual> {
    let (mut deals, mut accruals) = (Vec::new(), Vec::new());
    for fixture in fixtures {
        let deal = fixture.deal_row();
        let deal_of_base = fixture.adjusts.map(|base| base.deal);
        let deal_id = deal_of_base.or_else(|| deal.as_ref().map(|deal| id_of(&deal["id"])));
        accruals.push(fixture.accrual_row(deal_id.expect("a deal")));
        deals.extend(deal);
    }
    if !deals.is_empty() {
        rows::insert_into(service, "deal", &deals).await;
    }
    rows::insert_into(service, "accrual", &accruals).await;
    rows::count_in_accounts(service, &accruals).await;
    let stored =
        accruals.iter().map(|row| StoredAccrual { id: id_of(&row["id"]), deal: id_of(&row["deal_id"]) });
    stored.collect()
}

/// Creates the body of a run that pays the accruals of agents that were approved before now.
pub fn run_body(agents: &[Uuid]) -> Value {
    json!({
        "RunKey": guid().to_string(), "PeriodFrom": rfc3339(ago(time::Duration::days(30))), "PeriodTo": rfc3339(now()),
        "AgentUserIds": agents,
    })
}

/// Waits until a run is completed, and returns it.
pub async fn await_completion(service: &Running, id: &Value) -> Value {
    let (payer, path) = (payer(service), format!("{PLATFORM}/payout-runs/{}", id_of(id)));
    eventually("the run to be completed", async || {
        let run = payer.get(&path).await.expect(200);
        (run["Status"] == "Completed").then_some(run)
    })
    .await
}

/// Runs payouts to completion. Returns the run, and its payouts sorted by currency.
pub async fn pay(service: &Running, body: Value) -> (Value, Vec<Value>) {
    let started = payer(service).post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
    let run = await_completion(service, &started["Id"]).await;
    let payouts = list_payouts(service, &run).await;
    (run, payouts)
}

/// Returns the payouts of a run, sorted by currency.
pub async fn list_payouts(service: &Running, run: &Value) -> Vec<Value> {
    let path = format!("{PLATFORM}/payouts?RunId={}&PageSize=100", id_of(&run["Id"]));
    let page = payer(service).get(&path).await.expect(200);
    let mut payouts = list(&page["Items"]).to_vec();
    payouts.sort_by_key(|payout| payout["Gross"]["Currency"].as_str().map(str::to_owned));
    payouts
}

/// Runs payouts for one agent, and returns the only payout.
pub async fn pay_one(service: &Running, agent: Uuid) -> Value {
    let (_, payouts) = pay(service, run_body(&[agent])).await;
    assert_eq!(payouts.len(), 1, "{payouts:?}");
    payouts[0].clone()
}

/// Returns the path of an operation of a payout.
pub fn payout_path(payout: &Value, operation: &str) -> String {
    format!("{PLATFORM}/payouts/{}/{operation}", id_of(&payout["Id"]))
}

/// Reads an accrual as an employee of the platform.
pub async fn accrual(service: &Running, agent: Uuid, id: Uuid) -> Value {
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&PageSize=100");
    let page = decider(service).get(&path).await.expect(200);
    let found = list(&page["Items"]).iter().find(|accrual| accrual["Id"] == id.to_string());
    found.unwrap_or_else(|| panic!("no {id} in {page}")).clone()
}

/// Reads an agent's balance in a currency, with sums in minor units.
pub async fn balance(service: &Running, agent: Uuid, currency: &str) -> Value {
    let summary = cabinet(service, agent).get("/api/v1/my/commission-summary").await.expect(200);
    let found = list(&summary["Balances"]).iter().find(|balance| balance["Currency"] == currency);
    let mut found = found.cloned().unwrap_or(Value::Null);
    for (_, sum) in found.as_object_mut().into_iter().flatten().filter(|(name, _)| *name != "Currency") {
        assert_eq!(sum["Currency"], currency);
        *sum = sum["AmountMinor"].clone();
    }
    found
}
