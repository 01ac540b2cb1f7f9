//! Profiles as the outside system tells of them.

use ::db::Tx;
use auth::CompanyId;

use super::company::take_turn;
use super::developer::{keep, make};
use crate::db;
use crate::domain::{Author, Details, Developer, OutsideProfile, Profile};
use crate::error::{DEVELOPER_TALENT_DUPLICATE, Error};

/// Takes over what is told of a profile; or has it wait, where there is nothing yet that could take it.
///
/// # Errors
/// [`DEVELOPER_TALENT_DUPLICATE`]: the outside id is another company's, or the company has another one.
pub async fn hear(tx: &mut Tx, told: OutsideProfile) -> Result<(), Error> {
    take_turn(tx, told.company_id).await?;
    let waiting = db::outside_profile::find(tx, told.outside_id).await?;
    if waiting.as_ref().is_some_and(|waiting| told.version <= waiting.version) {
        return Ok(());
    }
    let owner = db::developer::of_outside_id(tx, told.outside_id).await?;
    if owner.is_some_and(|owner| owner != told.company_id) {
        return Err(DEVELOPER_TALENT_DUPLICATE.into());
    }
    let company = db::company::find(tx, told.company_id).await?;
    if !company.is_some_and(|company| company.is_developer()) {
        return Ok(db::outside_profile::keep(tx, &told).await?);
    }
    let developer = db::developer::find(tx, told.company_id).await?;
    if let Some(developer) = &developer {
        let linked = developer.external_chessboard_developer_id;
        if linked.is_some_and(|linked| linked != told.outside_id) {
            // One that came for this company before the link goes on waiting, as it is now.
            return match waiting {
                Some(waiting) if waiting.company_id == told.company_id => {
                    Ok(db::outside_profile::keep(tx, &told).await?)
                }
                _ => Err(DEVELOPER_TALENT_DUPLICATE.into()),
            };
        }
        if developer.knows(told.version) {
            return Ok(());
        }
        if developer.is_deleted() {
            return Ok(db::outside_profile::keep(tx, &told).await?);
        }
    }
    apply(tx, developer, told).await
}

/// Applies the first of those that wait for a company, if its profile can take it. Whoever calls it has the company's
/// turn. `false`: there is none.
pub async fn settle(tx: &mut Tx, company: CompanyId) -> Result<bool, Error> {
    let developer = db::developer::find(tx, company).await?;
    if developer.as_ref().is_some_and(Developer::is_deleted) {
        return Ok(false);
    }
    let linked = developer.as_ref().and_then(|developer| developer.external_chessboard_developer_id);
    let Some(first) = db::outside_profile::first_for(tx, company, linked).await? else { return Ok(false) };
    apply(tx, developer, first).await?;
    Ok(true)
}

/// Has a live profile take it over, or makes one.
async fn apply(tx: &mut Tx, developer: Option<Developer>, told: OutsideProfile) -> Result<(), Error> {
    let now = runtime::clock::now();
    db::outside_profile::forget(tx, told.outside_id).await?;
    let Some(before) = developer else {
        let profile = Profile { name: told.name.clone(), legal_name: None, details: Details::default() };
        let mut new = Developer::new(told.company_id, profile, Author::sync(), now);
        new.replicate(told, now);
        return make(tx, &new, Author::sync()).await;
    };
    let mut after = before.clone();
    after.replicate(told, now);
    keep(tx, &before, &mut after, Author::sync(), now).await
}
