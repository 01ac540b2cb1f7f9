//! The accruals of one sale, and the rules by which they are undone.

use auth::UserId;
use time::OffsetDateTime;
use values::{Code, Money};

use super::{Accrual, AccrualId, AccrualKind, AccrualStatus, Entry, Overflow};
use crate::error::{
    ACCRUAL_NOT_ADJUSTABLE, ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_RELEASABLE,
    ACCRUAL_NOT_REVERSIBLE, ADJUSTMENT_AMOUNT_INVALID,
};

#[cfg(test)]
mod tests;

/// The accruals of one sale: its Base, the adjustments, and the Reversals of any of them.
#[derive(Clone, Debug, Default)]
pub struct Sale(Vec<Accrual>);

/// The way in which an accrual is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// An accrual in no payout becomes Reversed.
    MarkReversed(Accrual),
    /// An accrual in a payout stays, and gets this Reversal.
    AddReversal(Accrual),
}

impl Sale {
    pub fn new(accruals: Vec<Accrual>) -> Self {
        Self(accruals)
    }

    /// Adds and replaces the accruals of entries.
    pub fn record(&mut self, entries: &[Entry]) {
        for Entry { after, .. } in entries {
            match self.0.iter_mut().find(|accrual| accrual.id == after.id) {
                Some(accrual) => accrual.clone_from(after),
                None => self.0.push(after.clone()),
            }
        }
    }

    pub fn find(&self, id: AccrualId) -> Option<&Accrual> {
        self.0.iter().find(|accrual| accrual.id == id)
    }

    /// Returns the Base, if there is one.
    pub fn base(&self) -> Option<&Accrual> {
        self.0.iter().find(|accrual| accrual.kind == AccrualKind::Base)
    }

    pub fn reversal_of(&self, id: AccrualId) -> Option<&Accrual> {
        self.0.iter().find(|accrual| accrual.reverses_accrual_id == Some(id))
    }

    /// Returns the effective accruals: counted, not a Reversal, and not undone by one.
    pub fn effective(&self) -> impl Iterator<Item = &Accrual> {
        let is_effective = |accrual: &&Accrual| {
            accrual.is_counted()
                && accrual.kind != AccrualKind::Reversal
                && self.reversal_of(accrual.id).is_none()
        };
        self.0.iter().filter(is_effective)
    }

    /// Returns the effective ones among an accrual and its adjustments.
    pub fn effective_with_adjustments(&self, id: AccrualId) -> impl Iterator<Item = &Accrual> {
        self.effective().filter(move |accrual| accrual.id == id || accrual.adjusts_accrual_id == Some(id))
    }

    /// Returns the effective sum of an accrual and its adjustments.
    pub fn effective_sum(&self, id: AccrualId) -> i128 {
        self.effective_with_adjustments(id).map(|accrual| i128::from(accrual.amount)).sum()
    }

    /// Returns true if the sale would satisfy INV-AGT-4 without this accrual. A Base is removed
    /// with its adjustments, so no sum remains.
    ///
    /// The remaining sum must not exceed the Base's `BaseAmount` or the `completed` amount of the
    /// deal, whichever is greater.
    fn can_remove(&self, accrual: &Accrual, completed: Option<i64>) -> bool {
        let Some(base) = accrual.adjusts_accrual_id.and_then(|id| self.find(id)) else { return true };
        let limit = base.base_amount.max(completed.unwrap_or_default());
        self.effective_sum(base.id) - i128::from(accrual.amount) <= i128::from(limit)
    }

