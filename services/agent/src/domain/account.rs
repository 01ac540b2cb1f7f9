//! What an agent's accruals come to in one currency.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::Currency;

use super::{Accrual, AccrualStatus};
use crate::db::schema::account;

/// A sum beyond what can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// INV-AGT-1: the sums of the accruals of an agent in a currency, in minor units.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = account, check_for_backend(Pg))]
pub struct Account {
    pub agent_user_id: UserId,
    pub currency: Currency,
    /// How many accruals there are, whatever became of them.
    pub entries: i64,
    pub pending: i64,
    /// In no payout. It may be a debt.
    pub approved: i64,
    pub in_payout: i64,
    pub paid: i64,
}

impl Account {
    /// Of nobody's accruals yet.
    pub fn empty(agent_user_id: UserId, currency: Currency) -> Self {
        Self { agent_user_id, currency, entries: 0, pending: 0, approved: 0, in_payout: 0, paid: 0 }
    }

    /// Counts an accrual as it is now instead of as it was before; one that is new was nothing.
    ///
    /// # Errors
    /// [`Overflow`] where a sum is more than can be told; nothing is counted then.
    pub fn count(&mut self, before: Option<&Accrual>, now: &Accrual) -> Result<(), Overflow> {
        let mut counted = self.clone();
        if let Some(before) = before
            && let Some(sum) = counted.sum_of(before)
        {
            *sum = sum.checked_sub(before.amount).ok_or(Overflow)?;
        }
        if let Some(sum) = counted.sum_of(now) {
            *sum = sum.checked_add(now.amount).ok_or(Overflow)?;
        }
        counted.total().and(counted.outstanding()).ok_or(Overflow)?;
        counted.entries += i64::from(before.is_none());
        *self = counted;
        Ok(())
    }

    /// What was ever earned and stands.
    pub fn total(&self) -> Option<i64> {
        sum([self.pending, self.approved, self.in_payout, self.paid])
    }

    /// What is not paid of it.
    pub fn outstanding(&self) -> Option<i64> {
        sum([self.pending, self.approved, self.in_payout])
    }

    fn sum_of(&mut self, accrual: &Accrual) -> Option<&mut i64> {
        match (accrual.status, accrual.payout_id) {
            (AccrualStatus::Pending, _) => Some(&mut self.pending),
            (AccrualStatus::Approved, None) => Some(&mut self.approved),
            (AccrualStatus::Approved, Some(_)) => Some(&mut self.in_payout),
            (AccrualStatus::Paid, _) => Some(&mut self.paid),
            (AccrualStatus::Rejected | AccrualStatus::Reversed, _) => None,
        }
    }
}

fn sum<const N: usize>(sums: [i64; N]) -> Option<i64> {
    i64::try_from(sums.into_iter().map(i128::from).sum::<i128>()).ok()
}
