//! Selections, for their owners and for whoever has a code.

use ::db::Lookups;
use ::web::{ClientAddress, Fields, Json, Messages, OptionalJson, Page, Paging, Problem};
use actix_web::http::Method;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, delete, get, post, put, web};
use auth::{Actor, Guest};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::db;
use crate::db::selection::{OpenSelectionView, SelectionSort, SelectionView};
use crate::domain::{Description, ItemOrder, PropertyObjectId, PublicCode, SelectionId, Title};
use crate::error::{Error, NOT_FOUND};
use crate::ops;
use crate::ops::selection::NewSelection;

/// An object for a selection.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ItemInput {
    property_object_id: PropertyObjectId,
    /// Any numbers that sort; without one the item counts as standing where it stands in the list.
    sort_order: Option<i32>,
}

fn parse_items(items: Vec<ItemInput>) -> Result<ItemOrder, Error> {
    let asked = items.into_iter().map(|item| (item.property_object_id, item.sort_order)).collect();
    Ok(ItemOrder::parse(asked)?)
}

/// List my selections.
///
/// Deleted ones are left out; their snapshots live on.
#[utoipa::path(
    tag = "Selections", params(Paging<SelectionSort>),
    responses((status = 200, description = "One page", body = Page<SelectionView>))
)]
#[get("/api/v1/selections")]
pub async fn list_selections(
    app: Data<App>,
    actor: Actor,
    paging: Paging<SelectionSort>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::selection::list_of_owner(&conn, actor.user_id, &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateSelection {
    title: Title,
    description: Option<Description>,
    #[schema(max_items = 200)]
    items: Option<Vec<ItemInput>>,
}

/// Create a selection.
///
/// Of at most 200 objects, none twice; their order is renumbered from 0. An owner keeps at most 100 selections.
#[utoipa::path(
    tag = "Selections",
    responses((status = 201, description = "Created", body = SelectionView))
)]
#[post("/api/v1/selections")]
pub async fn create_selection(
    app: Data<App>,
    actor: Actor,
    body: Json<CreateSelection>,
) -> Result<HttpResponse, Error> {
    let Json(CreateSelection { title, description, items }) = body;
    let new = NewSelection { title, description };
    let order = parse_items(items.unwrap_or_default())?;
    let now = runtime::clock::now();
    let selection = app
        .db
        .tx(async |tx| ops::selection::create_selection(tx, &actor, now, &mut rand::rng(), new, &order).await)
        .await?;
    Ok(HttpResponse::Created().json(SelectionView::from(selection)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateSelectionFromFavorites {
    /// "Favorites" in the caller's language when left out.
    title: Option<Title>,
    description: Option<Description>,
}

/// Create a selection of my favorites as they are now.
///
/// In the order in which they were marked; favorites that change later do not change it.
#[utoipa::path(
    tag = "Selections", request_body = Option<CreateSelectionFromFavorites>,
    responses((status = 201, description = "Created", body = SelectionView))
)]
#[post("/api/v1/selections/from-favorites")]
pub async fn create_selection_from_favorites(
    app: Data<App>,
    actor: Actor,
    messages: Data<Messages>,
    request: HttpRequest,
    body: OptionalJson<CreateSelectionFromFavorites>,
) -> Result<HttpResponse, Error> {
    let OptionalJson(CreateSelectionFromFavorites { title, description }) = body;
    let mut fields = Fields::default();
    let named = || Title::parse(messages.say(&request, "favorites_title").unwrap_or_default());
    let title = fields.check("/Title", title.map_or_else(named, Ok));
    let new = NewSelection { title: fields.finish(title)?, description };
    let now = runtime::clock::now();
    let selection = app
        .db
        .tx(async |tx| {
            ops::selection::create_selection_from_favorites(tx, &actor, now, &mut rand::rng(), new).await
        })
        .await?;
    Ok(HttpResponse::Created().json(SelectionView::from(selection)))
}

/// In the segment that ids and codes share a Guid is an id; anything else is a code.
fn is_id(segment: &str) -> bool {
    segment.parse::<Uuid>().is_ok()
}

/// An id may be changed, a code may be opened.
fn wrong_method(segment: &str) -> Problem {
    let allowed = if is_id(segment) { vec![Method::PUT, Method::DELETE] } else { vec![Method::GET] };
    Problem::method_not_allowed(allowed)
}

/// Any other method in that segment.
pub async fn refuse_method(segment: Path<String>) -> Result<HttpResponse, Problem> {
    Err(wrong_method(&segment))
}

/// The one word in that segment that is neither.
pub async fn refuse_to_open_favorites() -> Result<HttpResponse, Problem> {
    Err(Problem::method_not_allowed(vec![Method::POST]))
}

/// Open a selection by its public code.
///
/// For whoever has the code, signed in or not. Tells neither the id nor the owner.
#[utoipa::path(
    tag = "Selections", security(()), params(("selection" = String, Path, description = "The public code, 12 characters of base62")),
    responses((status = 200, description = "The selection", body = OpenSelectionView))
)]
#[get("/api/v1/selections/{selection}")]
pub async fn open_selection(
    app: Data<App>,
    lookups: Data<Lookups>,
    guest: Guest,
    address: ClientAddress,
    segment: Path<String>,
) -> Result<impl Responder, Error> {
    if is_id(&segment) {
        return Err(wrong_method(&segment).into());
    }
    if !app.public_open {
        return Err(NOT_FOUND.into());
    }
    let is_guest = guest.actor.is_none();
    if is_guest {
        app.guest_reads.check(address)?;
    }
    let open = match segment.parse::<PublicCode>() {
        Ok(code) => lookups.run(async |conn| db::selection::open(conn, &code).await).await?,
        Err(_) => None,
    };
    if open.is_none() && is_guest {
        app.guest_misses.check(address)?;
    }
    Ok(web::Json(open.ok_or(NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateSelection {
    title: Title,
    /// `null` removes it.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    description: Option<Description>,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::seen_version")]
    version: Option<i64>,
}

/// Replace title and description.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "As it is now", body = SelectionView))
)]
#[put("/api/v1/selections/{selection}")]
pub async fn update_selection(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
    body: Json<UpdateSelection>,
) -> Result<impl Responder, Error> {
    let Json(UpdateSelection { title, description, version }) = body;
    let new = NewSelection { title, description };
    let now = runtime::clock::now();
    let selection = app
        .db
        .tx(async |tx| ops::selection::update_selection(tx, &actor, now, *id, version, new).await)
        .await?;
    Ok(web::Json(SelectionView::from(selection)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceSelectionItems {
    #[schema(max_items = 200)]
    items: Vec<ItemInput>,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::seen_version")]
    version: Option<i64>,
}

/// Replace the list and its order.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "As it is now", body = SelectionView))
)]
#[put("/api/v1/selections/{selection}/items")]
pub async fn replace_selection_items(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
    body: Json<ReplaceSelectionItems>,
) -> Result<impl Responder, Error> {
    let Json(ReplaceSelectionItems { items, version }) = body;
    let order = parse_items(items)?;
    let now = runtime::clock::now();
    let selection = app
        .db
        .tx(async |tx| ops::selection::replace_selection_items(tx, &actor, now, *id, version, &order).await)
        .await?;
    Ok(web::Json(SelectionView::from(selection)))
}

/// Delete a selection.
///
/// Its code opens nothing from now on; snapshots of it stay.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/selections/{selection}")]
pub async fn delete_selection(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    app.db.tx(async |tx| ops::selection::delete_selection(tx, &actor, now, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
