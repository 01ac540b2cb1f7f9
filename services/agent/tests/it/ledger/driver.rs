//! A driver that performs each action on the service and on the model.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::service::Running;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::action::Action;
use super::model::{Amount, Change, Deal, Refusal, Request, World};
use crate::{
    CABINET, CANCELLED, COMMISSIONS, COMPLETED, CREATED, MY, PAYOUTS, PLATFORM, STAGE_CHANGED, claims_of,
    deliver, eventually, guid, id_of, in_days, list, money,
};

/// The greatest number of accruals in a payout of these tests.
pub const MAX_LINES: usize = 3;

/// The statuses that an action can choose. A status that the list has several times is chosen more
/// often. The same is true of [`AMOUNTS`].
const STATUSES: [&str; 8] =
    ["Application", "Booking", "Sale", "Sale", "Sale", "Completed", "Completed", "Cancelled"];
/// A status that the service does not know.
const UNKNOWN: &str = "Frozen";
const AMOUNTS: [Amount; 4] = [(10_000, "RUB"), (12_350, "RUB"), (10_000, "RUB"), (777, "USD")];
const RATES: [Option<i64>; 4] = [Some(300), Some(10_000), Some(1_250), None];

pub struct Driver<'s> {
    pub service: &'s Running,
    pub world: World,
    crm_deals: Vec<crate::Deal>,
    pub agents: Vec<Uuid>,
    /// By deal, a stage change that is not published yet.
    late: BTreeMap<usize, (Change, Value)>,
    /// The published events with their topics.
    events: Vec<(&'static str, Value)>,
    /// Start of the history.
    since: OffsetDateTime,
    /// Number of the current action.
    count: i64,
    /// The codes of refusals, which show that the histories cover them.
    pub refusals: BTreeSet<&'static str>,
}

