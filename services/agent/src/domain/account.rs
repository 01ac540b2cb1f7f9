//! What an agent's accruals come to in one currency.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::Currency;

use super::{Accrual, AccrualStatus, Entry};
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

    /// Counts lines of its books: accruals as they are now instead of as they were before; one that is new was nothing. What counts
    /// is what they come to together: on the way there a sum may be beyond what can be told.
    ///
    /// # Errors
    /// [`Overflow`] where a sum is more than can be told; nothing is counted then.
    pub fn count<'e>(&mut self, entries: impl IntoIterator<Item = &'e Entry>) -> Result<(), Overflow> {
        let mut sums = [self.pending, self.approved, self.in_payout, self.paid].map(i128::from);
        let mut new = 0;
        for Entry { before, after } in entries {
            for (accrual, sign) in before.iter().map(|before| (before, -1)).chain([(after, 1)]) {
                if let Some(sum) = sum_of(accrual) {
                    sums[sum as usize] += sign * i128::from(accrual.amount);
                }
            }
            new += i64::from(before.is_none());
        }
        let told = |sum: Sum| i64::try_from(sums[sum as usize]).map_err(|_| Overflow);
        let counted = Self {
            entries: self.entries + new,
            pending: told(Sum::Pending)?,
            approved: told(Sum::Approved)?,
            in_payout: told(Sum::InPayout)?,
            paid: told(Sum::Paid)?,
            ..self.clone()
        };
        counted.total().and(counted.outstanding()).ok_or(Overflow)?;
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
}

/// Where an account has what it sums up.
#[derive(Clone, Copy)]
enum Sum {
    Pending,
    Approved,
    InPayout,
    Paid,
}

/// Which of the sums an accrual is in, if any.
fn sum_of(accrual: &Accrual) -> Option<Sum> {
    match (accrual.status, accrual.payout_id) {
        (AccrualStatus::Pending, _) => Some(Sum::Pending),
        (AccrualStatus::Approved, None) => Some(Sum::Approved),
        (AccrualStatus::Approved, Some(_)) => Some(Sum::InPayout),
        (AccrualStatus::Paid, _) => Some(Sum::Paid),
        (AccrualStatus::Rejected | AccrualStatus::Reversed, _) => None,
    }
}

fn sum<const N: usize>(sums: [i64; N]) -> Option<i64> {
    i64::try_from(sums.into_iter().map(i128::from).sum::<i128>()).ok()
}
