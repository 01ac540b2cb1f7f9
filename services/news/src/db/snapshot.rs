//! The books on snapshots: those that an edit is taking, and those that are to be let go.

use ::db::{Cached, Conn, Db, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::schema::{snapshot_claim, snapshot_detach};
use crate::domain::{EditId, Post, PostId, SelectionId, SnapshotId};

/// A snapshot that an edit is about to take.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = snapshot_claim, check_for_backend(diesel::pg::Pg))]
pub struct Claim {
    pub edit_id: EditId,
    pub source_selection_id: SelectionId,
    pub post_id: PostId,
    pub actor_user_id: UserId,
    pub author_user_id: UserId,
}

/// The job that detaches a snapshot; its key is the snapshot's id.
pub const DETACH: &str = "snapshot-detach-retry";

/// Writes down what an edit of `post` is about to take, in one statement, whatever their number.
pub async fn claim(
    db: &Db,
    edit: EditId,
    sources: &[SelectionId],
    post: &Post,
    actor: UserId,
    due_at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let claim = diesel::sql_query(
        "insert into snapshot_claim (edit_id, source_selection_id, post_id, actor_user_id, author_user_id, due_at) \
         select $1, unnest($2), $3, $4, $5, $6",
    )
    .bind::<SqlUuid, _>(edit)
    .bind::<Array<SqlUuid>, _>(sources)
    .bind::<SqlUuid, _>(post.id)
    .bind::<SqlUuid, _>(actor)
    .bind::<SqlUuid, _>(post.author_user_id)
    .bind::<Timestamptz, _>(due_at);
    Cached(claim).execute(&mut db.conn().await?).await?;
    Ok(())
}

/// The edit is saved: what it took is in the post. Answers how many claims it still had.
pub async fn settle(mut conn: &Conn, edit: EditId) -> QueryResult<usize> {
    let of_edit = snapshot_claim::table.filter(snapshot_claim::edit_id.eq(edit));
    diesel::delete(of_edit).execute(&mut conn).await
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
    let snapshots: Vec<SnapshotId> = snapshots.into_iter().collect();
    if snapshots.is_empty() {
        return Ok(());
    }
    let let_go = diesel::sql_query(
        "insert into snapshot_detach (snapshot_id, post_id, reason) select unnest($1), $2, $3 \
         on conflict do nothing",
    )
    .bind::<Array<SqlUuid>, _>(&snapshots)
    .bind::<SqlUuid, _>(post)
    .bind::<Text, _>(reason);
    Cached(let_go).execute(tx.conn()).await?;
    jobs::schedule(tx, DETACH, snapshots, now).await
}

/// Keeps snapshots that were to be detached. Answers those for which it is too late.
///
/// Under the lock of their post's row, without which no detachment is asked for or starts.
pub async fn put_back(mut conn: &Conn, snapshots: &[SnapshotId]) -> QueryResult<Vec<SnapshotId>> {
    if snapshots.is_empty() {
        return Ok(Vec::new());
    }
    let asked_for: Vec<(SnapshotId, bool)> = snapshot_detach::table
        .filter(snapshot_detach::snapshot_id.eq_any(snapshots))
        .select((snapshot_detach::snapshot_id, snapshot_detach::started))
        .load(&mut conn)
        .await?;
    let ids = |started| {
        let rows = asked_for.iter().filter(move |(_, has_started)| *has_started == started);
        rows.map(|(id, _)| *id).collect::<Vec<SnapshotId>>()
    };
    let (too_late, in_time) = (ids(true), ids(false));
    if !in_time.is_empty() {
        let kept = snapshot_detach::table.filter(snapshot_detach::snapshot_id.eq_any(in_time));
        diesel::delete(kept).execute(&mut conn).await?;
    }
    Ok(too_late)
}

/// The post that has let the snapshot go. `None`: it has put it back.
pub async fn post_of(tx: &mut Tx, id: SnapshotId) -> Result<Option<PostId>, ::db::Error> {
    let post = snapshot_detach::table.find(id).select(snapshot_detach::post_id);
    Ok(post.get_result(tx.conn()).await.optional()?)
}

/// From here on no edit can put the snapshot back. Answers why it is detached; `None`: it was put back meanwhile, or is
/// detached already.
pub async fn start(tx: &mut Tx, id: SnapshotId) -> Result<Option<String>, ::db::Error> {
    let open = snapshot_detach::table.find(id).filter(snapshot_detach::detached_at.is_null());
    let start = diesel::update(open).set(snapshot_detach::started.eq(true));
    Ok(start.returning(snapshot_detach::reason).get_result(tx.conn()).await.optional()?)
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
