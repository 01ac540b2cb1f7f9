//! The effect of a stage change on the sale of a deal and on its accruals.

use auth::UserId;
use time::OffsetDateTime;
use values::Money;

use super::{
    AccountKey, Accrual, AccrualId, AccrualKind, AccrualStatus, ApprovalLimit, Deal, DealStatus, Entry,
    MissingTerm, Overflow, Sale, SaleRate, StageChange, Undo,
};

#[cfg(test)]
mod tests;

/// A change of a sale that a stage change of the deal causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleTransition {
    Begin,
    Complete,
    End,
}

/// The effect of a stage change on the ledger.
#[derive(Debug, Default)]
pub struct Posting {
    pub entries: Vec<Entry>,
    /// The accruals that were effective in a sale that ended. Requests about them are closed.
    pub ended: Vec<AccrualId>,
}

impl Deal {
    /// Returns the transitions of the sale that a stage change causes (RULE-AGT-001).
    ///
    /// The stored status may be an unknown one, so `sale_row_version` decides whether a sale is
    /// active.
    pub fn sale_transitions(&self, change: &StageChange) -> &'static [SaleTransition] {
        let has_sale = self.sale_row_version.is_some();
        match change.to {
            DealStatus::Sale if !has_sale => &[SaleTransition::Begin],
            DealStatus::Completed if !has_sale => &[SaleTransition::Begin, SaleTransition::Complete],
            DealStatus::Completed if self.completed_at.is_some() => &[],
            DealStatus::Completed if self.sale_currency != Some(change.amount.currency) => {
                &[SaleTransition::End, SaleTransition::Begin, SaleTransition::Complete]
            }
            DealStatus::Completed => &[SaleTransition::Complete],
            DealStatus::Application | DealStatus::Booking | DealStatus::Cancelled if has_sale => {
                &[SaleTransition::End]
            }
            _ => &[],
        }
    }

    /// Returns the accounts that the transitions may change.
    pub fn affected_accounts(
        &self,
        transitions: &[SaleTransition],
        change: &StageChange,
    ) -> impl Iterator<Item = AccountKey> + use<> {
        let begins = transitions.contains(&SaleTransition::Begin);
        let new_agent = change.agent_user_id.filter(|_| begins);
        self.sale_account().into_iter().chain(new_agent.map(|agent| (agent, change.amount.currency)))
    }

    /// Returns the account of the active sale.
    pub fn sale_account(&self) -> Option<AccountKey> {
        self.sale_agent_user_id.zip(self.sale_currency)
    }

    /// Applies the transitions of a change.
    ///
    /// `sale` has the accruals of the active sale, and is updated with the change.
    /// `rate` is the rate of the change's agent at the time of the change.
    pub fn apply(
        &mut self,
        transitions: &[SaleTransition],
        change: &StageChange,
        sale: &mut Sale,
        rate: Option<SaleRate>,
        limit: ApprovalLimit,
        now: OffsetDateTime,
    ) -> Result<Posting, Overflow> {
        let mut posting = Posting::default();
        for transition in transitions {
            match transition {
                SaleTransition::Begin => {
                    self.begin(change);
                    let base = rate.and_then(|rate| self.create_base(rate, now)).transpose()?;
                    self.is_unrated = base.is_none() && self.sale_agent_user_id.is_some();
                    let begun: Vec<_> = base.map(Entry::added).into_iter().collect();
                    sale.record(&begun);
                    posting.entries.extend(begun);
                }
                SaleTransition::Complete => {
                    self.completed_at = Some(change.at);
                    self.completed_amount = Some(change.amount.amount_minor);
                    let amount = change.amount.amount_minor;
                    let completed = sale.complete(amount, change.at, limit, now)?;
                    sale.record(&completed);
                    posting.entries.extend(completed);
                }
                SaleTransition::End => {
                    self.end();
                    let ended = std::mem::take(sale);
                    posting.ended.extend(ended.effective().map(|accrual| accrual.id));
                    posting.entries.extend(ended.end(change.at, now)?);
                }
            }
        }
        self.applied_row_version = change.row_version;
        Ok(posting)
    }

    /// Returns the term without which the active sale has no accrual (RULE-AGT-068). Returns `None`
    /// if no sale is active or nothing is missing.
    pub fn missing_term(&self) -> Option<MissingTerm> {
        match self.sale_agent_user_id {
            None => self.sale_row_version.map(|_| MissingTerm::Agent),
            Some(_) => self.is_unrated.then_some(MissingTerm::Rate),
        }
    }

    /// Assigns the active sale, which lacks an agent or a rate.
    ///
    /// [`accrue`](Self::accrue) returns its entries.
    pub fn assign(&mut self, agent: UserId) {
        self.is_agent_assigned |= self.sale_agent_user_id.is_none();
        self.sale_agent_user_id = Some(agent);
        self.is_unrated = false;
    }

    /// Returns the entries that the active sale gets at `rate`, or none if it has no agent.
    ///
    /// The sale must not have accruals yet.
    pub fn accrue(
        &self,
        rate: SaleRate,
        limit: ApprovalLimit,
        now: OffsetDateTime,
    ) -> Result<Vec<Entry>, Overflow> {
        let Some(base) = self.create_base(rate, now).transpose()? else { return Ok(Vec::new()) };
        let mut entries = vec![Entry::added(base.clone())];
        if let Some((at, amount)) = self.completed_at.zip(self.completed_amount) {
            entries.extend(Sale::new(vec![base]).complete(amount, at, limit, now)?);
        }
        Ok(entries)
    }

    fn begin(&mut self, change: &StageChange) {
        self.sale_row_version = Some(change.row_version);
        self.sold_at = Some(change.at);
        self.sale_agent_user_id = change.agent_user_id;
        self.sale_amount = Some(change.amount.amount_minor);
        self.sale_currency = Some(change.amount.currency);
    }

    fn end(&mut self) {
        self.sale_row_version = None;
        self.sold_at = None;
        self.sale_agent_user_id = None;
        self.sale_amount = None;
        self.sale_currency = None;
        self.completed_at = None;
        self.completed_amount = None;
        self.is_unrated = false;
        self.is_agent_assigned = false;
    }

    /// Creates the Base of the active sale, or returns `None` without an agent.
    fn create_base(&self, rate: SaleRate, now: OffsetDateTime) -> Option<Result<Accrual, Overflow>> {
        let (agent, currency) = self.sale_account()?;
        let (sale_row_version, sold_at) = self.sale_row_version.zip(self.sold_at)?;
        let amount = Money { amount_minor: self.sale_amount?, currency };
        let earned = amount.share(rate.share).ok_or(Overflow);
        Some(earned.map(|earned| Accrual {
            id: AccrualId::generate(),
            agent_user_id: agent,
            deal_id: self.id,
            sale_row_version,
            property_object_id: self.property_object_id,
            developer_company_id: self.developer_company_id,
            kind: AccrualKind::Base,
            base_amount: amount.amount_minor,
            rate_bps: rate.share.0.cast_signed(),
            amount: earned.amount_minor,
            currency,
            status: AccrualStatus::Pending,
            payout_id: None,
            reverses_accrual_id: None,
            adjusts_accrual_id: None,
            earned_at: sold_at,
            approved_at: None,
            paid_at: None,
            created_at: now,
            updated_at: now,
            is_self_rated: rate.is_set_by_agent,
            awaits_release: false,
            released_by_user_id: None,
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
        }))
    }
}

