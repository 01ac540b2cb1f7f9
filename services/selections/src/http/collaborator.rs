//! Collaborators of a selection, and the selections that others share with the caller.

use ::web::{Page, Paging};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, put, web};
use auth::{Actor, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::db::collaborator::CollaboratorView;
use crate::db::selection::{SelectionSort, SelectionView};
use crate::domain::SelectionId;
use crate::error::Error;
use crate::ops;

/// List the selections that others let me edit.
///
/// The list has no deleted selections.
#[utoipa::path(
    tag = "Collaborators", params(Paging<SelectionSort>),
    responses((status = 200, description = "One page", body = Page<SelectionView>))
)]
#[get("/api/v1/selections/shared-with-me")]
pub async fn list_shared_selections(
    app: Data<App>,
    actor: Actor,
    paging: Paging<SelectionSort>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::selection::list_shared(&conn, actor.user_id, &paging).await?))
}

/// The collaborators of a selection.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Collaborators {
    /// Collaborators in the order in which they were added.
    #[schema(max_items = 20)]
    items: Vec<CollaboratorView>,
}

/// List the collaborators of a selection.
///
/// For the owner alone.
#[utoipa::path(
    tag = "Collaborators", params(("selection" = SelectionId, Path)),
    responses((status = 200, description = "The collaborators", body = Collaborators))
)]
#[get("/api/v1/selections/{selection}/collaborators")]
pub async fn list_collaborators(
    app: Data<App>,
    actor: Actor,
    id: Path<SelectionId>,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let selection = ops::selection::find_own(&mut conn, &actor, *id).await?;
    Ok(web::Json(Collaborators { items: db::collaborator::list(&mut conn, selection.id).await? }))
}

/// Let a person edit a selection.
///
/// For the owner alone. A collaborator edits title, description and items. Idempotent. A selection
/// has at most 20 collaborators, and at most 1,000 selections are shared with one person, 50 of
/// them by one owner. A person who has left the selection cannot be added again.
#[utoipa::path(
    tag = "Collaborators", params(("selection" = SelectionId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "The person can edit the selection"))
)]
#[put("/api/v1/selections/{selection}/collaborators/{user_id}")]
pub async fn add_collaborator(
    app: Data<App>,
    actor: Actor,
    path: Path<(SelectionId, UserId)>,
) -> Result<HttpResponse, Error> {
    let (id, user) = path.into_inner();
    let now = runtime::clock::now();
    app.db.tx(async |tx| ops::collaborator::add_collaborator(tx, &actor, now, id, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Remove a collaborator from a selection.
///
/// For the owner, and for the collaborator, who leaves the selection for good. Idempotent for the
/// owner.
#[utoipa::path(
    tag = "Collaborators", params(("selection" = SelectionId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "The person cannot edit the selection"))
)]
#[delete("/api/v1/selections/{selection}/collaborators/{user_id}")]
pub async fn remove_collaborator(
    app: Data<App>,
    actor: Actor,
    path: Path<(SelectionId, UserId)>,
) -> Result<HttpResponse, Error> {
    let (id, user) = path.into_inner();
    let now = runtime::clock::now();
    app.db.tx(async |tx| ops::collaborator::remove_collaborator(tx, &actor, now, id, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
