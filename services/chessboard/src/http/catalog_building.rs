//! Buildings, for anybody.

use ::db::Lookups;
use ::web::{ClientAddress, reserve};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, Responder, get, web};
use auth::Guest;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::db::catalog_building::CatalogBuilding;
use crate::db::catalog_object::GridObject;
use crate::domain::{BuildingId, GridSection, ProjectId, grid};
use crate::error::{BUILDING_NOT_FOUND, Error};

/// What an object takes in an answer, or a little more.
const OBJECT_BYTES: usize = 512;

/// A building with what stands in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogBuildingGrid {
    #[serde(flatten)]
    building: CatalogBuilding,
    /// By number; those that have objects.
    grid: Vec<GridSection<GridObject>>,
}

/// Read a building.
///
/// With its grid: objects of every status.
#[utoipa::path(
    tag = "Catalog", security(()), params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path)),
    responses(
        (status = 200, description = "The building", body = CatalogBuildingGrid),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects/{project_id}/buildings/{building_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_building(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    path: Path<(ProjectId, BuildingId)>,
    lookups: Data<Lookups>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let (project, id) = *path;
    let currency = app.settings.currency;
    let found =
        lookups.run(async |conn| db::catalog_building::look_up(conn, project, id, currency).await).await?;
    let (building, objects) = found.ok_or(BUILDING_NOT_FOUND)?;
    reserve(&request, usize::try_from(objects).unwrap_or_default() * OBJECT_BYTES).await?;
    let objects = db::catalog_object::of_building(&*app.db.conn().await?, id).await?;
    Ok(web::Json(CatalogBuildingGrid { building, grid: grid(objects) }))
}
