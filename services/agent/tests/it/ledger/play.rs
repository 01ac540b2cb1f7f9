//! A service and what the model says that it holds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::client::{Answer, Client};
use testkit::service::Running;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::model::{Amount, Change, Deal, Refused, Request, World};
use super::{Happening, MAX_LINES};
use crate::{
    CABINET, CANCELLED, COMMISSIONS, COMPLETED, CREATED, MY, PAYOUTS, PLATFORM, STAGE_CHANGED, eventually,
    guid, holder, id_of, in_days, list, money, tell,
};

const STATUSES: [&str; 8] =
    ["Application", "Booking", "Sale", "Sale", "Sale", "Completed", "Completed", "Cancelled"];
/// One that may be known one day.
const UNKNOWN: &str = "Frozen";
const AMOUNTS: [Amount; 4] = [(10_000, "RUB"), (12_350, "RUB"), (10_000, "RUB"), (777, "USD")];
const RATES: [Option<i64>; 4] = [Some(300), Some(10_000), Some(1_250), None];

pub struct Play<'s> {
    pub service: &'s Running,
    pub world: World,
    told: Vec<crate::Deal>,
    pub agents: Vec<Uuid>,
    /// Changes that are not told yet.
    late: BTreeMap<usize, (Change, Value)>,
    /// Everything that was told, by its topic.
    events: Vec<(&'static str, Value)>,
    since: OffsetDateTime,
    count: i64,
    /// The codes of refusals, so that nobody takes histories in which nothing happens for a proof.
    pub refused: BTreeSet<&'static str>,
}

