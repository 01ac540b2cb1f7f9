//! Ledgers as tests of payouts need them, written as the service would have: what is owed to an agent, of deals of their own.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;
use testkit::{eventually, guid};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{CABINET, COMMISSIONS, PAYOUTS, PLATFORM, fill, holder, id_of, list, with};

/// Whoever pays.
pub fn payer(service: &Running) -> Client {
    service.caller(&holder(guid(), &[PAYOUTS]))
}

/// Whoever decides what is owed.
pub fn decider(service: &Running) -> Client {
    service.caller(&holder(guid(), &[COMMISSIONS]))
}

/// An agent in their cabinet.
pub fn cabinet(service: &Running, agent: Uuid) -> Client {
    service.caller(&holder(agent, &[CABINET]))
}

/// An accrual to be written, Approved a day ago unless it says otherwise.
#[derive(Clone)]
pub struct Owed {
    pub agent: Uuid,
    pub amount: i64,
    pub currency: &'static str,
    pub kind: &'static str,
    pub status: &'static str,
    pub approved_at: OffsetDateTime,
    pub earned_at: OffsetDateTime,
    pub developer: Uuid,
    /// Of what is to be another accrual's sale.
    pub adjusts: Option<Written>,
}

/// One that was.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub id: Uuid,
    pub deal: Uuid,
}

pub fn now() -> OffsetDateTime {
    runtime::clock::now()
}

pub fn ago(time: time::Duration) -> OffsetDateTime {
    now() - time
}

pub fn written(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).expect("a time")
}

impl Owed {
    pub fn to(agent: Uuid, amount: i64) -> Self {
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

    pub fn of_currency(self, currency: &'static str) -> Self {
        Self { currency, ..self }
    }

    pub fn approved_at(self, approved_at: OffsetDateTime) -> Self {
        Self { approved_at, ..self }
    }

    pub fn earned_at(self, earned_at: OffsetDateTime) -> Self {
        Self { earned_at, ..self }
    }

    pub fn adjusting(self, base: Written) -> Self {
        Self { kind: "Correction", adjusts: Some(base), ..self }
    }

    /// Written with its deal and counted in its account.
    pub async fn write(self, service: &Running) -> Written {
        self.write_all(service, 1).await[0]
    }

    /// So many alike, each of a deal of its own.
    pub async fn write_all(self, service: &Running, count: usize) -> Vec<Written> {
        let (earned_at, approved_at) = (written(self.earned_at), written(self.approved_at));
        let deals: Vec<Value> = (0..count)
            .map(|_| {
                let sold = fill::sold(self.agent, "Sale", &earned_at);
                with(sold, "developer_company_id", self.developer.to_string())
            })
            .collect();
        if self.adjusts.is_none() {
            fill::put_into(service, "deal", &deals).await;
        }
        let row = |deal: &Value| {
            let deal = self.adjusts.map_or_else(|| id_of(&deal["id"]), |base| base.deal);
            let mut row = fill::accrual(self.agent, deal);
            for (member, value) in [
                ("sale_row_version", json!(1)),
                ("developer_company_id", json!(self.developer)),
                ("kind", json!(self.kind)),
                ("base_amount", json!(self.amount.saturating_abs().saturating_mul(10))),
                ("amount", json!(self.amount)),
                ("currency", json!(self.currency)),
                ("status", json!(self.status)),
                ("adjusts_accrual_id", json!(self.adjusts.map(|base| base.id))),
                ("earned_at", json!(earned_at)),
                ("approved_at", if self.status == "Pending" { Value::Null } else { json!(approved_at) }),
            ] {
                row[member] = value;
            }
            row
        };
        let rows: Vec<Value> = deals.iter().map(row).collect();
        fill::put_into(service, "accrual", &rows).await;
        fill::count_in_accounts(service, &rows).await;
        let ids = rows.iter().map(|row| Written { id: id_of(&row["id"]), deal: id_of(&row["deal_id"]) });
        ids.collect()
    }
}

/// A body that pays these agents what was approved until now.
pub fn run_of(agents: &[Uuid]) -> Value {
    json!({
        "RunKey": guid().to_string(), "PeriodFrom": written(ago(time::Duration::days(30))), "PeriodTo": written(now()),
        "AgentUserIds": agents,
    })
}

/// A run as it is when it is worked off.
pub async fn complete(service: &Running, id: &Value) -> Value {
    let (payer, path) = (payer(service), format!("{PLATFORM}/payout-runs/{}", id_of(id)));
    eventually("the run to be completed", async || {
        let run = payer.get(&path).await.expect(200);
        (run["Status"] == "Completed").then_some(run)
    })
    .await
}

/// Has these paid, and waits until it is done: the run, and its payouts by currency.
pub async fn pay(service: &Running, body: Value) -> (Value, Vec<Value>) {
    let begun = payer(service).post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
    let run = complete(service, &begun["Id"]).await;
    let payouts = payouts_of(service, &run).await;
    (run, payouts)
}

/// Of a run, by currency.
pub async fn payouts_of(service: &Running, run: &Value) -> Vec<Value> {
    let path = format!("{PLATFORM}/payouts?RunId={}&PageSize=100", id_of(&run["Id"]));
    let page = payer(service).get(&path).await.expect(200);
    let mut payouts = list(&page["Items"]).to_vec();
    payouts.sort_by_key(|payout| payout["Gross"]["Currency"].as_str().map(str::to_owned));
    payouts
}

/// Has one agent paid: their only payout.
pub async fn pay_one(service: &Running, agent: Uuid) -> Value {
    let (_, payouts) = pay(service, run_of(&[agent])).await;
    assert_eq!(payouts.len(), 1, "{payouts:?}");
    payouts[0].clone()
}

/// The path of what is done to a payout.
pub fn to(payout: &Value, what: &str) -> String {
    format!("{PLATFORM}/payouts/{}/{what}", id_of(&payout["Id"]))
}

/// An accrual as the platform sees it.
pub async fn accrual(service: &Running, agent: Uuid, id: Uuid) -> Value {
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&PageSize=100");
    let page = decider(service).get(&path).await.expect(200);
    let found = list(&page["Items"]).iter().find(|accrual| accrual["Id"] == id.to_string());
    found.unwrap_or_else(|| panic!("no {id} in {page}")).clone()
}

/// An agent's balances in a currency, in minor units.
pub async fn balances(service: &Running, agent: Uuid, currency: &str) -> Value {
    let summary = cabinet(service, agent).get("/api/v1/my/commission-summary").await.expect(200);
    let found = list(&summary["Balances"]).iter().find(|balance| balance["Currency"] == currency);
    let mut found = found.cloned().unwrap_or(Value::Null);
    for (_, sum) in found.as_object_mut().into_iter().flatten().filter(|(name, _)| *name != "Currency") {
        assert_eq!(sum["Currency"], currency);
        *sum = sum["AmountMinor"].clone();
    }
    found
}
