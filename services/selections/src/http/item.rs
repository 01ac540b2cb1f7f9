//! Operations on one item of a selection.

use actix_web::web::{Data, Path};
use actix_web::{Responder, delete, put, web};
use auth::Actor;

use crate::app::App;
use crate::db::selection::SelectionView;
use crate::domain::{PropertyObjectId, SelectionId};
use crate::error::Error;
use crate::ops;

/// Add a property object to a selection.
///
/// The object becomes the last one. Idempotent: an object in the list stays where it is.
#[utoipa::path(
    tag = "Selections",
    params(("selection" = SelectionId, Path), ("property_object_id" = PropertyObjectId, Path)),
    responses((status = 200, description = "The selection after the change", body = SelectionView))
)]
#[put("/api/v1/selections/{selection}/items/{property_object_id}")]
pub async fn add_selection_item(
    app: Data<App>,
    actor: Actor,
    path: Path<(SelectionId, PropertyObjectId)>,
) -> Result<impl Responder, Error> {
    let (id, object) = path.into_inner();
    let (now, max_added) = (runtime::clock::now(), app.max_added_items_per_hour);
    let add =
        async |tx: &mut _| ops::selection::add_selection_item(tx, &actor, now, id, object, max_added).await;
    Ok(web::Json(SelectionView::from(app.db.tx(add).await?)))
}

/// Remove a property object from a selection.
///
/// Idempotent: an object that is not in the list changes nothing.
#[utoipa::path(
    tag = "Selections",
    params(("selection" = SelectionId, Path), ("property_object_id" = PropertyObjectId, Path)),
    responses((status = 200, description = "The selection after the change", body = SelectionView))
)]
#[delete("/api/v1/selections/{selection}/items/{property_object_id}")]
pub async fn remove_selection_item(
    app: Data<App>,
    actor: Actor,
    path: Path<(SelectionId, PropertyObjectId)>,
) -> Result<impl Responder, Error> {
    let (id, object) = path.into_inner();
    let now = runtime::clock::now();
    let remove = async |tx: &mut _| ops::selection::remove_selection_item(tx, &actor, now, id, object).await;
    Ok(web::Json(SelectionView::from(app.db.tx(remove).await?)))
}
