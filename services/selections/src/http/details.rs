//! The selection as its owner and collaborators see it, and its link.

use ::db::Conn;
use ::web::Json;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, put, web};
use auth::{Actor, UserId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Moment;

use crate::app::App;
use crate::db;
use crate::db::opening::OpeningsView;
use crate::domain::{
    CardItem, Description, ItemChange, Link, Selection, SelectionId, Title, changes_of, with_cards,
};
use crate::error::Error;
use crate::ops;

/// A selection with its link, its openings and the cards of its objects.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SelectionDetails {
    id: SelectionId,
    owner_user_id: UserId,
    /// Code that opens the selection without a token.
    #[schema(pattern = "^[0-9A-Za-z]{12}$", examples("7Gq2ZkX0aBcd"))]
    public_code: String,
    title: Title,
    description: Option<Description>,
    #[schema(max_items = 200)]
    items: Vec<CardItem>,
    #[schema(maximum = 200)]
    items_count: usize,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    updated_by_user_id: UserId,
    /// Version for the next change.
    version: i64,
    link: Link,
    openings: OpeningsView,
}

impl SelectionDetails {
    async fn read(conn: &Conn, selection: Selection) -> Result<Self, Error> {
        let ids = selection.items.iter().map(|item| item.property_object_id);
        let cards = db::property_object::find_cards(conn, ids).await?;
        Ok(Self {
            openings: db::opening::find(conn, selection.id).await?,
            id: selection.id,
            owner_user_id: selection.owner_user_id,
            public_code: selection.public_code.to_string(),
            title: selection.title,
            description: selection.description,
            items_count: selection.items.len(),
            items: with_cards(selection.items, cards),
            created_at: selection.created_at,
            updated_at: selection.updated_at,
            updated_by_user_id: selection.updated_by_user_id,
            version: selection.version,
            link: selection.link,
        })
    }
}

/// Read a selection by its id.
///
/// For the owner and the collaborators, whatever the state of the link is.
/// The card of an item is `null` unless the catalog shows its object.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The selection", body = SelectionDetails))
)]
#[get("/api/v1/selections/{selection}/details")]
pub async fn get_selection_details(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let selection = ops::selection::find_editable(&mut conn, &actor, *id).await?;
    Ok(web::Json(SelectionDetails::read(&conn, selection).await?))
}

/// The objects of a selection that have changed since they were added.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SelectionChanges {
    /// Changed objects in the order of the selection.
    #[schema(max_items = 200)]
    items: Vec<ItemChange>,
}

/// List what has changed in a selection.
///
/// Compares each object with what the catalog showed when it was added: sold, withdrawn, and higher
/// or lower prices. An object that the catalog did not show then is left out.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The changed objects", body = SelectionChanges))
)]
#[get("/api/v1/selections/{selection}/changes")]
pub async fn list_selection_changes(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let selection = ops::selection::find_editable(&mut conn, &actor, *id).await?;
    let objects = db::added_object::find_with_present(&conn, selection.id).await?;
    Ok(web::Json(SelectionChanges { items: changes_of(&selection.items, &objects) }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceSelectionLink {
    /// `false` switches the link off. The code stays the same, and `true` opens it again.
    is_enabled: bool,
    /// Time from which on the code opens nothing. `null` for a link without an end. A time in the
    /// past ends it at once.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    expires_at: Option<Moment>,
    /// The version that the caller read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Switch the link of a selection off or on, or let it expire.
///
/// For the owner alone. Idempotent: an identical request changes nothing and keeps the version.
#[utoipa::path(
    tag = "Selections", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The selection after the change", body = SelectionDetails))
)]
#[put("/api/v1/selections/{selection}/link")]
pub async fn replace_selection_link(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
    body: Json<ReplaceSelectionLink>,
) -> Result<impl Responder, Error> {
    let Json(ReplaceSelectionLink { is_enabled, expires_at, version }) = body;
    let link = Link { is_enabled, expires_at: expires_at.map(|Moment(at)| at) };
    let now = runtime::clock::now();
    let replace =
        async |tx: &mut _| ops::selection::replace_selection_link(tx, &actor, now, *id, version, link).await;
    let selection = app.db.tx(replace).await?;
    Ok(web::Json(SelectionDetails::read(&*app.db.conn().await?, selection).await?))
}
