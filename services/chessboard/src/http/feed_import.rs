//! Imports of feeds, for managers of the developer.

use ::db::Conn;
use ::web::{BodyStream, CursorPage, CursorPaging, FileContent, Json, Messages, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, delete, get, post, put, web};
use auth::{CompanyId, Permitted};
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;

use super::expected_version::ExpectedVersionQuery;
use super::feed_import_view::{FeedBuildingView, FeedImportView, FeedProblemView};
use crate::app::App;
use crate::db;
use crate::db::feed_change::StoredChange;
use crate::db::feed_import::ImportRow;
use crate::db::feed_offer::ProblemKey;
use crate::domain::{BuildingId, FeedImportId, ManageOwnDeveloper};
use crate::error::{DEVELOPER_NOT_FOUND, Error, FEED_IMPORT_NOT_FOUND};
use crate::ops;

/// Maximum size of an uploaded file, in bytes.
pub const MAX_FEED_BYTES: usize = 64 * 1024 * 1024;

/// Size of the parts in which a file is stored.
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateFeedImport {
    /// The building of all offers. Without it, each offer names its building.
    building_id: Option<BuildingId>,
}

/// Create an import of a feed.
///
/// The import waits for its file. A developer has one import that is not finished.
#[utoipa::path(
    tag = "Feeds", request_body = CreateFeedImport,
    responses((status = 201, description = "The new import", body = FeedImportView,
            headers(("Location" = String, description = "The import"))))
)]
#[post("/api/v1/developers/feed-imports")]
pub async fn create_feed_import(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    idempotency: Idempotency,
    request: HttpRequest,
    messages: Data<Messages>,
    body: Json<CreateFeedImport>,
) -> Result<HttpResponse, Error> {
    let (building, by, now) = (body.0.building_id, permitted.actor.user_id, clock::now());
    let create = async |tx: &mut _| {
        let import = ops::feed_import::create_import(tx, permitted.granted, building, by, now).await?;
        let location = format!("/api/v1/developers/feed-imports/{}", import.id);
        let view = FeedImportView::new((import, ::db::Json(Vec::new())), &messages, &request);
        Ok(Reply::created(view).at(location))
    };
    idempotency.run(&app.db, create).await
}

/// Upload the file of an import.
///
/// The file is YRL in UTF-8, plain or compressed with gzip, and any media type is accepted. The
/// service validates it afterwards: read the import every second or two until its `State` is
/// `Validated` or `Failed`. A repeated upload replaces one that has not ended. After one that has
/// ended it returns `CHESSBOARD_FEED_IMPORT_INVALID_TRANSITION`, also if the response to the first
/// one was lost.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path)),
    request_body(
        content = inline(FileContent), content_type = "application/octet-stream", description = "At most 64 MiB."
    ),
    responses((status = 200, description = "The import", body = FeedImportView))
)]
#[put("/api/v1/developers/feed-imports/{feed_import_id}/file")]
pub async fn upload_feed_file(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    request: HttpRequest,
    messages: Data<Messages>,
    mut body: BodyStream<MAX_FEED_BYTES>,
) -> Result<impl Responder, Error> {
    let (tenant, id) = (permitted.granted, *id);
    let (max, now) = (app.settings.feed_max_uploads_per_hour, clock::now());
    let begin = async |tx: &mut _| ops::feed_import::begin_upload(tx, tenant, id, max, now).await;
    let upload = app.db.tx(begin).await?;
    let mut bytes = 0;
    for position in 0.. {
        let chunk = body.next_part(CHUNK_BYTES).await?;
        if chunk.is_empty() {
            break;
        }
        bytes += chunk.len();
        // The connection is free while the next part arrives.
        let mut conn = app.db.conn().await?;
        db::feed_import::insert_chunk(&mut conn, id, upload, position, &chunk).await?;
    }
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let finish =
        async |tx: &mut _| ops::feed_import::finish_upload(tx, tenant, id, upload, bytes, clock::now()).await;
    let import = app.db.tx(finish).await?;
    Ok(web::Json(FeedImportView::new((import, ::db::Json(Vec::new())), &messages, &request)))
}

/// List the imports of feeds.
///
/// Returns the imports of the manager's developer, newest first.
#[utoipa::path(
    tag = "Feeds", params(CursorPaging<FeedImportId>),
    responses((status = 200, description = "One page of imports", body = CursorPage<FeedImportView>))
)]
#[get("/api/v1/developers/feed-imports")]
pub async fn list_feed_imports(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    request: HttpRequest,
    messages: Data<Messages>,
    paging: CursorPaging<FeedImportId>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    if !db::ancestors::has_developer(&conn, permitted.granted).await? {
        return Err(DEVELOPER_NOT_FOUND.into());
    }
    let page = db::feed_import::list(&conn, permitted.granted, &paging).await.map_err(::db::Error::from)?;
    let items = page.items.into_iter().map(|row| FeedImportView::new(row, &messages, &request));
    Ok(web::Json(CursorPage { items: items.collect(), next_cursor: page.next_cursor }))
}

/// Returns an import of a developer.
///
/// # Errors
/// [`FEED_IMPORT_NOT_FOUND`] if the developer has no such import.
async fn find(conn: &Conn, tenant: CompanyId, id: FeedImportId) -> Result<ImportRow, Error> {
    let found = db::feed_import::look_up(conn, tenant, id).await.map_err(::db::Error::from)?;
    Ok(found.ok_or(FEED_IMPORT_NOT_FOUND)?)
}

