//! Lists of posts: the search projection of published posts, and an author's own posts.

use std::time::Duration;

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, Reach, UserId};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use service::list::{self, CappedCount};
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::schema::{post, post_search, post_search_count};
use crate::domain::{
    AuthorId, EditablePosts, FileId, Post, PostId, PostStatus, Summary, Tag, Title, search_text, search_words,
};

/// A post of a list, without its blocks.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = post, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct PostSummary {
    pub id: PostId,
    #[diesel(column_name = author_company_id)]
    pub tenant_id: Option<CompanyId>,
    /// The author for readers. The id is stable and does not reveal the user.
    pub author_id: AuthorId,
    /// `null` except in the list of the caller's own posts.
    #[diesel(select_expression = post::author_user_id.nullable())]
    pub author_user_id: Option<UserId>,
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

/// Sort keys of the lists. In an author's own list an unpublished draft counts as the newest.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum FeedSort {
    PublishedAt,
    CreatedAt,
}

impl SortKey for FeedSort {
    const DEFAULT: &'static str = "-PublishedAt";
}

/// Search texts above this size get [`LONG_TEXT_TIMEOUT`].
const LONG_TEXT_BYTES: usize = 1024 * 1024;
/// Maximum size of a search text that the thread of the listener folds, in bytes. A longer text
/// would delay the other requests of the thread.
const MAX_INLINE_BYTES: usize = 128 * 1024;
/// Timeout for computing the search vector of a long text.
const LONG_TEXT_TIMEOUT: Duration = Duration::from_secs(30);

/// Writes the current state of a published post into the search projection.
pub async fn upsert(tx: &mut Tx, published: &Post) -> Result<(), ::db::Error> {
    let text = search_text(&published.blocks);
    if text.len() > LONG_TEXT_BYTES {
        tx.extend_timeout(LONG_TEXT_TIMEOUT).await?;
    }
    let words = if text.len() > MAX_INLINE_BYTES {
        let words = tokio::task::spawn_blocking(move || search_words(&text));
        words.await.map_err(|panic| diesel::result::Error::QueryBuilderError(panic.into()))?
    } else {
        search_words(&text)
    };
    let upsert = diesel::sql_query(
        "insert into post_search (post_id, published_at, created_at, words) \
         values ($1, $2, $3, search_words($4, $5)) \
         on conflict (post_id) do update set published_at = excluded.published_at, words = excluded.words",
    )
    .bind::<SqlUuid, _>(published.id)
    .bind::<Timestamptz, _>(published.published_at.unwrap_or(published.updated_at))
    .bind::<Timestamptz, _>(published.created_at)
    .bind::<Text, _>(search_words(published.title.as_str()))
    .bind::<Text, _>(words);
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Removes a post from the search projection.
pub async fn delete(tx: &mut Tx, id: PostId) -> Result<(), ::db::Error> {
    diesel::delete(post_search::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns one page of the published posts that match `query`, or of all published posts. `query`
/// is a result of [`search_query`](crate::domain::search_query).
///
/// Reads the ids and the total concurrently, and then the posts of these ids.
pub async fn list_published(
    conn: &Conn,
    query: Option<&str>,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let order = match paging.sort {
        FeedSort::PublishedAt => list::order_by(paging, post_search::published_at),
        FeedSort::CreatedAt => list::order_by(paging, post_search::created_at),
    };
    let page = matching(query).select(post_search::post_id).limit(paging.limit()).offset(paging.offset());
    let mut shared = conn;
    let page = page.order((order, post_search::post_id)).load::<PostId>(&mut shared);
    let (ids, total) = try_join(page, count(conn, query)).await?;
    let mut posts: Vec<PostSummary> = post::table
        .filter(post::id.eq_any(&ids))
        // Excludes posts that were unpublished or deleted between the two reads.
        .filter(post::deleted_at.is_null())
        .filter(post::status.eq(PostStatus::Published))
        .select(PostSummary::as_select())
        .load(&mut { conn })
        .await?;
    // Readers see the public id of the author only.
    for post in &mut posts {
        post.author_user_id = None;
    }
    posts.sort_by_key(|post| ids.iter().position(|id| *id == post.id));
    Ok(paging.page(posts, total))
}

async fn count(mut conn: &Conn, query: Option<&str>) -> QueryResult<i64> {
    match query {
        Some(_) => CappedCount(matching(query).select(post_search::post_id)).get_result(&mut conn).await,
        None => post_search_count::table.select(post_search_count::posts).first(&mut conn).await,
    }
}

/// Returns the published posts that match `query`, or all of them.
///
/// A query that no index can answer finds nothing and reads nothing. Examples are `-flat` and a
/// query of stop words.
fn matching(query: Option<&str>) -> post_search::BoxedQuery<'_, Pg> {
    let all = post_search::table.into_boxed();
    match query {
        Some(query) => all.filter(
            sql::<Bool>("words @@ websearch_to_tsquery('russian', ")
                .bind::<Text, _>(query)
                .sql(") and querytree(websearch_to_tsquery('russian', ")
                .bind::<Text, _>(query)
                .sql(")) not in ('', 'T')"),
        ),
        None => all,
    }
}

/// Returns one page of an author's posts: the published ones, and those of `editable` in every
/// status.
pub async fn list_of_author(
    conn: &Conn,
    author: UserId,
    editable: &EditablePosts,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let (every_company, company) = match editable.of_companies {
        None => (false, None),
        Some(Reach::Platform) => (true, None),
        Some(Reach::Company(company)) => (false, Some(company)),
    };
    let is_visible = || {
        let is_published = post::status.eq(PostStatus::Published);
        let is_personal = post::author_company_id.is_null().and(editable.personal.into_sql::<Bool>());
        let has_company = post::author_company_id.is_not_null().and(every_company.into_sql::<Bool>());
        is_published.or(is_personal).or(has_company).or(post::author_company_id.eq(company))
    };
    let own = || {
        let own = post::table.filter(post::author_user_id.eq(author)).filter(post::deleted_at.is_null());
        own.filter(is_visible())
    };
    let order = match paging.sort {
        // PostgreSQL sorts nulls last in ascending and first in descending order.
        FeedSort::PublishedAt => list::order_by(paging, post::published_at),
        FeedSort::CreatedAt => list::order_by(paging, post::created_at),
    };
    let sorted = own().select(PostSummary::as_select()).order((order, post::id));
    Ok(list::page(conn, paging, sorted, own().select(post::id)).await?)
}