impl Sale {
    /// Approves the Pending accruals up to `limit`, and corrects the Base if the amount has
    /// changed.
    ///
    /// The other Pending accruals await their release (INV-AGT-9). If the Base awaits a release,
    /// its adjustments do, too. A Base with an effective adjustment is not corrected, because the
    /// platform has decided its amount.
    fn complete(
        &self,
        amount: i64,
        at: OffsetDateTime,
        limit: ApprovalLimit,
        now: OffsetDateTime,
    ) -> Result<Vec<Entry>, Overflow> {
        let pending = || self.effective().filter(|accrual| accrual.status == AccrualStatus::Pending);
        let base = pending().find(|accrual| accrual.kind == AccrualKind::Base);
        let base_awaits_release = base.is_some_and(|base| base.requires_release(limit));
        let completed = pending().map(|before| {
            let after = Accrual { updated_at: now.max(before.updated_at), ..before.clone() };
            let awaits_release = base_awaits_release || before.requires_release(limit);
            Entry::changed(before, after.with_completion(awaits_release, at))
        });
        let mut entries: Vec<_> = completed.collect();
        if let Some(base) = base
            && self.effective_with_adjustments(base.id).count() == 1
        {
            let whole = Money { amount_minor: amount, currency: base.currency }.share(base.rate());
            let whole = whole.ok_or(Overflow)?.amount_minor;
            let difference = whole.checked_sub(base.amount).ok_or(Overflow)?;
            if difference != 0 {
                // The whole amount is compared, too. Otherwise a Base and a Correction could each
                // be within the limit and together exceed it without a release.
                let awaits_release =
                    base_awaits_release || limit.is_below(difference) || limit.is_below(whole);
                let correction = base.new_adjustment(AccrualKind::Correction, difference, now);
                let correction = Accrual { earned_at: at, ..correction };
                entries.push(Entry::added(correction.with_completion(awaits_release, at)));
            }
        }
        Ok(entries)
    }

    /// Undoes every effective accrual.
    fn end(&self, at: OffsetDateTime, now: OffsetDateTime) -> Result<Vec<Entry>, Overflow> {
        let undone = self.effective().map(|before| {
            Ok(match before.undo(at, now)? {
                Undo::MarkReversed(after) => Entry::changed(before, after),
                Undo::AddReversal(reversal) => Entry::added(reversal),
            })
        });
        undone.collect()
    }
}
