//! Operations of the internal port. Each accepts one service as its caller.

use std::collections::HashSet;

use ::web::{Json, Page, Paging, Query};
use actix_web::http::header::LOCATION;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Caller, Crm, News, UserId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::db;
use crate::db::selection::{SelectionSort, SelectionView};
use crate::db::snapshot::{SnapshotRow, SnapshotStatus};
use crate::domain::{
    Description, DetachReason, PostId, PropertyObjectId, SelectionId, SnapshotId, SnapshotItemView, Title,
    withhold_hidden,
};
use crate::error::{Error, NOT_FOUND, SNAPSHOT_NOT_FOUND};
use crate::ops;
use crate::ops::snapshot::TakenSnapshot;

/// The data of a snapshot that a post stores.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotCard {
    snapshot_id: SnapshotId,
    #[schema(pattern = "^[0-9A-Za-z]{12}$", examples("7Gq2ZkX0aBcd"))]
    public_code: String,
    title: Title,
    #[schema(maximum = 200)]
    items_count: usize,
    status: SnapshotStatus,
}

impl From<SnapshotRow> for SnapshotCard {
    fn from(row: SnapshotRow) -> Self {
        Self {
            snapshot_id: row.id,
            status: row.status(),
            public_code: row.public_code.to_string(),
            title: row.title,
            items_count: row.items.0.len(),
        }
    }
}

/// A whole snapshot, for rendering. The data of objects that are not public now is withheld.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SnapshotView {
    snapshot_id: SnapshotId,
    post_id: PostId,
    source_selection_id: SelectionId,
    #[schema(pattern = "^[0-9A-Za-z]{12}$", examples("7Gq2ZkX0aBcd"))]
    public_code: String,
    title: Title,
    description: Option<Description>,
    #[schema(maximum = 200)]
    items_count: usize,
    #[schema(max_items = 200)]
    items: Vec<SnapshotItemView>,
    status: SnapshotStatus,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// Reason for the detachment. `null` while the snapshot is Active.
    detach_reason: Option<DetachReason>,
    /// Time of the detachment, in UTC. `null` while the snapshot is Active.
    #[serde(with = "time::serde::rfc3339::option")]
    detached_at: Option<OffsetDateTime>,
}

impl SnapshotView {
    fn new(row: SnapshotRow, public: &HashSet<PropertyObjectId>) -> Self {
        Self {
            snapshot_id: row.id,
            post_id: row.post_id,
            source_selection_id: row.source_selection_id,
            status: row.status(),
            public_code: row.public_code.to_string(),
            title: row.title,
            description: row.description,
            items_count: row.items.0.len(),
            items: withhold_hidden(row.items.0, public),
            created_at: row.created_at,
            detach_reason: row.detach_reason,
            detached_at: row.detached_at,
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TakeSnapshot {
    post_id: PostId,
    /// The user who edits the post.
    actor_user_id: UserId,
    /// The author of the post. The owner of the selection must be `ActorUserId` or `AuthorUserId`.
    author_user_id: Option<UserId>,
    /// An active snapshot of this selection in this post. It is detached with the reason
    /// `BlockReplaced`, and a new snapshot takes its place.
    replaces_snapshot_id: Option<SnapshotId>,
}

/// Take a snapshot for a post.
///
/// Idempotent: returns the post's active snapshot of this selection if there is one. A repeat with
/// `ReplacesSnapshotId` returns the snapshot that took its place.
#[utoipa::path(
    tag = "Internal", params(("selection_id" = SelectionId, Path)),
    responses(
        (status = 201, description = "The new snapshot", body = SnapshotCard, headers(("Location" = String, description = "The snapshot"))),
        (status = 200, description = "The post's active snapshot of this selection", body = SnapshotCard),
    )
)]
#[post("/api/v1/internal/selections/{selection_id}/snapshots")]
pub async fn take_snapshot(
    app: Data<App>,
    _: Caller<News>,
    id: Path<SelectionId>,
    body: Json<TakeSnapshot>,
) -> Result<HttpResponse, Error> {
    let Json(TakeSnapshot { post_id, actor_user_id, author_user_id, replaces_snapshot_id }) = body;
    let request =
        ops::snapshot::SnapshotRequest { post_id, actor_user_id, author_user_id, replaces_snapshot_id };
    let now = runtime::clock::now();
    let taken = app.db.tx(async |tx| ops::snapshot::take_snapshot(tx, now, *id, &request).await).await?;
    Ok(match taken {
        TakenSnapshot::New(row) => HttpResponse::Created()
            .insert_header((LOCATION, format!("/api/v1/internal/snapshots/{}", row.id)))
            .json(SnapshotCard::from(row)),
        TakenSnapshot::Existing(row) => HttpResponse::Ok().json(SnapshotCard::from(row)),
    })
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DetachSnapshot {
    /// The reason for the detachment.
    reason: DetachReason,
}

/// Detach a snapshot from its post.
///
/// Idempotent: a repeat keeps the first reason and time.
#[utoipa::path(
    tag = "Internal", params(("snapshot_id" = SnapshotId, Path)),
    responses((status = 200, description = "The detached snapshot", body = SnapshotCard))
)]
#[post("/api/v1/internal/snapshots/{snapshot_id}/detach")]
pub async fn detach_snapshot(
    app: Data<App>,
    _: Caller<News>,
    id: Path<SnapshotId>,
    body: Json<DetachSnapshot>,
) -> Result<impl Responder, Error> {
    let now = runtime::clock::now();
    let row = app.db.tx(async |tx| ops::snapshot::detach_snapshot(tx, now, *id, body.0.reason).await).await?;
    Ok(web::Json(SnapshotCard::from(row)))
}

