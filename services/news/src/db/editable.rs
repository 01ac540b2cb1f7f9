//! Lists of posts for their authors and editors, in every status.

use ::db::Conn;
use ::web::{MAX_TOTAL_COUNT, Page, Paging};
use auth::{CompanyId, Reach, UserId};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable, Text};
use service::list;
use time::OffsetDateTime;

use super::feed::{FeedFilter, FeedSort, PostSummary, rank_expression};
use crate::domain::{EditablePosts, PostStatus};
use crate::schema::post;

/// The filter of a list of an editor.
pub struct EditorFilter {
    /// Restricts the list to posts of the caller.
    pub is_mine: bool,
    /// Restricts the list to posts that the caller may edit. Without it, the list has only posts of
    /// the caller, also published ones that the caller may no longer edit.
    pub is_editable: bool,
    pub statuses: Option<Vec<PostStatus>>,
    pub author: Option<UserId>,
    pub created_from: Option<OffsetDateTime>,
    pub created_to: Option<OffsetDateTime>,
    pub content: FeedFilter,
}

/// The caller of a list, with the posts that the caller may edit.
pub struct Editor {
    pub user: UserId,
    /// The editable posts of any author.
    pub of_all: EditablePosts,
    /// The caller's own editable posts.
    pub own: EditablePosts,
}

type Condition = Box<dyn BoxableExpression<post::table, Pg, SqlType = Nullable<Bool>>>;

/// Returns one page of the posts that the filter and the permissions of the caller select.
///
/// `Relevance` ranks the newest [`MAX_TOTAL_COUNT`] matches only, since the pages of a list end at
/// this number of items.
pub async fn list(
    conn: &Conn,
    editor: &Editor,
    filter: &EditorFilter,
    paging: &Paging<FeedSort>,
) -> Result<Page<PostSummary>, ::db::Error> {
    let query = filter.content.query.as_ref().filter(|_| matches!(paging.sort, FeedSort::Relevance));
    let sorted = if let Some(query) = query {
        let rank = rank_expression(
            "(select coalesce(ts_rank(found.ranked_words, asked), ts_rank(post.label_words, asked)) from ",
            query,
            " as asked left join post_search as found on found.post_id = post.id)",
        );
        let newest = matching(editor, filter).select(post::id);
        let newest = newest.order(post::created_at.desc()).limit(MAX_TOTAL_COUNT);
        let order = (list::order_by(paging, rank), post::published_at.desc(), post::id);
        post::table.filter(post::id.eq_any(newest)).into_boxed().order(order)
    } else {
        let order = match paging.sort {
            // PostgreSQL sorts nulls last in ascending and first in descending order.
            FeedSort::PublishedAt | FeedSort::Relevance => list::order_by(paging, post::published_at),
            FeedSort::CreatedAt => list::order_by(paging, post::created_at),
        };
        matching(editor, filter).order((order, post::id))
    };
    let sorted = sorted.select(PostSummary::as_select());
    let mut page = list::page(conn, paging, sorted, matching(editor, filter).select(post::id)).await?;
    for post in &mut page.items {
        // The list of own posts has published ones that the caller may no longer edit.
        let is_own = post.author_user_id == Some(editor.user);
        if is_own && !editor.own.covers(post.author_company_id) {
            post.hide_schedule();
        }
    }
    Ok(page)
}

/// Builds the query of the posts that the filter and the permissions select.
fn matching(editor: &Editor, filter: &EditorFilter) -> post::BoxedQuery<'static, Pg> {
    let is_author = || post::author_user_id.eq(editor.user);
    let visible: Condition = match (filter.is_mine, filter.is_editable) {
        (true, true) => Box::new(is_author().and(is_covered(&editor.own))),
        (false, true) => Box::new(is_covered(&editor.of_all).or(is_author().and(is_covered(&editor.own)))),
        (_, false) => {
            let is_published = post::status.eq(PostStatus::Published);
            Box::new(is_author().and(is_published.or(is_covered(&editor.own))))
        }
    };
    let existing = post::table.filter(post::deleted_at.is_null()).filter(list::custom_plan());
    let mut found = existing.into_boxed().filter(visible);
    if let Some(statuses) = &filter.statuses {
        found = found.filter(post::status.eq_any(statuses.clone()));
    }
    if let Some(author) = filter.author {
        found = found.filter(post::author_user_id.eq(author));
    }
    if let Some(from) = filter.created_from {
        found = found.filter(post::created_at.ge(from));
    }
    if let Some(to) = filter.created_to {
        found = found.filter(post::created_at.lt(to));
    }
    if let Some(company) = filter.content.company {
        found = found.filter(post::author_company_id.eq(company));
    }
    if let Some(tag) = &filter.content.tag {
        found = found.filter(post::tag_keys.contains(vec![tag.clone()]));
    }
    if let Some(query) = &filter.content.query {
        // Title, summary and tags are searched in every status, and the text of published posts.
        found = found.filter(
            sql::<Bool>(
                "post.id in (select labelled.id from post as labelled, websearch_to_tsquery('russian', ",
            )
            .bind::<Text, _>(query.clone())
            .sql(
                ") as asked where labelled.deleted_at is null and labelled.label_words @@ asked \
                 union all select found.post_id from post_search as found, websearch_to_tsquery('russian', ",
            )
            .bind::<Text, _>(query.clone())
            .sql(") as asked where found.words @@ asked) and querytree(websearch_to_tsquery('russian', ")
            .bind::<Text, _>(query.clone())
            .sql(")) not in ('', 'T')"),
        );
    }
    found
}

/// Returns the condition that a post is one of the `editable` ones, by its company.
fn is_covered(editable: &EditablePosts) -> Condition {
    let (every_company, company): (bool, Option<CompanyId>) = match editable.of_companies {
        None => (false, None),
        Some(Reach::Platform) => (true, None),
        Some(Reach::Company(company)) => (false, Some(company)),
    };
    let is_personal = post::author_company_id.is_null().and(editable.personal.into_sql::<Bool>());
    let has_company = post::author_company_id.is_not_null().and(every_company.into_sql::<Bool>());
    Box::new(is_personal.or(has_company).or(post::author_company_id.eq(company)))
}
