//! Records of snapshots: claims of edits, and detachments.
//!
//! A claim is written before an edit takes a snapshot. A detachment is written with the change that
//! removes a snapshot from its post.

use ::db::{Conn, Db, Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{EditId, PostId, SelectionId, SnapshotId};
use crate::schema::{snapshot_claim, snapshot_detach};

/// The record that an edit is about to take a snapshot.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = snapshot_claim, check_for_backend(diesel::pg::Pg))]
pub struct Claim {
    pub edit_id: EditId,
    pub source_selection_id: SelectionId,
    pub post_id: PostId,
    pub actor_user_id: UserId,
    /// The author of the post, if the author's ownership of the source counts.
    pub author_user_id: Option<UserId>,
}

/// Name of the job that detaches a snapshot. Its key is the snapshot's id.
pub const DETACH_JOB: &str = "snapshot-detach-retry";

/// Inserts the claims of one edit in one statement.
pub async fn insert_claims(db: &Db, claims: &[Claim], due_at: OffsetDateTime) -> Result<(), ::db::Error> {
    let Some(first) = claims.first() else { return Ok(()) };
    let insert = diesel::sql_query(
        "insert into snapshot_claim (edit_id, post_id, actor_user_id, source_selection_id, author_user_id, due_at) \
         select $1, $2, $3, source, author, $6 from unnest($4, $5) as claim (source, author)",
    )
    .bind::<SqlUuid, _>(first.edit_id)
    .bind::<SqlUuid, _>(first.post_id)
    .bind::<SqlUuid, _>(first.actor_user_id)
    .bind::<Array<SqlUuid>, _>(claims.iter().map(|claim| claim.source_selection_id).collect::<Vec<_>>())
    .bind::<Array<Nullable<SqlUuid>>, _>(claims.iter().map(|claim| claim.author_user_id).collect::<Vec<_>>())
    .bind::<Timestamptz, _>(due_at);
    Prepared(insert).execute(&mut db.conn().await?).await?;
    Ok(())
}

/// Deletes the claims of an edit, and returns their number.
pub async fn delete_claims(mut conn: &Conn, edit: EditId) -> QueryResult<usize> {
    let of_edit = snapshot_claim::table.filter(snapshot_claim::edit_id.eq(edit));
    diesel::delete(of_edit).execute(&mut conn).await
}

/// Deletes one claim.
pub async fn delete_claim(tx: &mut Tx, claim: &Claim) -> Result<(), ::db::Error> {
    diesel::delete(snapshot_claim::table.find((claim.edit_id, claim.source_selection_id)))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Postpones a claim to `due_at`.
pub async fn postpone_claim(tx: &mut Tx, claim: &Claim, due_at: OffsetDateTime) -> Result<(), ::db::Error> {
    diesel::update(snapshot_claim::table.find((claim.edit_id, claim.source_selection_id)))
        .set(snapshot_claim::due_at.eq(due_at))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Returns up to `limit` claims that are due, the oldest first. Their edits ended without deleting
/// them.
pub async fn find_due_claims(db: &Db, now: OffsetDateTime, limit: i64) -> Result<Vec<Claim>, ::db::Error> {
    let mut conn = db.conn().await?;
    let due = snapshot_claim::table
        .filter(snapshot_claim::due_at.le(now))
        .order(snapshot_claim::due_at)
        .limit(limit)
        .select(Claim::as_select())
        .load(&mut conn)
        .await?;
    Ok(due)
}

/// Schedules the detachment of snapshots that left their post.
pub async fn schedule_detachments(
    tx: &mut Tx,
    post: PostId,
    snapshots: impl IntoIterator<Item = SnapshotId>,
    reason: &str,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let snapshots: Vec<SnapshotId> = snapshots.into_iter().collect();
    if snapshots.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "insert into snapshot_detach (snapshot_id, post_id, reason) select unnest($1), $2, $3 \
         on conflict do nothing",
    )
    .bind::<Array<SqlUuid>, _>(&snapshots)
    .bind::<SqlUuid, _>(post)
    .bind::<Text, _>(reason);
    Prepared(insert).execute(tx.conn()).await?;
    jobs::schedule(tx, DETACH_JOB, snapshots, now).await
}

/// Cancels detachments of snapshots that an edit embeds again. Returns the snapshots whose
/// detachment has started.
///
/// The caller holds the lock of the post's row. Until its commit no detachment of the post is
/// scheduled or starts.
pub async fn cancel_detachments(mut conn: &Conn, snapshots: &[SnapshotId]) -> QueryResult<Vec<SnapshotId>> {
    if snapshots.is_empty() {
        return Ok(Vec::new());
    }
    let detachments: Vec<(SnapshotId, bool)> = snapshot_detach::table
        .filter(snapshot_detach::snapshot_id.eq_any(snapshots))
        .select((snapshot_detach::snapshot_id, snapshot_detach::started))
        .load(&mut conn)
        .await?;
    let ids = |started| {
        let rows = detachments.iter().filter(move |(_, has_started)| *has_started == started);
        rows.map(|(id, _)| *id).collect::<Vec<SnapshotId>>()
    };
    let (started, pending) = (ids(true), ids(false));
    if !pending.is_empty() {
        let pending = snapshot_detach::table.filter(snapshot_detach::snapshot_id.eq_any(pending));
        diesel::delete(pending).execute(&mut conn).await?;
    }
    Ok(started)
}

/// Returns the id of the post of a detachment, or `None` if the detachment was cancelled.
pub async fn find_post(tx: &mut Tx, id: SnapshotId) -> Result<Option<PostId>, ::db::Error> {
    let post = snapshot_detach::table.find(id).select(snapshot_detach::post_id);
    Ok(post.get_result(tx.conn()).await.optional()?)
}

/// Marks a detachment as started, so that no edit can cancel it, and returns its reason.
///
/// Returns `None` if the detachment was cancelled or is finished.
pub async fn start_detachment(tx: &mut Tx, id: SnapshotId) -> Result<Option<String>, ::db::Error> {
    let open = snapshot_detach::table.find(id).filter(snapshot_detach::detached_at.is_null());
    let start = diesel::update(open).set(snapshot_detach::started.eq(true));
    Ok(start.returning(snapshot_detach::reason).get_result(tx.conn()).await.optional()?)
}

/// Cancels a detachment that has not started.
pub async fn cancel_detachment(tx: &mut Tx, id: SnapshotId) -> Result<(), ::db::Error> {
    diesel::delete(snapshot_detach::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// Marks a detachment as finished.
///
/// The row stays for edits that read the snapshot earlier, until it is purged.
pub async fn finish_detachment(tx: &mut Tx, id: SnapshotId, now: OffsetDateTime) -> Result<(), ::db::Error> {
    diesel::update(snapshot_detach::table.find(id))
        .set(snapshot_detach::detached_at.eq(now))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Deletes detachments that finished before `before`.
pub async fn purge_detachments(db: &Db, before: OffsetDateTime) -> Result<(), ::db::Error> {
    let mut conn = db.conn().await?;
    diesel::delete(snapshot_detach::table.filter(snapshot_detach::detached_at.lt(before)))
        .execute(&mut conn)
        .await?;
    Ok(())
}
