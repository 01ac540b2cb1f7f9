//! Use cases of snapshots, which news takes and detaches.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;

use crate::db;
use crate::db::snapshot::SnapshotRow;
use crate::domain::{DetachReason, PostId, SelectionId, SnapshotId, to_snapshot_items};
use crate::error::{CONFLICT, Error, NOT_FOUND, SNAPSHOT_NOT_FOUND};

/// The post of a snapshot, its editor and its author.
pub struct SnapshotRequest {
    pub post_id: PostId,
    pub actor_user_id: UserId,
    pub author_user_id: Option<UserId>,
    /// The active snapshot that the new one replaces.
    pub replaces_snapshot_id: Option<SnapshotId>,
}

/// Result of [`take_snapshot`].
pub enum TakenSnapshot {
    New(SnapshotRow),
    Existing(SnapshotRow),
}

/// Returns the post's active snapshot of the source, and takes one if there is none.
///
/// The post already shows the existing snapshot. Therefore it is returned even if its source was
/// edited or deleted, or if the editor does not own the source. If the request replaces it, the
/// function detaches it and takes a new one.
///
/// # Errors
/// - [`NOT_FOUND`] if the source is missing or belongs to neither actor nor author.
/// - [`SOURCE_DELETED`](crate::error::SOURCE_DELETED),
///   [`SOURCE_EMPTY`](crate::error::SOURCE_EMPTY).
/// - [`CONFLICT`] if a concurrent call took the snapshot and it is already detached.
pub async fn take_snapshot(
    tx: &mut Tx,
    now: OffsetDateTime,
    source: SelectionId,
    request: &SnapshotRequest,
) -> Result<TakenSnapshot, Error> {
    let active = db::snapshot::find_active(tx.conn(), request.post_id, source).await?;
    let replaced = match active {
        Some(active) if request.replaces_snapshot_id != Some(active.id) => {
            return Ok(TakenSnapshot::Existing(active));
        }
        replaced => replaced,
    };
    let selection = db::selection::find(tx.conn(), source).await?.ok_or(NOT_FOUND)?;
    let owners = [Some(request.actor_user_id), request.author_user_id];
    if !owners.contains(&Some(selection.owner_user_id)) {
        return Err(NOT_FOUND.into());
    }
    selection.check_source()?;
    if let Some(replaced) = replaced {
        db::snapshot::detach(tx, replaced.id, DetachReason::BlockReplaced, now).await?;
    }
    let ids = selection.items.iter().map(|item| item.property_object_id);
    let shown = db::property_object::find_shown(tx.conn(), ids).await?;
    let items = to_snapshot_items(&selection.items, shown);
    let row = SnapshotRow::new(selection, request.post_id, items, now);
    if db::snapshot::insert(tx, row.clone()).await? {
        return Ok(TakenSnapshot::New(row));
    }
    // The insert waited for a concurrent call that committed its own snapshot. If that snapshot is
    // already detached, there is no Active one, and the caller retries.
    db::snapshot::find_active(tx.conn(), request.post_id, source)
        .await?
        .map(TakenSnapshot::Existing)
        .ok_or_else(|| CONFLICT.into())
}

/// Detaches a snapshot. A repeat keeps the first reason and time.
///
/// # Errors
/// [`SNAPSHOT_NOT_FOUND`] if there is no such snapshot.
pub async fn detach_snapshot(
    tx: &mut Tx,
    now: OffsetDateTime,
    id: SnapshotId,
    reason: DetachReason,
) -> Result<SnapshotRow, Error> {
    db::snapshot::detach(tx, id, reason, now).await?;
    db::snapshot::find(tx.conn(), id).await?.ok_or_else(|| SNAPSHOT_NOT_FOUND.into())
}
