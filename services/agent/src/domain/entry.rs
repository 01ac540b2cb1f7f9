//! Entries of the ledger, which change the sums of accounts.

use super::Accrual;

/// An entry of the ledger: a new accrual, or a changed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub before: Option<Accrual>,
    pub after: Accrual,
}

impl Entry {
    pub fn added(after: Accrual) -> Self {
        Self { before: None, after }
    }

    pub fn changed(before: &Accrual, after: Accrual) -> Self {
        Self { before: Some(before.clone()), after }
    }
}
