//! Use cases of the claims of deals.

use ::db::Tx;
use time::OffsetDateTime;

use super::property_object::apply_claims;
use crate::db;
use crate::domain::Claim;
use crate::error::Error;

/// Stores the claim of a deal's event if it is newer, and updates the objects that it concerns.
///
/// The caller holds the lock of the deal.
pub async fn apply_claim(tx: &mut Tx, claim: &Claim, now: OffsetDateTime) -> Result<(), Error> {
    match db::claim::replace_older(tx, claim).await? {
        Some(objects) => apply_claims(tx, &objects, now).await,
        None => Ok(()),
    }
}
