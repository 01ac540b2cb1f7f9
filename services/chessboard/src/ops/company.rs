//! Companies as identity tells of them, and what becomes of their developers.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Handler, Thing};

use super::developer::{keep, make};
use super::outside_profile;
use crate::consumers::Companies;
use crate::db;
use crate::domain::{Author, Company, Details, Developer, Profile};
use crate::error::Error;

/// Has whoever else hears of a company, or of its profile from outside, wait until this transaction ends: so neither
/// misses the other.
pub async fn take_turn(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    Thing::lock(tx, Companies::GROUP, id).await?;
    Ok(())
}

/// Takes over what identity tells of a company, unless it is not newer than what is known.
pub async fn hear(tx: &mut Tx, told: Company) -> Result<(), Error> {
    take_turn(tx, told.id).await?;
    let known = db::company::find(tx, told.id).await?;
    if known.as_ref().is_some_and(|known| told.version <= known.version) {
        return Ok(());
    }
    // Whoever publishes holds the row, and is seen as published below; or comes later, and sees the status.
    db::company::upsert(tx, &told).await?;
    if !told.is_developer() {
        return Ok(());
    }
    let now = runtime::clock::now();
    let Some(before) = db::developer::find(tx, told.id).await? else {
        if outside_profile::settle(tx, told.id).await? || !told.is_active() {
            return Ok(());
        }
        let profile = Profile { name: told.name, legal_name: told.legal_name, details: Details::default() };
        return make(tx, &Developer::new(told.id, profile, Author::identity(), now), Author::identity())
            .await;
    };
    if before.is_deleted() {
        return Ok(());
    }
    let mut after = before.clone();
    after.follow(known.as_ref(), &told);
    keep(tx, &before, &mut after, Author::identity(), now).await
}
