//! The kept contents of posts: revisions and the present content. The log has their authors and
//! times.

use std::num::NonZeroU32;

use ::db::{Conn, Db, Json, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Timestamptz};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::log::LogKey;
use crate::domain::{AuthorId, Block, PostId};
use crate::schema::{author, kept_revision};

/// Size of blocks, in bytes, above which the connection that carried them is closed. A pooled
/// connection keeps its buffers.
const LARGE_REVISION_BYTES: i32 = 1024 * 1024;
/// Maximum number of revisions that one [`purge`] deletes, and of authors that
/// [`list_authors_above`] returns.
const PURGE_BATCH: i64 = 500;
/// Maximum size of the revisions that one statement deletes, in bytes. The last revision can exceed
/// it.
const PURGE_BYTES: i64 = 64 * 1024 * 1024;

/// A revision of the content of a post, without its blocks.
#[derive(Debug, Queryable, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionSummary {
    /// Version of the post with this content.
    pub version: i64,
    pub actor_user_id: UserId,
    pub blocks_count: i32,
    /// Size of the stored blocks, in bytes.
    pub size_bytes: i32,
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
}

/// A revision with its blocks.
pub struct Revision {
    pub version: i64,
    pub actor_user_id: UserId,
    pub occurred_at: OffsetDateTime,
    pub blocks: Vec<Block>,
}

/// Returns one page of the revisions of a post and its present content, newest first.
pub async fn list(
    mut conn: &Conn,
    post: PostId,
    paging: &CursorPaging<LogKey>,
) -> Result<CursorPage<RevisionSummary>, ::db::Error> {
    let mut found = kept_revision::table
        .filter(kept_revision::post_id.eq(post))
        .select((
            kept_revision::version,
            kept_revision::actor_user_id,
            kept_revision::blocks_count,
            kept_revision::blocks_bytes,
            kept_revision::occurred_at,
        ))
        .into_boxed::<Pg>();
    if let Some(LogKey { version }) = paging.after {
        found = found.filter(kept_revision::version.lt(version));
    }
    let found = found.order(kept_revision::version.desc()).limit(paging.limit()).load(&mut conn).await?;
    Ok(paging.page(found, |last: &RevisionSummary| LogKey { version: last.version }))
}

/// Returns the size of the blocks of a revision or the present content, in bytes.
pub async fn find_size(mut conn: &Conn, post: PostId, version: i64) -> Result<Option<usize>, ::db::Error> {
    let size = kept_revision::table.find((post, version)).select(kept_revision::blocks_bytes);
    let size: Option<i32> = size.get_result(&mut conn).await.optional()?;
    Ok(size.map(|size| usize::try_from(size).unwrap_or(0)))
}

/// Reads a revision or the present content with its blocks.
pub async fn read(db: &Db, post: PostId, version: i64) -> Result<Option<Revision>, ::db::Error> {
    let mut conn = db.conn().await?;
    let found = kept_revision::table.find((post, version)).select((
        kept_revision::actor_user_id,
        kept_revision::occurred_at,
        kept_revision::blocks,
        kept_revision::blocks_bytes,
    ));
    let rows: Vec<(UserId, OffsetDateTime, Json<Vec<Block>>, i32)> = found.load(&mut conn).await?;
    if rows.iter().any(|(.., size)| *size > LARGE_REVISION_BYTES) {
        ::db::close(conn);
    }
    let row = rows.into_iter().next();
    Ok(row.map(|(actor_user_id, occurred_at, blocks, _)| Revision {
        version,
        actor_user_id,
        occurred_at,
        blocks: blocks.0,
    }))
}

