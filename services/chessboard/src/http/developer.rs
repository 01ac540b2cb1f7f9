//! The developer of a manager, and the shared parts of requests about profiles.

use ::db::PipelinedConn;
use ::web::{CursorPage, CursorPaging, Fields, Json, OptionalJson, Problem, unknown_cursor};
use actix_web::web::Data;
use actix_web::{Responder, get, post, put, web};
use auth::{CompanyId, Permitted, UserId};
use serde::Deserialize;
use utoipa::ToSchema;
use values::{Dialled, Phone, PhoneRegion, Private};

use super::expected_version::ExpectedVersion;
use crate::app::App;
use crate::db;
use crate::db::log::LogKey;
use crate::domain::{
    ContactEmail, ContactPhone, Description, Developer, DeveloperName, FileReference, FoundedYear,
    Highlights, LegalName, LogEntry, ManageOwnDeveloper, Profile, ProfileDetails, Transition, Website,
};
use crate::error::{DEVELOPER_NOT_FOUND, Error};
use crate::ops;

/// A phone number as the caller writes it.
pub type SentPhone = Private<Dialled<32>>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateDeveloper {
    name: DeveloperName,
    legal_name: Option<LegalName>,
    description: Option<Description>,
    logo_file_id: Option<FileReference>,
    /// An absolute `http` or `https` URL.
    website: Option<Website>,
    /// Stored in E.164.
    contact_phone: Option<SentPhone>,
    contact_email: Option<ContactEmail>,
    founded_year: Option<FoundedYear>,
    highlights: Highlights,
    /// The version that the caller has read. Another stored version returns 409, unless the content
    /// is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

impl UpdateDeveloper {
    /// Converts the body into the version that the caller has seen and the new profile.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` as in [`check_profile`].
    pub fn into_profile(self, region: PhoneRegion) -> Result<(Option<i64>, Profile), Problem> {
        let contact_phone = check_profile(self.contact_phone.as_ref(), &self.highlights, region)?;
        let details = ProfileDetails {
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

/// Checks the fields that need a setting or another field, and returns the phone number.
///
/// # Errors
/// `400 VALIDATION_FAILED` for an invalid phone number and for invalid highlights.
pub fn check_profile(
    phone: Option<&SentPhone>,
    highlights: &Highlights,
    region: PhoneRegion,
) -> Result<Option<ContactPhone>, Problem> {
    let mut fields = Fields::default();
    let phone = phone.map(|phone| Phone::from_dialled(phone.expose(), region).map(Private::new)).transpose();
    let phone = fields.check("/ContactPhone", phone);
    for (member, invalid) in highlights.contradictions(region) {
        fields.check::<()>(&format!("/Highlights/{member}"), Err(invalid));
    }
    fields.finish(phone)
}

/// Read my developer.
///
/// Returns the profile with all members.
#[utoipa::path(tag = "Profile", responses((status = 200, description = "The developer", body = Developer)))]
#[get("/api/v1/developers/me")]
pub async fn get_my_developer(
    permitted: Permitted<ManageOwnDeveloper>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let id = permitted.granted;
    let found = lookups.run(async |conn| db::developer::look_up(conn, id).await).await?;
    let live = found.filter(|developer| !developer.is_deleted());
    Ok(web::Json(live.ok_or(DEVELOPER_NOT_FOUND)?))
}

/// Replace my developer's profile.
///
/// An optional member that is absent or `null` is cleared. An identical body changes nothing, not
/// even the version. `errors` of `CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED` names the fields that
/// only the external system changes.
#[utoipa::path(
    tag = "Profile", request_body = UpdateDeveloper,
    responses((status = 200, description = "The developer after the change", body = Developer))
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
/// Name, logo and description must be filled, and the company must be active. `errors` of
/// `CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE` names the fields that are missing.
#[utoipa::path(
    tag = "Profile", request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/developers/me/publish")]
pub async fn publish_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, permitted.granted, permitted.actor.user_id, Transition::Publish, &expected).await
}

/// Hide my developer.
///
/// Guests no longer see the developer and its projects until it is published again.
#[utoipa::path(
    tag = "Profile", request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/developers/me/hide")]
pub async fn hide_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, permitted.granted, permitted.actor.user_id, Transition::Hide, &expected).await
}

/// Withdraw my developer.
///
/// A published developer becomes a draft again.
#[utoipa::path(
    tag = "Profile", request_body = Option<ExpectedVersion>,
    responses((status = 200, description = "The developer after the change", body = Developer))
)]
#[post("/api/v1/developers/me/withdraw")]
pub async fn withdraw_my_developer(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    OptionalJson(expected): OptionalJson<ExpectedVersion>,
) -> Result<impl Responder, Error> {
    change_status(&app, permitted.granted, permitted.actor.user_id, Transition::Withdraw, &expected).await
}

/// Read the log of my developer.
///
/// Entries are sorted by version, newest first.
#[utoipa::path(
    tag = "Profile", params(CursorPaging<LogKey>),
    responses((status = 200, description = "One page of entries", body = CursorPage<LogEntry>))
)]
#[get("/api/v1/developers/me/events")]
pub async fn list_my_developer_events(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    list_log(&app, permitted.granted, Developer::is_deleted, paging).await
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

pub async fn change_status(
    app: &App,
    id: CompanyId,
    by: UserId,
    transition: Transition,
    expected: &ExpectedVersion,
) -> Result<web::Json<Developer>, Error> {
    let now = runtime::clock::now();
    let change = async |tx: &mut _| {
        ops::developer::change_developer_status(tx, id, by, expected.version, transition, now).await
    };
    Ok(web::Json(app.db.tx(change).await?))
}

/// Returns one page of the log of a developer, unless `is_hidden` hides it from the caller.
pub async fn list_log(
    app: &App,
    id: CompanyId,
    is_hidden: fn(&Developer) -> bool,
    paging: CursorPaging<LogKey>,
) -> Result<web::Json<CursorPage<LogEntry>>, Error> {
    let conn = app.db.conn().await?;
    let found = db::developer::look_up(&conn, id).await?;
    found.filter(|developer| !is_hidden(developer)).ok_or(DEVELOPER_NOT_FOUND)?;
    if let Some(after) = &paging.after
        && !db::log::contains(&conn, id, after).await?
    {
        return Err(unknown_cursor().into());
    }
    Ok(web::Json(db::log::list(&conn, id, &paging).await?))
}
