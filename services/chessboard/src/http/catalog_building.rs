//! Buildings of the catalog.

use ::db::Conn;
use ::web::{ClientAddress, reserve};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, Responder, get, web};
use auth::AnyCaller;
use serde::Serialize;
use service::Reads;
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::db::catalog_building::CatalogBuilding;
use crate::db::catalog_object::GridObject;
use crate::domain::{BuildingId, GridSection, ProjectId, build_grid};
use crate::error::{BUILDING_NOT_FOUND, Error};

/// Maximum bytes of an object in a response, for the byte budget.
const OBJECT_BYTES: usize = 512;

/// A building with its grid.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogBuildingGrid {
    #[serde(flatten)]
    building: CatalogBuilding,
    /// Sections with objects, ascending.
    grid: Vec<GridSection<GridObject>>,
}

/// Read a building.
///
/// The response contains the grid with objects of every status.
#[utoipa::path(
    tag = "Catalog", security(()), params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path)),
    responses(
        (status = 200, description = "The building with its grid", body = CatalogBuildingGrid),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects/{project_id}/buildings/{building_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_building(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    path: Path<(ProjectId, BuildingId)>,
    reads: Data<Reads>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let (project, id) = *path;
    let currency = app.settings.currency;
    let found = reads
        .look_up(&caller, async |conn| db::catalog_building::look_up(conn, project, id, currency).await)
        .await?;
    let (building, objects) = found.ok_or(BUILDING_NOT_FOUND)?;
    let bytes = usize::try_from(objects).unwrap_or_default() * OBJECT_BYTES;
    app.limit_guest_bytes(&caller, address, bytes)?;
    reserve(&request, bytes).await?;
    let list = async |conn: &Conn| db::catalog_object::list_by_building(conn, id).await;
    let objects = reads.query(&caller, list).await?;
    Ok(web::Json(CatalogBuildingGrid { building, grid: build_grid(objects) }))
}
