//! Projects, for managers of the developer.

use ::db::PipelinedConn;
use ::web::{Both, CommaSeparated, Fields, Json, OptionalJson, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{CompanyId, Permitted};
use runtime::clock;
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, Text};

use super::expected_version::{ExpectedVersion, ExpectedVersionQuery};
use crate::app::App;
use crate::db;
use crate::db::project::{ProjectFilter, ProjectSort};
use crate::domain::{
    Address, Building, City, Edited, ExternalId, ExternalIdEdit, FileReference, Latitude, Longitude,
    ManageDevelopers, ManageOwnDeveloper, Project, ProjectClass, ProjectDescription, ProjectFacts, ProjectId,
    ProjectName, ProjectStatus,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error, PROJECT_NOT_FOUND};
use crate::ops;

/// A project with its buildings.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ProjectView {
    #[serde(flatten)]
    project: Project,
    /// Buildings by name.
    #[schema(max_items = 200)]
    buildings: Vec<Building>,
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListProjects {
    /// Text to find anywhere in a name, regardless of letter case and of the kinds of spaces and
    /// dashes.
    #[param(inline)]
    query: Option<Text<0, 200>>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<ProjectStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<ProjectStatus>>,
    /// Id in another system of the company.
    #[param(inline)]
    external_id: Option<ExternalId>,
}

/// List the projects of my developer.
///
/// Returns a page of projects of any status, without deleted ones.
#[utoipa::path(
    tag = "Projects", params(ListProjects, Paging<ProjectSort>),
    responses((status = 200, description = "One page of projects", body = Page<Project>))
)]
#[get("/api/v1/developers/projects")]
pub async fn list_projects(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    Both(Query(parameters), paging): Both<Query<ListProjects>, Paging<ProjectSort>>,
) -> Result<impl Responder, Error> {
    let filter = ProjectFilter {
        query: parameters.query.map(|query| query.as_str().to_owned()),
        statuses: parameters.status.map(|statuses| statuses.0),
        external_id: parameters.external_id,
    };
    let conn = app.db.conn().await?;
    if !db::ancestors::has_developer(&conn, permitted.granted).await? {
        return Err(DEVELOPER_NOT_FOUND.into());
    }
    Ok(web::Json(db::project::list(&conn, permitted.granted, &filter, &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateProject {
    /// Id in another system of the company. `null` or an absent member means none.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    pub(super) external_id: ExternalIdEdit,
    pub(super) name: ProjectName,
    pub(super) description: Option<ProjectDescription>,
    pub(super) class: ProjectClass,
    pub(super) city: City,
    pub(super) address: Address,
    /// Required together with `Longitude`.
    pub(super) latitude: Option<Latitude>,
    pub(super) longitude: Option<Longitude>,
    pub(super) cover_file_id: Option<FileReference>,
}

impl CreateProject {
    /// Checks that both coordinates are sent or neither, and converts the body.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if one coordinate is missing.
    pub(super) fn check(self) -> Result<Edited<ProjectFacts>, Error> {
        let mut fields = Fields::default();
        let missing = match (self.latitude, self.longitude) {
            (Some(_), None) => Some("/Longitude"),
            (None, Some(_)) => Some("/Latitude"),
            _ => None,
        };
        if let Some(missing) = missing {
            fields.check::<()>(missing, Err(Invalid::new("required")));
        }
        let Self { external_id, name, description, class, city, address, latitude, longitude, cover_file_id } =
            self;
        let cover_file_id = cover_file_id.map(|file| file.0);
        let facts =
            ProjectFacts { name, description, class, city, address, latitude, longitude, cover_file_id };
        Ok(fields.finish(Some(Edited { facts, external_id }))?)
    }
}

/// Create a project.
///
/// The project is a draft, regardless of the developer's status. A repeated request creates another
/// project, unless it has the same `Idempotency-Key`.
#[utoipa::path(
    tag = "Projects", request_body = CreateProject,
    responses((status = 201, description = "The new project", body = Project,
            headers(("Location" = String, description = "The project"))))
)]
#[post("/api/v1/developers/projects")]
pub async fn create_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    idempotency: Idempotency,
    body: Json<CreateProject>,
) -> Result<HttpResponse, Error> {
    let (fields, by, now) = (body.0.check()?, permitted.actor.user_id, clock::now());
    let create = async |tx: &mut _| {
        let created = ops::project::create_project(tx, permitted.granted, by, fields, now).await?;
        let location = format!("/api/v1/developers/projects/{}", created.id);
        Ok(Reply::created(created).at(location))
    };
    idempotency.run(&app.db, create).await
}

/// Read a project.
///
/// The response contains the buildings by name.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path)),
    responses((status = 200, description = "The project with its buildings", body = ProjectView))
)]
#[get("/api/v1/developers/projects/{project_id}")]
pub async fn get_project(
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<ProjectId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| {
        let project = db::project::look_up(conn, permitted.granted, *id).await?;
        Ok((project, db::building::list_by_project(conn, *id).await?))
    });
    let (project, buildings) = found.await?;
    Ok(web::Json(ProjectView { project: project.ok_or(PROJECT_NOT_FOUND)?, buildings }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateProject {
    /// Id in another system of the company. An absent member keeps it, and `null` removes it.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    external_id: ExternalIdEdit,
    name: ProjectName,
    description: Option<ProjectDescription>,
    class: ProjectClass,
    city: City,
    address: Address,
    /// Required together with `Longitude`.
    latitude: Option<Latitude>,
    longitude: Option<Longitude>,
    cover_file_id: Option<FileReference>,
    /// The version that the caller has read. Another stored version returns 409, unless the content
    /// is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace a project.
///
/// An optional member that is absent or `null` is cleared, except an absent `ExternalId`. An
/// identical body changes nothing, not even the version.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path)),
    request_body = UpdateProject,
    responses((status = 200, description = "The project after the change", body = Project))
)]
#[put("/api/v1/developers/projects/{project_id}")]
pub async fn update_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<ProjectId>,
    body: Json<UpdateProject>,
) -> Result<impl Responder, Error> {
    let UpdateProject {
        external_id,
        name,
        description,
        class,
        city,
        address,
        latitude,
        longitude,
        cover_file_id,
        version,
    } = body.0;
    let project = CreateProject {
        external_id,
        name,
        description,
        class,
        city,
        address,
        latitude,
        longitude,
        cover_file_id,
    };
    let (fields, by, now) = (project.check()?, permitted.actor.user_id, clock::now());
    let update = async |tx: &mut _| {
        ops::project::update_project(tx, permitted.granted, by, *id, version, fields, now).await
    };
    Ok(web::Json(app.db.tx(update).await?))
}

