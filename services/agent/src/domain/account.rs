//! The account of an agent in one currency: the stored sums of the accruals.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::Currency;

use super::{Accrual, AccrualStatus, Entry};
use crate::db::schema::account;

/// The key of an account: the agent and the currency.
pub type AccountKey = (UserId, Currency);

/// An amount or a sum does not fit into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// The sums of an agent's accruals in one currency, in minor units (INV-AGT-1).
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = account, check_for_backend(Pg))]
pub struct Account {
    pub agent_user_id: UserId,
    pub currency: Currency,
    /// Number of accruals in any status.
    pub entries: i64,
    pub pending: i64,
    /// Sum of the Approved accruals without a payout. It is negative if the agent has a debt.
    pub approved: i64,
    pub in_payout: i64,
    pub paid: i64,
}

impl Account {
    pub fn empty((agent_user_id, currency): AccountKey) -> Self {
        Self { agent_user_id, currency, entries: 0, pending: 0, approved: 0, in_payout: 0, paid: 0 }
    }

    /// Applies entries: subtracts each accrual as it was before, and adds it as it is now.
    ///
    /// Only the result has to fit into 64 bits. Intermediate sums may exceed them.
    ///
    /// # Errors
    /// [`Overflow`] if a sum does not fit into 64 bits. The account is unchanged then.
    pub fn apply<'e>(&mut self, entries: impl IntoIterator<Item = &'e Entry>) -> Result<(), Overflow> {
        let mut sums = [self.pending, self.approved, self.in_payout, self.paid].map(i128::from);
        let mut new = 0;
        for Entry { before, after } in entries {
            for (accrual, sign) in before.iter().map(|before| (before, -1)).chain([(after, 1)]) {
                if let Some(bucket) = bucket_of(accrual) {
                    sums[bucket as usize] += sign * i128::from(accrual.amount);
                }
            }
            new += i64::from(before.is_none());
        }
        let narrow = |bucket: Bucket| i64::try_from(sums[bucket as usize]).map_err(|_| Overflow);
        let updated = Self {
            entries: self.entries + new,
            pending: narrow(Bucket::Pending)?,
            approved: narrow(Bucket::Approved)?,
            in_payout: narrow(Bucket::InPayout)?,
            paid: narrow(Bucket::Paid)?,
            ..self.clone()
        };
        updated.total().and(updated.outstanding()).ok_or(Overflow)?;
        *self = updated;
        Ok(())
    }

    /// Returns the sum of all accruals that count, or `None` beyond 64 bits.
    pub fn total(&self) -> Option<i64> {
        sum([self.pending, self.approved, self.in_payout, self.paid])
    }

    /// Returns the unpaid part of [`total`](Self::total), or `None` beyond 64 bits.
    pub fn outstanding(&self) -> Option<i64> {
        sum([self.pending, self.approved, self.in_payout])
    }
}

/// The index of a sum of an account.
#[derive(Clone, Copy)]
enum Bucket {
    Pending,
    Approved,
    InPayout,
    Paid,
}

/// Returns the sum that includes an accrual, or `None` for a Rejected or Reversed one.
fn bucket_of(accrual: &Accrual) -> Option<Bucket> {
    match (accrual.status, accrual.payout_id) {
        (AccrualStatus::Pending, _) => Some(Bucket::Pending),
        (AccrualStatus::Approved, None) => Some(Bucket::Approved),
        (AccrualStatus::Approved, Some(_)) => Some(Bucket::InPayout),
        (AccrualStatus::Paid, _) => Some(Bucket::Paid),
        (AccrualStatus::Rejected | AccrualStatus::Reversed, _) => None,
    }
}

fn sum<const N: usize>(sums: [i64; N]) -> Option<i64> {
    i64::try_from(sums.into_iter().map(i128::from).sum::<i128>()).ok()
}