/// Read a snapshot for rendering, detached or not.
///
/// The stored content of a snapshot never changes.
/// The response withholds the data of each object that is not public now.
#[utoipa::path(
    tag = "Internal", params(("snapshot_id" = SnapshotId, Path)),
    responses((status = 200, description = "The snapshot", body = SnapshotView))
)]
#[get("/api/v1/internal/snapshots/{snapshot_id}")]
pub async fn get_snapshot(
    app: Data<App>,
    _: Caller<News>,
    id: Path<SnapshotId>,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let row = db::snapshot::find(&mut conn, *id).await?.ok_or(SNAPSHOT_NOT_FOUND)?;
    // The visibility is read after the snapshot, so it is at least as new.
    let ids = row.items.0.iter().map(|item| item.property_object_id);
    let public = db::property_object::find_public(&mut conn, ids).await?;
    Ok(web::Json(SnapshotView::new(row, &public)))
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ReadSelection {
    /// Finds only a selection to which a new deal may refer: one that is not deleted and that never
    /// had a collaborator.
    #[serde(default)]
    for_new_deal: bool,
}

/// Read a selection for a client's or a deal's card, deleted or not.
///
/// Returns the selection of any owner.
#[utoipa::path(
    tag = "Internal", params(("selection_id" = SelectionId, Path), ReadSelection),
    responses((status = 200, description = "The selection", body = SelectionView))
)]
#[get("/api/v1/internal/selections/{selection_id}")]
pub async fn get_selection(
    app: Data<App>,
    _: Caller<Crm>,
    id: Path<SelectionId>,
    Query(ReadSelection { for_new_deal }): Query<ReadSelection>,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let found = if for_new_deal {
        db::selection::find_for_new_deal(&mut conn, *id).await?
    } else {
        db::selection::find(&mut conn, *id).await?.map(SelectionView::from)
    };
    Ok(web::Json(found.ok_or(NOT_FOUND)?))
}

/// List the selections of an owner.
///
/// The list has no deleted selections.
#[utoipa::path(
    tag = "Internal",
    params(("owner_user_id" = UserId, Path), Paging<SelectionSort>),
    responses((status = 200, description = "One page", body = Page<SelectionView>))
)]
#[get("/api/v1/internal/selections/by-owner/{owner_user_id}")]
pub async fn list_selections_of_owner(
    app: Data<App>,
    _: Caller<Crm>,
    owner: Path<UserId>,
    paging: Paging<SelectionSort>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::selection::list_of_owner(&conn, *owner, &paging).await?))
}
