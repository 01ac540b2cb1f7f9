//! Rows of snapshots.

use ::db::{Conn, Json, Prepared, Tx};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{
    Description, DetachReason, PostId, PublicCode, Selection, SelectionId, SnapshotId, SnapshotItem, Title,
};
use crate::schema::snapshot;

/// Status of a snapshot. Detached is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum SnapshotStatus {
    Active,
    Detached,
}

/// The row of a snapshot.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = snapshot, check_for_backend(Pg))]
pub struct SnapshotRow {
    pub id: SnapshotId,
    pub post_id: PostId,
    pub source_selection_id: SelectionId,
    #[diesel(serialize_as = String)]
    pub public_code: PublicCode,
    pub title: Title,
    pub description: Option<Description>,
    pub items: Json<Vec<SnapshotItem>>,
    pub created_at: OffsetDateTime,
    #[diesel(skip_insertion)]
    pub detach_reason: Option<DetachReason>,
    #[diesel(skip_insertion)]
    pub detached_at: Option<OffsetDateTime>,
}

impl SnapshotRow {
    /// Creates an active snapshot of `source` for `post_id`.
    pub fn new(source: Selection, post_id: PostId, items: Vec<SnapshotItem>, now: OffsetDateTime) -> Self {
        Self {
            id: SnapshotId::generate(),
            post_id,
            source_selection_id: source.id,
            public_code: source.public_code,
            title: source.title,
            description: source.description,
            items: Json(items),
            created_at: now,
            detach_reason: None,
            detached_at: None,
        }
    }

    pub fn status(&self) -> SnapshotStatus {
        if self.detached_at.is_none() { SnapshotStatus::Active } else { SnapshotStatus::Detached }
    }
}

/// Inserts a snapshot. Returns false if the post has an active one of the same source.
pub async fn insert(tx: &mut Tx, row: SnapshotRow) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(snapshot::table).values(row).on_conflict_do_nothing();
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    Ok(inserted == 1)
}

/// Returns the snapshot, detached or not.
pub async fn find(conn: &mut Conn, id: SnapshotId) -> Result<Option<SnapshotRow>, ::db::Error> {
    Ok(snapshot::table.find(id).select(SnapshotRow::as_select()).first(conn).await.optional()?)
}

/// Returns the post's active snapshot of `source`.
pub async fn find_active(
    conn: &mut Conn,
    post_id: PostId,
    source: SelectionId,
) -> Result<Option<SnapshotRow>, ::db::Error> {
    let active = snapshot::table
        .filter(snapshot::post_id.eq(post_id))
        .filter(snapshot::source_selection_id.eq(source))
        .filter(snapshot::detached_at.is_null())
        .select(SnapshotRow::as_select())
        .first(conn)
        .await
        .optional()?;
    Ok(active)
}

/// Detaches a snapshot if it is active.
pub async fn detach(
    tx: &mut Tx,
    id: SnapshotId,
    reason: DetachReason,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let detach = diesel::update(snapshot::table.find(id).filter(snapshot::detached_at.is_null()))
        .set((snapshot::detach_reason.eq(reason), snapshot::detached_at.eq(now)));
    Prepared(detach).execute(tx.conn()).await?;
    Ok(())
}
