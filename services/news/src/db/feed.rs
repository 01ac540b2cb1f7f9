//! The search projection of published posts, and the lists and the Atom feed that read it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{MAX_TOTAL_COUNT, Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::{AsExprOf, sql};
use diesel::expression::{SqlLiteral, UncheckedBind};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, Bool, Float, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use service::list::{self, CappedCount};
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{
    AuthorId, FileId, Post, PostId, PostStatus, ScheduleFailure, Summary, Tag, Title, label_text,
    search_text, search_words, tag_key,
};
use crate::schema::{post, post_search, post_search_count};

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
    /// `null` in the list of published posts.
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
    /// Time at which the post will be published. `null` in the list of published posts.
    #[serde(with = "time::serde::rfc3339::option")]
    pub publish_at: Option<OffsetDateTime>,
    /// Time at which the post will be unpublished. `null` in the list of published posts.
    #[serde(with = "time::serde::rfc3339::option")]
    pub unpublish_at: Option<OffsetDateTime>,
    /// The last scheduled move that failed. `null` in the list of published posts.
    #[schema(value_type = Option<ScheduleFailure>)]
    pub schedule_failure: Option<Json<ScheduleFailure>>,
    pub version: i64,
}

impl PostSummary {
    /// Removes what only editors of the post see.
    pub fn hide_schedule(&mut self) {
        self.publish_at = None;
        self.unpublish_at = None;
        self.schedule_failure = None;
    }
}

/// Sort keys of the lists. By `PublishedAt`, a post that was never published counts as the newest.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum FeedSort {
    PublishedAt,
    CreatedAt,
    /// Rank of a post for `Query`. Without a query it is `PublishedAt`.
    Relevance,
}

impl SortKey for FeedSort {
    const DEFAULT: &'static str = "-PublishedAt";
}

/// Search texts above this size get [`LONG_TEXT_TIMEOUT`].
const LONG_TEXT_BYTES: usize = 1024 * 1024;
/// Maximum size of a search text that the thread of the listener folds, in bytes. A longer text
/// would delay the other requests of the thread.
const MAX_INLINE_BYTES: usize = 128 * 1024;
/// Characters of the text that `Relevance` ranks. Guests may sort by it, so a rank must be cheap
/// whatever the authors write.
const RANKED_CHARACTERS: i32 = 2_000;
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
        "insert into post_search (post_id, published_at, created_at, updated_at, author_company_id, tag_keys, \
            words, ranked_words) \
         values ($1, $2, $3, $4, $5, $6, search_words($7, $8, $9), search_words($7, $8, left($9, $10))) \
         on conflict (post_id) do update set published_at = excluded.published_at, \
         updated_at = excluded.updated_at, tag_keys = excluded.tag_keys, words = excluded.words, \
         ranked_words = excluded.ranked_words",
    )
    .bind::<SqlUuid, _>(published.id)
    .bind::<Timestamptz, _>(published.published_at.unwrap_or(published.updated_at))
    .bind::<Timestamptz, _>(published.created_at)
    .bind::<Timestamptz, _>(published.updated_at)
    .bind::<Nullable<SqlUuid>, _>(published.author_company_id)
    .bind::<Array<Text>, _>(published.tags.iter().map(tag_key).collect::<Vec<_>>())
    .bind::<Text, _>(search_words(published.title.as_str()))
    .bind::<Text, _>(label_text(published))
    .bind::<Text, _>(words)
    .bind::<Integer, _>(RANKED_CHARACTERS);
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Removes a post from the search projection.
pub async fn delete(tx: &mut Tx, id: PostId) -> Result<(), ::db::Error> {
    diesel::delete(post_search::table.find(id)).execute(tx.conn()).await?;
    Ok(())
}

/// The filter of a list of published posts.
#[derive(Clone, Debug, Default)]
pub struct FeedFilter {
    /// A query of [`search_query`](crate::domain::search_query).
    pub query: Option<String>,
    /// A tag as [`tag_key`] returns it.
    pub tag: Option<String>,
    pub company: Option<CompanyId>,
}

/// Returns one page of the published posts that match the filter.
///
/// Reads the ids and the total concurrently, and then the posts of these ids. With a tag and
/// without `Relevance` the total is read first. `Relevance` ranks the newest [`MAX_TOTAL_COUNT`]
/// matches only, since the pages of a list end at this number of items.
pub async fn list_published(
    conn: &Conn,
    filter: &FeedFilter,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let query = filter.query.as_ref().filter(|_| matches!(paging.sort, FeedSort::Relevance));
    let page = if let Some(query) = query {
        let rank = rank_expression("ts_rank(ranked_words, ", query, ")");
        let newest = matching(filter).select(post_search::post_id);
        let newest = newest.order(post_search::published_at.desc()).limit(MAX_TOTAL_COUNT);
        let order = (list::order_by(paging, rank), post_search::published_at.desc(), post_search::post_id);
        post_search::table.filter(post_search::post_id.eq_any(newest)).into_boxed().order(order)
    } else {
        let order = match paging.sort {
            FeedSort::PublishedAt | FeedSort::Relevance => list::order_by(paging, post_search::published_at),
            FeedSort::CreatedAt => list::order_by(paging, post_search::created_at),
        };
        matching(filter).order((order, post_search::post_id))
    };
    let page = page.select(post_search::post_id).limit(paging.limit()).offset(paging.offset());
    let mut shared = conn;
    // A read in the order of an index scans almost all posts to find those of a rare tag. Therefore
    // the filter runs first if fewer than `MAX_TOTAL_COUNT` posts match.
    let tagged_count =
        if filter.tag.is_some() && query.is_none() { Some(count(conn, filter).await?) } else { None };
    let (ids, total) = match tagged_count {
        Some(total) if total < MAX_TOTAL_COUNT => {
            let columns = (post_search::post_id, post_search::published_at, post_search::created_at);
            let found = LimitedThenSorted { found: matching(filter).select(columns), paging };
            (found.load::<PostId>(&mut shared).await?, total)
        }
        Some(total) => (page.load(&mut shared).await?, total),
        None => try_join(page.load::<PostId>(&mut shared), count(conn, filter)).await?,
    };
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
        post.hide_schedule();
    }
    posts.sort_by_key(|post| ids.iter().position(|id| *id == post.id));
    Ok(paging.page(posts, total))
}

