//! What one transaction does to the ledger. There is no other way to write an accrual.

use std::collections::{BTreeMap, BTreeSet};

use ::db::Tx;
use auth::UserId;
use futures_util::future::try_join3;
use messaging::outbox;
use values::Currency;

use crate::db;
use crate::domain::{Account, Accrual, Entry, Overflow};
use crate::error::{CONCURRENCY_CONFLICT, Error};
use crate::events::AccrualChanged;

type Holder = (UserId, Currency);

/// Accounts that are this transaction's, and accruals that it adds and changes.
///
/// Whoever changes an agent's money locks first the deal, where it is about one, then this, then accruals and payouts.
pub struct Books {
    accounts: BTreeMap<Holder, Account>,
    added: Vec<Accrual>,
    changed: Vec<(Accrual, Accrual)>,
}

impl Books {
    /// Locks these accounts, always in the same order, and makes those that are missing.
    pub async fn open(tx: &Tx, holders: impl IntoIterator<Item = Holder>) -> Result<Self, ::db::Error> {
        let holders: BTreeSet<Holder> = holders.into_iter().collect();
        let holders: Vec<Holder> = holders.into_iter().collect();
        let accounts = db::account::lock(tx, &holders).await?;
        let accounts =
            accounts.into_iter().map(|account| ((account.agent_user_id, account.currency), account));
        Ok(Self { accounts: accounts.collect(), added: Vec::new(), changed: Vec::new() })
    }

    /// All of these lines, or none where a sum is more than can be told. An accrual that is not new was read since its account is
    /// locked, or added here; its version is the one that it had. One that is added and changed is written, and told of, twice.
    pub fn post(&mut self, entries: Vec<Entry>) -> Result<(), Overflow> {
        let mut lines: BTreeMap<Holder, Vec<&Entry>> = BTreeMap::new();
        for entry in &entries {
            lines.entry((entry.after.agent_user_id, entry.after.currency)).or_default().push(entry);
        }
        let mut counted = BTreeMap::new();
        for (holder, lines) in lines {
            let known = self.accounts.get(&holder).cloned();
            let mut account = known.unwrap_or_else(|| Account::empty(holder.0, holder.1));
            account.count(lines)?;
            counted.insert(holder, account);
        }
        self.accounts.extend(counted);
        for Entry { before, after } in entries {
            match before {
                None => self.added.push(after),
                Some(before) => self.changed.push((before, after)),
            }
        }
        Ok(())
    }

    /// Writes all of it, and tells of each accrual whose status is another.
    ///
    /// # Errors
    /// [`CONCURRENCY_CONFLICT`] where an accrual is not as it was read.
    pub async fn close(self, tx: &mut Tx) -> Result<(), Error> {
        self.close_beside(tx, async |_| Ok(())).await
    }

    /// The same, beside what else is to be written and has nothing to do with it.
    ///
    /// # Errors
    /// Those of [`close`](Self::close), and of what else is written.
    pub async fn close_beside(
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
        let now: Vec<_> = self.changed.iter().map(|(_, after)| after).collect();
        let accounts = db::account::save(tx, self.accounts.values());
        try_join3(accounts, db::accrual::insert(tx, &self.added), write(tx)).await?;
        if !db::accrual::update(tx, &now).await? {
            return Err(CONCURRENCY_CONFLICT.into());
        }
        let added = self.added.iter().map(|accrual| AccrualChanged::of(accrual, None));
        let moved = self.changed.iter().filter(|(before, after)| before.status != after.status);
        let moved = moved.map(|(before, after)| AccrualChanged::of(after, Some(before.status)));
        let told: Vec<_> = added.chain(moved).collect();
        Ok(outbox::append_all(tx, &told).await?)
    }
}
