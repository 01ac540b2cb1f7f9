//! The stored contents of posts, one after each change. The log has their authors and times.

use std::num::NonZeroU32;

use ::db::{Conn, Db, Json, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Timestamptz};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::log::LogKey;
use super::schema::{author, post_log, post_revision};
use crate::domain::{AuthorId, Block, PostId};

/// Size of blocks, in bytes, above which the connection that carried them is closed. A pooled
/// connection keeps its buffers.
const LARGE_REVISION_BYTES: i32 = 1024 * 1024;
/// Number of revisions that one statement deletes.
const PURGE_BATCH: i64 = 500;

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

/// Returns one page of the revisions of a post, newest first.
pub async fn list(
    mut conn: &Conn,
    post: PostId,
    paging: &CursorPaging<LogKey>,
) -> Result<CursorPage<RevisionSummary>, ::db::Error> {
    let mut found = of_post(post)
        .select((
            post_revision::version,
            post_log::actor_user_id,
            post_log::blocks_count,
            post_revision::blocks_bytes,
            post_log::occurred_at,
        ))
        .into_boxed::<Pg>();
    if let Some(LogKey { version }) = paging.after {
        found = found.filter(post_revision::version.lt(version));
    }
    let found = found.order(post_revision::version.desc()).limit(paging.limit()).load(&mut conn).await?;
    Ok(paging.page(found, |last: &RevisionSummary| LogKey { version: last.version }))
}

/// Returns the size of the blocks of a revision, in bytes.
pub async fn find_size(mut conn: &Conn, post: PostId, version: i64) -> Result<Option<usize>, ::db::Error> {
    let size = post_revision::table.find((post, version)).select(post_revision::blocks_bytes);
    let size: Option<i32> = size.get_result(&mut conn).await.optional()?;
    Ok(size.map(|size| usize::try_from(size).unwrap_or(0)))
}

/// Reads a revision with its blocks.
pub async fn read(db: &Db, post: PostId, version: i64) -> Result<Option<Revision>, ::db::Error> {
    let mut conn = db.conn().await?;
    let found = of_post(post).filter(post_revision::version.eq(version)).select((
        post_log::actor_user_id,
        post_log::occurred_at,
        post_revision::blocks,
        post_revision::blocks_bytes,
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

#[diesel::dsl::auto_type(no_type_alias)]
fn of_post(post: PostId) -> _ {
    let is_entry =
        post_log::post_id.eq(post_revision::post_id).and(post_log::version.eq(post_revision::version));
    post_revision::table.inner_join(post_log::table.on(is_entry)).filter(post_revision::post_id.eq(post))
}

/// Deletes up to a batch of revisions from before a time, and returns their number.
pub async fn purge(tx: &mut Tx, before: OffsetDateTime) -> Result<usize, ::db::Error> {
    let purge = diesel::sql_query(
        "with old as (select post_id, version from post_revision where created_at < $1 order by created_at \
         limit $2 for update skip locked), \
         gone as (delete from post_revision using old where post_revision.post_id = old.post_id \
         and post_revision.version = old.version returning author_id, blocks_bytes), \
         freed as (select author_id, sum(blocks_bytes) as bytes, count(*) as revisions from gone group by author_id), \
         counted as (update author set revision_bytes = revision_bytes - freed.bytes from freed \
         where author.id = freed.author_id) \
         select coalesce(sum(revisions), 0)::bigint as revisions from freed",
    );
    let purge = purge.bind::<Timestamptz, _>(before).bind::<BigInt, _>(PURGE_BATCH);
    let purged: Purged = Prepared(purge).get_result(tx.conn()).await?;
    Ok(usize::try_from(purged.revisions).unwrap_or(0))
}

#[derive(QueryableByName)]
struct Purged {
    #[diesel(sql_type = BigInt)]
    revisions: i64,
}

/// Returns the authors whose posts and revisions together are larger than `limit_mib`.
pub async fn list_authors_above(db: &Db, limit_mib: NonZeroU32) -> Result<Vec<AuthorId>, ::db::Error> {
    let limit = i64::from(limit_mib.get()) * 1024 * 1024;
    let mut conn = db.conn().await?;
    let above = author::table
        .filter(author::revision_bytes.gt(0_i64))
        .filter((author::content_bytes + author::revision_bytes).gt(limit))
        .select(author::id)
        .limit(PURGE_BATCH);
    Ok(above.load(&mut conn).await?)
}

/// Deletes the oldest revisions of an author until posts and revisions fit into `limit_mib`.
pub async fn trim(tx: &mut Tx, author: AuthorId, limit_mib: NonZeroU32) -> Result<(), ::db::Error> {
    let limit = i64::from(limit_mib.get()) * 1024 * 1024;
    let trim = diesel::sql_query(
        "with surplus as (select content_bytes + revision_bytes - $2 as bytes from author where id = $1), \
         aged as (select post_id, version, sum(blocks_bytes) over (order by created_at, post_id, version) - blocks_bytes \
         as older_bytes from post_revision where author_id = $1), \
         gone as (delete from post_revision using aged, surplus where post_revision.post_id = aged.post_id \
         and post_revision.version = aged.version and aged.older_bytes < surplus.bytes returning blocks_bytes) \
         update author set revision_bytes = revision_bytes - (select coalesce(sum(blocks_bytes), 0) from gone) \
         where id = $1",
    );
    let trim = trim.bind::<diesel::sql_types::Uuid, _>(author).bind::<BigInt, _>(limit);
    Prepared(trim).execute(tx.conn()).await?;
    Ok(())
}
