//! Use cases of developers' profiles. Every change is stored, logged and published.

use std::collections::BTreeSet;

use ::db::{Db, Tx};
use ::web::{FieldError, Problem};
use auth::{CompanyId, UserId};
use time::OffsetDateTime;
use values::{Code, Invalid};

use super::company_lock::{acquire_lock, acquire_locks};
use super::developer_store::{insert, save};
use super::external_profile;
use crate::db;
use crate::domain::{
    Author, Company, Developer, DeveloperField, DeveloperName, ExternalDeveloperId, LegalName, Profile,
    ProfileDetails, Transition,
};
use crate::error::{
    CONFLICT, DEVELOPER_ALREADY_EXISTS, DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_COMPANY_NOT_FOUND,
    DEVELOPER_FIELD_SYNC_MANAGED, DEVELOPER_HAS_LIVE_PROJECTS, DEVELOPER_NOT_FOUND,
    DEVELOPER_PUBLISH_INCOMPLETE, DEVELOPER_TALENT_DUPLICATE, Error,
};

/// The request of an administrator to create a profile.
pub struct Creation {
    pub company_id: CompanyId,
    /// Defaults to the company's name.
    pub name: Option<DeveloperName>,
    /// Defaults to the company's legal name.
    pub legal_name: Option<LegalName>,
    pub details: ProfileDetails,
    pub external_id: Option<ExternalDeveloperId>,
    /// The version of the deleted profile that the caller has seen.
    pub version: Option<i64>,
}

/// Creates a profile or restores a deleted one.
///
/// # Errors
/// - [`DEVELOPER_COMPANY_NOT_FOUND`] if the company is unknown or not of type Developer.
/// - [`DEVELOPER_ALREADY_EXISTS`] if the company has a live profile.
/// - [`CONFLICT`] if `version` is not the version of the deleted profile.
/// - [`DEVELOPER_TALENT_DUPLICATE`] if the external id belongs to another profile, or if the
///   deleted profile is linked to another external id.
pub async fn create_developer(
    tx: &mut Tx,
    by: UserId,
    creation: Creation,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let Creation { company_id: id, name, legal_name, details, external_id, version } = creation;
    acquire_lock(tx, id).await?;
    let company = db::company::find(tx, id).await?.filter(Company::is_developer);
    let company = company.ok_or(DEVELOPER_COMPANY_NOT_FOUND)?;
    let deleted = db::developer::find(tx, id).await?;
    if deleted.as_ref().is_some_and(|developer| !developer.is_deleted()) {
        return Err(DEVELOPER_ALREADY_EXISTS.into());
    }
    if let Some(deleted) = &deleted {
        check_version(deleted, version)?;
        let linked = deleted.external_chessboard_developer_id;
        if external_id.is_some() && linked.is_some() && external_id != linked {
            return Err(DEVELOPER_TALENT_DUPLICATE.into());
        }
    }
    if let Some(external_id) = external_id
        && db::developer::find_owner_of_external_id(tx, external_id).await?.is_some_and(|owner| owner != id)
    {
        return Err(DEVELOPER_TALENT_DUPLICATE.into());
    }
    let (name, legal_name) = (name.unwrap_or(company.name), legal_name.or(company.legal_name));
    let (profile, by) = (Profile { name, legal_name, details }, Author::user(by));
    let mut after = match &deleted {
        Some(deleted) => deleted.restored(profile, by, now),
        None => Developer::new(id, profile, by, now),
    };
    if let Some(external_id) = external_id {
        after.link(external_id);
    }
    // The same write applies a waiting external profile, so one version contains both changes.
    let linked = after.external_chessboard_developer_id;
    if let Some(waiting) = db::external_profile::find_first_applicable(tx, id, linked).await? {
        db::external_profile::delete(tx, waiting.external_id).await?;
        after.apply_external(waiting, now);
    }
    match deleted {
        Some(deleted) => save(tx, &deleted, &mut after, by, now).await?,
        None => insert(tx, &mut after, by).await?,
    }
    Ok(after)
}

/// Replaces the fields of a profile that users write. An identical profile changes nothing.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`DEVELOPER_FIELD_SYNC_MANAGED`] if a field of the external system changes.
pub async fn update_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    profile: Profile,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let before = find_live(tx, id).await?;
    let mut after = before.clone();
    after.replace_profile(profile);
    if !after.differs_from(&before) {
        return Ok(before);
    }
    check_version(&before, version)?;
    let read_only = after.replica_fields_changed_since(&before);
    reject_fields(DEVELOPER_FIELD_SYNC_MANAGED, "read_only", &read_only)?;
    save(tx, &before, &mut after, Author::user(by), now).await?;
    Ok(after)
}

