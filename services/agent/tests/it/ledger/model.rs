//! The rules of the ledger as a model in memory.

use uuid::Uuid;

/// The status and the code of a problem.
pub type Refusal = (u16, &'static str);

const NOT_ADJUSTABLE: Refusal = (409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
const NOT_REJECTABLE: Refusal = (409, "AGENT_ACCRUAL_NOT_REJECTABLE");
const NOT_REVERSIBLE: Refusal = (409, "AGENT_ACCRUAL_NOT_REVERSIBLE");
const ALREADY_OPEN: Refusal = (409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
const ALREADY_DECIDED: Refusal = (409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
const AMOUNT_INVALID: Refusal = (422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");

/// An amount in minor units, and its currency.
pub type Amount = (i64, &'static str);

/// An accrual. Numbers of other entities are indexes into the lists of [`World`].
#[derive(Clone, Debug, PartialEq)]
pub struct Accrual {
    /// The id in the service, known after the first comparison.
    pub id: Option<Uuid>,
    pub deal: usize,
    pub agent: Uuid,
    /// Version of the deal when the sale began.
    pub sale: i64,
    pub kind: &'static str,
    /// Amount of the deal when the sale began.
    pub base: i64,
    /// Commission rate in basis points.
    pub rate: i64,
    pub amount: i64,
    pub currency: &'static str,
    pub status: &'static str,
    pub payout: Option<usize>,
    pub reverses: Option<usize>,
    pub adjusts: Option<usize>,
    /// Time of the event that caused the accrual, if any.
    pub earned_at: Option<String>,
    /// Time of the approval in microseconds, known after the first comparison.
    pub approved_at: i64,
    /// The statuses that were published, in order.
    pub published: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Sale {
    pub version: i64,
    pub amount: Amount,
    /// Amount at the completion.
    pub completed: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Deal {
    pub id: Uuid,
    /// Rate of its developer in basis points, if there is one.
    pub rate: Option<i64>,
    pub status: &'static str,
    pub sale: Option<Sale>,
    /// Version of the last stage change that the ledger has applied.
    pub applied: i64,
    /// Highest version of any event.
    pub known: i64,
}

/// A stage change.
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
    /// The accruals of the payout at its creation.
    pub lines: Vec<usize>,
}

#[derive(Debug, Default)]
pub struct World {
    pub deals: Vec<Deal>,
    pub accruals: Vec<Accrual>,
    pub requests: Vec<Request>,
    pub payouts: Vec<Payout>,
}

/// Returns the share of an amount at a rate in basis points, rounded half to even.
pub fn share(amount: i64, rate: i64) -> i64 {
    let product = i128::from(amount) * i128::from(rate);
    let (mut whole, rest) = (product / 10_000, product % 10_000);
    if rest > 5_000 || rest == 5_000 && whole % 2 == 1 {
        whole += 1;
    }
    i64::try_from(whole).unwrap()
}

impl World {
    /// Applies a stage change.
    pub fn change(&mut self, deal: usize, change: &Change) {
        if change.version <= self.deals[deal].applied {
            return;
        }
        let before = self.deals[deal].status;
        match change.to {
            "Sale" if self.deals[deal].sale.is_none() => self.begin(deal, change),
            "Completed" => {
                let sale = self.deals[deal].sale.clone();
                match sale {
                    Some(sale) if before != "Completed" && sale.amount.1 == change.amount.1 => {
                        self.complete(deal, change);
                    }
                    Some(_) if before == "Completed" => {}
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
            published: vec!["Pending"],
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
                published: vec!["Approved"],
                ..self.accruals[base].clone()
            });
        }
    }

    fn end(&mut self, deal: usize, at: &str) {
        let Some(sale) = self.deals[deal].sale.take() else { return };
        for accrual in self.of_sale(deal, sale.version) {
            if self.is_effective(accrual) {
                self.undo(accrual, Some(at.to_owned()));
            }
            self.reject_open_requests(accrual);
        }
    }

    fn of_sale(&self, deal: usize, version: i64) -> Vec<usize> {
        let of_sale = |at: &usize| self.accruals[*at].deal == deal && self.accruals[*at].sale == version;
        (0..self.accruals.len()).filter(of_sale).collect()
    }

    pub fn set(&mut self, at: usize, status: &'static str) {
        self.accruals[at].status = status;
        self.accruals[at].published.push(status);
    }

    pub fn reversal_of(&self, at: usize) -> Option<usize> {
        self.accruals.iter().position(|accrual| accrual.reverses == Some(at))
    }

    fn is_effective(&self, at: usize) -> bool {
        let accrual = &self.accruals[at];
        accrual.kind != "Reversal"
            && !matches!(accrual.status, "Rejected" | "Reversed")
            && self.reversal_of(at).is_none()
    }

    /// Returns an accrual and its adjustments, as far as they are effective.
    fn effective_with_adjustments(&self, at: usize) -> Vec<usize> {
        let is_related = |one: &usize| *one == at || self.accruals[*one].adjusts == Some(at);
        (0..self.accruals.len()).filter(is_related).filter(|one| self.is_effective(*one)).collect()
    }

    /// Returns true if the sale's other accruals do not exceed its amount without this adjustment.
    fn can_remove(&self, at: usize) -> bool {
        let Some(base) = self.accruals[at].adjusts else { return true };
        let rest = self.effective_with_adjustments(base).into_iter().filter(|one| *one != at);
        let rest: i64 = rest.map(|one| self.accruals[one].amount).sum();
        let sale = self.deals[self.accruals[at].deal].sale.as_ref();
        rest <= self.accruals[base].base.max(sale.and_then(|sale| sale.completed).unwrap_or(0))
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
            published: vec!["Approved"],
            ..original
        });
    }

    fn reject_open_requests(&mut self, accrual: usize) {
        for request in self.requests.iter_mut().filter(|request| request.accrual == accrual) {
            if request.status == "Open" {
                request.status = "Rejected";
            }
        }
    }

    pub fn reject(&mut self, at: usize) -> Result<(), Refusal> {
        if self.accruals[at].status == "Rejected" {
            return Ok(());
        }
        let all = self.effective_with_adjustments(at);
        let is_in_payout = all.iter().any(|one| self.accruals[*one].payout.is_some());
        if !all.contains(&at) || is_in_payout || !self.can_remove(at) {
            return Err(NOT_REJECTABLE);
        }
        for one in all {
            self.set(one, "Rejected");
            self.reject_open_requests(one);
        }
        Ok(())
    }

    /// Reverses an accrual, and returns its Reversal.
    pub fn reverse(&mut self, at: usize) -> Result<usize, Refusal> {
        if let Some(reversal) = self.reversal_of(at) {
            return Ok(reversal);
        }
        let is_in_payout = self.accruals[at].payout.is_some();
        if self.accruals[at].kind == "Reversal" || !is_in_payout || !self.can_remove(at) {
            return Err(NOT_REVERSIBLE);
        }
        for one in self.effective_with_adjustments(at) {
            self.undo(one, None);
            self.reject_open_requests(one);
        }
        Ok(self.reversal_of(at).unwrap())
    }

    fn check_whole_amount(&self, at: usize, amount: Amount) -> Result<i64, Refusal> {
        let accrual = &self.accruals[at];
        let fits = amount.1 == accrual.currency && amount.0 <= accrual.base;
        if fits { Ok(amount.0) } else { Err(AMOUNT_INVALID) }
    }

    pub fn check_request(&self, at: usize, amount: Option<Amount>) -> Result<(), Refusal> {
        let accrual = &self.accruals[at];
        if accrual.kind != "Base" || !self.is_effective(at) || accrual.status == "Paid" {
            return Err(NOT_ADJUSTABLE);
        }
        if self.requests.iter().any(|request| request.accrual == at && request.status == "Open") {
            return Err(ALREADY_OPEN);
        }
        amount.map_or(Ok(()), |amount| self.check_whole_amount(at, amount).map(drop))
    }

    pub fn approve(&mut self, request: usize, amount: Option<Amount>) -> Result<(), Refusal> {
        let Request { accrual: at, requested, status, .. } = self.requests[request];
        if status != "Open" {
            return Err(ALREADY_DECIDED);
        }
        let accrual = self.accruals[at].clone();
        let amount = amount.or(requested.map(|amount| (amount, accrual.currency))).ok_or(AMOUNT_INVALID)?;
        let granted = self.check_whole_amount(at, amount)?;
        let sum: i64 =
            self.effective_with_adjustments(at).into_iter().map(|one| self.accruals[one].amount).sum();
        if granted == sum {
            return Err(AMOUNT_INVALID);
        }
        let status = if accrual.status == "Pending" { "Pending" } else { "Approved" };
        self.accruals.push(Accrual {
            id: None,
            // The driver files every second request about a bonus.
            kind: if request.is_multiple_of(2) { "Correction" } else { "Bonus" },
            amount: granted - sum,
            status,
            payout: None,
            adjusts: Some(at),
            earned_at: None,
            published: vec![status],
            ..accrual
        });
        (self.requests[request].status, self.requests[request].granted) = ("Approved", Some(granted));
        Ok(())
    }

    pub fn reject_request(&mut self, request: usize) -> Result<(), Refusal> {
        if self.requests[request].status != "Open" {
            return Err(ALREADY_DECIDED);
        }
        self.requests[request].status = "Rejected";
        Ok(())
    }
}
