//! All accruals of one sale, and how what stands of it is undone.

use time::OffsetDateTime;
use values::{Code, Money};

use super::{Accrual, AccrualId, AccrualKind, AccrualStatus, Overflow};
use crate::error::{
    ACCRUAL_NOT_ADJUSTABLE, ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_REVERSIBLE,
    ADJUSTMENT_AMOUNT_INVALID,
};

/// The accruals of one sale: its Base, what adjusts that, and what reverses any of them.
#[derive(Clone, Debug)]
pub struct Sale(Vec<Accrual>);

/// What undoes an accrual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is in no payout: it does not stand any more.
    Reversed(Accrual),
    /// It stays as it is, and this is beside it.
    By(Accrual),
}

impl Sale {
    pub fn of(accruals: Vec<Accrual>) -> Self {
        Self(accruals)
    }

    pub fn find(&self, id: AccrualId) -> Option<&Accrual> {
        self.0.iter().find(|accrual| accrual.id == id)
    }

    pub fn reversal_of(&self, id: AccrualId) -> Option<&Accrual> {
        self.0.iter().find(|accrual| accrual.reverses_accrual_id == Some(id))
    }

    /// What counts: neither a Reversal nor undone by one.
    pub fn standing(&self) -> impl Iterator<Item = &Accrual> {
        let counts = |accrual: &&Accrual| {
            accrual.stands()
                && accrual.kind != AccrualKind::Reversal
                && self.reversal_of(accrual.id).is_none()
        };
        self.0.iter().filter(counts)
    }

    /// An accrual and what adjusts it, as far as they stand.
    pub fn standing_with(&self, id: AccrualId) -> impl Iterator<Item = &Accrual> {
        self.standing().filter(move |accrual| accrual.id == id || accrual.adjusts_accrual_id == Some(id))
    }

    /// What an accrual comes to with what adjusts it.
    pub fn sum_with(&self, id: AccrualId) -> i128 {
        self.standing_with(id).map(|accrual| i128::from(accrual.amount)).sum()
    }

    /// INV-AGT-4: what is left without one that adjusts another is no more than the sale came to when it began, or was
    /// `completed` at.
    fn can_lose(&self, accrual: &Accrual, completed: Option<i64>) -> bool {
        let Some(base) = accrual.adjusts_accrual_id.and_then(|id| self.find(id)) else { return true };
        let most = base.base_amount.max(completed.unwrap_or_default());
        self.sum_with(base.id) - i128::from(accrual.amount) <= i128::from(most)
    }

    /// What is rejected with an accrual of a sale that was `completed` at so much: itself, and what adjusts it.
    ///
    /// # Errors
    /// [`ACCRUAL_NOT_FOUND`], [`ACCRUAL_NOT_REJECTABLE`]
    pub fn rejectable(&self, id: AccrualId, completed: Option<i64>) -> Result<Vec<&Accrual>, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let all: Vec<_> = self.standing_with(id).collect();
        let is_open = all.iter().all(|one| one.payout_id.is_none());
        let is_rejectable = is_open && all.contains(&accrual) && self.can_lose(accrual, completed);
        if is_rejectable { Ok(all) } else { Err(ACCRUAL_NOT_REJECTABLE) }
    }

    /// What is undone with an accrual that has no Reversal yet, of a sale that was `completed` at so much: itself, and what
    /// adjusts it.
    ///
    /// # Errors
    /// [`ACCRUAL_NOT_FOUND`], [`ACCRUAL_NOT_REVERSIBLE`]
    pub fn reversible(&self, id: AccrualId, completed: Option<i64>) -> Result<Vec<&Accrual>, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let is_reversible = accrual.kind != AccrualKind::Reversal
            && accrual.payout_id.is_some()
            && self.can_lose(accrual, completed);
        if is_reversible { Ok(self.standing_with(id).collect()) } else { Err(ACCRUAL_NOT_REVERSIBLE) }
    }

    /// An accrual of which its agent may ask for more, or less.
    ///
    /// # Errors
    /// [`ACCRUAL_NOT_FOUND`], [`ACCRUAL_NOT_ADJUSTABLE`]
    pub fn adjustable(&self, id: AccrualId) -> Result<&Accrual, Code> {
        let accrual = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let is_adjustable = accrual.kind == AccrualKind::Base
            && matches!(accrual.status, AccrualStatus::Pending | AccrualStatus::Approved)
            && self.reversal_of(id).is_none();
        if is_adjustable { Ok(accrual) } else { Err(ACCRUAL_NOT_ADJUSTABLE) }
    }
}

impl Accrual {
    /// How it is undone by what happened at `at`: what is in a payout gets a Reversal.
    ///
    /// # Errors
    /// [`Overflow`] where its amount has no opposite.
    pub fn undo(&self, at: OffsetDateTime, now: OffsetDateTime) -> Result<Undone, Overflow> {
        if self.payout_id.is_none() {
            let updated_at = now.max(self.updated_at);
            return Ok(Undone::Reversed(Self {
                status: AccrualStatus::Reversed,
                updated_at,
                ..self.clone()
            }));
        }
        Ok(Undone::By(Self {
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
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
            ..self.clone()
        }))
    }

    /// Whether it may come to so much in whole, in minor units.
    ///
    /// # Errors
    /// [`ADJUSTMENT_AMOUNT_INVALID`]
    pub fn grant(&self, whole: Money) -> Result<i64, Code> {
        let is_within =
            whole.currency == self.currency && (0..=self.base_amount).contains(&whole.amount_minor);
        if is_within { Ok(whole.amount_minor) } else { Err(ADJUSTMENT_AMOUNT_INVALID) }
    }

    /// What is granted for it: what makes it and what adjusts it so much in whole.
    pub fn adjusted(&self, kind: AccrualKind, amount: i64, now: OffsetDateTime) -> Self {
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
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
            ..self.clone()
        }
    }
}