/// Four deals of two agents, each of a developer of its own, one of whom nobody pays for.
pub async fn begin(service: &Running) -> Play<'_> {
    let agents = vec![guid(), guid()];
    let by = service.caller(&holder(guid(), &[COMMISSIONS]));
    let (mut told, mut deals) = (Vec::new(), Vec::new());
    for (at, rate) in RATES.into_iter().enumerate() {
        let deal = crate::Deal::new(agents[at % 2], guid(), money(AMOUNTS[0].0, AMOUNTS[0].1));
        if let Some(rate) = rate {
            let rates = json!([{"RateBps": rate, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
            let card = json!({"DeveloperCompanyId": deal.developer, "Rates": rates});
            by.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
        }
        deals.push(Deal { id: deal.id, rate, status: "Application", sale: None, applied: 0, known: 0 });
        told.push(deal);
    }
    let since = (runtime::clock::now() - Duration::days(200)).truncate_to_second();
    let world = World { deals, ..World::default() };
    let mut play = Play {
        service,
        world,
        told,
        agents,
        late: BTreeMap::new(),
        events: Vec::new(),
        since,
        count: 0,
        refused: BTreeSet::new(),
    };
    for at in 0..2 {
        let created = play.told[at].created(&play.at());
        play.tell(at, CREATED, created).await;
    }
    play
}

impl Play<'_> {
    /// Each event is of a later day.
    fn at(&self) -> String {
        (self.since + Duration::days(self.count)).format(&Rfc3339).unwrap()
    }

    pub fn by(&self, permission: &str) -> Client {
        self.service.caller(&holder(guid(), &[permission]))
    }

    async fn tell(&mut self, deal: usize, topic: &'static str, payload: Value) {
        let version = payload["RowVersion"].as_i64().unwrap();
        let known = &mut self.world.deals[deal].known;
        *known = version.max(*known);
        tell(self.service, topic, &payload).await;
        self.events.push((topic, payload));
    }

    pub async fn happen(&mut self, happening: &Happening) {
        self.count += 1;
        match happening {
            Happening::Changes { deal, to, amount, agent, late } => {
                self.change(*deal, *to, *amount, *agent, *late).await;
            }
            Happening::Repeats { event, anew } => self.repeat(*event, *anew).await,
            Happening::Rejects { accrual } => self.reject(*accrual).await,
            Happening::Reverses { accrual } => self.reverse(*accrual).await,
            Happening::Asks { accrual, amount } => self.ask(*accrual, *amount).await,
            Happening::Decides { request, amount, approves } => {
                self.decide(*request, *amount, *approves).await;
            }
            Happening::Runs { until, withholding } => self.run(*until, *withholding).await,
            Happening::Moves { payout, to } => self.move_payout(*payout, *to).await,
        }
        self.compare().await;
    }

    async fn change(&mut self, deal: usize, to: usize, amount: usize, agent: usize, late: bool) {
        if let Some((change, payload)) = self.late.remove(&deal) {
            self.tell(deal, STAGE_CHANGED, payload).await;
            return self.world.change(deal, &change);
        }
        let known = &self.world.deals[deal];
        let completed = known.sale.as_ref().filter(|sale| sale.completed.is_some());
        let mut to = if to == 63 { UNKNOWN } else { STATUSES[to % STATUSES.len()] };
        if to == "Completed" && completed.is_some() && known.status != "Completed" {
            to = "Cancelled";
        }
        let mut amount = AMOUNTS[amount % AMOUNTS.len()];
        if let Some(sale) = &known.sale
            && self
                .world
                .accruals
                .iter()
                .any(|one| one.deal == deal && one.sale == sale.version && one.adjusts.is_some())
        {
            // What was granted for it stays: it is completed at the same amount.
            amount = sale.amount;
        }
        let at = self.at();
        let told = &mut self.told[deal];
        told.amount = money(amount.0, amount.1);
        if agent == 7 {
            told.agent = None;
        } else if agent == 6 {
            told.agent = Some(self.agents[agent % 2]);
        } else if told.agent.is_none() {
            told.agent = Some(self.agents[deal % 2]);
        }
        let payload = told.moves(to, &at);
        let change = Change { to, version: told.row_version, agent: told.agent, amount, at: at.clone() };
        let beside = match to {
            "Cancelled" => Some((CANCELLED, told.cancelled(&at))),
            "Completed" => Some((COMPLETED, told.completed(&at))),
            _ => None,
        };
        if let Some((topic, beside)) = beside {
            self.tell(deal, topic, beside).await;
            if late {
                self.late.insert(deal, (change, payload));
                return;
            }
        }
        self.tell(deal, STAGE_CHANGED, payload).await;
        self.world.change(deal, &change);
    }

    async fn repeat(&mut self, event: usize, anew: bool) {
        let Some(at) = (!self.events.is_empty()).then(|| event % self.events.len()) else { return };
        let (topic, payload) = self.events[at].clone();
        if anew {
            tell(self.service, topic, &payload).await;
        } else {
            // As it was before those that came meanwhile: its sequence is not above theirs.
            let key = id_of(&payload["DealId"]);
            self.service.bus().publish(topic, key, 0, &payload).await;
            // What comes behind it has been taken, so this has been looked at.
            tell(self.service, topic, &payload).await;
        }
    }

    /// An accrual and its path.
    fn accrual(&self, number: usize) -> Option<(usize, String)> {
        let at = (!self.world.accruals.is_empty()).then(|| number % self.world.accruals.len())?;
        Some((at, format!("commission-accruals/{}", self.world.accruals[at].id.unwrap())))
    }

    fn hold(&mut self, answer: Answer, success: u16, expected: Result<(), Refused>) -> Option<Value> {
        match expected {
            Ok(()) => Some(answer.expect(success)),
            Err((status, code)) => {
                answer.expect_problem(status, code);
                self.refused.insert(code);
                None
            }
        }
    }

    async fn reject(&mut self, number: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let answer =
            self.by(COMMISSIONS).post(&format!("{PLATFORM}/{path}/reject"), json!({"Comment": "нет"})).await;
        let expected = self.world.reject(at);
        if let Some(shown) = self.hold(answer, 200, expected) {
            assert_eq!(
                (&shown["Status"], id_of(&shown["Id"])),
                (&json!("Rejected"), self.world.accruals[at].id.unwrap())
            );
        }
    }

    async fn reverse(&mut self, number: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let answer =
            self.by(COMMISSIONS).post(&format!("{PLATFORM}/{path}/reverse"), json!({"Comment": "нет"})).await;
        let expected = self.world.reverse(at).map(drop);
        if let Some(shown) = self.hold(answer, 200, expected) {
            assert_eq!(id_of(&shown["ReversesAccrualId"]), self.world.accruals[at].id.unwrap());
        }
    }

    async fn ask(&mut self, number: usize, amount: usize) {
        let Some((at, path)) = self.accrual(number) else { return };
        let accrual = self.world.accruals[at].clone();
        let whole = [0, accrual.amount / 2, accrual.base, accrual.base + 1, 50][amount % 5].max(0);
        let other = if accrual.currency == "RUB" { "USD" } else { "RUB" };
        let asked = match amount {
            0..12 => None,
            12..15 => Some((whole, other)),
            _ => Some((whole, accrual.currency)),
        };
        let reason = if self.world.requests.len().is_multiple_of(2) { "WrongAmount" } else { "MissingBonus" };
        let body = json!({
            "Reason": reason, "Comment": "мало", "RequestedAmount": asked.map(|(amount, currency)| money(amount, currency)),
        });
        let by = self.service.caller(&holder(accrual.agent, &[CABINET]));
        let answer = by.post(&format!("{MY}/{path}/adjustment-requests"), body).await;
        let expected = self.world.ask(at, asked);
        if let Some(shown) = self.hold(answer, 201, expected) {
            self.world.requests.push(Request {
                id: id_of(&shown["Id"]),
                accrual: at,
                requested: asked.map(|(amount, _)| amount),
                status: "Open",
                granted: None,
            });
        }
    }

    async fn decide(&mut self, number: usize, amount: usize, approves: bool) {
        // The newest ones rather.
        let Some(at) = self.world.requests.len().checked_sub(1 + number % 3) else { return };
        let request = self.world.requests[at].clone();
        let accrual = self.world.accruals[request.accrual].clone();
        let path = format!("{PLATFORM}/adjustment-requests/{}", request.id);
        let by = self.by(COMMISSIONS);
        let (answer, expected) = if approves {
            let whole = [accrual.base / 2, accrual.base, accrual.amount, 0, accrual.base + 1][amount % 5];
            let granted = (amount >= 20).then_some((whole, accrual.currency));
            let body = json!({"Amount": granted.map(|(amount, currency)| money(amount, currency))});
            (by.post(&format!("{path}/approve"), body).await, self.world.approve(at, granted))
        } else {
            (by.post(&format!("{path}/reject"), json!({"Comment": "нет"})).await, self.world.refuse(at))
        };
        if let Some(shown) = self.hold(answer, 200, expected) {
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
        let made = by.post(&format!("{PLATFORM}/payouts"), body).await.expect(201);
        let id = id_of(&made["Id"]);
        let path = format!("{PLATFORM}/payout-runs/{id}");
        let done = eventually("the run to be worked off", async || {
            let run = by.get(&path).await.expect(200);
            (run["Status"] == "Completed").then_some(run)
        });
        let done = done.await;
        let micros = i64::try_from(until.unix_timestamp_nanos() / 1_000).unwrap();
        let before = self.world.payouts.len();
        self.world.run(&self.agents.clone(), micros, withholding, MAX_LINES);
        assert_eq!(done["PayoutsCount"], self.world.payouts.len() - before);
        for total in list(&done["Totals"]) {
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

    async fn move_payout(&mut self, number: usize, to: usize) {
        // The newest ones rather.
        let Some(at) = self.world.payouts.len().checked_sub(1 + number % 4) else { return };
        let moves = [
            ("send", "InTransit", json!({})),
            ("confirm", "Paid", json!({})),
            ("confirm", "Paid", json!({"Reference": "7"})),
            ("fail", "Failed", json!({"Reason": "закрыт"})),
            ("cancel", "Cancelled", json!({})),
        ];
        let (operation, to, body) = moves[to % moves.len()].clone();
        let path = format!("{PLATFORM}/payouts/{}/{operation}", self.world.payouts[at].id.unwrap());
        let answer = self.by(PAYOUTS).post(&path, body).await;
        let expected = self.world.move_payout(at, to);
        if let Some(shown) = self.hold(answer, 200, expected) {
            assert_eq!(shown["Status"], to);
        }
    }
}
