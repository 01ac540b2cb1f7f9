//! Operations on selections.

use ::db::PipelinedConn;
use ::web::{ClientAddress, Fields, Json, Messages, OptionalJson, Page, Paging, Problem};
use actix_web::http::Method;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, delete, get, post, put, web};
use auth::{Actor, AnyCaller};
use serde::Deserialize;
use service::{Idempotency, Reads, Reply};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::db;
use crate::db::selection::{OpenSelectionView, SelectionSort, SelectionView};
use crate::domain::{Description, ItemOrder, PropertyObjectId, PublicCode, Selection, SelectionId, Title};
use crate::error::{Error, NOT_FOUND};
use crate::ops;
use crate::ops::selection::Metadata;

/// A property object of a request.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ItemInput {
    property_object_id: PropertyObjectId,
    /// The list is sorted by this number.
    /// An item without `SortOrder` is sorted by its position in the list.
    sort_order: Option<i32>,
}

fn parse_items(items: Vec<ItemInput>) -> Result<ItemOrder, Error> {
    let requested = items.into_iter().map(|item| (item.property_object_id, item.sort_order)).collect();
    Ok(ItemOrder::parse(requested)?)
}

/// List my selections.
///
/// The list has no deleted selections.
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
    /// The objects of the selection. Without them it is empty.
    #[schema(max_items = 200)]
    items: Option<Vec<ItemInput>>,
}

/// Returns the response with a new selection. `Location` has the public code, because `GET` of an
/// id is not allowed.
fn created_reply(created: Selection) -> Reply<SelectionView> {
    let location = format!("/api/v1/selections/{}", created.public_code);
    Reply::created(SelectionView::from(created)).at(location)
}

/// Create a selection.
///
/// A selection has at most 200 distinct objects, numbered from 0.
/// An owner has at most 100 selections.
#[utoipa::path(
    tag = "Selections",
    responses(
        (status = 201, description = "Created", body = SelectionView,
            headers(("Location" = String, description = "The selection, which the public code opens"))),
    )
)]
#[post("/api/v1/selections")]
pub async fn create_selection(
    app: Data<App>,
    actor: Actor,
    idempotency: Idempotency,
    body: Json<CreateSelection>,
) -> Result<HttpResponse, Error> {
    let Json(CreateSelection { title, description, items }) = body;
    let metadata = Metadata { title, description };
    let order = parse_items(items.unwrap_or_default())?;
    let now = runtime::clock::now();
    let create = async |tx: &mut _| {
        let created = ops::selection::create_selection(
            tx,
            &actor,
            now,
            &mut rand::rng(),
            metadata,
            &order,
            app.max_added_items_per_hour,
        )
        .await?;
        Ok(created_reply(created))
    };
    idempotency.run(&app.db, create).await
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateSelectionFromFavorites {
    /// Without a title the selection is named "Favorites", in the caller's language.
    title: Option<Title>,
    description: Option<Description>,
}

/// Create a selection from my favorites.
///
/// The items are in the order in which the user marked the objects.
/// Later marks do not change the selection.
#[utoipa::path(
    tag = "Selections", request_body = Option<CreateSelectionFromFavorites>,
    responses(
        (status = 201, description = "Created", body = SelectionView,
            headers(("Location" = String, description = "The selection, which the public code opens"))),
    )
)]
#[post("/api/v1/selections/from-favorites")]
pub async fn create_selection_from_favorites(
    app: Data<App>,
    actor: Actor,
    idempotency: Idempotency,
    messages: Data<Messages>,
    request: HttpRequest,
    body: OptionalJson<CreateSelectionFromFavorites>,
) -> Result<HttpResponse, Error> {
    let OptionalJson(CreateSelectionFromFavorites { title, description }) = body;
    let mut fields = Fields::default();
    let default_title = || Title::parse(messages.render(&request, "favorites_title").unwrap_or_default());
    let title = fields.check("/Title", title.map_or_else(default_title, Ok));
    let metadata = Metadata { title: fields.finish(title)?, description };
    let now = runtime::clock::now();
    let create = async |tx: &mut _| {
        let created = ops::selection::create_selection_from_favorites(
            tx,
            &actor,
            now,
            &mut rand::rng(),
            metadata,
            app.max_added_items_per_hour,
        )
        .await?;
        Ok(created_reply(created))
    };
    idempotency.run(&app.db, create).await
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DuplicateSelection {
    /// Without a title the copy has the title of the selection.
    title: Option<Title>,
}

/// Duplicate a selection.
///
/// The copy belongs to the caller, and has the same description and items, and a code of its own.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    request_body = Option<DuplicateSelection>,
    responses(
        (status = 201, description = "Created", body = SelectionView,
            headers(("Location" = String, description = "The selection, which the public code opens"))),
    )
)]
#[post("/api/v1/selections/{selection}/duplicate")]
pub async fn duplicate_selection(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
    idempotency: Idempotency,
    body: OptionalJson<DuplicateSelection>,
) -> Result<HttpResponse, Error> {
    let OptionalJson(DuplicateSelection { title }) = body;
    let now = runtime::clock::now();
    let create = async |tx: &mut _| {
        let created = ops::selection::duplicate_selection(
            tx,
            &actor,
            now,
            &mut rand::rng(),
            *id,
            title,
            app.max_added_items_per_hour,
        )
        .await?;
        Ok(created_reply(created))
    };
    idempotency.run(&app.db, create).await
}

