//! What is done with developers' profiles, and how each change is kept, written down and told.

use ::db::{Db, Tx};
use ::web::{FieldError, Problem};
use auth::{CompanyId, UserId};
use messaging::outbox;
use time::OffsetDateTime;
use values::{Code, Invalid};

use super::company::take_turn;
use super::outside_profile;
use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{
    Author, Company, Details, Developer, DeveloperField, DeveloperName, LegalName, LogEntry, Move, OutsideId,
    Profile,
};
use crate::error::{
    CONFLICT, DEVELOPER_ALREADY_EXISTS, DEVELOPER_COMPANY_NOT_ACTIVE, DEVELOPER_COMPANY_NOT_FOUND,
    DEVELOPER_FIELD_SYNC_MANAGED, DEVELOPER_HAS_LIVE_PROJECTS, DEVELOPER_NOT_FOUND,
    DEVELOPER_PUBLISH_INCOMPLETE, DEVELOPER_TALENT_DUPLICATE, Error,
};
use crate::events::DeveloperUpserted;

/// What the platform makes a profile of.
pub struct Creation {
    pub company_id: CompanyId,
    /// `None`: the company's.
    pub name: Option<DeveloperName>,
    /// `None`: the company's.
    pub legal_name: Option<LegalName>,
    pub details: Details,
    pub outside_id: Option<OutsideId>,
}

/// Makes a profile, or brings a deleted one back.
///
/// # Errors
/// [`DEVELOPER_COMPANY_NOT_FOUND`], [`DEVELOPER_ALREADY_EXISTS`], [`DEVELOPER_TALENT_DUPLICATE`]
pub async fn create_developer(
    tx: &mut Tx,
    by: UserId,
    creation: Creation,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let Creation { company_id: id, name, legal_name, details, outside_id } = creation;
    take_turn(tx, id).await?;
    let company = db::company::find(tx, id).await?.filter(Company::is_developer);
    let company = company.ok_or(DEVELOPER_COMPANY_NOT_FOUND)?;
    let deleted = db::developer::find(tx, id).await?;
    if deleted.as_ref().is_some_and(|developer| !developer.is_deleted()) {
        return Err(DEVELOPER_ALREADY_EXISTS.into());
    }
    if let Some(outside_id) = outside_id
        && db::developer::of_outside_id(tx, outside_id).await?.is_some_and(|owner| owner != id)
    {
        return Err(DEVELOPER_TALENT_DUPLICATE.into());
    }
    let (name, legal_name) = (name.unwrap_or(company.name), legal_name.or(company.legal_name));
    let (profile, by) = (Profile { name, legal_name, details }, Author::user(by));
    let mut after = match &deleted {
        Some(deleted) => deleted.restored(profile, by, now),
        None => Developer::new(id, profile, by, now),
    };
    if let Some(outside_id) = outside_id {
        after.link(outside_id);
    }
    // What its outside id told meanwhile is part of what it comes back as.
    let linked = after.external_chessboard_developer_id;
    if let Some(waiting) = db::outside_profile::first_for(tx, id, linked).await? {
        db::outside_profile::forget(tx, waiting.outside_id).await?;
        after.replicate(waiting, now);
    }
    match deleted {
        Some(deleted) => keep(tx, &deleted, &mut after, by, now).await?,
        None => make(tx, &after, by).await?,
    }
    Ok(after)
}

/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`CONFLICT`], [`DEVELOPER_FIELD_SYNC_MANAGED`]
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
    after.describe(profile);
    if !after.differs_from(&before) {
        return Ok(before);
    }
    compare(&before, version)?;
    refuse(DEVELOPER_FIELD_SYNC_MANAGED, "read_only", &after.synced_fields_changed_since(&before))?;
    keep(tx, &before, &mut after, Author::user(by), now).await?;
    Ok(after)
}

/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`CONFLICT`], [`DEVELOPER_INVALID_TRANSITION`](crate::error::DEVELOPER_INVALID_TRANSITION),
/// [`DEVELOPER_COMPANY_NOT_ACTIVE`], [`DEVELOPER_PUBLISH_INCOMPLETE`]
pub async fn move_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    made: Move,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    let before = find_live(tx, id).await?;
    compare(&before, version)?;
    let mut after = before.clone();
    after.make(made)?;
    if after.is_published() {
        // Whoever hears of a suspension meanwhile waits, and then hides what was published.
        let company = db::company::lock_for_reading(tx, id).await?;
        if !company.is_some_and(|company| company.is_active()) {
            return Err(DEVELOPER_COMPANY_NOT_ACTIVE.into());
        }
        refuse(DEVELOPER_PUBLISH_INCOMPLETE, "required", &after.lacks())?;
    }
    keep(tx, &before, &mut after, Author::user(by), now).await?;
    Ok(after)
}

