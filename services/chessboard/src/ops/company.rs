//! Use cases of companies and the identity cascade.

use ::db::Tx;

use super::company_lock::acquire_lock;
use super::developer_store::{insert, save};
use super::external_profile;
use crate::db;
use crate::domain::{Author, Company, Developer, Profile, ProfileDetails};
use crate::error::Error;

/// Applies an event of identity to the copy of the company and to the company's profile.
///
/// An event that is not newer than the stored company changes nothing.
pub async fn apply_event(tx: &mut Tx, company: Company) -> Result<(), Error> {
    acquire_lock(tx, company.id).await?;
    let stored = db::company::find(tx, company.id).await?;
    if stored.as_ref().is_some_and(|stored| company.version <= stored.version) {
        return Ok(());
    }
    // A publication locks the company's row for reading. If it was earlier, its result is visible
    // below. If it is later, it waits for this write and reads the new status.
    db::company::upsert(tx, &company).await?;
    if !company.is_developer() {
        return Ok(());
    }
    let now = runtime::clock::now();
    let Some(before) = db::developer::find(tx, company.id).await? else {
        if external_profile::apply_first_waiting(tx, company.id).await? || !company.is_active() {
            return Ok(());
        }
        let details = ProfileDetails::default();
        let profile = Profile { name: company.name, legal_name: company.legal_name, details };
        let mut new = Developer::new(company.id, profile, Author::identity(), now);
        return insert(tx, &mut new, Author::identity()).await;
    };
    if before.is_deleted() {
        return Ok(());
    }
    let mut after = before.clone();
    after.apply_company(stored.as_ref(), &company);
    save(tx, &before, &mut after, Author::identity(), now).await
}
