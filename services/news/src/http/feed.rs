//! Lists of posts: the public feed and search, and one's own.

use ::web::{ClientAddress, Fields, Page, Paging, Problem, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::Guest;
use serde::Deserialize;
use utoipa::IntoParams;
use values::Text;

use crate::app::App;
use crate::db;
use crate::db::feed::{FeedSort, PostSummary};
use crate::error::Error;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListPosts {
    /// Words in Russian or English, `"a phrase"`, `or`, `-without`; finds published posts.
    #[param(max_length = 256)]
    query: Option<String>,
    /// One's own posts in whatever state, instead of the published ones.
    #[serde(default)]
    mine: bool,
}

/// List published posts, or one's own.
///
/// The public feed, a search in it, or with `Mine` the caller's posts in whatever state.
#[utoipa::path(
    tag = "Posts", security(()), params(ListPosts, Paging<FeedSort>),
    responses((status = 200, description = "One page", body = Page<PostSummary>))
)]
#[get("/api/v1/posts")]
pub async fn list_posts(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    Query(filter): Query<ListPosts>,
    paging: Paging<FeedSort>,
) -> Result<impl Responder, Error> {
    if guest.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let mut fields = Fields::default();
    let query = filter.query.filter(|query| !query.is_empty()).map(Text::<1, 256>::parse).transpose();
    let query = fields.check("/Query", query);
    let query = fields.finish(query)?;
    let mut conn = app.db.conn().await?;
    let (items, total) = if filter.mine {
        let author = guest.actor.ok_or_else(Problem::unauthorized)?;
        db::feed::list_of_author(&mut conn, author.user_id, &paging).await?
    } else {
        db::feed::list_published(&mut conn, query.as_ref().map(Text::as_str), &paging).await?
    };
    Ok(web::Json(paging.page(items, total)))
}
