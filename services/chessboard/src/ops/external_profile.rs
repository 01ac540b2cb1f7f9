//! Use cases of profiles of the external chessboard system.

use ::db::Tx;
use auth::CompanyId;
use time::OffsetDateTime;

use super::company_lock::acquire_lock;
use super::developer_store::{insert, save};
use crate::db;
use crate::domain::{Author, Developer, ExternalProfile, Profile, ProfileDetails};
use crate::error::{DEVELOPER_TALENT_DUPLICATE, Error};

/// Applies an event of the external system, or stores its profile until it can be applied. Skips an
/// event whose version is not newer (INV-DEV-4).
///
/// # Errors
/// [`DEVELOPER_TALENT_DUPLICATE`] if the external id belongs to another company, or if the company
/// has another external id.
pub async fn apply_event(tx: &mut Tx, profile: ExternalProfile) -> Result<(), Error> {
    acquire_lock(tx, profile.company_id).await?;
    let waiting = db::external_profile::find(tx, profile.external_id).await?;
    if waiting.as_ref().is_some_and(|waiting| profile.version <= waiting.version) {
        return Ok(());
    }
    let owner = db::developer::find_owner_of_external_id(tx, profile.external_id).await?;
    if let Some(owner) = owner.filter(|owner| *owner != profile.company_id) {
        // A late event may name the company that had the external id before. Such an event is
        // skipped.
        let owner = db::developer::find(tx, owner).await?;
        if owner.is_some_and(|owner| owner.has_applied(profile.version)) {
            return Ok(());
        }
        return Err(DEVELOPER_TALENT_DUPLICATE.into());
    }
    let company = db::company::find(tx, profile.company_id).await?;
    if !company.is_some_and(|company| company.is_developer()) {
        return Ok(db::external_profile::upsert(tx, &profile).await?);
    }
    let developer = db::developer::find(tx, profile.company_id).await?;
    if let Some(developer) = &developer {
        let linked = developer.external_chessboard_developer_id;
        if linked.is_some_and(|linked| linked != profile.external_id) {
            // If an older version already waits for this company, the newer version replaces it.
            return match waiting {
                Some(waiting) if waiting.company_id == profile.company_id => {
                    Ok(db::external_profile::upsert(tx, &profile).await?)
                }
                _ => Err(DEVELOPER_TALENT_DUPLICATE.into()),
            };
        }
        if developer.has_applied(profile.version) {
            return Ok(());
        }
        if developer.is_deleted() {
            return Ok(db::external_profile::upsert(tx, &profile).await?);
        }
    }
    apply(tx, developer, profile).await
}

/// Applies the first waiting profile of a company, unless the developer is deleted.
///
/// The caller holds the company's lock. Returns false if nothing was applied.
pub async fn apply_first_waiting(tx: &mut Tx, company: CompanyId) -> Result<bool, Error> {
    let developer = db::developer::find(tx, company).await?;
    if developer.as_ref().is_some_and(Developer::is_deleted) {
        return Ok(false);
    }
    let linked = developer.as_ref().and_then(|developer| developer.external_chessboard_developer_id);
    let Some(first) = db::external_profile::find_first_applicable(tx, company, linked).await? else {
        return Ok(false);
    };
    apply(tx, developer, first).await?;
    Ok(true)
}

/// Applies an external profile to a live developer, or creates the developer with it. Removes the
/// profile from the queue.
async fn apply(tx: &mut Tx, developer: Option<Developer>, external: ExternalProfile) -> Result<(), Error> {
    let now = runtime::clock::now();
    db::external_profile::delete(tx, external.external_id).await?;
    let Some(before) = developer else {
        let name = external.name.clone();
        let profile = Profile { name, legal_name: None, details: ProfileDetails::default() };
        let mut new = Developer::new(external.company_id, profile, Author::external_sync(), now);
        new.apply_external(external, now);
        return insert(tx, &mut new, Author::external_sync()).await;
    };
    let mut after = before.clone();
    after.apply_external(external, now);
    save(tx, &before, &mut after, Author::external_sync(), now).await?;
    publish_again(tx, after, now).await
}

/// Publishes a profile that the identity cascade hid, if the external profile completed it.
async fn publish_again(tx: &mut Tx, before: Developer, now: OffsetDateTime) -> Result<(), Error> {
    if !before.hidden_by_identity {
        return Ok(());
    }
    let Some(company) = db::company::find(tx, before.id).await? else { return Ok(()) };
    let mut after = before.clone();
    after.publish_again(&company);
    save(tx, &before, &mut after, Author::identity(), now).await
}
