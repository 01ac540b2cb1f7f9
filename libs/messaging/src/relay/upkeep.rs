//! The upkeep of the lanes during a relay session.

use std::collections::HashMap;
use std::time::Duration;

use db::Db;
use tokio::time::Instant;

use crate::lanes::{self, Horizon};

/// The shortest interval between two runs, except at the end of a session.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(250);
/// The number of deleted rows of a topic after which its floor rises. A read skips up to this
/// number of deleted rows within half a millisecond. More frequent rises would cost more than they
/// save, since each one leaves a dead row in `outbox_lane`.
const FLOOR_STEP: usize = 2_000;

/// Finds new lanes, and raises the floors of busy ones.
pub(super) struct LaneUpkeep {
    due_at: Instant,
    /// The number of deleted rows of each topic since its floor was last scheduled to rise.
    deleted: HashMap<String, usize>,
    /// Floors that rise as soon as the horizon is settled.
    rising: Option<(Horizon, Vec<String>)>,
    /// The number of topics that are held until they have more partitions.
    growing: usize,
}

impl LaneUpkeep {
    pub fn new() -> Self {
        Self { due_at: Instant::now(), deleted: HashMap::new(), rising: None, growing: 0 }
    }

    pub fn count_deleted(&mut self, topic: &str) {
        if let Some(count) = self.deleted.get_mut(topic) {
            *count += 1;
        } else {
            self.deleted.insert(topic.to_owned(), 1);
        }
    }

    /// Returns the number of topics that are held until they have more partitions.
    pub fn growing_count(&self) -> usize {
        self.growing
    }

    /// Maintains the lanes if this is due, and returns true if there are new ones. A failure is
    /// logged, since the relay still sends the rows of known lanes.
    pub async fn run_if_due(&mut self, db: &Db) -> bool {
        if Instant::now() < self.due_at {
            return false;
        }
        self.run(db).await
    }

    /// Maintains the lanes without regard to the interval, and returns true if there are new ones.
    pub async fn run(&mut self, db: &Db) -> bool {
        let found = self.try_run(db).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to maintain the lanes of the outbox");
            false
        });
        self.due_at = Instant::now() + UPKEEP_INTERVAL;
        found
    }

    async fn try_run(&mut self, db: &Db) -> Result<bool, db::Error> {
        let mut conn = db.conn().await?;
        let has_new_lanes = lanes::add_missing(&mut conn).await? > 0;
        self.growing = usize::try_from(lanes::count_held(&mut conn).await?).unwrap_or(usize::MAX);
        if let Some((horizon, topics)) = &self.rising {
            if horizon.is_settled(&mut conn).await? {
                drop(conn);
                horizon.raise_floors(db, topics).await?;
                self.rising = None;
            }
        } else if self.deleted.values().any(|&count| count >= FLOOR_STEP) {
            let horizon = Horizon::read(&mut conn).await?;
            let topics = self.deleted.extract_if(|_, count| *count >= FLOOR_STEP).map(|(topic, _)| topic);
            self.rising = Some((horizon, topics.collect()));
        }
        Ok(has_new_lanes)
    }
}
