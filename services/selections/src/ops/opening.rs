//! Counting of openings by code.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::db::Db;
use time::OffsetDateTime;

use crate::db;
use crate::db::opening::NewOpenings;
use crate::domain::SelectionId;

/// The time between two writes of the counts.
pub const STORE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of selections with openings that are not stored yet. Openings of further
/// selections are not counted.
const MAX_WAITING: usize = 100_000;
/// Number of rows that one statement writes.
const BATCH: usize = 1_000;

/// Openings of this process that are not stored yet.
///
/// A row that each read updates would make the readers of a popular selection wait for each other.
#[derive(Default)]
pub struct Openings(Mutex<HashMap<SelectionId, NewOpenings>>);

impl Openings {
    /// Counts one opening.
    pub fn count(&self, selection_id: SelectionId, now: OffsetDateTime) {
        self.add(NewOpenings { selection_id, count: 1, last_opened_at: now });
    }

    fn add(&self, new: NewOpenings) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = waiting.get_mut(&new.selection_id) {
            counted.count += new.count;
            counted.last_opened_at = counted.last_opened_at.max(new.last_opened_at);
        } else if waiting.len() < MAX_WAITING {
            waiting.insert(new.selection_id, new);
        }
    }

    /// Writes the counts to the database. Keeps the counts of failed batches for the next call.
    ///
    /// The rows are sorted, so that replicas that store at the same time do not deadlock.
    pub async fn store(&self, db: &Db) -> Result<(), ::db::Error> {
        let taken = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut waiting: Vec<NewOpenings> = taken.into_values().collect();
        waiting.sort_unstable_by_key(|of| of.selection_id);
        let mut batches = waiting.chunks(BATCH);
        while let Some(batch) = batches.next() {
            if let Err(error) = db.tx(async |tx| db::opening::add(tx, batch).await).await {
                batch.iter().chain(batches.flatten()).for_each(|of| self.add(*of));
                return Err(error);
            }
        }
        Ok(())
    }
}
