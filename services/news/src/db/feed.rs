//! What readers find: the search projection, and an author's own list.

use ::db::{Cached, Conn, Json, Lookup, Tx};
use ::web::{Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::post::stored;
use super::schema::{post, post_search, post_search_count};
use crate::domain::{FileId, Post, PostId, PostStatus, Summary, Tag, Title, search_text};

/// A post in a list: without its blocks.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = post, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct PostSummary {
    pub id: PostId,
    #[diesel(column_name = author_company_id)]
    pub tenant_id: Option<CompanyId>,
    pub author_user_id: UserId,
    pub author_company_id: Option<CompanyId>,
    pub title: Title,
    pub summary: Option<Summary>,
    pub cover_file_id: Option<FileId>,
    #[schema(value_type = Vec<Tag>, max_items = 20)]
    pub tags: Json<Vec<Tag>>,
    pub status: PostStatus,
    pub blocks_count: i32,
    #[serde(with = "time::serde::rfc3339::option")]
    pub published_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    pub version: i64,
}

/// What lists may be sorted by. A draft was never published; in one's own list it counts as newest.
#[derive(Clone, Copy, Debug)]
pub enum FeedSort {
    PublishedAt,
    CreatedAt,
}

impl SortKey for FeedSort {
    const KEYS: &'static [(&'static str, Self)] =
        &[("PublishedAt", Self::PublishedAt), ("CreatedAt", Self::CreatedAt)];
    const DEFAULT: &'static str = "-PublishedAt";
}

/// Finding the words of a longer text may take longer than a statement otherwise may.
const LONG_TEXT: usize = 1024 * 1024;

/// Shows a published post to the public, as it is now.
pub async fn put(tx: &mut Tx, shown: &Post) -> Result<(), ::db::Error> {
    let text = search_text(&shown.blocks);
    if text.len() > LONG_TEXT {
        diesel::sql_query("set local statement_timeout = '30s'").execute(tx.conn()).await?;
    }
    let put = diesel::sql_query(
        "insert into post_search (post_id, published_at, created_at, words) \
         values ($1, $2, $3, search_words($4, $5)) \
         on conflict (post_id) do update set published_at = excluded.published_at, words = excluded.words",
    )
    .bind::<SqlUuid, _>(shown.id)
    .bind::<Timestamptz, _>(shown.published_at.unwrap_or(shown.updated_at))
    .bind::<Timestamptz, _>(shown.created_at)
    .bind::<Text, _>(shown.title.as_str())
    .bind::<Text, _>(text);
    Cached(put).execute(tx.conn()).await?;
    Ok(())
}

/// Takes a post from the public.
pub async fn remove(tx: &mut Tx, id: PostId) -> Result<(), ::db::Error> {
    diesel::delete(post_search::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// One page of what is published, and how much there is; with `query`, of what it finds.
///
/// Which posts, and how many, is asked at once; then for these posts alone.
pub async fn list_published(
    conn: &mut Conn,
    query: Option<&str>,
    paging: &Paging<FeedSort>,
) -> Result<(Vec<PostSummary>, i64), ::db::Error> {
    let page = found(query).select(post_search::post_id).limit(paging.limit()).offset(paging.offset());
    let page = match (paging.sort, paging.descending) {
        (FeedSort::PublishedAt, false) => page.order(post_search::published_at.asc()),
        (FeedSort::PublishedAt, true) => page.order(post_search::published_at.desc()),
        (FeedSort::CreatedAt, false) => page.order(post_search::created_at.asc()),
        (FeedSort::CreatedAt, true) => page.order(post_search::created_at.desc()),
    };
    let mut shared = &*conn;
    let page = page.then_order_by(post_search::post_id).load::<PostId>(&mut shared);
    let (ids, total) = try_join(page, count(conn, query)).await?;
    let mut posts = post::table
        .filter(post::id.eq_any(&ids))
        // Save what has been withdrawn or deleted between the two.
        .filter(post::deleted_at.is_null())
        .filter(post::status.eq(stored(PostStatus::Published)))
        .select(PostSummary::as_select())
        .load(conn)
        .await?;
    posts.sort_by_key(|post| ids.iter().position(|id| *id == post.id));
    Ok((posts, total))
}

async fn count(mut conn: Lookup<'_>, query: Option<&str>) -> QueryResult<i64> {
    match query {
        Some(_) => found(query).count().get_result(&mut conn).await,
        None => post_search_count::table.select(post_search_count::posts).first(&mut conn).await,
    }
}

/// All that is published, or what `query` finds of it.
fn found(query: Option<&str>) -> post_search::BoxedQuery<'_, Pg> {
    let all = post_search::table.into_boxed();
    match query {
        Some(query) => all
            .filter(sql::<Bool>("words @@ websearch_to_tsquery('russian', ").bind::<Text, _>(query).sql(")")),
        None => all,
    }
}

/// One page of an author's posts in whatever state, and how many there are.
pub async fn list_of_author(
    conn: &mut Conn,
    author: UserId,
    paging: &Paging<FeedSort>,
) -> Result<(Vec<PostSummary>, i64), ::db::Error> {
    let own = || post::table.filter(post::author_user_id.eq(author)).filter(post::deleted_at.is_null());
    let page =
        own().select(PostSummary::as_select()).limit(paging.limit()).offset(paging.offset()).into_boxed();
    let page = match (paging.sort, paging.descending) {
        (FeedSort::PublishedAt, false) => page.order(post::published_at.asc().nulls_last()),
        (FeedSort::PublishedAt, true) => page.order(post::published_at.desc().nulls_first()),
        (FeedSort::CreatedAt, false) => page.order(post::created_at.asc()),
        (FeedSort::CreatedAt, true) => page.order(post::created_at.desc()),
    };
    let rows = page.then_order_by(post::id).load(conn).await?;
    let total = own().count().get_result(conn).await?;
    Ok((rows, total))
}
