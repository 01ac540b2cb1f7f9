//! The Atom feed.

use ::web::{ClientAddress, Query};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{HttpResponse, get};
use auth::{AnyCaller, CompanyId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Error;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AtomFeedQuery {
    /// The company of the posts. Without it the feed has the posts of all.
    author_company_id: Option<CompanyId>,
}

/// Read the Atom feed.
///
/// Returns the 50 published posts that changed last, of a company or of all, as Atom (RFC 4287).
/// An entry has the title, the summary, the tags, and a link to the post. Its `updated` is the time
/// of the last change, of the content too. The response is at most five seconds old.
#[utoipa::path(
    tag = "Posts", security(()), params(AtomFeedQuery),
    responses(
        (
            status = 200, description = "The feed", body = String, content_type = "application/atom+xml",
            example = "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>News</title></feed>"
        ),
        (status = 304, description = "The guest has the current version (`If-None-Match`)")
    )
)]
#[get("/api/v1/posts/feed/atom", wrap = "from_fn(::web::cacheable)")]
pub async fn read_atom_feed(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    Query(AtomFeedQuery { author_company_id }): Query<AtomFeedQuery>,
) -> Result<HttpResponse, Error> {
    if caller.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let feed = app.atom_feeds.read(&app.db, author_company_id).await?;
    Ok(HttpResponse::Ok().content_type("application/atom+xml; charset=utf-8").body(feed))
}
