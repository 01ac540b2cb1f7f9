//! The public feed, the search and the caller's own posts.

use ::web::{ClientAddress, Page, Paging, Problem, Query};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::Guest;
use serde::Deserialize;
use utoipa::IntoParams;
use values::{Text, is_blank};

use crate::app::App;
use crate::db;
use crate::db::feed::{FeedSort, PostSummary};
use crate::domain::{EditablePosts, search_query};
use crate::error::{Error, UNAUTHORIZED};

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListPosts {
    /// Searches published posts: words in Russian or English, `"a phrase"`, `or`, `-without`.
    /// Letter case, the encoding of characters and the kinds of spaces and dashes have no effect.
    #[param(inline)]
    query: Option<Text<0, 256>>,
    /// Lists the caller's own posts, instead of the published posts.
    #[serde(default)]
    mine: bool,
}

/// List published posts or my posts.
///
/// Lists the published posts, or those of them that match `Query`.
/// With `Mine` it lists the caller's own posts: the published ones, and all that the caller may
/// edit.
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
    guest: Guest,
    address: ClientAddress,
    Query(filter): Query<ListPosts>,
    paging: Result<Paging<FeedSort>, Problem>,
) -> Result<impl Responder, Error> {
    if guest.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let query = filter.query.as_ref().map(Text::as_str).filter(|query| !is_blank(query)).map(search_query);
    let author = match guest.actor {
        None if filter.mine => return Err(UNAUTHORIZED.into()),
        actor => actor.filter(|_| filter.mine),
    };
    let paging = paging?;
    let conn = app.db.conn().await?;
    let page = if let Some(author) = author {
        let editable = EditablePosts::own(&author);
        db::feed::list_of_author(&conn, author.user_id, &editable, &paging).await?
    } else {
        db::feed::list_published(&conn, query.as_deref(), &paging).await?
    };
    Ok(web::Json(page))
}
