//! Client of the internal API of selections.
//!
//! Every call can be repeated: taking a snapshot is idempotent by post and source, and a repeated
//! detachment has no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use auth::UserId;
use http_client::{Call, CallError, ServiceClient};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::domain::{PostId, SelectionId, SnapshotId};
use crate::error::{Error, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY, selections_unavailable};

const TAKE_SNAPSHOT: Call = Call::post("selections", "/api/v1/internal/selections/{selection_id}/snapshots");
const READ_SNAPSHOT: Call = Call::get("selections", "/api/v1/internal/snapshots/{snapshot_id}");
const DETACH_SNAPSHOT: Call = Call::post("selections", "/api/v1/internal/snapshots/{snapshot_id}/detach");

/// All calls of this client.
pub const CALLS: &[Call] = &[TAKE_SNAPSHOT, READ_SNAPSHOT, DETACH_SNAPSHOT];

/// Capacity of the snapshot cache, in bytes.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

pub struct Selections {
    service: ServiceClient,
    contents: Cache<SnapshotId, Arc<SnapshotContent>, ContentWeighter>,
    /// Maximum age of cached content. Selections withholds the data of objects that are no longer
    /// public, and readers must not see it longer than a minute (INV-DEV-6).
    max_age: Duration,
}

/// Weighs a snapshot by its bytes.
#[derive(Clone)]
struct ContentWeighter;

impl Weighter<SnapshotId, Arc<SnapshotContent>> for ContentWeighter {
    fn weight(&self, _: &SnapshotId, content: &Arc<SnapshotContent>) -> u64 {
        content.items.get().len() as u64
    }
}

/// A request for a snapshot of `source` for a post.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TakeSnapshot {
    #[serde(skip)]
    pub source: SelectionId,
    pub post_id: PostId,
    pub actor_user_id: UserId,
    /// The author of the post, if the author's ownership of the source counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_user_id: Option<UserId>,
    /// The active snapshot that the new one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces_snapshot_id: Option<SnapshotId>,
}

/// The data of a snapshot that an embed stores.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotCard {
    pub snapshot_id: SnapshotId,
    pub public_code: String,
    pub title: String,
    pub items_count: u32,
}

/// The data of a snapshot that the checks of an embed need.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Snapshot {
    pub post_id: PostId,
    pub source_selection_id: SelectionId,
    pub status: String,
    #[serde(flatten)]
    pub card: SnapshotCard,
}

/// The content of a snapshot for readers.
#[derive(Debug)]
pub struct SnapshotContent {
    /// The list of items, which readers get as it was received.
    pub items: Box<RawValue>,
    /// Start of the fetch. The content is at least as new as this time.
    requested_at: Instant,
    /// True while a reader fetches the content again.
    is_refreshing: AtomicBool,
}

impl SnapshotContent {
    fn is_older_than(&self, age: Duration) -> bool {
        self.requested_at.elapsed() > age
    }
}

/// The response to [`READ_SNAPSHOT`], as readers need it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedContent {
    items: Box<RawValue>,
}

impl Selections {
    /// # Errors
    /// An invalid configuration of the HTTP client.
    pub fn new(config: &http_client::Config, max_age: Duration) -> anyhow::Result<Self> {
        let contents = Cache::with_weighter(1_000, CACHE_BYTES, ContentWeighter);
        Ok(Self { service: ServiceClient::new(config)?, contents, max_age })
    }