/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`DEVELOPER_HAS_LIVE_PROJECTS`], [`CONFLICT`]
pub async fn delete_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    // Whoever makes a project meanwhile waits, and then finds the developer deleted; or was first, and is seen here.
    let before = db::developer::lock(tx, id).await?.filter(|developer| !developer.is_deleted());
    let before = before.ok_or(DEVELOPER_NOT_FOUND)?;
    if db::developer::has_live_projects(tx, id).await? {
        return Err(DEVELOPER_HAS_LIVE_PROJECTS.into());
    }
    let mut after = before.clone();
    after.delete(by, now);
    keep(tx, &before, &mut after, Author::user(by), now).await
}

/// Gives the profile back to the platform, and to whatever else waits for its company.
///
/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`CONFLICT`]
pub async fn release_developer(
    tx: &mut Tx,
    id: CompanyId,
    by: UserId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Developer, Error> {
    take_turn(tx, id).await?;
    let before = find_live(tx, id).await?;
    compare(&before, version)?;
    let Some(freed) = before.external_chessboard_developer_id else { return Ok(before) };
    let mut after = before.clone();
    after.release();
    keep(tx, &before, &mut after, Author::user(by), now).await?;
    let is_taken_over = outside_profile::settle(tx, id).await?;
    if let Some(waiting) = db::outside_profile::find(tx, freed).await?
        && waiting.company_id != id
    {
        take_turn(tx, waiting.company_id).await?;
        let company = db::company::find(tx, waiting.company_id).await?;
        if company.is_some_and(|company| company.is_developer()) {
            outside_profile::settle(tx, waiting.company_id).await?;
        }
    }
    if is_taken_over { find_live(tx, id).await } else { Ok(after) }
}

/// Counts anew what was miscounted: a developer to a transaction, so that nobody waits for long.
///
/// # Errors
/// Those of the database.
pub async fn recount_projects(db: &Db) -> Result<(), ::db::Error> {
    let miscounted = db::developer::miscounted(&*db.conn().await?).await?;
    for id in miscounted {
        db.tx(async |tx| db::developer::recount_projects(tx, id).await).await?;
    }
    Ok(())
}

/// The developer, who is not deleted.
async fn find_live(tx: &mut Tx, id: CompanyId) -> Result<Developer, Error> {
    let found = db::developer::find(tx, id).await?.filter(|developer| !developer.is_deleted());
    Ok(found.ok_or(DEVELOPER_NOT_FOUND)?)
}

/// Compare and swap is on the version that was read; a caller may name the one that they have seen.
fn compare(developer: &Developer, seen: Option<i64>) -> Result<(), Code> {
    if seen.is_some_and(|seen| seen != developer.version) { Err(CONFLICT) } else { Ok(()) }
}

/// Refuses what concerns these members, if any.
fn refuse(code: Code, reason: &'static str, fields: &[DeveloperField]) -> Result<(), Problem> {
    if fields.is_empty() {
        return Ok(());
    }
    let blame = |field| FieldError { field: format!("/{field}"), invalid: Invalid::new(reason) };
    Err(Problem::from(code).blaming(fields.iter().map(blame).collect()))
}

/// Keeps a new profile, writes it down and tells of it.
pub(super) async fn make(tx: &mut Tx, new: &Developer, by: Author) -> Result<(), Error> {
    db::developer::insert(tx, new).await?;
    tell(tx, None, new, by).await
}

/// Keeps what became of a profile, writes it down and tells of it; nothing of that where only the books have changed.
pub(super) async fn keep(
    tx: &mut Tx,
    before: &Developer,
    after: &mut Developer,
    by: Author,
    now: OffsetDateTime,
) -> Result<(), Error> {
    if after.differs_from(before) {
        after.updated_at = now;
        after.updated_by_user_id = by.user_id;
        db::developer::save(tx, before, after).await?;
        if after.is_published() != before.is_published() {
            // What is below is shown or not, and whoever has replicas of it is told so.
            let hides = !after.is_published();
            db::propagation::ask(tx, Scope::Developer, after.id.into(), after.id, hides).await?;
        }
        return tell(tx, Some(before), after, by).await;
    }
    if after.has_other_books_than(before) {
        db::developer::save_books(tx, after).await?;
    }
    Ok(())
}

async fn tell(tx: &mut Tx, before: Option<&Developer>, after: &Developer, by: Author) -> Result<(), Error> {
    db::log::append(tx, &LogEntry::of(before, after, by)).await?;
    if after.matters_to_others(before) {
        outbox::append(tx, &DeveloperUpserted::of(after)).await?;
    }
    Ok(())
}
