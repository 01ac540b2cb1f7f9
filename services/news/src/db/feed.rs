//! What readers find: the search projection, and an author's own list.

use std::time::Duration;

use ::db::{Cached, Json, Lookup, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use service::list::{self, Counted};
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

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
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum FeedSort {
    PublishedAt,
    CreatedAt,
}

impl SortKey for FeedSort {
    const DEFAULT: &'static str = "-PublishedAt";
}

/// Finding the words of a longer text may take longer than a statement otherwise may.
const LONG_TEXT: usize = 1024 * 1024;
const LONG: Duration = Duration::from_secs(30);

/// Shows a published post to the public, as it is now.
pub async fn put(tx: &mut Tx, shown: &Post) -> Result<(), ::db::Error> {
    let text = search_text(&shown.blocks);
    if text.len() > LONG_TEXT {
        tx.allow(LONG).await?;
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

/// One page of what is published; with `query`, of what it finds.
///
/// Which posts, and how many, is asked at once; then for these posts alone.
pub async fn list_published(
    conn: Lookup<'_>,
    query: Option<&str>,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let order = match paging.sort {
        FeedSort::PublishedAt => list::by(paging, post_search::published_at),
        FeedSort::CreatedAt => list::by(paging, post_search::created_at),
    };
    let page = found(query).select(post_search::post_id).limit(paging.limit()).offset(paging.offset());
    let mut shared = conn;
    let page = page.order((order, post_search::post_id)).load::<PostId>(&mut shared);
    let (ids, total) = try_join(page, count(conn, query)).await?;
    let mut posts = post::table
        .filter(post::id.eq_any(&ids))
        // Save what has been withdrawn or deleted between the two.
        .filter(post::deleted_at.is_null())
        .filter(post::status.eq(PostStatus::Published))
        .select(PostSummary::as_select())
        .load(&mut { conn })
        .await?;
    posts.sort_by_key(|post| ids.iter().position(|id| *id == post.id));
    Ok(paging.page(posts, total))
}

async fn count(mut conn: Lookup<'_>, query: Option<&str>) -> QueryResult<i64> {
    match query {
        Some(_) => Counted(found(query).select(post_search::post_id)).get_result(&mut conn).await,
        None => post_search_count::table.select(post_search_count::posts).first(&mut conn).await,
    }
}

/// All that is published, or what `query` finds of it. A query that no index answers (`-flat`, nothing but stop
/// words) finds nothing, and nothing is read for it.
fn found(query: Option<&str>) -> post_search::BoxedQuery<'_, Pg> {
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

/// One page of an author's posts in whatever state.
pub async fn list_of_author(
    conn: Lookup<'_>,
    author: UserId,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let own = || post::table.filter(post::author_user_id.eq(author)).filter(post::deleted_at.is_null());
    let order = match paging.sort {
        // As PostgreSQL sorts what is null: last, or first where the order is turned round.
        FeedSort::PublishedAt => list::by(paging, post::published_at),
        FeedSort::CreatedAt => list::by(paging, post::created_at),
    };
    let sorted = own().select(PostSummary::as_select()).order((order, post::id));
    Ok(list::page(conn, paging, sorted, own().select(post::id)).await?)
}