    /// Returns the accruals to reject together: this one and its adjustments.
    ///
    /// `completed` is the amount of the deal at its completion.
    ///
    /// # Errors
    /// - [`ACCRUAL_NOT_FOUND`] if the accrual is not of this sale.
    /// - [`ACCRUAL_NOT_REJECTABLE`] if it is not effective or is in a payout, or if the remaining
    ///   sum would be too high (INV-AGT-4).
    pub fn find_rejectable(&self, id: AccrualId, completed: Option<i64>) -> Result<Vec<&Accrual>, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let all: Vec<_> = self.effective_with_adjustments(id).collect();
        let is_in_no_payout = all.iter().all(|one| one.payout_id.is_none());
        let is_rejectable = is_in_no_payout && all.contains(&accrual) && self.can_remove(accrual, completed);
        if is_rejectable { Ok(all) } else { Err(ACCRUAL_NOT_REJECTABLE) }
    }

    /// Returns the accruals to undo together: this one and its adjustments. The caller has checked
    /// that this accrual has no Reversal.
    ///
    /// `completed` is the amount of the deal at its completion.
    ///
    /// # Errors
    /// - [`ACCRUAL_NOT_FOUND`] if the accrual is not of this sale.
    /// - [`ACCRUAL_NOT_REVERSIBLE`] if it is a Reversal or is in no payout, or if the remaining sum
    ///   would be too high (INV-AGT-4).
    pub fn find_reversible(&self, id: AccrualId, completed: Option<i64>) -> Result<Vec<&Accrual>, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let is_reversible = accrual.kind != AccrualKind::Reversal
            && accrual.payout_id.is_some()
            && self.can_remove(accrual, completed);
        if is_reversible {
            Ok(self.effective_with_adjustments(id).collect())
        } else {
            Err(ACCRUAL_NOT_REVERSIBLE)
        }
    }

    /// Returns the accruals to release together: all accruals of the sale that await their release.
    ///
    /// Returns an empty list if the accrual is Approved or Paid after an earlier release or grant.
    ///
    /// # Errors
    /// - [`ACCRUAL_NOT_FOUND`] if the accrual is not of this sale.
    /// - [`ACCRUAL_NOT_RELEASABLE`] if it does not await its release.
    pub fn find_releasable(&self, id: AccrualId) -> Result<Vec<&Accrual>, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        if accrual.awaits_release {
            return Ok(self.0.iter().filter(|one| one.awaits_release).collect());
        }
        let is_released = accrual.released_by_user_id.is_some()
            && matches!(accrual.status, AccrualStatus::Approved | AccrualStatus::Paid);
        if is_released { Ok(Vec::new()) } else { Err(ACCRUAL_NOT_RELEASABLE) }
    }

    /// Returns an accrual if its agent may file a request about it.
    ///
    /// # Errors
    /// - [`ACCRUAL_NOT_FOUND`] if the accrual is not of this sale.
    /// - [`ACCRUAL_NOT_ADJUSTABLE`] if it is not a Base, has a Reversal, or is Rejected or
    ///   Reversed. A Paid one is also refused unless `disputes_paid` is true.
    pub fn find_adjustable(&self, id: AccrualId, disputes_paid: bool) -> Result<&Accrual, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let is_open = match accrual.status {
            AccrualStatus::Pending | AccrualStatus::Approved => true,
            AccrualStatus::Paid => disputes_paid,
            AccrualStatus::Rejected | AccrualStatus::Reversed => false,
        };
        let is_adjustable = accrual.kind == AccrualKind::Base && is_open && self.reversal_of(id).is_none();
        if is_adjustable { Ok(accrual) } else { Err(ACCRUAL_NOT_ADJUSTABLE) }
    }
}

impl Accrual {
    /// Undoes the accrual. `at` is the time of the event that causes it.
    ///
    /// # Errors
    /// [`Overflow`] if the amount cannot be negated.
    pub fn undo(&self, at: OffsetDateTime, now: OffsetDateTime) -> Result<Undo, Overflow> {
        if self.payout_id.is_none() {
            let updated_at = now.max(self.updated_at);
            return Ok(Undo::MarkReversed(Self {
                status: AccrualStatus::Reversed,
                awaits_release: false,
                updated_at,
                ..self.clone()
            }));
        }
        Ok(Undo::AddReversal(Self {
            id: AccrualId::generate(),
            kind: AccrualKind::Reversal,
            amount: self.amount.checked_neg().ok_or(Overflow)?,
            status: AccrualStatus::Approved,
            payout_id: None,
            reverses_accrual_id: Some(self.id),
            adjusts_accrual_id: None,
            earned_at: at,
            approved_at: Some(at),
            paid_at: None,
            created_at: now,
            updated_at: now,
            awaits_release: false,
            released_by_user_id: None,
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
            ..self.clone()
        }))
    }

    /// Returns the accrual after the completion of its sale at `at`: Approved, or Pending until its
    /// release.
    #[must_use]
    pub fn with_completion(self, awaits_release: bool, at: OffsetDateTime) -> Self {
        let status = if awaits_release { AccrualStatus::Pending } else { AccrualStatus::Approved };
        Self { status, awaits_release, approved_at: (!awaits_release).then_some(at), ..self }
    }

    /// Returns the accrual after its release.
    #[must_use]
    pub fn with_release(&self, by: UserId, now: OffsetDateTime) -> Self {
        let now = now.max(self.updated_at);
        Self {
            status: AccrualStatus::Approved,
            awaits_release: false,
            released_by_user_id: Some(by),
            approved_at: Some(now),
            updated_at: now,
            ..self.clone()
        }
    }

    /// Checks a whole amount for the accrual, and returns it in minor units.
    ///
    /// # Errors
    /// [`ADJUSTMENT_AMOUNT_INVALID`] if the currency differs, or the amount is not in
    /// 0..=`BaseAmount`.
    pub fn check_whole_amount(&self, whole: Money) -> Result<i64, Code> {
        let is_within =
            whole.currency == self.currency && (0..=self.base_amount).contains(&whole.amount_minor);
        if is_within { Ok(whole.amount_minor) } else { Err(ADJUSTMENT_AMOUNT_INVALID) }
    }

    /// Creates an adjustment of this accrual. The adjustment is Pending if this accrual is, and
    /// otherwise Approved. If this accrual awaits a release, the adjustment does, too.
    pub fn new_adjustment(&self, kind: AccrualKind, amount: i64, now: OffsetDateTime) -> Self {
        let is_pending = self.status == AccrualStatus::Pending;
        Self {
            id: AccrualId::generate(),
            kind,
            amount,
            status: if is_pending { AccrualStatus::Pending } else { AccrualStatus::Approved },
            payout_id: None,
            reverses_accrual_id: None,
            adjusts_accrual_id: Some(self.id),
            earned_at: now,
            approved_at: (!is_pending).then_some(now),
            paid_at: None,
            created_at: now,
            updated_at: now,
            released_by_user_id: None,
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
            ..self.clone()
        }
    }
}