/// Read an import of a feed.
///
/// Returns the state and the numbers of offers. The validation and the application run in the
/// background, so read the import every second or two until `State` is `Validated`, `Applied` or
/// `Failed`.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path)),
    responses((status = 200, description = "The import", body = FeedImportView))
)]
#[get("/api/v1/developers/feed-imports/{feed_import_id}")]
pub async fn get_feed_import(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    request: HttpRequest,
    messages: Data<Messages>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    let row = find(&conn, permitted.granted, *id).await?;
    Ok(web::Json(FeedImportView::new(row, &messages, &request)))
}

/// List the problems of an import.
///
/// Returns the reasons why offers are rejected, by line.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path), CursorPaging<ProblemKey>),
    responses((status = 200, description = "One page of problems", body = CursorPage<FeedProblemView>))
)]
#[get("/api/v1/developers/feed-imports/{feed_import_id}/problems")]
pub async fn list_feed_problems(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    request: HttpRequest,
    messages: Data<Messages>,
    paging: CursorPaging<ProblemKey>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    find(&conn, permitted.granted, *id).await?;
    let page = db::feed_offer::list_problems(&conn, *id, &paging).await.map_err(::db::Error::from)?;
    let items = page.items.into_iter().map(|problem| FeedProblemView::new(problem, &messages, &request));
    Ok(web::Json(CursorPage { items: items.collect(), next_cursor: page.next_cursor }))
}

/// List the buildings of an import.
///
/// Returns the number of changes of each building.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path), CursorPaging<BuildingId>),
    responses((status = 200, description = "One page of buildings", body = CursorPage<FeedBuildingView>))
)]
#[get("/api/v1/developers/feed-imports/{feed_import_id}/buildings")]
pub async fn list_feed_buildings(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    paging: CursorPaging<BuildingId>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    find(&conn, permitted.granted, *id).await?;
    let page = db::feed_change::list_buildings(&conn, *id, &paging).await.map_err(::db::Error::from)?;
    let items = page.items.into_iter().map(|(building, project)| FeedBuildingView::new(&building, project));
    Ok(web::Json(CursorPage { items: items.collect(), next_cursor: page.next_cursor }))
}

/// List the changes of a building in an import.
///
/// Returns new, changed, kept and missing objects by number, with their old and new values. Objects
/// that stay as they are because nothing differs are left out.
#[utoipa::path(
    tag = "Feeds",
    params(("feed_import_id" = FeedImportId, Path), ("building_id" = BuildingId, Path), CursorPaging<i32>),
    responses((status = 200, description = "One page of changes", body = CursorPage<StoredChange>))
)]
#[get("/api/v1/developers/feed-imports/{feed_import_id}/buildings/{building_id}/changes")]
pub async fn list_feed_changes(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(FeedImportId, BuildingId)>,
    paging: CursorPaging<i32>,
) -> Result<impl Responder, Error> {
    let (id, building) = *ids;
    let conn = app.db.conn().await?;
    find(&conn, permitted.granted, id).await?;
    let page = db::feed_change::list_changes(&conn, id, building, &paging).await;
    Ok(web::Json(page.map_err(::db::Error::from)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ApplyFeedImport {
    /// True to apply the accepted offers of a building that also has rejected ones. By default such
    /// a building stays as it is.
    #[serde(default)]
    skip_rejected: bool,
    /// The version that the caller has read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Apply an import.
///
/// The service applies each building as a whole or not at all. A building that changed after the
/// validation stays as it is and becomes Outdated. The response has the `State` `Applying`: read
/// the import every second or two until it is `Applied`.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path)),
    request_body = ApplyFeedImport,
    responses((status = 200, description = "The import", body = FeedImportView))
)]
#[post("/api/v1/developers/feed-imports/{feed_import_id}/apply")]
pub async fn apply_feed_import(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    request: HttpRequest,
    messages: Data<Messages>,
    body: Json<ApplyFeedImport>,
) -> Result<impl Responder, Error> {
    let ApplyFeedImport { skip_rejected, version } = body.0;
    let (tenant, by, now) = (permitted.granted, permitted.actor.user_id, clock::now());
    let apply = async |tx: &mut _| {
        ops::feed_import::apply_import(tx, tenant, *id, version, skip_rejected, by, now).await
    };
    let import = app.db.tx(apply).await?;
    let conn = app.db.conn().await?;
    let row = find(&conn, tenant, import.id).await?;
    Ok(web::Json(FeedImportView::new(row, &messages, &request)))
}

/// Delete an import.
///
/// An import that is being validated or applied ends. Buildings that are applied stay applied.
#[utoipa::path(
    tag = "Feeds", params(("feed_import_id" = FeedImportId, Path), ExpectedVersionQuery),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/developers/feed-imports/{feed_import_id}")]
pub async fn delete_feed_import(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<FeedImportId>,
    Query(seen): Query<ExpectedVersionQuery>,
) -> Result<HttpResponse, Error> {
    let (tenant, now) = (permitted.granted, clock::now());
    let delete = async |tx: &mut _| ops::feed_import::delete_import(tx, tenant, *id, seen.version, now).await;
    app.db.tx(delete).await?;
    Ok(HttpResponse::NoContent().finish())
}
