//! The public feed, the search, and the lists of authors and editors.

use ::db::Conn;
use ::web::{Check, CheckedQuery, ClientAddress, CommaSeparated, Fields, Page, Paging, Problem};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{AnyCaller, CompanyId, UserId};
use serde::Deserialize;
use service::Reads;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::{Invalid, Text, is_blank};

use crate::app::App;
use crate::db;
use crate::db::editable::{Editor, EditorFilter};
use crate::db::feed::{FeedFilter, FeedSort, PostSummary};
use crate::domain::{EditablePosts, PostStatus, Tag, search_query, tag_key};
use crate::error::{Error, UNAUTHORIZED};

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListPosts {
    /// Searches title, summary, tags and text of published posts: words in Russian or English,
    /// `"a phrase"`, `or`, `-without`. Letter case, the encoding of characters and the kinds of
    /// spaces and dashes have no effect. With `Editable` it also finds other posts by title,
    /// summary and tags. `Mine` without `Editable` ignores it.
    #[param(inline)]
    query: Option<Text<0, 256>>,
    /// Lists the caller's own posts, instead of the published posts.
    #[serde(default)]
    mine: bool,
    /// Lists the posts that the caller may edit, in every status, instead of the published posts.
    #[serde(default)]
    editable: bool,
    /// A tag of the posts. Letter case and encoding have no effect.
    #[param(inline)]
    tag: Option<Tag>,
    /// The company of the posts.
    author_company_id: Option<CompanyId>,
    /// Statuses, separated by commas. Requires `Mine` or `Editable`.
    #[param(value_type = Option<Vec<PostStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<PostStatus>>,
    /// The author of the posts. Requires `Mine` or `Editable`.
    author_user_id: Option<UserId>,
    /// Lower bound of `CreatedAt`, inclusive. Requires `Mine` or `Editable`.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Upper bound of `CreatedAt`, exclusive. Requires `Mine` or `Editable`.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_to: Option<OffsetDateTime>,
}

impl Check for ListPosts {
    fn check(&self, fields: &mut Fields) {
        let of_editors = [
            ("/Statuses", self.statuses.is_some()),
            ("/AuthorUserId", self.author_user_id.is_some()),
            ("/CreatedFrom", self.created_from.is_some()),
            ("/CreatedTo", self.created_to.is_some()),
        ];
        for (field, is_present) in of_editors {
            let is_allowed = self.mine || self.editable || !is_present;
            fields.check(field, if is_allowed { Ok(()) } else { Err(Invalid::new("editors_only")) });
        }
        fields.check_range("/CreatedTo", self.created_from.as_ref(), self.created_to.as_ref());
    }
}

/// List published posts, my posts or the posts that I may edit.
///
/// Lists the published posts, or those of them that match `Query`.
/// With `Mine` it lists the caller's own posts: the published ones, and in every status those that
/// the caller may edit. With `Editable` it lists the posts of every author that the caller may
/// edit. With both it lists the caller's own posts that the caller may edit.
///
/// By `PublishedAt`, a post that was never published counts as the newest. `Relevance` is the rank
/// of a post for `Query`, and without a query it is `PublishedAt`.
#[utoipa::path(
    tag = "Posts", security(()), params(ListPosts, Paging<FeedSort>),
    responses(
        (status = 200, description = "One page", body = Page<PostSummary>),
        (status = 304, description = "The guest has the current version (`If-None-Match`)")
    )
)]
#[get("/api/v1/posts", wrap = "from_fn(auth::expensive)", wrap = "from_fn(::web::cacheable)")]
pub async fn list_posts(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    CheckedQuery(list): CheckedQuery<ListPosts>,
    paging: Result<Paging<FeedSort>, Problem>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    if caller.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let is_of_editor = list.mine || list.editable;
    let editor = match &caller.actor {
        None if is_of_editor => return Err(UNAUTHORIZED.into()),
        actor => actor.as_ref().filter(|_| is_of_editor),
    };
    let paging = paging?;
    let ignores_query = list.mine && !list.editable;
    let query = list.query.as_ref().map(Text::as_str);
    let query = query.filter(|query| !ignores_query && !is_blank(query)).map(search_query);
    let content = FeedFilter { query, tag: list.tag.as_ref().map(tag_key), company: list.author_company_id };
    let page = if let Some(actor) = editor {
        let filter = EditorFilter {
            is_mine: list.mine,
            is_editable: list.editable,
            statuses: list.statuses.map(|statuses| statuses.0),
            author: list.author_user_id,
            created_from: list.created_from,
            created_to: list.created_to,
            content,
        };
        let (of_all, own) = (EditablePosts::of(actor), EditablePosts::own(actor));
        let conn = app.db.conn().await?;
        db::editable::list(&conn, &Editor { user: actor.user_id, of_all, own }, &filter, &paging).await?
    } else {
        let list = async |conn: &Conn| db::feed::list_published(conn, &content, &paging).await;
        reads.query(&caller, list).await?
    };
    Ok(web::Json(page))
}
