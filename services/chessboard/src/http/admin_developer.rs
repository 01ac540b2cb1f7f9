//! All developers, for platform administrators.

use ::db::PipelinedConn;
use ::web::{
    Both, CommaSeparated, CursorPage, CursorPaging, Json, OptionalJson, Page, Paging, Problem, Query,
};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};
use values::{PhoneRegion, Text, fold};

use super::developer::{SentPhone, UpdateDeveloper, change_status, check_profile, list_log, update};
use super::expected_version::{ExpectedVersion, ExpectedVersionQuery};
use crate::app::App;
use crate::db;
use crate::db::developer::{DeveloperFilter, DeveloperSort};
use crate::db::log::LogKey;
use crate::domain::{
    ContactEmail, Description, Developer, DeveloperName, DeveloperStatus, ExternalDeveloperId, FileReference,
    FoundedYear, Highlights, LegalName, LogEntry, ManageDevelopers, ProfileDetails, SyncSource, Transition,
    Website,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;
use crate::ops::developer::Creation;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListDevelopers {
    /// Text to find anywhere in a name or a legal name, regardless of letter case and of the kinds
    /// of spaces and dashes.
    #[param(inline)]
    query: Option<Text<0, 200>>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<DeveloperStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<DeveloperStatus>>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<SyncSource>>, inline, min_items = 1, style = Form, explode = false)]
    sync_source: Option<CommaSeparated<SyncSource>>,
    #[serde(default)]
    #[param(default = false)]
    include_deleted: bool,
}

/// List developers.
///
/// Returns a page of developers of any status. `IncludeDeleted` adds the deleted ones.
#[utoipa::path(
    tag = "Administration", params(ListDevelopers, Paging<DeveloperSort>),
    responses((status = 200, description = "One page of developers", body = Page<Developer>))
)]
#[get("/api/v1/admin/developers", wrap = "from_fn(auth::expensive)")]
pub async fn list_developers(
    app: Data<App>,
    _: Permitted<ManageDevelopers>,
    Both(Query(parameters), paging): Both<Query<ListDevelopers>, Paging<DeveloperSort>>,
) -> Result<impl Responder, Error> {
    let filter = DeveloperFilter {
        query: parameters.query.map(|query| fold(query.as_str())).filter(|query| !query.is_empty()),
        statuses: parameters.status.map(|statuses| statuses.0),
        sync_sources: parameters.sync_source.map(|sources| sources.0),
        include_deleted: parameters.include_deleted,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::developer::list(&conn, &filter, &paging).await?))
}

type CompanyReference = Reference<CompanyId>;
type ExternalDeveloperReference = Reference<ExternalDeveloperId>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateDeveloper {
    /// The id of a company of type Developer. The profile gets the same id.
    company_id: CompanyReference,
    /// The default is the company's name.
    name: Option<DeveloperName>,
    /// The default is the company's legal name.
    legal_name: Option<LegalName>,
    description: Option<Description>,
    logo_file_id: Option<FileReference>,
    /// An absolute `http` or `https` URL.
    website: Option<Website>,
    /// Stored in E.164.
    contact_phone: Option<SentPhone>,
    contact_email: Option<ContactEmail>,
    founded_year: Option<FoundedYear>,
    highlights: Option<Highlights>,
    /// Links the profile to a profile of the external system, which then owns the replica fields.
    external_chessboard_developer_id: Option<ExternalDeveloperReference>,
    /// The version of the deleted developer that the caller has read. Any other version returns
    /// 409. The member has no effect if the company has no deleted developer.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

impl CreateDeveloper {
    /// Checks the body and converts it.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` as in [`check_profile`].
    fn into_creation(self, region: PhoneRegion) -> Result<Creation, Problem> {
        let highlights = self.highlights.unwrap_or_default();
        let details = ProfileDetails {
            description: self.description,
            logo_file_id: self.logo_file_id.map(|id| id.0),
            website: self.website,
            contact_phone: check_profile(self.contact_phone.as_ref(), &highlights, region)?,
            contact_email: self.contact_email,
            founded_year: self.founded_year,
            highlights,
        };
        Ok(Creation {
            company_id: self.company_id.0,
            name: self.name,
            legal_name: self.legal_name,
            details,
            external_id: self.external_chessboard_developer_id.map(|id| id.0),
            version: self.version,
        })
    }
}

/// Create or restore a developer.
///
/// The new profile is a draft. A restored profile keeps its id and its link to the external system.
/// Replica members that the external system owns stay unchanged, too. All other members have the
/// values of the body or their defaults.
#[utoipa::path(
    tag = "Administration", request_body = CreateDeveloper,
    responses((status = 201, description = "The new or restored developer", body = Developer,
            headers(("Location" = String, description = "The developer"))))
)]
#[post("/api/v1/admin/developers")]
pub async fn create_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    idempotency: Idempotency,
    Json(body): Json<CreateDeveloper>,
) -> Result<HttpResponse, Error> {
    let (creation, by) = (body.into_creation(app.settings.phone_region)?, permitted.actor.user_id);
    let now = runtime::clock::now();
    let create = async |tx: &mut _| {
        let created = ops::developer::create_developer(tx, by, creation, now).await?;
        let location = format!("/api/v1/admin/developers/{}", created.id);
        Ok(Reply::created(created).at(location))
    };
    idempotency.run(&app.db, create).await
}

