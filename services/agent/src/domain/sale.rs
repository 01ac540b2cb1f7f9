//! All accruals of one sale, and how what stands of it is undone.

use time::OffsetDateTime;

use super::{Accrual, AccrualId, AccrualKind, AccrualStatus, Overflow};

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
}

impl Accrual {
    /// How it is undone by what happened at `at`: what is in a payout gets a Reversal.
    ///
    /// # Errors
    /// [`Overflow`] where its amount has no opposite.
    pub fn undo(&self, at: OffsetDateTime, now: OffsetDateTime) -> Result<Undone, Overflow> {
        if self.payout_id.is_none() {
            let updated_at = now.max(self.updated_at);
            return Ok(Undone::Reversed(Self { status: AccrualStatus::Reversed, updated_at, ..self.clone() }));
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
