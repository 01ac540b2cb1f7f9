//! All developers, for administrators of the platform.

use ::db::Lookups;
use ::web::{Both, CursorPage, CursorPaging, Json, OptionalJson, Page, Paging, Problem, Query, Several};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use values::{PhoneRegion, Text, fold};

use super::Seen;
use super::developer::{GivenPhone, UpdateDeveloper, check, log, make, update};
use crate::app::App;
use crate::db;
use crate::db::developer::{DeveloperFilter, DeveloperSort};
use crate::db::log::LogKey;
use crate::domain::{
    ContactEmail, Description, Details, Developer, DeveloperName, DeveloperStatus, FileReference,
    FoundedYear, Highlights, LegalName, LogEntry, ManageDevelopers, Move, OutsideId, SyncSource, Website,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;
use crate::ops::developer::Creation;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListDevelopers {
    /// Found anywhere in a name or a legal name; letter case does not count.
    #[param(inline)]
    query: Option<Text<0, 200>>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<DeveloperStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<Several<DeveloperStatus>>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<SyncSource>>, inline, min_items = 1, style = Form, explode = false)]
    sync_source: Option<Several<SyncSource>>,
    #[serde(default)]
    #[param(default = false)]
    include_deleted: bool,
}

/// List developers.
///
/// Of any status; deleted ones where they are asked for.
#[utoipa::path(
    tag = "Administration", params(ListDevelopers, Paging<DeveloperSort>),
    responses((status = 200, description = "One page", body = Page<Developer>))
)]
#[get("/api/v1/admin/developers")]
pub async fn list_developers(
    app: Data<App>,
    _: Permitted<ManageDevelopers>,
    Both(Query(asked), paging): Both<Query<ListDevelopers>, Paging<DeveloperSort>>,
) -> Result<impl Responder, Error> {
    let filter = DeveloperFilter {
        query: asked.query.map(|query| fold(query.as_str())).filter(|query| !query.is_empty()),
        statuses: asked.status.map(|statuses| statuses.0),
        sync_sources: asked.sync_source.map(|sources| sources.0),
        with_deleted: asked.include_deleted,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::developer::list(&conn, &filter, &paging).await?))
}

type CompanyReference = Reference<CompanyId>;
type OutsideReference = Reference<OutsideId>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateDeveloper {
    /// Of a company that is a developer; the profile gets the same id.
    company_id: CompanyReference,
    /// The company's, where none is given.
    name: Option<DeveloperName>,
    /// The company's, where none is given.
    legal_name: Option<LegalName>,
    description: Option<Description>,
    logo_file_id: Option<FileReference>,
    /// Absolute.
    website: Option<Website>,
    /// Kept in E.164.
    contact_phone: Option<GivenPhone>,
    contact_email: Option<ContactEmail>,
    founded_year: Option<FoundedYear>,
    highlights: Option<Highlights>,
    /// Links the profile with one of the outside system, which is its master from then on.
    external_chessboard_developer_id: Option<OutsideReference>,
}

impl CreateDeveloper {
    /// # Errors
    /// `400 VALIDATION_FAILED`
    fn into_creation(self, region: PhoneRegion) -> Result<Creation, Problem> {
        let highlights = self.highlights.unwrap_or_default();
        let details = Details {
            description: self.description,
            logo_file_id: self.logo_file_id.map(|id| id.0),
            website: self.website,
            contact_phone: check(self.contact_phone.as_ref(), &highlights, region)?,
            contact_email: self.contact_email,
            founded_year: self.founded_year,
            highlights,
        };
        Ok(Creation {
            company_id: self.company_id.0,
            name: self.name,
            legal_name: self.legal_name,
            details,
            outside_id: self.external_chessboard_developer_id.map(|id| id.0),
        })
    }
}

/// Create a developer, or bring a deleted one back.
///
/// In Draft. One that comes back keeps its id and its link with the outside system, and nothing else of its profile.
#[utoipa::path(
    tag = "Administration", request_body = CreateDeveloper,
    responses((status = 201, description = "Created", body = Developer))
)]
#[post("/api/v1/admin/developers")]
pub async fn create_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    Json(body): Json<CreateDeveloper>,
) -> Result<HttpResponse, Error> {
    let (creation, by) = (body.into_creation(app.settings.phone_region)?, permitted.actor.user_id);
    let now = runtime::clock::now();
    let created = app.db.tx(async |tx| ops::developer::create_developer(tx, by, creation, now).await).await?;
    Ok(HttpResponse::Created().json(created))
}

/// Read a developer.
///
/// A deleted one, too.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)),
    responses((status = 200, description = "The developer", body = Developer))
)]
#[get("/api/v1/admin/developers/{developer_id}")]
pub async fn get_developer(
    _: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::developer::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(DEVELOPER_NOT_FOUND)?))
}

/// Replace a developer's profile.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = UpdateDeveloper,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[put("/api/v1/admin/developers/{developer_id}")]
pub async fn update_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    Json(body): Json<UpdateDeveloper>,
) -> Result<impl Responder, Error> {
    update(&app, *id, permitted.actor.user_id, body).await
}

/// Delete a developer.
///
/// Softly; one that has projects stays.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/admin/developers/{developer_id}")]
pub async fn delete_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
) -> Result<HttpResponse, Error> {
    let (by, now) = (permitted.actor.user_id, runtime::clock::now());
    app.db.tx(async |tx| ops::developer::delete_developer(tx, *id, by, now).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Publish a developer.
///
/// Its name, logo and description have to be filled, and its company active.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/publish")]
pub async fn publish_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, *id, permitted.actor.user_id, Move::Publish, &seen).await
}

/// Hide a developer.
///
/// With all of its projects, until it is published again.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/hide")]
pub async fn hide_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, *id, permitted.actor.user_id, Move::Hide, &seen).await
}

/// Withdraw a developer.
///
/// From publication, to be worked on.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/withdraw")]
pub async fn withdraw_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, *id, permitted.actor.user_id, Move::Withdraw, &seen).await
}

/// Release a developer from the outside system.
///
/// The platform is the master of all of its members again, until the outside system tells of its company once more.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/release")]
pub async fn release_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    let (by, now) = (permitted.actor.user_id, runtime::clock::now());
    let released =
        app.db.tx(async |tx| ops::developer::release_developer(tx, *id, by, seen.version, now).await);
    Ok(web::Json(released.await?))
}

/// Read the log of a developer.
///
/// Newest first; of a deleted one, too.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path), CursorPaging<LogKey>),
    responses((status = 200, description = "One page", body = CursorPage<LogEntry>))
)]
#[get("/api/v1/admin/developers/{developer_id}/events")]
pub async fn list_developer_events(
    app: Data<App>,
    _: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    log(&app, *id, |_| false, paging).await
}