    /// Returns the post's active snapshot of the source, and takes one if there is none.
    ///
    /// Retries a lost race, since taking is idempotent.
    ///
    /// # Errors
    /// - [`SELECTION_SOURCE_DELETED`] if the source is deleted or missing, or if it belongs to
    ///   neither actor nor author.
    /// - [`SELECTION_SOURCE_EMPTY`] if the source is empty.
    /// - `SELECTIONS_UNAVAILABLE` in every other case.
    pub async fn take_snapshot(&self, request: &TakeSnapshot) -> Result<SnapshotCard, Error> {
        let path = TAKE_SNAPSHOT.path_with(request.source);
        let mut retries = TAKE_SNAPSHOT.retries;
        loop {
            let code = match self.service.post(&path, request).await {
                Ok(card) => return Ok(card),
                Err(CallError::Unavailable(reason)) => return Err(selections_unavailable(&reason)),
                Err(CallError::Refused { code, .. }) => code,
            };
            return Err(match code.as_str() {
                "SELECTIONS_CONCURRENCY_CONFLICT" if retries > 0 => {
                    retries -= 1;
                    continue;
                }
                "SELECTIONS_NOT_FOUND" => {
                    self.check_routes().await?;
                    SELECTION_SOURCE_DELETED.into()
                }
                "SELECTIONS_SOURCE_DELETED" => SELECTION_SOURCE_DELETED.into(),
                "SELECTIONS_SOURCE_EMPTY" => SELECTION_SOURCE_EMPTY.into(),
                _ => selections_unavailable(&code),
            });
        }
    }

    /// Checks that the internal routes exist at the configured address.
    ///
    /// A missing selection and an unknown route return the same code. Only the route of snapshots
    /// returns the code of a missing snapshot, so the check reads a snapshot that never exists.
    ///
    /// # Errors
    /// `SELECTIONS_UNAVAILABLE` if the route does not exist.
    async fn check_routes(&self) -> Result<(), Error> {
        self.find_snapshot(SnapshotId::from(Uuid::nil())).await.map(drop)
    }

    /// Returns a snapshot, detached or not.
    pub async fn find_snapshot(&self, id: SnapshotId) -> Result<Option<Snapshot>, Error> {
        none_if_missing(self.service.get(&READ_SNAPSHOT.path_with(id)).await)
    }

    /// Returns the content of a snapshot from the cache or from selections, or `None` if no content
    /// within the maximum age arrives by `deadline`.
    ///
    /// From half of the maximum age on, one reader at a time fetches the content again. The others
    /// get the cached content, so a short outage of selections hides no items.
    pub async fn snapshot_content(&self, id: SnapshotId, deadline: Instant) -> Option<Arc<SnapshotContent>> {
        self.contents.remove_if(&id, |cached| cached.is_older_than(self.max_age));
        let cached = self.contents.get(&id);
        let Some(cached) = cached.filter(|cached| cached.is_older_than(self.max_age / 2)) else {
            // All concurrent readers share one fetch. A failure is not cached, so the next reader
            // fetches again.
            let content = self.contents.get_or_insert_async(&id, self.fetch_content(id));
            return timeout_at(deadline, content).await.ok()?.ok();
        };
        // A reader that disconnects during its fetch leaves the flag set. The content is then used
        // up to its maximum age.
        if cached.is_refreshing.swap(true, Ordering::Relaxed) {
            return Some(cached);
        }
        if let Ok(Ok(content)) = timeout_at(deadline, self.fetch_content(id)).await {
            self.contents.insert(id, content.clone());
            return Some(content);
        }
        cached.is_refreshing.store(false, Ordering::Relaxed);
        Some(cached).filter(|cached| !cached.is_older_than(self.max_age))
    }

    async fn fetch_content(&self, id: SnapshotId) -> Result<Arc<SnapshotContent>, CallError> {
        let requested_at = Instant::now();
        let ReceivedContent { items } = self.service.get(&READ_SNAPSHOT.path_with(id)).await?;
        Ok(Arc::new(SnapshotContent { items, requested_at, is_refreshing: AtomicBool::new(false) }))
    }

    /// Detaches a snapshot. Succeeds also if the snapshot is missing or already detached.
    pub async fn detach_snapshot(&self, id: SnapshotId, reason: &str) -> Result<(), Error> {
        none_if_missing::<Value>(
            self.service.post(&DETACH_SNAPSHOT.path_with(id), &json!({"Reason": reason})).await,
        )
        .map(drop)
    }
}

/// Maps the 404 of a snapshot to `None`.
fn none_if_missing<T>(result: Result<T, CallError>) -> Result<Option<T>, Error> {
    match result {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(CallError::Refused { code, .. }) if code == "SELECTIONS_SNAPSHOT_NOT_FOUND" => Ok(None),
        Err(error) => Err(selections_unavailable(&error)),
    }
}
