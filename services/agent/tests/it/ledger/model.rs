//! The rules of the ledger, in plain memory.

use uuid::Uuid;

pub type Refused = (u16, &'static str);

const NOT_ADJUSTABLE: Refused = (409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
const NOT_REJECTABLE: Refused = (409, "AGENT_ACCRUAL_NOT_REJECTABLE");
const NOT_REVERSIBLE: Refused = (409, "AGENT_ACCRUAL_NOT_REVERSIBLE");
const ALREADY_OPEN: Refused = (409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
const ALREADY_DECIDED: Refused = (409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
const AMOUNT_INVALID: Refused = (422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");

/// So much of a currency.
pub type Amount = (i64, &'static str);

#[derive(Clone, Debug, PartialEq)]
pub struct Accrual {
    /// Once the service has told.
    pub id: Option<Uuid>,
    pub deal: usize,
    pub agent: Uuid,
    pub sale: i64,
    pub kind: &'static str,
    pub base: i64,
    pub rate: i64,
    pub amount: i64,
    pub currency: &'static str,
    pub status: &'static str,
    pub payout: Option<usize>,
    pub reverses: Option<usize>,
    pub adjusts: Option<usize>,
    /// As the event has it that caused it, where one did.
    pub earned_at: Option<String>,
    /// In microseconds, once the service has told.
    pub approved_at: i64,
    /// What it was told as, in order.
    pub told: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Sale {
    pub version: i64,
    pub amount: Amount,
    pub completed: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Deal {
    pub id: Uuid,
    /// What its developer pays, in basis points; nothing is known of a rate where it is `None`.
    pub rate: Option<i64>,
    pub status: &'static str,
    pub sale: Option<Sale>,
    pub applied: i64,
    pub known: i64,
}

/// A change as `deal-stage-changed` tells of it.
#[derive(Clone, Debug)]
pub struct Change {
    pub to: &'static str,
    pub version: i64,
    pub agent: Option<Uuid>,
    pub amount: Amount,
    pub at: String,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub id: Uuid,
    pub accrual: usize,
    pub requested: Option<i64>,
    pub status: &'static str,
    pub granted: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Payout {
    pub id: Option<Uuid>,
    pub agent: Uuid,
    pub currency: &'static str,
    pub gross: i64,
    pub withheld: i64,
    pub status: &'static str,
    /// What was in it when it was made.
    pub lines: Vec<usize>,
}

#[derive(Debug, Default)]
pub struct World {
    pub deals: Vec<Deal>,
    pub accruals: Vec<Accrual>,
    pub requests: Vec<Request>,
    pub payouts: Vec<Payout>,
}

/// To the nearest, halves to even.
pub fn share(amount: i64, rate: i64) -> i64 {
    let product = i128::from(amount) * i128::from(rate);
    let (mut whole, rest) = (product / 10_000, product % 10_000);
    if rest > 5_000 || rest == 5_000 && whole % 2 == 1 {
        whole += 1;
    }
    i64::try_from(whole).unwrap()
}

impl World {
    /// One event of the stage changes, in whatever order others come.
    pub fn change(&mut self, deal: usize, change: &Change) {
        if change.version <= self.deals[deal].applied {
            return;
        }
        let stood = self.deals[deal].status;
        match change.to {
            "Sale" if self.deals[deal].sale.is_none() => self.begin(deal, change),
            "Completed" => {
                let sale = self.deals[deal].sale.clone();
                match sale {
                    Some(sale) if stood != "Completed" && sale.amount.1 == change.amount.1 => {
                        self.complete(deal, change);
                    }
                    Some(_) if stood == "Completed" => {}
                    _ => {
                        self.end(deal, &change.at);
                        self.begin(deal, change);
                        self.complete(deal, change);
                    }
                }
            }
            "Application" | "Booking" | "Cancelled" => self.end(deal, &change.at),
            _ => {}
        }
        let deal = &mut self.deals[deal];
        (deal.status, deal.applied) = (change.to, change.version);
        deal.known = deal.known.max(change.version);
    }

    fn begin(&mut self, deal: usize, change: &Change) {
        let (amount, currency) = change.amount;
        self.deals[deal].sale =
            Some(Sale { version: change.version, amount: change.amount, completed: None });
        let (Some(agent), Some(rate)) = (change.agent, self.deals[deal].rate) else { return };
        self.accruals.push(Accrual {
            id: None,
            deal,
            agent,
            sale: change.version,
            kind: "Base",
            base: amount,
            rate,
            amount: share(amount, rate),
            currency,
            status: "Pending",
            payout: None,
            reverses: None,
            adjusts: None,
            earned_at: Some(change.at.clone()),
            approved_at: 0,
            told: vec!["Pending"],
        });
    }

    fn complete(&mut self, deal: usize, change: &Change) {
        let sale = self.deals[deal].sale.as_mut().unwrap();
        sale.completed = Some(change.amount.0);
        let version = sale.version;
        for at in self.of_sale(deal, version) {
            if self.accruals[at].status == "Pending" {
                self.set(at, "Approved");
            }
        }
        let base = self.of_sale(deal, version).into_iter().find(|at| self.accruals[*at].kind == "Base");
        let Some(base) = base.filter(|base| self.accruals[*base].status == "Approved") else { return };
        let granted = self.accruals.iter().any(|accrual| accrual.adjusts == Some(base));
        let difference = share(change.amount.0, self.accruals[base].rate) - self.accruals[base].amount;
        if !granted && difference != 0 {
            let earned_at = Some(change.at.clone());
            self.accruals.push(Accrual {
                id: None,
                kind: "Correction",
                amount: difference,
                adjusts: Some(base),
                earned_at,
                told: vec!["Approved"],
                ..self.accruals[base].clone()
            });
        }
    }

    fn end(&mut self, deal: usize, at: &str) {
        let Some(sale) = self.deals[deal].sale.take() else { return };
        for accrual in self.of_sale(deal, sale.version) {
            if self.stands(accrual) {
                self.undo(accrual, Some(at.to_owned()));
            }
            self.close(accrual);
        }
    }

    fn of_sale(&self, deal: usize, version: i64) -> Vec<usize> {
        let of_sale = |at: &usize| self.accruals[*at].deal == deal && self.accruals[*at].sale == version;
        (0..self.accruals.len()).filter(of_sale).collect()
    }

    pub fn set(&mut self, at: usize, status: &'static str) {
        self.accruals[at].status = status;
        self.accruals[at].told.push(status);
    }

    pub fn reversal_of(&self, at: usize) -> Option<usize> {
        self.accruals.iter().position(|accrual| accrual.reverses == Some(at))
    }

    /// It counts, and nothing has undone it.
    fn stands(&self, at: usize) -> bool {
        let accrual = &self.accruals[at];
        accrual.kind != "Reversal"
            && !matches!(accrual.status, "Rejected" | "Reversed")
            && self.reversal_of(at).is_none()
    }

    /// It and what adjusts it, as far as they stand.
    fn standing_with(&self, at: usize) -> Vec<usize> {
        let of_it = |one: &usize| *one == at || self.accruals[*one].adjusts == Some(at);
        (0..self.accruals.len()).filter(of_it).filter(|one| self.stands(*one)).collect()
    }

    /// What is left without one that adjusts another is no more than the whole sale.
    fn can_lose(&self, at: usize) -> bool {
        let Some(base) = self.accruals[at].adjusts else { return true };
        let left = self.standing_with(base).into_iter().filter(|one| *one != at);
        let left: i64 = left.map(|one| self.accruals[one].amount).sum();
        let sale = self.deals[self.accruals[at].deal].sale.as_ref();
        left <= self.accruals[base].base.max(sale.and_then(|sale| sale.completed).unwrap_or(0))
    }

    fn undo(&mut self, at: usize, earned_at: Option<String>) {
        if self.accruals[at].payout.is_none() {
            return self.set(at, "Reversed");
        }
        let original = self.accruals[at].clone();
        self.accruals.push(Accrual {
            id: None,
            kind: "Reversal",
            amount: -original.amount,
            status: "Approved",
            payout: None,
            reverses: Some(at),
            adjusts: None,
            earned_at,
            told: vec!["Approved"],
            ..original
        });
    }

    fn close(&mut self, accrual: usize) {
        for request in self.requests.iter_mut().filter(|request| request.accrual == accrual) {
            if request.status == "Open" {
                request.status = "Rejected";
            }
        }
    }

    pub fn reject(&mut self, at: usize) -> Result<(), Refused> {
        if self.accruals[at].status == "Rejected" {
            return Ok(());
        }
        let all = self.standing_with(at);
        let is_paid = all.iter().any(|one| self.accruals[*one].payout.is_some());
        if !all.contains(&at) || is_paid || !self.can_lose(at) {
            return Err(NOT_REJECTABLE);
        }
        for one in all {
            self.set(one, "Rejected");
            self.close(one);
        }
        Ok(())
    }

    /// Which one undoes it.
    pub fn reverse(&mut self, at: usize) -> Result<usize, Refused> {
        if let Some(reversal) = self.reversal_of(at) {
            return Ok(reversal);
        }
        let is_in_payout = self.accruals[at].payout.is_some();
        if self.accruals[at].kind == "Reversal" || !is_in_payout || !self.can_lose(at) {
            return Err(NOT_REVERSIBLE);
        }
        for one in self.standing_with(at) {
            self.undo(one, None);
            self.close(one);
        }
        Ok(self.reversal_of(at).unwrap())
    }

    fn grantable(&self, at: usize, amount: Amount) -> Result<i64, Refused> {
        let accrual = &self.accruals[at];
        let fits = amount.1 == accrual.currency && amount.0 <= accrual.base;
        if fits { Ok(amount.0) } else { Err(AMOUNT_INVALID) }
    }

    pub fn ask(&self, at: usize, amount: Option<Amount>) -> Result<(), Refused> {
        let accrual = &self.accruals[at];
        if accrual.kind != "Base" || !self.stands(at) || accrual.status == "Paid" {
            return Err(NOT_ADJUSTABLE);
        }
        if self.requests.iter().any(|request| request.accrual == at && request.status == "Open") {
            return Err(ALREADY_OPEN);
        }
        amount.map_or(Ok(()), |amount| self.grantable(at, amount).map(drop))
    }

    pub fn approve(&mut self, request: usize, amount: Option<Amount>) -> Result<(), Refused> {
        let Request { accrual: at, requested, status, .. } = self.requests[request];
        if status != "Open" {
            return Err(ALREADY_DECIDED);
        }
        let accrual = self.accruals[at].clone();
        let amount = amount.or(requested.map(|amount| (amount, accrual.currency))).ok_or(AMOUNT_INVALID)?;
        let granted = self.grantable(at, amount)?;
        let sum: i64 = self.standing_with(at).into_iter().map(|one| self.accruals[one].amount).sum();
        if granted == sum {
            return Err(AMOUNT_INVALID);
        }
        let status = if accrual.status == "Pending" { "Pending" } else { "Approved" };
        self.accruals.push(Accrual {
            id: None,
            // Every other request is about a bonus.
            kind: if request.is_multiple_of(2) { "Correction" } else { "Bonus" },
            amount: granted - sum,
            status,
            payout: None,
            adjusts: Some(at),
            earned_at: None,
            told: vec![status],
            ..accrual
        });
        (self.requests[request].status, self.requests[request].granted) = ("Approved", Some(granted));
        Ok(())
    }

    pub fn refuse(&mut self, request: usize) -> Result<(), Refused> {
        if self.requests[request].status != "Open" {
            return Err(ALREADY_DECIDED);
        }
        self.requests[request].status = "Rejected";
        Ok(())
    }
}