/// Finds up to [`MAX_TOTAL_COUNT`] posts without an order, and sorts them for a page of ids.
struct LimitedThenSorted<'p, Q> {
    found: Q,
    paging: &'p Paging<FeedSort>,
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for LimitedThenSorted<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // Without a cached statement PostgreSQL plans the query for its tag.
        out.unsafe_to_cache_prepared();
        out.push_sql("with found as materialized (");
        self.found.walk_ast(out.reborrow())?;
        out.push_sql(&format!(" limit {MAX_TOTAL_COUNT}) select post_id from found order by "));
        out.push_sql(match self.paging.sort {
            FeedSort::PublishedAt | FeedSort::Relevance => "published_at",
            FeedSort::CreatedAt => "created_at",
        });
        out.push_sql(if self.paging.descending { " desc" } else { " asc" });
        out.push_sql(&format!(", post_id limit {} offset {}", self.paging.limit(), self.paging.offset()));
        Ok(())
    }
}

/// The SQL has no static id, since it depends on the filter and the page.
impl<Q> QueryId for LimitedThenSorted<'_, Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for LimitedThenSorted<'_, Q> {
    type SqlType = SqlUuid;
}

async fn count(mut conn: &Conn, filter: &FeedFilter) -> QueryResult<i64> {
    if let FeedFilter { query: None, tag: None, company: None } = filter {
        return post_search_count::table.select(post_search_count::posts).first(&mut conn).await;
    }
    CappedCount(matching(filter).select(post_search::post_id)).get_result(&mut conn).await
}

/// Returns the published posts that match the filter.
///
/// A query that no index can answer finds nothing and reads nothing. Examples are `-flat` and a
/// query of stop words.
fn matching(filter: &FeedFilter) -> post_search::BoxedQuery<'static, Pg> {
    let mut found = post_search::table.into_boxed();
    if let Some(query) = &filter.query {
        found = found.filter(
            sql::<Bool>("words @@ websearch_to_tsquery('russian', ")
                .bind::<Text, _>(query.clone())
                .sql(") and querytree(websearch_to_tsquery('russian', ")
                .bind::<Text, _>(query.clone())
                .sql(")) not in ('', 'T')"),
        );
    }
    if let Some(tag) = &filter.tag {
        found = found.filter(post_search::tag_keys.contains(vec![tag.clone()]));
    }
    if let Some(company) = filter.company {
        found = found.filter(post_search::author_company_id.eq(company));
    }
    found
}

/// Returns an expression for the rank of a post: the SQL `before`, the query as a `tsquery`, and
/// the SQL `after`.
pub fn rank_expression(before: &str, query: &str, after: &str) -> SqlLiteral<Float, RankBind> {
    sql::<Float>(&format!("{before}websearch_to_tsquery('russian', "))
        .bind::<Text, _>(query.to_owned())
        .sql(&format!("){after}"))
}

/// The type of the bound query in a [`rank_expression`].
pub type RankBind = UncheckedBind<SqlLiteral<Float>, AsExprOf<String, Text>>;

/// A published post of an Atom feed.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = post, check_for_backend(Pg))]
pub struct FeedEntry {
    pub id: PostId,
    pub author_id: AuthorId,
    pub title: Title,
    pub summary: Option<Summary>,
    pub tags: Json<Vec<Tag>>,
    pub published_at: Option<OffsetDateTime>,
}

/// Returns the published posts that changed last, of a company or of all, with the times of their
/// changes. A new schedule is no change for readers.
pub async fn list_last_changed(
    mut conn: &Conn,
    company: Option<CompanyId>,
    limit: i64,
) -> Result<Vec<(FeedEntry, OffsetDateTime)>, ::db::Error> {
    let filter = FeedFilter { company, ..FeedFilter::default() };
    let found = matching(&filter).order((post_search::updated_at.desc(), post_search::post_id)).limit(limit);
    let found = found.select((post_search::post_id, post_search::updated_at)).load(&mut conn).await?;
    let mut times: HashMap<PostId, OffsetDateTime> = found.into_iter().collect();
    let entries = post::table
        .filter(post::id.eq_any(times.keys().copied().collect::<Vec<_>>()))
        // Excludes posts that were unpublished or deleted between the two reads.
        .filter(post::deleted_at.is_null())
        .filter(post::status.eq(PostStatus::Published))
        .select(FeedEntry::as_select());
    let entries: Vec<FeedEntry> = entries.load(&mut conn).await?;
    let mut entries: Vec<_> =
        entries.into_iter().filter_map(|entry| times.remove(&entry.id).map(|at| (entry, at))).collect();
    entries.sort_by_key(|(entry, at)| (Reverse(*at), entry.id));
    Ok(entries)
}
