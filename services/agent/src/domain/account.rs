//! The account of an agent in one currency: the stored sums of the accruals.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use values::Currency;

use super::{Accrual, AccrualStatus, Entry};
use crate::schema::account;

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
        let mut added = 0;
        for Entry { before, after } in entries {
            for (accrual, sign) in before.iter().map(|before| (before, -1)).chain([(after, 1)]) {
                if let Some(bucket) = bucket_of(accrual) {
                    sums[bucket as usize] += sign * i128::from(accrual.amount);
                }
            }
            added += i64::from(before.is_none());
        }
        let narrow = |bucket: Bucket| i64::try_from(sums[bucket as usize]).map_err(|_| Overflow);
        let updated = Self {
            entries: self.entries + added,
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

#[cfg(test)]
mod tests {
    use values::Currency;

    use super::{Account, Entry, Overflow};
    use crate::domain::samples::{accrual, user};
    use crate::domain::{Accrual, AccrualKind, AccrualStatus, PayoutId};

    fn empty() -> Account {
        Account::empty((user(1), Currency::RUB))
    }

    fn sums(account: &Account) -> [i64; 5] {
        [account.entries, account.pending, account.approved, account.in_payout, account.paid]
    }

    /// INV-AGT-1: every counted accrual is in exactly one sum, which follows its status.
    #[test]
    fn accrual_moves_between_the_sums_of_its_account() {
        let pending = accrual(AccrualKind::Base, AccrualStatus::Pending, 100);
        let approved = Accrual { status: AccrualStatus::Approved, ..pending.clone() };
        let in_payout = Accrual { payout_id: Some(PayoutId::generate()), ..approved.clone() };
        let paid = Accrual { status: AccrualStatus::Paid, ..in_payout.clone() };
        let debt = accrual(AccrualKind::Reversal, AccrualStatus::Approved, -30);
        let rejected = Accrual { status: AccrualStatus::Rejected, ..debt.clone() };

        let mut account = empty();
        for (entries, expected, totals) in [
            (vec![Entry::added(pending.clone()), Entry::added(debt.clone())], [2, 100, -30, 0, 0], [70, 70]),
            (vec![Entry::changed(&pending, approved.clone())], [2, 0, 70, 0, 0], [70, 70]),
            (vec![Entry::changed(&approved, in_payout.clone())], [2, 0, -30, 100, 0], [70, 70]),
            (vec![Entry::changed(&in_payout, paid)], [2, 0, -30, 0, 100], [70, -30]),
            (vec![Entry::changed(&debt, rejected)], [2, 0, 0, 0, 100], [100, 0]),
        ] {
            account.apply(&entries).unwrap();
            assert_eq!(sums(&account), expected);
            assert_eq!([account.total(), account.outstanding()], totals.map(Some));
        }
    }

    /// INV-AGT-1: only the result has to fit into 64 bits, and a refused entry changes nothing.
    #[test]
    fn sum_beyond_64_bits_is_refused_and_changes_nothing() {
        let added = |status, amount| Entry::added(accrual(AccrualKind::Base, status, amount));
        let mut account = empty();
        let [greatest, one, minus_one] =
            [i64::MAX, 1, -1].map(|amount| added(AccrualStatus::Pending, amount));
        account.apply([&greatest, &one, &minus_one]).unwrap();
        let before = account.clone();
        assert_eq!(account.apply([&one]), Err(Overflow));
        assert_eq!(account.apply([&added(AccrualStatus::Approved, 1)]), Err(Overflow), "the total");
        assert_eq!(account, before);
        account.apply([&added(AccrualStatus::Rejected, 1)]).unwrap();
        assert_eq!(account.total(), Some(i64::MAX));
    }
}
