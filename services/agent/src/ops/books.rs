//! The ledger entries of one transaction. Only this module writes accruals.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::db::Tx;
use auth::UserId;
use futures_util::future::try_join5;
use messaging::outbox::{self, TracedEvent};
use runtime::telemetry;

use crate::db;
use crate::domain::{Account, AccountKey, Accrual, AccrualId, Entry, MoneyEntry, Overflow};
use crate::error::{CONCURRENCY_CONFLICT, Error};
use crate::events::AccrualChanged;

/// The accounts that a transaction has locked, and the accruals that it adds and changes.
///
/// The order of locks prevents deadlocks: stored deals by id, then accounts by key, then new deals
/// by id, then accruals and payouts.
pub struct Books {
    /// The author of the entries that [`post`](Self::post) adds. `None` for the job
    /// `unrated-deals`.
    by: Option<UserId>,
    accounts: BTreeMap<AccountKey, Account>,
    accruals: Vec<PostedAccrual>,
    /// The places of accruals in `accruals`.
    places: HashMap<AccrualId, usize>,
    log: Vec<MoneyEntry>,
    events: Vec<TracedEvent<AccrualChanged>>,
}

/// An accrual after its last entry.
struct PostedAccrual {
    /// The version in the database. `None` for a new accrual.
    stored_version: Option<i64>,
    accrual: Accrual,
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
        Ok(Self {
            by,
            accounts: accounts.collect(),
            accruals: Vec::new(),
            places: HashMap::new(),
            log: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Adds all entries, or none of them.
    ///
    /// The caller must have read a changed accrual under the lock of its account, or added it here
    /// before. An accrual with several entries is written once, and each entry is logged and
    /// published in the current trace.
    ///
    /// # Errors
    /// [`Overflow`] if a sum of an account would exceed 64 bits.
    pub fn post(&mut self, entries: Vec<Entry>) -> Result<(), Overflow> {
        self.post_by(self.by, entries)
    }

    /// Adds entries as [`post`](Self::post) does, for changes by another user. `by` is `None` for
    /// an event that names no user.
    pub fn post_by(&mut self, by: Option<UserId>, entries: Vec<Entry>) -> Result<(), Overflow> {
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
        for entry in entries {
            self.record(by, entry);
        }
        Ok(())
    }

    fn record(&mut self, by: Option<UserId>, Entry { before, after }: Entry) {
        if let Some(entry) = MoneyEntry::of_accrual(before.as_ref(), &after, by) {
            self.log.push(MoneyEntry { trace_id: telemetry::trace_id(), ..entry });
        }
        let from = before.as_ref().map(|before| before.status);
        if from != Some(after.status) {
            self.events.push(TracedEvent::in_current_trace(AccrualChanged::of(&after, from, by)));
        }
        if let Some(posted) = self.places.get(&after.id).and_then(|place| self.accruals.get_mut(*place)) {
            posted.accrual = after;
        } else {
            self.places.insert(after.id, self.accruals.len());
            let stored_version = before.map(|before| before.version);
            self.accruals.push(PostedAccrual { stored_version, accrual: after });
        }
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
        self,
        tx: &mut Tx,
        write: impl AsyncFnOnce(&Tx) -> Result<(), ::db::Error>,
    ) -> Result<(), Error> {
        if self.accruals.is_empty() {
            return Ok(write(tx).await?);
        }
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for PostedAccrual { stored_version, accrual } in &self.accruals {
            match stored_version {
                None => added.push(accrual),
                Some(stored) => changed.push((*stored, accrual)),
            }
        }
        let accounts = db::account::save(tx, self.accounts.values());
        let log = db::money_log::append(tx, self.log);
        let (added, changed) = (db::accrual::insert(tx, &added), db::accrual::update(tx, &changed));
        let ((), (), is_current, (), ()) = try_join5(accounts, added, changed, log, write(tx)).await?;
        if !is_current {
            return Err(CONCURRENCY_CONFLICT.into());
        }
        Ok(outbox::append_traced(tx, self.events).await?)
    }
}
