//! Buildings by their external ids, for integrations of the developer's own systems.

use ::db::PipelinedConn;
use ::web::{Fields, Json};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Responder, get, put, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;
use values::Whole;

use super::building::CreateBuilding;
use super::external_id::{PathExternalId, parent, respond};
use crate::app::App;
use crate::db;
use crate::domain::{
    Building, BuildingName, BuildingState, ExternalId, ExternalIdEdit, ManageOwnDeveloper, ProjectReference,
};
use crate::error::{BUILDING_NOT_FOUND, Error};
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpsertBuilding {
    /// Exactly one of `ProjectId` and `ProjectExternalId` is required.
    project_id: Option<ProjectReference>,
    /// External id of the project.
    project_external_id: Option<ExternalId>,
    name: BuildingName,
    /// At least the highest section of the objects.
    sections_count: Whole<1, 100>,
    /// At least the highest floor of the objects.
    floors_total: Whole<1, 200>,
    state: BuildingState,
    ready_year: Option<Whole<1900, 2100>>,
    /// Only together with `ReadyYear`.
    ready_quarter: Option<Whole<1, 4>>,
    /// The version that the caller has read, 0 for a new building. Another stored version returns
    /// 409, unless the content is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Create or replace a building by its external id.
///
/// Creates the building if the developer has none with this external id. Otherwise replaces the
/// building, which stays in its project. An optional member that is absent or `null` is cleared. An
/// identical body changes nothing, not even the version.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the building in another system of the company.")),
    request_body = UpsertBuilding,
    responses(
        (status = 200, description = "The building after the change", body = Building),
        (status = 201, description = "The new building", body = Building,
            headers(("Location" = String, description = "The building"))),
    )
)]
#[put("/api/v1/developers/by-external-id/buildings/{external_id}")]
pub async fn upsert_building(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    body: Json<UpsertBuilding>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let Json(sent) = body;
    let building = CreateBuilding {
        external_id: ExternalIdEdit::Keep,
        name: sent.name,
        sections_count: sent.sections_count,
        floors_total: sent.floors_total,
        state: sent.state,
        ready_year: sent.ready_year,
        ready_quarter: sent.ready_quarter,
    };
    let mut fields = Fields::default();
    let project = fields.check("/ProjectId", parent(sent.project_id, sent.project_external_id));
    let building = building.into_edited(&mut fields);
    let (project, building) = fields.finish(project.zip(Some(building)))?;
    let now = clock::now();
    let upsert = async |tx: &mut _| {
        let (tenant, facts) = (permitted.granted, building.facts);
        ops::building::upsert_building(tx, tenant, project, id.0, sent.version, facts, now).await
    };
    Ok(respond(&request, app.db.tx(upsert).await?))
}

/// Read a building by its external id.
///
/// The response does not contain the grid.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the building in another system of the company.")),
    responses((status = 200, description = "The building", body = Building))
)]
#[get("/api/v1/developers/by-external-id/buildings/{external_id}")]
pub async fn get_building_by_external_id(
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found =
        lookups.run(async |conn| db::building::look_up_by_external_id(conn, permitted.granted, &id.0).await);
    Ok(web::Json(found.await?.ok_or(BUILDING_NOT_FOUND)?))
}