/// Returns true if the path segment is a Guid. The segment is an id or a code, and every Guid is an
/// id.
fn is_id(segment: &str) -> bool {
    segment.parse::<Uuid>().is_ok()
}

/// Returns the problem for a method that the segment does not allow.
fn method_not_allowed(segment: &str) -> Problem {
    let allowed = if is_id(segment) { vec![Method::PUT, Method::DELETE] } else { vec![Method::GET] };
    Problem::method_not_allowed(allowed)
}

/// Refuses the methods that neither an id nor a code allows.
pub async fn refuse_method(segment: Path<String>) -> Result<HttpResponse, Problem> {
    Err(method_not_allowed(&segment))
}

/// Refuses all methods but `POST` of `from-favorites`, which is neither an id nor a code.
pub async fn refuse_method_of_favorites() -> Result<HttpResponse, Problem> {
    Err(Problem::method_not_allowed(vec![Method::POST]))
}

/// Open a selection by its public code.
///
/// Everyone who has the code may open it, guests included, while its link is enabled and has not
/// expired. Each item has the card of its object as the catalog shows it, at most some seconds old.
/// The response has neither id, owner nor version.
#[utoipa::path(
    tag = "Selections", security(()), params(("selection" = String, Path, description = "The public code, 12 characters of base62")),
    responses((status = 200, description = "The selection", body = OpenSelectionView))
)]
#[get("/api/v1/selections/{selection}")]
pub async fn open_selection(
    app: Data<App>,
    reads: Data<Reads>,
    lookups: Data<PipelinedConn>,
    caller: AnyCaller,
    address: ClientAddress,
    segment: Path<String>,
) -> Result<impl Responder, Error> {
    if is_id(&segment) {
        return Err(method_not_allowed(&segment).into());
    }
    if !app.public_open {
        return Err(NOT_FOUND.into());
    }
    let is_guest = caller.actor.is_none();
    if is_guest {
        app.guest_reads.check(address)?;
    }
    let open = match segment.parse::<PublicCode>() {
        Ok(code) => reads.find(&caller, async |conn| db::selection::open(conn, &code).await).await?,
        Err(_) => None,
    };
    if open.is_none() && is_guest {
        app.guest_misses.check(address)?;
    }
    let mut open = open.ok_or(NOT_FOUND)?;
    app.cards.add_to(&mut open, &lookups).await?;
    if caller.actor.is_none_or(|actor| actor.user_id != open.owner_user_id) {
        app.openings.count(open.id, runtime::clock::now());
    }
    Ok(web::Json(open.view))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateSelection {
    title: Title,
    /// `null` clears the description.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    description: Option<Description>,
    /// The version that the caller read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace title and description.
///
/// Idempotent: an identical request changes nothing and keeps the version.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The selection after the change", body = SelectionView))
)]
#[put("/api/v1/selections/{selection}")]
pub async fn update_selection(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
    body: Json<UpdateSelection>,
) -> Result<impl Responder, Error> {
    let Json(UpdateSelection { title, description, version }) = body;
    let metadata = Metadata { title, description };
    let now = runtime::clock::now();
    let selection = app
        .db
        .tx(async |tx| ops::selection::update_selection(tx, &actor, now, *id, version, metadata).await)
        .await?;
    Ok(web::Json(SelectionView::from(selection)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceSelectionItems {
    /// All objects of the selection, in any order if each has a `SortOrder`.
    #[schema(max_items = 200)]
    items: Vec<ItemInput>,
    /// The version that the caller read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace the items and their order.
///
/// Idempotent: an identical request changes nothing and keeps the version.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The selection after the change", body = SelectionView))
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
    let (now, max_added) = (runtime::clock::now(), app.max_added_items_per_hour);
    let replace = async |tx: &mut _| {
        ops::selection::replace_selection_items(tx, &actor, now, *id, version, &order, max_added).await
    };
    let selection = app.db.tx(replace).await?;
    Ok(web::Json(SelectionView::from(selection)))
}

/// Delete a selection.
///
/// Its code returns 404 afterwards. Its snapshots stay readable.
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
