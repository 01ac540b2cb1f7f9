//! Operations on the caller's favorites.

use ::web::{Page, Paging};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, put, web};
use auth::Actor;

use crate::app::App;
use crate::db;
use crate::db::favorite::{FavoriteSort, FavoriteView};
use crate::domain::PropertyObjectId;
use crate::error::Error;
use crate::ops;

/// List my favorites.
///
/// Each favorite has the time when it was marked.
#[utoipa::path(
    tag = "Favorites", params(Paging<FavoriteSort>),
    responses((status = 200, description = "One page", body = Page<FavoriteView>))
)]
#[get("/api/v1/favorites")]
pub async fn list_favorites(
    app: Data<App>,
    actor: Actor,
    paging: Paging<FavoriteSort>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::favorite::list(&conn, actor.user_id, &paging).await?))
}

/// Mark a property object.
///
/// Idempotent: an object that is already marked keeps its time. A user has at most 200 favorites.
#[utoipa::path(
    tag = "Favorites", params(("property_object_id" = PropertyObjectId, Path)),
    responses((status = 204, description = "The object is a favorite"))
)]
#[put("/api/v1/favorites/{property_object_id}")]
pub async fn add_favorite(
    app: Data<App>,
    actor: Actor,
    id: Path<PropertyObjectId>,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    app.db.tx(async |tx| ops::favorite::add_favorite(tx, &actor, now, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Unmark a property object.
///
/// Idempotent: an object that is not marked also returns 204.
#[utoipa::path(
    tag = "Favorites", params(("property_object_id" = PropertyObjectId, Path)),
    responses((status = 204, description = "The object is not a favorite"))
)]
#[delete("/api/v1/favorites/{property_object_id}")]
pub async fn remove_favorite(
    app: Data<App>,
    actor: Actor,
    id: Path<PropertyObjectId>,
) -> Result<HttpResponse, Error> {
    app.db.tx(async |tx| ops::favorite::remove_favorite(tx, &actor, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
