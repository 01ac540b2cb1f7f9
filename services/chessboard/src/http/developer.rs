//! One's own developer, for its managers; and what requests about profiles have in common.

use ::db::Lookups;
use ::web::{CursorPage, CursorPaging, Fields, Json, OptionalJson, Problem, unknown_cursor};
use actix_web::web::Data;
use actix_web::{Responder, get, post, put, web};
use auth::{CompanyId, Permitted, UserId};
use serde::Deserialize;
use utoipa::ToSchema;
use values::{Dialled, Invalid, Phone, PhoneRegion, Private};

use super::Seen;
use crate::app::App;
use crate::db;
use crate::db::log::LogKey;
use crate::domain::{
    ContactEmail, ContactPhone, Description, Details, Developer, DeveloperName, FileReference, FoundedYear,
    Highlights, LegalName, LogEntry, ManageOwnDeveloper, Move, Profile, Website,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;

/// A phone number as somebody writes it.
pub type GivenPhone = Private<Dialled<32>>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateDeveloper {
    name: DeveloperName,
    legal_name: Option<LegalName>,
    description: Option<Description>,
    logo_file_id: Option<FileReference>,
    /// Absolute.
    website: Option<Website>,
    /// Kept in E.164.
    contact_phone: Option<GivenPhone>,
    contact_email: Option<ContactEmail>,
    founded_year: Option<FoundedYear>,
    highlights: Highlights,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::seen_version")]
    version: Option<i64>,
}

impl UpdateDeveloper {
    /// # Errors
    /// `400 VALIDATION_FAILED`
    pub fn into_profile(self, region: PhoneRegion) -> Result<(Option<i64>, Profile), Problem> {
        let contact_phone = check(self.contact_phone.as_ref(), &self.highlights, region)?;
        let details = Details {
            description: self.description,
            logo_file_id: self.logo_file_id.map(|id| id.0),
            website: self.website,
            contact_phone,
            contact_email: self.contact_email,
            founded_year: self.founded_year,
            highlights: self.highlights,
        };
        Ok((self.version, Profile { name: self.name, legal_name: self.legal_name, details }))
    }
}

/// What has to be known together, or by the settings: the number that is meant, and that the highlights are consistent.
///
/// # Errors
/// `400 VALIDATION_FAILED`
pub fn check(
    phone: Option<&GivenPhone>,
    highlights: &Highlights,
    region: PhoneRegion,
) -> Result<Option<ContactPhone>, Problem> {
    let mut fields = Fields::default();
    let phone = phone.map(|phone| Phone::of(phone.expose(), region).map(Private::new)).transpose();
    let phone = fields.check("/ContactPhone", phone);
    if !highlights.is_reliable() {
        fields.check::<()>("/Highlights/ReliabilityValue", Err(Invalid::new("out_of_bounds")));
    }
    fields.finish(phone)
}

/// Read my developer.
///
/// The whole profile.
#[utoipa::path(tag = "Profile", responses((status = 200, description = "The developer", body = Developer)))]
#[get("/api/v1/developers/me")]
pub async fn get_my_developer(
    permitted: Permitted<ManageOwnDeveloper>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    let id = permitted.granted;
    let found = lookups.run(async |conn| db::developer::look_up(conn, id).await).await?;
    let live = found.filter(|developer| !developer.is_deleted());
    Ok(web::Json(live.ok_or(DEVELOPER_NOT_FOUND)?))
}

/// Replace my developer's profile.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Profile", request_body = UpdateDeveloper,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[put("/api/v1/developers/me")]
pub async fn update_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    Json(body): Json<UpdateDeveloper>,
) -> Result<impl Responder, Error> {
    update(&app, permitted.granted, permitted.actor.user_id, body).await
}

/// Publish my developer.
///
/// Its name, logo and description have to be filled, and its company active.
#[utoipa::path(
    tag = "Profile", request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/developers/me/publish")]
pub async fn publish_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, permitted.granted, permitted.actor.user_id, Move::Publish, &seen).await
}

/// Hide my developer.
///
/// With all of its projects, until it is published again.
#[utoipa::path(
    tag = "Profile", request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/developers/me/hide")]
pub async fn hide_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, permitted.granted, permitted.actor.user_id, Move::Hide, &seen).await
}

/// Withdraw my developer.
///
/// From publication, to be worked on.
#[utoipa::path(
    tag = "Profile", request_body = Option<Seen>,
    responses((status = 200, description = "As it is now", body = Developer))
)]
#[post("/api/v1/developers/me/withdraw")]
pub async fn withdraw_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(seen): OptionalJson<Seen>,
) -> Result<impl Responder, Error> {
    make(&app, permitted.granted, permitted.actor.user_id, Move::Withdraw, &seen).await
}

/// Read the log of my developer.
///
/// Newest first.
#[utoipa::path(
    tag = "Profile", params(CursorPaging<LogKey>),
    responses((status = 200, description = "One page", body = CursorPage<LogEntry>))
)]
#[get("/api/v1/developers/me/events")]
pub async fn list_my_developer_events(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    log(&app, permitted.granted, Developer::is_deleted, paging).await
}

pub async fn update(
    app: &App,
    id: CompanyId,
    by: UserId,
    body: UpdateDeveloper,
) -> Result<web::Json<Developer>, Error> {
    let ((version, profile), now) = (body.into_profile(app.settings.phone_region)?, runtime::clock::now());
    let updated =
        app.db.tx(async |tx| ops::developer::update_developer(tx, id, by, version, profile, now).await);
    Ok(web::Json(updated.await?))
}

pub async fn make(
    app: &App,
    id: CompanyId,
    by: UserId,
    made: Move,
    seen: &Seen,
) -> Result<web::Json<Developer>, Error> {
    let now = runtime::clock::now();
    let moved =
        app.db.tx(async |tx| ops::developer::move_developer(tx, id, by, seen.version, made, now).await);
    Ok(web::Json(moved.await?))
}

/// One page of the log of a developer who is not `invisible` to whoever asks.
pub async fn log(
    app: &App,
    id: CompanyId,
    invisible: fn(&Developer) -> bool,
    paging: CursorPaging<LogKey>,
) -> Result<web::Json<CursorPage<LogEntry>>, Error> {
    let conn = app.db.conn().await?;
    let found = db::developer::look_up(&conn, id).await?;
    found.filter(|developer| !invisible(developer)).ok_or(DEVELOPER_NOT_FOUND)?;
    if let Some(after) = &paging.after
        && !db::log::has(&conn, id, after).await?
    {
        return Err(unknown_cursor().into());
    }
    Ok(web::Json(db::log::list(&conn, id, &paging).await?))
}
