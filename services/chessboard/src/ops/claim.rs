//! What deals tell of objects.

use ::db::Tx;
use time::OffsetDateTime;

use super::property_object::follow_claims;
use crate::db;
use crate::domain::Claim;
use crate::error::Error;

/// Takes what a deal tells last, in whatever order it comes, while this transaction has the deal's messages to itself.
pub async fn take_claim(tx: &mut Tx, claim: &Claim, now: OffsetDateTime) -> Result<(), Error> {
    match db::claim::supersede(tx, claim).await? {
        Some(objects) => follow_claims(tx, &objects, now).await,
        None => Ok(()),
    }
}
