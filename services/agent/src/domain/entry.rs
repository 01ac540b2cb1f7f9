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

    /// Creates the entry of a change, which raises the version of the accrual by 1.
    pub fn changed(before: &Accrual, after: Accrual) -> Self {
        let after = Accrual { version: before.version + 1, ..after };
        Self { before: Some(before.clone()), after }
    }
}