/// Creates four deals of two agents. Each deal has its own developer, one of them without a rate.
pub async fn start_driver(service: &Running) -> Driver<'_> {
    let agents = vec![guid(), guid()];
    let by = service.caller(&claims_of(guid(), &[COMMISSIONS]));
    let (mut crm_deals, mut deals) = (Vec::new(), Vec::new());
    for (at, rate) in RATES.into_iter().enumerate() {
        let deal = crate::Deal::new(agents[at % 2], guid(), money(AMOUNTS[0].0, AMOUNTS[0].1));
        if let Some(rate) = rate {
            let rates = json!([{"RateBps": rate, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
            let card = json!({"DeveloperCompanyId": deal.developer, "Rates": rates});
            by.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
        }
        deals.push(Deal { id: deal.id, rate, status: "Application", sale: None, applied: 0, known: 0 });
        crm_deals.push(deal);
    }
    let since = (runtime::clock::now() - Duration::days(200)).truncate_to_second();
    let world = World { deals, ..World::default() };
    let mut driver = Driver {
        service,
        world,
        crm_deals,
        agents,
        late: BTreeMap::new(),
        events: Vec::new(),
        since,
        count: 0,
        refusals: BTreeSet::new(),
    };
    // The other two deals have no `deal-created`, since the ledger does not need it.
    for at in 0..2 {
        let created = driver.crm_deals[at].created(&driver.at());
        driver.deliver(at, CREATED, created).await;
    }
    driver
}

impl Driver<'_> {
    /// Returns the time of the current action. Each action is a day later than the last one.
    fn at(&self) -> String {
        (self.since + Duration::days(self.count)).format(&Rfc3339).unwrap()
    }

    pub fn by(&self, permission: &str) -> Client {
        self.service.caller(&claims_of(guid(), &[permission]))
    }

    async fn deliver(&mut self, deal: usize, topic: &'static str, payload: Value) {
        let version = payload["RowVersion"].as_i64().unwrap();
        let known = &mut self.world.deals[deal].known;
        *known = version.max(*known);
        deliver(self.service, topic, &payload).await;
        self.events.push((topic, payload));
    }

    pub async fn perform(&mut self, action: &Action) {
        self.count += 1;
        match action {
            Action::ChangeDeal { deal, to, amount, agent, late } => {
                self.change(*deal, *to, *amount, *agent, *late).await;
            }
            Action::Repeat { event, with_new_sequence } => self.repeat(*event, *with_new_sequence).await,
            Action::Reject { accrual } => self.reject(*accrual).await,
            Action::Reverse { accrual } => self.reverse(*accrual).await,
            Action::FileRequest { accrual, amount } => self.file_request(*accrual, *amount).await,
            Action::Decide { request, amount, approves } => {
                self.decide(*request, *amount, *approves).await;
            }
            Action::Run { until, withholding } => self.run(*until, *withholding).await,
            Action::Transition { payout, to } => self.transition(*payout, *to).await,
        }
        self.compare().await;
    }

    async fn change(&mut self, deal: usize, to: usize, amount: usize, agent: usize, late: bool) {
        // A late stage change takes the place of another one.
        if let Some((change, payload)) = self.late.remove(&deal) {
            self.deliver(deal, STAGE_CHANGED, payload).await;
            return self.world.change(deal, &change);
        }
        let model = &self.world.deals[deal];
        let is_completed = model.sale.as_ref().is_some_and(|sale| sale.completed.is_some());
        // One of the 64 values is the unknown status.
        let mut to = if to == 63 { UNKNOWN } else { STATUSES[to % STATUSES.len()] };
        // The service ignores a second completion of a sale, and the model does not.
        if to == "Completed" && is_completed && model.status != "Completed" {
            to = "Cancelled";
        }
        let mut amount = AMOUNTS[amount % AMOUNTS.len()];
        if let Some(sale) = &model.sale
            && self
                .world
                .accruals
                .iter()
                .any(|one| one.deal == deal && one.sale == sale.version && one.adjusts.is_some())
        {
            // A sale with an adjustment keeps its amount. Otherwise the service would correct a
            // Base whose adjustments were all rejected, and the model would not.
            amount = sale.amount;
        }
        let at = self.at();
        let crm_deal = &mut self.crm_deals[deal];
        crm_deal.amount = money(amount.0, amount.1);
        // Of the eight values, 7 removes the agent and 6 names the first one. The others keep the
        // agent, and add a missing one.
        if agent == 7 {
            crm_deal.agent = None;
        } else if agent == 6 {
            crm_deal.agent = Some(self.agents[0]);
        } else if crm_deal.agent.is_none() {
            crm_deal.agent = Some(self.agents[deal % 2]);
        }
        let payload = crm_deal.stage_changed(to, &at);
        let change =
            Change { to, version: crm_deal.row_version, agent: crm_deal.agent, amount, at: at.clone() };
        let other_event = match to {
            "Cancelled" => Some((CANCELLED, crm_deal.cancelled(&at))),
            "Completed" => Some((COMPLETED, crm_deal.completed(&at))),
            _ => None,
        };
        if let Some((topic, other_event)) = other_event {
            self.deliver(deal, topic, other_event).await;
            if late {
                self.late.insert(deal, (change, payload));
                return;
            }
        }
        self.deliver(deal, STAGE_CHANGED, payload).await;
        self.world.change(deal, &change);
    }

    async fn repeat(&mut self, event: usize, with_new_sequence: bool) {
        let Some(at) = (!self.events.is_empty()).then(|| event % self.events.len()) else { return };
        let (topic, payload) = self.events[at].clone();
        if with_new_sequence {
            deliver(self.service, topic, &payload).await;
        } else {
            // A late repeat has a sequence below those of later events.
            let key = id_of(&payload["DealId"]);
            self.service.bus().publish(topic, key, 0, &payload).await;
            // The consumer has processed the repeat once a later message is applied.
            deliver(self.service, topic, &payload).await;
        }
    }

    /// Selects an accrual, and returns it with its path.
    fn accrual(&self, number: usize) -> Option<(usize, String)> {
        let at = (!self.world.accruals.is_empty()).then(|| number % self.world.accruals.len())?;
        Some((at, format!("commission-accruals/{}", self.world.accruals[at].id.unwrap())))
    }

    /// Checks a response against the model, and returns the body of a success.
    fn check_response(
        &mut self,
        response: Response,
        success: u16,
        expected: Result<(), Refusal>,
    ) -> Option<Value> {
        match expected {
            Ok(()) => Some(response.expect(success)),
            Err((status, code)) => {
                response.expect_problem(status, code);
                self.refusals.insert(code);
                None
            }
        }
    }

    async fn reject(&mut self, number: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let response =
            self.by(COMMISSIONS).post(&format!("{PLATFORM}/{path}/reject"), json!({"Comment": "нет"})).await;
        let expected = self.world.reject(at);
        if let Some(shown) = self.check_response(response, 200, expected) {
            assert_eq!(
                (&shown["Status"], id_of(&shown["Id"])),
                (&json!("Rejected"), self.world.accruals[at].id.unwrap())
            );
        }
    }

    async fn reverse(&mut self, number: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let response =
            self.by(COMMISSIONS).post(&format!("{PLATFORM}/{path}/reverse"), json!({"Comment": "нет"})).await;
        let expected = self.world.reverse(at).map(drop);
        if let Some(shown) = self.check_response(response, 200, expected) {
            assert_eq!(id_of(&shown["ReversesAccrualId"]), self.world.accruals[at].id.unwrap());
        }
    }

    async fn file_request(&mut self, number: usize, amount: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let accrual = self.world.accruals[at].clone();
        // A requested amount is never negative.
        let whole = [0, accrual.amount / 2, accrual.base, accrual.base + 1, 50][amount % 5].max(0);
        let other = if accrual.currency == "RUB" { "USD" } else { "RUB" };
        // Of the 64 values, 12 request no amount and 3 an amount in another currency.
        let requested = match amount {
            0..12 => None,
            12..15 => Some((whole, other)),
            _ => Some((whole, accrual.currency)),
        };
        let reason = if self.world.requests.len().is_multiple_of(2) { "WrongAmount" } else { "MissingBonus" };
        let body = json!({
            "Reason": reason, "Comment": "мало", "RequestedAmount": requested.map(|(amount, currency)| money(amount, currency)),
        });
        let by = self.service.caller(&claims_of(accrual.agent, &[CABINET]));
        let response = by.post(&format!("{MY}/{path}/adjustment-requests"), body).await;
        let expected = self.world.check_request(at, requested);
        if let Some(shown) = self.check_response(response, 201, expected) {
            self.world.requests.push(Request {
                id: id_of(&shown["Id"]),
                accrual: at,
                requested: requested.map(|(amount, _)| amount),
                status: "Open",
                granted: None,
            });
        }
    }

    async fn decide(&mut self, number: usize, amount: usize, approves: bool) {
        // Selects one of the three newest requests.
        let Some(at) = self.world.requests.len().checked_sub(1 + number % 3) else { return };
        let request = self.world.requests[at].clone();
        let accrual = self.world.accruals[request.accrual].clone();
        let path = format!("{PLATFORM}/adjustment-requests/{}", request.id);
        let by = self.by(COMMISSIONS);
        let (response, expected) = if approves {
            let whole = [accrual.base / 2, accrual.base, accrual.amount, 0, accrual.base + 1][amount % 5];
            // Below 20 the approval names no amount, and grants the requested one.
            let granted = (amount >= 20).then_some((whole, accrual.currency));
            let body = json!({"Amount": granted.map(|(amount, currency)| money(amount, currency))});
            (by.post(&format!("{path}/approve"), body).await, self.world.approve(at, granted))
        } else {
            (
                by.post(&format!("{path}/reject"), json!({"Comment": "нет"})).await,
                self.world.reject_request(at),
            )
        };
        if let Some(shown) = self.check_response(response, 200, expected) {
            assert_eq!(shown["Status"], self.world.requests[at].status);
        }
    }

    async fn run(&mut self, until: usize, withholding: usize) {
        let withholding = [0, 1_300, 10_000][withholding];
        let until = match until {
            0 => self.since + Duration::days(self.count / 2),
            _ => runtime::clock::now().truncate_to_microsecond(),
        };
        let body = json!({
            "RunKey": guid().to_string(), "PeriodFrom": in_days(-300), "PeriodTo": until.format(&Rfc3339).unwrap(),
            "AgentUserIds": self.agents, "WithholdingBps": withholding,
        });
        let by = self.by(PAYOUTS);
        let started = by.post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
        let id = id_of(&started["Id"]);
        let path = format!("{PLATFORM}/payout-runs/{id}");
        let completed = eventually("the run to be completed", async || {
            let run = by.get(&path).await.expect(200);
            (run["Status"] == "Completed").then_some(run)
        });
        let completed = completed.await;
        let micros = i64::try_from(until.unix_timestamp_nanos() / 1_000).unwrap();
        let before = self.world.payouts.len();
        self.world.run(&self.agents.clone(), micros, withholding, MAX_LINES);
        assert_eq!(completed["PayoutsCount"], self.world.payouts.len() - before);
        for total in list(&completed["Totals"]) {
            let of =
                self.world.payouts[before..].iter().filter(|payout| total["Currency"] == payout.currency);
            let (gross, withheld) = of.fold((0, 0), |sums, one| (sums.0 + one.gross, sums.1 + one.withheld));
            let shown =
                ["Gross", "Withheld", "Net"].map(|member| total[member]["AmountMinor"].as_i64().unwrap());
            assert_eq!(shown, [gross, withheld, gross - withheld]);
        }
        let listed = by.get(&format!("{PLATFORM}/payouts?RunId={id}")).await.expect(200);
        assert_eq!(listed["TotalCount"], self.world.payouts.len() - before);
        for payout in &mut self.world.payouts[before..] {
            let of = |shown: &&Value| {
                shown["AgentUserId"] == json!(payout.agent) && shown["Gross"]["Currency"] == payout.currency
            };
            let shown = list(&listed["Items"]).iter().find(of).unwrap();
            payout.id = Some(id_of(&shown["Id"]));
            let amounts =
                ["Gross", "Withheld", "Net"].map(|member| shown[member]["AmountMinor"].as_i64().unwrap());
            assert_eq!(amounts, [payout.gross, payout.withheld, payout.gross - payout.withheld]);
            assert_eq!(shown["AccrualsCount"], payout.lines.len());
        }
    }

    async fn transition(&mut self, number: usize, to: usize) {
        // Selects one of the four newest payouts.
        let Some(at) = self.world.payouts.len().checked_sub(1 + number % 4) else { return };
        let transitions = [
            ("send", "InTransit", json!({})),
            ("confirm", "Paid", json!({})),
            ("confirm", "Paid", json!({"Reference": "7"})),
            ("fail", "Failed", json!({"Reason": "закрыт"})),
            ("cancel", "Cancelled", json!({})),
        ];
        let (operation, to, body) = transitions[to % transitions.len()].clone();
        let path = format!("{PLATFORM}/payouts/{}/{operation}", self.world.payouts[at].id.unwrap());
        let response = self.by(PAYOUTS).post(&path, body).await;
        let expected = self.world.transition(at, to);
        if let Some(shown) = self.check_response(response, 200, expected) {
            assert_eq!(shown["Status"], to);
        }
    }
}
