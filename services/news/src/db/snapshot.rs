//! The books on snapshots: those that an edit is taking, and those that are to be let go.

use ::db::{Db, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::{Duration, OffsetDateTime};

use super::schema::{snapshot_claim, snapshot_detach};
use crate::domain::{EditId, PostId, SelectionId, SnapshotId};

/// A snapshot that an edit is about to take.
#[derive(Clone, Debug, Insertable, Queryable, Selectable)]
#[diesel(table_name = snapshot_claim, check_for_backend(diesel::pg::Pg))]
pub struct Claim {
    pub edit_id: EditId,
    pub source_selection_id: SelectionId,
    pub post_id: PostId,
    pub actor_user_id: UserId,
    pub author_user_id: UserId,
    pub due_at: OffsetDateTime,
}

/// A snapshot that is to be detached.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = snapshot_detach, check_for_backend(diesel::pg::Pg))]
pub struct Detach {
    pub snapshot_id: SnapshotId,
    pub post_id: PostId,
    pub reason: String,
    pub attempts: i32,
}

pub async fn claim(tx: &mut Tx, claims: &[Claim]) -> Result<(), ::db::Error> {
    diesel::insert_into(snapshot_claim::table).values(claims).execute(tx.conn()).await?;
    Ok(())
}

/// The edit is saved: what it took is in the post. Answers how many claims it still had.
pub async fn settle(tx: &mut Tx, edit: EditId) -> Result<usize, ::db::Error> {
    let of_edit = snapshot_claim::table.filter(snapshot_claim::edit_id.eq(edit));
    Ok(diesel::delete(of_edit).execute(tx.conn()).await?)
}

pub async fn settle_claim(tx: &mut Tx, claim: &Claim) -> Result<(), ::db::Error> {
    diesel::delete(snapshot_claim::table.find((claim.edit_id, claim.source_selection_id)))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Looks at the claim again at `due_at`.
pub async fn postpone_claim(tx: &mut Tx, claim: &Claim, due_at: OffsetDateTime) -> Result<(), ::db::Error> {
    diesel::update(snapshot_claim::table.find((claim.edit_id, claim.source_selection_id)))
        .set(snapshot_claim::due_at.eq(due_at))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Claims whose edit is over, but did not settle them.
pub async fn due_claims(db: &Db, now: OffsetDateTime, limit: i64) -> Result<Vec<Claim>, ::db::Error> {
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

/// Has the snapshots detached, from now on.
pub async fn let_go(
    tx: &mut Tx,
    post: PostId,
    snapshots: impl IntoIterator<Item = SnapshotId>,
    reason: &str,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let rows: Vec<_> = snapshots
        .into_iter()
        .map(|snapshot| {
            (
                snapshot_detach::snapshot_id.eq(snapshot),
                snapshot_detach::post_id.eq(post),
                snapshot_detach::reason.eq(reason),
                snapshot_detach::due_at.eq(now),
            )
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    diesel::insert_into(snapshot_detach::table)
        .values(rows)
        .on_conflict_do_nothing()
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Keeps snapshots that were to be detached. Answers those for which it is too late.
pub async fn put_back(tx: &mut Tx, snapshots: &[SnapshotId]) -> Result<Vec<SnapshotId>, ::db::Error> {
    let of_these = || snapshot_detach::snapshot_id.eq_any(snapshots);
    diesel::delete(snapshot_detach::table.filter(of_these()).filter(snapshot_detach::started.eq(false)))
        .execute(tx.conn())
        .await?;
    let too_late = snapshot_detach::table
        .filter(of_these())
        .select(snapshot_detach::snapshot_id)
        .load(tx.conn())
        .await?;
    Ok(too_late)
}

pub async fn due_detaches(db: &Db, now: OffsetDateTime, limit: i64) -> Result<Vec<Detach>, ::db::Error> {
    let mut conn = db.conn().await?;
    let due = snapshot_detach::table
        .filter(snapshot_detach::detached_at.is_null())
        .filter(snapshot_detach::due_at.le(now))
        .order(snapshot_detach::due_at)
        .limit(limit)
        .select(Detach::as_select())
        .load(&mut conn)
        .await?;
    Ok(due)
}

/// From here on no edit can put the snapshot back. `false`: one has, meanwhile.
pub async fn start(tx: &mut Tx, id: SnapshotId) -> Result<bool, ::db::Error> {
    let started = diesel::update(snapshot_detach::table.find(id))
        .set(snapshot_detach::started.eq(true))
        .execute(tx.conn())
        .await?;
    Ok(started == 1)
}

/// The snapshot was put back in its post before its detachment started.
pub async fn forget(tx: &mut Tx, id: SnapshotId) -> Result<(), ::db::Error> {
    diesel::delete(snapshot_detach::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// The snapshot is detached. The row is kept for the edits that were told of it before.
pub async fn done(tx: &mut Tx, id: SnapshotId, now: OffsetDateTime) -> Result<(), ::db::Error> {
    diesel::update(snapshot_detach::table.find(id))
        .set(snapshot_detach::detached_at.eq(now))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Removes the rows of what was detached before `then`.
pub async fn purge(db: &Db, then: OffsetDateTime) -> Result<(), ::db::Error> {
    let mut conn = db.conn().await?;
    diesel::delete(snapshot_detach::table.filter(snapshot_detach::detached_at.lt(then)))
        .execute(&mut conn)
        .await?;
    Ok(())
}

/// Tries again after `pause`.
pub async fn postpone(
    tx: &mut Tx,
    id: SnapshotId,
    now: OffsetDateTime,
    pause: Duration,
) -> Result<(), ::db::Error> {
    diesel::update(snapshot_detach::table.find(id))
        .set((
            snapshot_detach::attempts.eq(snapshot_detach::attempts + 1),
            snapshot_detach::due_at.eq(now + pause),
        ))
        .execute(tx.conn())
        .await?;
    Ok(())
}
