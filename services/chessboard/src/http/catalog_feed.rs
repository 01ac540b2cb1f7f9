//! The public feed of a developer for portals.

use std::net::IpAddr;

use ::web::{ClientAddress, accepts, is_cached_by_caller};
use actix_web::http::header::{
    self, CACHE_CONTROL, CONTENT_ENCODING, ContentEncoding, ETAG, EntityTag, HeaderValue, VARY,
};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use auth::{AnyCaller, CompanyId};

use crate::app::App;
use crate::db;
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::public_feed::read_feed;

/// Read a developer's feed.
///
/// Returns the Available objects of the developer's Published projects in YRL, the XML format of
/// Yandex Realty, for portals. The feed has no offers of storages. The `internal-id` of an offer is
/// the `Id` of its object. A response counts as one more read of a guest for each whole MiB, so
/// guests should accept gzip.
#[utoipa::path(
    tag = "Catalog", security(()), params(("developer_id" = CompanyId, Path)),
    responses(
        (
            status = 200, description = "The feed", body = String, content_type = "text/xml",
            example = "<realty-feed xmlns=\"http://webmaster.yandex.ru/schemas/feed/realty/2010-06\"></realty-feed>"
        ),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/developers/{developer_id}/feed.yrl", wrap = "from_fn(auth::expensive)")]
pub async fn get_catalog_feed(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    id: Path<CompanyId>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    app.limit_guest(&caller, address)?;
    let found = {
        let conn = app.db.conn().await?;
        db::catalog_feed::find_version(&conn, *id).await.map_err(::db::Error::from)?
    };
    let found = found.ok_or(DEVELOPER_NOT_FOUND)?;
    let tag = EntityTag::new_weak(found.version.clone());
    // As in `web::cacheable`, only responses to guests have a tag and are compressed.
    let is_guest = !request.headers().contains_key(header::AUTHORIZATION);
    let mut response = HttpResponse::Ok();
    response.insert_header((VARY, HeaderValue::from_static("Authorization, Accept-Encoding")));
    if is_guest {
        response.insert_header((CACHE_CONTROL, "public, max-age=0, must-revalidate"));
        response.insert_header((ETAG, tag.to_string()));
        if is_cached_by_caller(&request, &tag) {
            return Ok(response.status(actix_web::http::StatusCode::NOT_MODIFIED).finish());
        }
    }
    let is_compressed = is_guest && accepts(&request, ContentEncoding::Gzip);
    if is_compressed {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    let bytes = app.public_feeds.cached_bytes(*id, &found.version, is_compressed);
    app.limit_guest_bytes(&caller, address, bytes)?;
    response.content_type("text/xml; charset=utf-8");
    let caller =
        caller.actor.map_or_else(|| IpAddr::from(address).to_string(), |user| user.user_id.to_string());
    let body = read_feed(app.public_feeds.clone(), app.db.clone(), *id, found, caller, is_compressed).await?;
    Ok(response.streaming(body))
}