/// Deletes up to a batch of revisions that were replaced before a time, and returns their number.
///
/// Revisions that another transaction has locked stay for a later call.
pub async fn purge(tx: &mut Tx, before: OffsetDateTime) -> Result<usize, ::db::Error> {
    // The size of all older revisions limits the batch, so the oldest one is deleted whatever its
    // size.
    let purge = diesel::sql_query(
        "with old as materialized (select post_id, version, blocks_bytes, created_at from post_revision \
         where created_at < $1 order by created_at limit $2), \
         aged as materialized (select post_id, version, sum(blocks_bytes) over (order by created_at, post_id, version) \
         - blocks_bytes as older_bytes from old), \
         locked as materialized (select post_id, version from post_revision \
         where (post_id, version) in (select post_id, version from aged where older_bytes < $3) \
         order by post_id, version for update skip locked), \
         gone as (delete from post_revision using locked where post_revision.post_id = locked.post_id \
         and post_revision.version = locked.version returning author_id, blocks_bytes), \
         freed as (select author_id, sum(blocks_bytes) as bytes, count(*) as revisions from gone group by author_id), \
         counted as (update author set revision_bytes = revision_bytes - freed.bytes from freed \
         where author.id = freed.author_id) \
         select coalesce(sum(revisions), 0)::bigint as revisions from freed",
    );
    let purge =
        purge.bind::<Timestamptz, _>(before).bind::<BigInt, _>(PURGE_BATCH).bind::<BigInt, _>(PURGE_BYTES);
    let purged: Purged = Prepared(purge).get_result(tx.conn()).await?;
    Ok(usize::try_from(purged.revisions).unwrap_or(0))
}

#[derive(QueryableByName)]
struct Purged {
    #[diesel(sql_type = BigInt)]
    revisions: i64,
}

/// Returns authors with revisions whose posts and revisions together are larger than `limit_mib`.
pub async fn list_authors_above(db: &Db, limit_mib: NonZeroU32) -> Result<Vec<AuthorId>, ::db::Error> {
    let limit = i64::from(limit_mib.get()) * 1024 * 1024;
    let mut conn = db.conn().await?;
    let above = author::table
        // A generic plan uses the partial index only with a literal.
        .filter(sql::<Bool>("revision_bytes > 0"))
        .filter((author::content_bytes + author::revision_bytes).gt(limit))
        .select(author::id)
        .limit(PURGE_BATCH);
    Ok(above.load(&mut conn).await?)
}

/// Deletes the oldest revisions of an author until posts and revisions fit into `limit_mib`, but
/// only about [`PURGE_BYTES`] in one call. Returns the number of deleted revisions.
pub async fn trim(tx: &mut Tx, author: AuthorId, limit_mib: NonZeroU32) -> Result<usize, ::db::Error> {
    let limit = i64::from(limit_mib.get()) * 1024 * 1024;
    // A revision is deleted if all older ones together are smaller than the surplus.
    let trim = diesel::sql_query(
        "with surplus as (select least(content_bytes + revision_bytes - $2, $3) as bytes from author where id = $1), \
         aged as materialized (select post_id, version, sum(blocks_bytes) over (order by created_at, post_id, version) \
         - blocks_bytes as older_bytes from post_revision where author_id = $1), \
         locked as materialized (select post_id, version from post_revision \
         where (post_id, version) in (select post_id, version from aged, surplus where older_bytes < surplus.bytes) \
         order by post_id, version for update), \
         gone as (delete from post_revision using locked where post_revision.post_id = locked.post_id \
         and post_revision.version = locked.version returning blocks_bytes), \
         freed as (select coalesce(sum(blocks_bytes), 0) as bytes, count(*) as revisions from gone), \
         counted as (update author set revision_bytes = revision_bytes - freed.bytes from freed \
         where author.id = $1 and freed.revisions > 0) \
         select revisions from freed",
    );
    let trim = trim
        .bind::<diesel::sql_types::Uuid, _>(author)
        .bind::<BigInt, _>(limit)
        .bind::<BigInt, _>(PURGE_BYTES);
    let trimmed: Purged = Prepared(trim).get_result(tx.conn()).await?;
    Ok(usize::try_from(trimmed.revisions).unwrap_or(0))
}
