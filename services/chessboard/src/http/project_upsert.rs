//! Projects by their external ids, for integrations of the developer's own systems.

use ::db::PipelinedConn;
use ::web::Json;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Responder, get, put, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;

use super::external_id::{PathExternalId, respond};
use super::project::CreateProject;
use crate::app::App;
use crate::db;
use crate::domain::{
    Address, City, ExternalId, ExternalIdEdit, FileReference, Latitude, Longitude, ManageOwnDeveloper,
    Project, ProjectClass, ProjectDescription, ProjectName,
};
use crate::error::{Error, PROJECT_NOT_FOUND};
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpsertProject {
    name: ProjectName,
    /// `null` or an absent member removes the value, as for all optional members.
    description: Option<ProjectDescription>,
    class: ProjectClass,
    city: City,
    address: Address,
    /// Required together with `Longitude`.
    latitude: Option<Latitude>,
    longitude: Option<Longitude>,
    cover_file_id: Option<FileReference>,
    /// The version that the caller has read, 0 for a new project. Another stored version returns
    /// 409, unless the content is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Create or replace a project by its external id.
///
/// Creates a draft if the developer has no project with this external id. Otherwise replaces the
/// project. An optional member that is absent or `null` is cleared. An identical body changes
/// nothing, not even the version.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the project in another system of the company.")),
    request_body = UpsertProject,
    responses(
        (status = 200, description = "The project after the change", body = Project),
        (status = 201, description = "The new project", body = Project,
            headers(("Location" = String, description = "The project"))),
    )
)]
#[put("/api/v1/developers/by-external-id/projects/{external_id}")]
pub async fn upsert_project(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    body: Json<UpsertProject>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let UpsertProject {
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
        external_id: ExternalIdEdit::Keep,
        name,
        description,
        class,
        city,
        address,
        latitude,
        longitude,
        cover_file_id,
    };
    let (facts, by, now) = (project.check()?.facts, permitted.actor.user_id, clock::now());
    let upsert = async |tx: &mut _| {
        ops::project::upsert_project(tx, permitted.granted, by, id.0, version, facts, now).await
    };
    Ok(respond(&request, app.db.tx(upsert).await?))
}

/// Read a project by its external id.
///
/// Finds only projects of the own company.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the project in another system of the company.")),
    responses((status = 200, description = "The project", body = Project))
)]
#[get("/api/v1/developers/by-external-id/projects/{external_id}")]
pub async fn get_project_by_external_id(
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found =
        lookups.run(async |conn| db::project::look_up_by_external_id(conn, permitted.granted, &id.0).await);
    Ok(web::Json(found.await?.ok_or(PROJECT_NOT_FOUND)?))
}
