//! Batches of outbox rows that are sent together.

use std::collections::BTreeSet;

use diesel::prelude::*;
use rdkafka::producer::DeliveryFuture;
use serde_json::Value;
use uuid::Uuid;

use crate::schema::outbox;

/// The largest number of rows in a batch: enough for full requests to the broker, and few enough to
/// send again.
pub(super) const MAX_BATCH_ROWS: i32 = 500;
/// The payload size at which a batch is full, since a relay holds a few batches in memory. The last
/// row may exceed it.
pub(super) const MAX_BATCH_BYTES: i64 = 4 << 20;

/// A row of the outbox whose event is not acknowledged yet.
#[derive(Clone, QueryableByName)]
#[diesel(table_name = outbox)]
pub(super) struct PendingRow {
    pub id: i64,
    pub event_id: Uuid,
    pub topic: String,
    pub key: String,
    pub event_type: String,
    /// `None` for a tombstone.
    pub payload: Option<Vec<u8>>,
    pub headers: Value,
    pub created_at: time::OffsetDateTime,
}

/// The primary key of a row.
#[derive(Debug)]
pub(super) struct RowId {
    pub topic: String,
    pub id: i64,
}

impl PendingRow {
    fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Vec::len)
    }

    /// Returns true if this is a later event of the topic and key of `other`, which must be sent
    /// first.
    pub fn waits_behind(&self, other: &Self) -> bool {
        self.id > other.id && self.topic == other.topic && self.key == other.key
    }
}

/// Returns true if `rows` reach a limit of a batch.
pub(super) fn is_full_batch<'r>(rows: impl Iterator<Item = &'r PendingRow>) -> bool {
    let (mut count, mut bytes) = (0_i32, 0);
    for row in rows {
        count += 1;
        bytes += row.bytes();
    }
    count >= MAX_BATCH_ROWS || i64::try_from(bytes).is_ok_and(|bytes| bytes >= MAX_BATCH_BYTES)
}

/// Rows that were sent, with their pending acknowledgements.
#[derive(Default)]
pub(super) struct Batch {
    pub rows: Vec<PendingRow>,
    /// The acknowledgements of `rows`, in the same order.
    pub acks: Vec<DeliveryFuture>,
    /// Rows that the broker rejected after this batch was sent.
    pub rejected_since: Vec<PendingRow>,
    /// True if more rows may be pending behind this batch.
    pub is_full: bool,
}

/// The result of settling batches.
#[derive(Default)]
pub(super) struct Settled {
    /// Rows that the broker rejected. They are parked now, unless their topic is forbidden.
    pub rejected: Vec<PendingRow>,
    /// The rows of each batch that were not acknowledged in time.
    pub late: Vec<Batch>,
    /// Rows that were acknowledged and deleted.
    pub delivered: Vec<RowId>,
    /// Topics to which the service may not write.
    pub forbidden: BTreeSet<String>,
}

/// Topics and keys that are excluded from the next batch.
#[derive(Default)]
pub(super) struct Exclusions {
    pub topics: BTreeSet<String>,
    /// Pairs of topic and key.
    pub keys: BTreeSet<(String, String)>,
}

impl Exclusions {
    /// Excludes the keys of late events, so that later events of these keys cannot overtake them.
    /// Once the late events fill a batch, their topics are excluded as well, which bounds the rows
    /// in memory.
    pub fn behind(late: &[Batch]) -> Self {
        let rows = || late.iter().flat_map(|batch| &batch.rows);
        let is_full = is_full_batch(rows());
        let topics = rows().filter(|_| is_full).map(|row| row.topic.clone()).collect();
        Self { topics, keys: rows().map(|row| (row.topic.clone(), row.key.clone())).collect() }
    }
}
