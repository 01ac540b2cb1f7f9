//! The ledger entries of one transaction. Only this module writes accruals.

use std::collections::{BTreeMap, BTreeSet};

use ::db::Tx;
use auth::UserId;
use futures_util::future::try_join4;
use messaging::outbox;

use crate::db;
use crate::domain::{Account, AccountKey, Accrual, Entry, MoneyEntry, Overflow};
use crate::error::{CONCURRENCY_CONFLICT, Error};
use crate::events::AccrualChanged;

/// The accounts that a transaction has locked, and the accruals that it adds and changes.
///
/// The order of locks prevents deadlocks: deals by id, then accounts by key, then accruals and
/// payouts.
pub struct Books {
    /// The user who makes the changes. `None` for a job, and for an event that names no user.
    by: Option<UserId>,
    accounts: BTreeMap<AccountKey, Account>,
    added: Vec<Accrual>,
    changed: Vec<(Accrual, Accrual)>,
}

impl Books {
    /// Locks accounts in the order of their keys, and creates missing ones.
    pub async fn open(
        tx: &Tx,
        by: Option<UserId>,
        keys: impl IntoIterator<Item = AccountKey>,
    ) -> Result<Self, ::db::Error> {
        let keys: BTreeSet<AccountKey> = keys.into_iter().collect();
        let keys: Vec<AccountKey> = keys.into_iter().collect();
        let accounts = db::account::lock(tx, &keys).await?;
        let accounts =
            accounts.into_iter().map(|account| ((account.agent_user_id, account.currency), account));
        Ok(Self { by, accounts: accounts.collect(), added: Vec::new(), changed: Vec::new() })
    }

    /// Adds all entries, or none of them.
    ///
    /// Before a change, the caller must have read the accrual under the lock of its account, or
    /// have added the accrual to these books. `after` has the version of `before`, which `close`
    /// raises. An accrual that is added and then changed is written and published twice.
    ///
    /// # Errors
    /// [`Overflow`] if a sum of an account would exceed 64 bits.
    pub fn post(&mut self, entries: Vec<Entry>) -> Result<(), Overflow> {
        let mut by_account: BTreeMap<AccountKey, Vec<&Entry>> = BTreeMap::new();
        for entry in &entries {
            by_account.entry((entry.after.agent_user_id, entry.after.currency)).or_default().push(entry);
        }
        let mut updated = BTreeMap::new();
        for (key, entries) in by_account {
            let known = self.accounts.get(&key).cloned();
            let mut account = known.unwrap_or_else(|| Account::empty(key));
            account.apply(entries)?;
            updated.insert(key, account);
        }
        self.accounts.extend(updated);
        for Entry { before, after } in entries {
            match before {
                None => self.added.push(after),
                Some(before) => self.changed.push((before, after)),
            }
        }
        Ok(())
    }

    /// Writes accounts, accruals and the money log, and publishes each change of a status.
    ///
    /// # Errors
    /// [`CONCURRENCY_CONFLICT`] if an accrual has changed since it was read.
    pub async fn close(self, tx: &mut Tx) -> Result<(), Error> {
        self.close_with(tx, async |_| Ok(())).await
    }

    /// Closes the books as [`close`](Self::close) does, and runs an independent `write` in the same
    /// pipeline.
    pub async fn close_with(
        mut self,
        tx: &mut Tx,
        write: impl AsyncFnOnce(&Tx) -> Result<(), ::db::Error>,
    ) -> Result<(), Error> {
        if self.added.is_empty() && self.changed.is_empty() {
            return Ok(write(tx).await?);
        }
        for (_, after) in &mut self.changed {
            after.version += 1;
        }
        let changed: Vec<_> = self.changed.iter().map(|(_, after)| after).collect();
        let accounts = db::account::save(tx, self.accounts.values());
        let added = self.added.iter().filter_map(|after| MoneyEntry::of_accrual(None, after, self.by));
        let moved = self.changed.iter();
        let moved = moved.filter_map(|(before, after)| MoneyEntry::of_accrual(Some(before), after, self.by));
        let log = db::money_log::append(tx, added.chain(moved).collect());
        try_join4(accounts, db::accrual::insert(tx, &self.added), log, write(tx)).await?;
        if !db::accrual::update(tx, &changed).await? {
            return Err(CONCURRENCY_CONFLICT.into());
        }
        let added = self.added.iter().map(|accrual| AccrualChanged::of(accrual, None, self.by));
        let changed = self.changed.iter().filter(|(before, after)| before.status != after.status);
        let changed = changed.map(|(before, after)| AccrualChanged::of(after, Some(before.status), self.by));
        let events: Vec<_> = added.chain(changed).collect();
        Ok(outbox::append_all(tx, &events).await?)
    }
}
