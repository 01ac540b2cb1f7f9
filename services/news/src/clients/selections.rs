//! The internal API of selections. Every call may be repeated: taking is idempotent by post and
//! source, detaching happens once.

use std::sync::Arc;

use auth::UserId;
use http_client::{Call, CallError, Service};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::{PostId, SelectionId, SnapshotId};
use crate::error::{Error, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY, selections_unavailable};

const TAKE: Call = Call::post("selections", "/api/v1/internal/selections/{selection_id}/snapshots");
const READ: Call = Call::get("selections", "/api/v1/internal/snapshots/{snapshot_id}");
const DETACH: Call = Call::post("selections", "/api/v1/internal/snapshots/{snapshot_id}/detach");

/// Every call.
pub const CALLS: &[Call] = &[TAKE, READ, DETACH];

/// What is remembered of snapshots, over all of them, in bytes.
const REMEMBERED: u64 = 32 * 1024 * 1024;

pub struct Selections {
    service: Service,
    /// A snapshot never changes, so what is here is never stale.
    contents: Cache<SnapshotId, Arc<SnapshotContent>, Bytes>,
}

/// The weight of a snapshot.
#[derive(Clone)]
struct Bytes;

impl Weighter<SnapshotId, Arc<SnapshotContent>> for Bytes {
    fn weight(&self, _: &SnapshotId, content: &Arc<SnapshotContent>) -> u64 {
        content.items.get().len() as u64
    }
}

/// What a post keeps of a snapshot; the fields that are read here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Taken {
    pub snapshot_id: SnapshotId,
    pub public_code: String,
    pub title: String,
    pub items_count: u32,
}

/// A snapshot whole; the fields that are read here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Snapshot {
    pub post_id: PostId,
    pub source_selection_id: SelectionId,
    pub status: String,
    #[serde(flatten)]
    pub taken: Taken,
}

/// What a reader sees of a snapshot.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotContent {
    /// A list, passed on as it is.
    pub items: Box<RawValue>,
}

impl Selections {
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(config: &http_client::Config) -> anyhow::Result<Self> {
        let contents = Cache::with_weighter(1_000, REMEMBERED, Bytes);
        Ok(Self { service: Service::new(config)?, contents })
    }

    /// The post's active snapshot of the source, taken now if there is none.
    ///
    /// # Errors
    /// `SelectionSourceDeleted` (a foreign or missing one is answered alike), `SelectionSourceEmpty`,
    /// `SelectionsUnavailable`
    pub async fn take_snapshot(
        &self,
        source: SelectionId,
        post: PostId,
        actor: UserId,
        author: UserId,
    ) -> Result<Taken, Error> {
        let body = json!({"PostId": post, "ActorUserId": actor, "AuthorUserId": author});
        self.service.post(&TAKE.at(source), &body).await.map_err(|error| match error {
            CallError::Refused { code, .. } => match code.as_str() {
                "SELECTIONS_NOT_FOUND" | "SELECTIONS_SOURCE_DELETED" => SELECTION_SOURCE_DELETED.into(),
                "SELECTIONS_SOURCE_EMPTY" => SELECTION_SOURCE_EMPTY.into(),
                _ => selections_unavailable(&code),
            },
            CallError::Unavailable(reason) => selections_unavailable(&reason),
        })
    }

    /// A snapshot, detached or not; `None` when there is no such one.
    ///
    /// # Errors
    /// `SelectionsUnavailable`
    pub async fn find_snapshot(&self, id: SnapshotId) -> Result<Option<Snapshot>, Error> {
        found(self.service.get(&READ.at(id)).await)
    }

    /// The content of a snapshot, for rendering.
    ///
    /// # Errors
    /// `SelectionsUnavailable`
    pub async fn snapshot_content(&self, id: SnapshotId) -> Result<Option<Arc<SnapshotContent>>, Error> {
        let fetch = async {
            let content = found(self.service.get(&READ.at(id)).await).map_err(Some)?;
            content.map(Arc::new).ok_or(None)
        };
        // One fetches it for all who wait. What failed is not remembered: the next one sees for themselves.
        match self.contents.get_or_insert_async(&id, fetch).await {
            Ok(content) => Ok(Some(content)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Lets a snapshot go; one that is gone or detached already is as good.
    ///
    /// # Errors
    /// `SelectionsUnavailable`
    pub async fn detach_snapshot(&self, id: SnapshotId, reason: &str) -> Result<(), Error> {
        found::<Value>(self.service.post(&DETACH.at(id), &json!({"Reason": reason})).await).map(drop)
    }
}

fn found<T>(answer: Result<T, CallError>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CallError::Refused { code, .. }) if code == "SELECTIONS_SNAPSHOT_NOT_FOUND" => Ok(None),
        Err(error) => Err(selections_unavailable(&error)),
    }
}