/// Publishes, hides or withdraws a profile.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`DEVELOPER_INVALID_TRANSITION`](crate::error::DEVELOPER_INVALID_TRANSITION) if the status
///   does not allow the transition.
/// - [`DEVELOPER_COMPANY_NOT_ACTIVE`] if the company of a publication is not Active.
/// - [`DEVELOPER_PUBLISH_INCOMPLETE`] if a field that a publication requires is not filled.
pub async fn change_developer_status(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    transition: Transition,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let before = find_live(tx, id).await?;
    check_version(&before, version)?;
    let mut after = before.clone();
    after.apply_transition(transition)?;
    if after.is_published() {
        // A concurrent suspension waits for this lock and then hides the published profile.
        let company = db::company::lock_for_reading(tx, id).await?;
        if !company.is_some_and(|company| company.is_active()) {
            return Err(DEVELOPER_COMPANY_NOT_ACTIVE.into());
        }
        reject_fields(DEVELOPER_PUBLISH_INCOMPLETE, "required", &after.missing_fields())?;
    }
    save(tx, &before, &mut after, Author::user(by), now).await?;
    Ok(after)
}

/// Deletes a profile softly.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`DEVELOPER_HAS_LIVE_PROJECTS`] if a project is not deleted.
/// - [`CONFLICT`] if `version` is outdated, or if the caller lost a race.
pub async fn delete_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    // A concurrent creation of a project either waits for the lock and then finds the developer
    // deleted, or has committed and is visible here.
    let before = db::developer::lock(tx, id).await?.filter(|developer| !developer.is_deleted());
    let before = before.ok_or(DEVELOPER_NOT_FOUND)?;
    check_version(&before, version)?;
    if db::developer::has_live_projects(tx, id).await? {
        return Err(DEVELOPER_HAS_LIVE_PROJECTS.into());
    }
    let mut after = before.clone();
    after.delete(by, now);
    save(tx, &before, &mut after, Author::user(by), now).await
}

/// Makes the platform the owner of all fields and applies waiting external profiles.
///
/// The release applies the first waiting profile of this company. If a profile of another company
/// waits for the freed external id, the release applies that company's first waiting profile, too.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`CONFLICT`] if `version` is outdated, or if the caller lost a race.
pub async fn release_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let locked = find_companies_of_release(tx, id).await?;
    acquire_locks(tx, &locked).await?;
    let before = find_live(tx, id).await?;
    check_version(&before, version)?;
    let Some(freed) = before.external_chessboard_developer_id else { return Ok(before) };
    let mut after = before.clone();
    after.release();
    save(tx, &before, &mut after, Author::user(by), now).await?;
    let is_taken_over = external_profile::apply_first_waiting(tx, id).await?;
    if let Some(waiting) = db::external_profile::find(tx, freed).await?
        && waiting.company_id != id
    {
        if !locked.contains(&waiting.company_id) {
            return Err(CONFLICT.into());
        }
        let company = db::company::find(tx, waiting.company_id).await?;
        if company.is_some_and(|company| company.is_developer()) {
            external_profile::apply_first_waiting(tx, waiting.company_id).await?;
        }
    }
    if is_taken_over { find_live(tx, id).await } else { Ok(after) }
}

/// Returns the companies that a release may change: the developer's own company, and the company
/// whose profile waits for the developer's external id. The caller locks both and reads again.
async fn find_companies_of_release(tx: &mut Tx, id: CompanyId) -> Result<BTreeSet<CompanyId>, Error> {
    let mut companies = BTreeSet::from([id]);
    let developer = db::developer::find(tx, id).await?;
    if let Some(linked) = developer.and_then(|developer| developer.external_chessboard_developer_id) {
        companies.extend(db::external_profile::find(tx, linked).await?.map(|waiting| waiting.company_id));
    }
    Ok(companies)
}

/// Corrects wrong counts of published projects.
///
/// Each developer has a transaction of its own, so that locks are short.
pub async fn recount_projects(db: &Db) -> Result<(), ::db::Error> {
    let miscounted = db::developer::find_miscounted(&*db.conn().await?).await?;
    for id in miscounted {
        db.tx(async |tx| db::developer::recount_projects(tx, id).await).await?;
    }
    Ok(())
}

/// Returns the developer unless it is deleted.
async fn find_live(tx: &mut Tx, id: CompanyId) -> Result<Developer, Error> {
    let found = db::developer::find(tx, id).await?.filter(|developer| !developer.is_deleted());
    Ok(found.ok_or(DEVELOPER_NOT_FOUND)?)
}

/// Compares the version that the caller has seen, if any, with the stored one.
fn check_version(developer: &Developer, expected: Option<i64>) -> Result<(), Code> {
    if expected.is_some_and(|expected| expected != developer.version) { Err(CONFLICT) } else { Ok(()) }
}

/// Rejects a change with one error per field, unless `fields` is empty.
fn reject_fields(code: Code, reason: &'static str, fields: &[DeveloperField]) -> Result<(), Problem> {
    if fields.is_empty() {
        return Ok(());
    }
    let error = |field| FieldError { field: format!("/{field}"), invalid: Invalid::new(reason) };
    Err(Problem::from(code).with_errors(fields.iter().map(error).collect()))
}