/// Publish a project.
///
/// The developer must be Published.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The project after the change", body = Project))
)]
#[post("/api/v1/developers/projects/{project_id}/publish")]
pub async fn publish_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<ProjectId>,
    body: OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    let (by, version, now) = (permitted.actor.user_id, body.0.version, clock::now());
    let publish =
        async |tx: &mut _| ops::project::publish_project(tx, permitted.granted, by, *id, version, now).await;
    Ok(web::Json(app.db.tx(publish).await?))
}

/// Hide a published project.
///
/// Guests no longer see the project, its buildings and its objects. The data stays.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The project after the change", body = Project))
)]
#[post("/api/v1/developers/projects/{project_id}/hide")]
pub async fn hide_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<ProjectId>,
    body: OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    let (by, version, now) = (permitted.actor.user_id, body.0.version, clock::now());
    let hide =
        async |tx: &mut _| ops::project::hide_project(tx, permitted.granted, by, *id, version, now).await;
    Ok(web::Json(app.db.tx(hide).await?))
}

/// Delete a project.
///
/// The buildings and objects are deleted, too. A project with an object that a deal holds cannot be
/// deleted.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path), ExpectedVersionQuery),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/developers/projects/{project_id}")]
pub async fn delete_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: Path<ProjectId>,
    Query(seen): Query<ExpectedVersionQuery>,
) -> Result<HttpResponse, Error> {
    let (by, now) = (permitted.actor.user_id, clock::now());
    let delete = async |tx: &mut _| {
        ops::project::delete_project(tx, permitted.granted, by, *id, seen.version, now).await
    };
    app.db.tx(delete).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Delete a project of any developer.
///
/// Deletes the project for a developer whose managers cannot do it.
#[utoipa::path(
    tag = "Administration",
    params(("developer_id" = CompanyId, Path), ("project_id" = ProjectId, Path), ExpectedVersionQuery),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/admin/developers/{developer_id}/projects/{project_id}")]
pub async fn delete_developers_project(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    ids: Path<(CompanyId, ProjectId)>,
    Query(seen): Query<ExpectedVersionQuery>,
) -> Result<HttpResponse, Error> {
    let ((developer, id), by, now) = (ids.into_inner(), permitted.actor.user_id, clock::now());
    let delete = async |tx: &mut _| {
        ops::project::delete_developers_project(tx, developer, by, id, seen.version, now).await
    };
    app.db.tx(delete).await?;
    Ok(HttpResponse::NoContent().finish())
}
