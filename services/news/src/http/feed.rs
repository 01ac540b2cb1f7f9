//! Lists of posts: the public feed and search, and one's own.

use ::web::{ClientAddress, Page, Paging, Problem, Query};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::Guest;
use serde::Deserialize;
use utoipa::IntoParams;
use values::Text;

use crate::app::App;
use crate::db;
use crate::db::feed::{FeedSort, PostSummary};
use crate::error::{Error, UNAUTHORIZED};

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListPosts {
    /// Words in Russian or English, `"a phrase"`, `or`, `-without`; finds published posts.
    #[param(inline)]
    query: Option<Text<0, 256>>,
    /// One's own posts in whatever state, instead of the published ones.
    #[serde(default)]
    mine: bool,
}

/// List published posts, or one's own.
///
/// The public feed, a search in it, or with `Mine` the caller's posts in whatever state.
#[utoipa::path(
    tag = "Posts", security(()), params(ListPosts, Paging<FeedSort>),
    responses(
        (status = 200, description = "One page", body = Page<PostSummary>),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/posts", wrap = "from_fn(::web::cacheable)")]
pub async fn list_posts(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    Query(filter): Query<ListPosts>,
    paging: Result<Paging<FeedSort>, Problem>,
) -> Result<impl Responder, Error> {
    if guest.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let query = filter.query.as_ref().map(Text::as_str).filter(|query| !query.is_empty());
    let author = match guest.actor {
        None if filter.mine => return Err(UNAUTHORIZED.into()),
        actor => actor.filter(|_| filter.mine),
    };
    let paging = paging?;
    let conn = app.db.conn().await?;
    let page = if let Some(author) = author {
        db::feed::list_of_author(&conn, author.user_id, &paging).await?
    } else {
        db::feed::list_published(&conn, query, &paging).await?
    };
    Ok(web::Json(page))
}
