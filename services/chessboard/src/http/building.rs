//! Buildings of a project, for managers of the developer.

use ::db::PipelinedConn;
use ::web::{Fields, Json, Query, reserve};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, delete, get, post, put, web};
use auth::Permitted;
use runtime::clock;
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use utoipa::ToSchema;
use values::{Invalid, Whole};

use super::expected_version::ExpectedVersionQuery;
use crate::app::App;
use crate::db;
use crate::domain::{
    Building, BuildingFacts, BuildingId, BuildingName, BuildingState, Edited, ExternalId, ExternalIdEdit,
    GridSection, ManageOwnDeveloper, ProjectId, PropertyObject, build_grid,
};
use crate::error::{BUILDING_NOT_FOUND, Error, PROJECT_NOT_FOUND};
use crate::ops;

/// Estimated bytes of an object with long texts in a response, for the byte budget.
const OBJECT_BYTES: usize = 1024;

/// A building with its objects.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BuildingView {
    #[serde(flatten)]
    building: Building,
    /// Sections with objects, ascending.
    grid: Vec<GridSection<PropertyObject>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateBuilding {
    /// Id in another system of the company. `null` or an absent member means none.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    pub(super) external_id: ExternalIdEdit,
    pub(super) name: BuildingName,
    pub(super) sections_count: Whole<1, 100>,
    pub(super) floors_total: Whole<1, 200>,
    pub(super) state: BuildingState,
    pub(super) ready_year: Option<Whole<1900, 2100>>,
    /// Only together with `ReadyYear`.
    pub(super) ready_quarter: Option<Whole<1, 4>>,
}

impl CreateBuilding {
    /// Checks that a quarter is sent with its year, and converts the body.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if the year is missing.
    fn check(self) -> Result<Edited<BuildingFacts>, Error> {
        let mut fields = Fields::default();
        let edited = self.into_edited(&mut fields);
        Ok(fields.finish(Some(edited))?)
    }

    /// Converts the body, and adds an error to `fields` for a quarter without its year.
    pub(super) fn into_edited(self, fields: &mut Fields) -> Edited<BuildingFacts> {
        if self.ready_quarter.is_some() && self.ready_year.is_none() {
            fields.check::<()>("/ReadyYear", Err(Invalid::new("required")));
        }
        let Self { external_id, name, sections_count, floors_total, state, ready_year, ready_quarter } = self;
        let facts = BuildingFacts { name, sections_count, floors_total, state, ready_year, ready_quarter };
        Edited { facts, external_id }
    }
}

/// Add a building to a project.
///
/// A project has at most 200 buildings. A repeated request creates another building,
/// unless it has the same `Idempotency-Key`.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path)),
    request_body = CreateBuilding,
    responses((status = 201, description = "The new building", body = Building,
            headers(("Location" = String, description = "The building"))))
)]
#[post("/api/v1/developers/projects/{project_id}/buildings")]
pub async fn create_building(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    project: Path<ProjectId>,
    idempotency: Idempotency,
    body: Json<CreateBuilding>,
) -> Result<HttpResponse, Error> {
    let (fields, now) = (body.0.check()?, clock::now());
    let create = async |tx: &mut _| {
        let created = ops::building::create_building(tx, permitted.granted, *project, fields, now).await?;
        let location = format!("/api/v1/developers/projects/{}/buildings/{}", *project, created.id);
        Ok(Reply::created(created).at(location))
    };
    idempotency.run(&app.db, create).await
}

/// Read a building.
///
/// The response contains the objects as a grid, with sections ascending and floors descending.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path)),
    responses((status = 200, description = "The building with its grid", body = BuildingView))
)]
#[get("/api/v1/developers/projects/{project_id}/buildings/{building_id}")]
pub async fn get_building(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId)>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let (project, id) = *ids;
    let found = lookups.run(async |conn| {
        let project_found = db::project::look_up(conn, permitted.granted, project).await?;
        let building = db::building::look_up(conn, project, id).await?;
        Ok((project_found, building, db::property_object::count(conn, id).await?))
    });
    let (project, building, objects) = found.await?;
    project.ok_or(PROJECT_NOT_FOUND)?;
    let building = building.ok_or(BUILDING_NOT_FOUND)?;
    reserve(&request, usize::try_from(objects).unwrap_or_default() * OBJECT_BYTES).await?;
    let objects = db::property_object::list_by_building(&*app.db.conn().await?, id).await?;
    Ok(web::Json(BuildingView { building, grid: build_grid(objects) }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateBuilding {
    /// Id in another system of the company. An absent member keeps it, and `null` removes it.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    external_id: ExternalIdEdit,
    name: BuildingName,
    /// At least the highest section of the objects.
    sections_count: Whole<1, 100>,
    /// At least the highest floor of the objects.
    floors_total: Whole<1, 200>,
    state: BuildingState,
    ready_year: Option<Whole<1900, 2100>>,
    /// Only together with `ReadyYear`.
    ready_quarter: Option<Whole<1, 4>>,
    /// The version that the caller has read. Another stored version returns 409, unless the content
    /// is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace a building.
///
/// An optional member that is absent or `null` is cleared, except an absent `ExternalId`. An
/// identical body changes nothing, not even the version.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path)),
    request_body = UpdateBuilding,
    responses((status = 200, description = "The building after the change", body = Building))
)]
#[put("/api/v1/developers/projects/{project_id}/buildings/{building_id}")]
pub async fn update_building(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId)>,
    body: Json<UpdateBuilding>,
) -> Result<impl Responder, Error> {
    let UpdateBuilding {
        external_id,
        name,
        sections_count,
        floors_total,
        state,
        ready_year,
        ready_quarter,
        version,
    } = body.0;
    let building =
        CreateBuilding { external_id, name, sections_count, floors_total, state, ready_year, ready_quarter };
    let ((project, id), fields, now) = (ids.into_inner(), building.check()?, clock::now());
    let update = async |tx: &mut _| {
        ops::building::update_building(tx, permitted.granted, project, id, version, fields, now).await
    };
    Ok(web::Json(app.db.tx(update).await?))
}

/// Delete a building.
///
/// The objects are deleted, too. A building with an object that a deal holds cannot be deleted.
#[utoipa::path(
    tag = "Projects",
    params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path), ExpectedVersionQuery),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/developers/projects/{project_id}/buildings/{building_id}")]
pub async fn delete_building(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId)>,
    Query(seen): Query<ExpectedVersionQuery>,
) -> Result<HttpResponse, Error> {
    let ((project, id), now) = (ids.into_inner(), clock::now());
    let delete = async |tx: &mut _| {
        ops::building::delete_building(tx, permitted.granted, project, id, seen.version, now).await
    };
    app.db.tx(delete).await?;
    Ok(HttpResponse::NoContent().finish())
}