/// Read a developer.
///
/// Returns the developer, deleted or not.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)),
    responses((status = 200, description = "The developer", body = Developer))
)]
#[get("/api/v1/admin/developers/{developer_id}")]
pub async fn get_developer(
    _: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::developer::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(DEVELOPER_NOT_FOUND)?))
}

/// Replace a developer's profile.
///
/// An optional member that is absent or `null` is cleared. An identical body changes nothing, not
/// even the version. `errors` of `CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED` names the fields that
/// only the external system changes.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = UpdateDeveloper,
    responses((status = 200, description = "The developer after the change", body = Developer))
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
/// The deletion is soft. A developer with a project that is not deleted cannot be deleted.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path), ExpectedVersionQuery),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/admin/developers/{developer_id}")]
pub async fn delete_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    Query(seen): Query<ExpectedVersionQuery>,
) -> Result<HttpResponse, Error> {
    let (by, now) = (permitted.actor.user_id, runtime::clock::now());
    let delete = async |tx: &mut _| ops::developer::delete_developer(tx, *id, by, seen.version, now).await;
    app.db.tx(delete).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Publish a developer.
///
/// Name, logo and description must be filled, and the company must be active.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/publish")]
pub async fn publish_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, *id, permitted.actor.user_id, Transition::Publish, &expected).await
}

/// Hide a developer.
///
/// Guests no longer see the developer and its projects until it is published again.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/hide")]
pub async fn hide_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, *id, permitted.actor.user_id, Transition::Hide, &expected).await
}

/// Withdraw a developer.
///
/// A published developer becomes a draft again.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/withdraw")]
pub async fn withdraw_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, *id, permitted.actor.user_id, Transition::Withdraw, &expected).await
}

/// Release a developer from the external system.
///
/// The platform owns all members again, until the external system publishes a later profile of the
/// company.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path)), request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/admin/developers/{developer_id}/release")]
pub async fn release_developer(
    app: Data<App>,
    permitted: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    let (by, now) = (permitted.actor.user_id, runtime::clock::now());
    let release =
        async |tx: &mut _| ops::developer::release_developer(tx, *id, by, expected.version, now).await;
    Ok(web::Json(app.db.tx(release).await?))
}

/// Read the log of a developer.
///
/// Entries are sorted by version, newest first. The log of a deleted developer is returned, too.
#[utoipa::path(
    tag = "Administration", params(("developer_id" = CompanyId, Path), CursorPaging<LogKey>),
    responses((status = 200, description = "One page of entries", body = CursorPage<LogEntry>))
)]
#[get("/api/v1/admin/developers/{developer_id}/events")]
pub async fn list_developer_events(
    app: Data<App>,
    _: Permitted<ManageDevelopers>,
    id: Path<CompanyId>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    list_log(&app, *id, |_| false, paging).await
}
