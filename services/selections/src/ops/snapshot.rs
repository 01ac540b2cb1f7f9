//! Snapshots, taken and let go by news.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;

use crate::db;
use crate::db::snapshot::SnapshotRow;
use crate::domain::{DetachReason, PostId, SelectionId, SnapshotId, freeze};
use crate::error::{CONFLICT, Error, NOT_FOUND, SNAPSHOT_NOT_FOUND};

/// For which post, and in whose name.
pub struct TakeSnapshot {
    pub post_id: PostId,
    pub actor_user_id: UserId,
    pub author_user_id: Option<UserId>,
}

/// A snapshot that was taken now, or earlier by the same post.
pub enum Taken {
    New(SnapshotRow),
    Existing(SnapshotRow),
}

/// The post's active snapshot of the source; taken now if there is none. One that exists is answered
/// even if its source was edited or deleted since.
///
/// # Errors
/// [`NOT_FOUND`] for a source that is missing or belongs to neither actor nor author;
/// [`SOURCE_DELETED`](crate::error::SOURCE_DELETED), [`SOURCE_EMPTY`](crate::error::SOURCE_EMPTY).
pub async fn take_snapshot(
    tx: &mut Tx,
    now: OffsetDateTime,
    source: SelectionId,
    command: &TakeSnapshot,
) -> Result<Taken, Error> {
    let selection = db::selection::find(tx.conn(), source).await?.ok_or(NOT_FOUND)?;
    let may_use = [Some(command.actor_user_id), command.author_user_id];
    if !may_use.contains(&Some(selection.owner_user_id)) {
        return Err(NOT_FOUND.into());
    }
    if let Some(existing) = db::snapshot::find_active(tx.conn(), command.post_id, source).await? {
        return Ok(Taken::Existing(existing));
    }
    selection.check_source()?;
    let ids = selection.items.iter().map(|item| item.property_object_id);
    let shown = db::property_object::shown(tx.conn(), ids).await?;
    let items = freeze(&selection.items, shown);
    let row = SnapshotRow::of(selection, command.post_id, items, now);
    if db::snapshot::insert(tx, row.clone()).await? {
        return Ok(Taken::New(row));
    }
    // Another call was first; its snapshot is committed, or the insertion would have waited for it.
    // It is gone only if it was detached in this instant: then the caller tries again.
    db::snapshot::find_active(tx.conn(), command.post_id, source)
        .await?
        .map(Taken::Existing)
        .ok_or_else(|| CONFLICT.into())
}

/// Detaches once; a repeat changes nothing and keeps the first reason.
///
/// # Errors
/// [`SNAPSHOT_NOT_FOUND`]
pub async fn detach_snapshot(
    tx: &mut Tx,
    now: OffsetDateTime,
    id: SnapshotId,
    reason: DetachReason,
) -> Result<SnapshotRow, Error> {
    db::snapshot::detach(tx, id, reason, now).await?;
    db::snapshot::find(tx.conn(), id).await?.ok_or_else(|| SNAPSHOT_NOT_FOUND.into())
}
