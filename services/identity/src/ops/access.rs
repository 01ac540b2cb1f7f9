//! Revocation of tokens after a loss of rights.

use ::db::Tx;
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::domain::RevokedSubject;
use crate::error::Error;
use crate::events::AccessRevoked;

/// Revokes all tokens of the subject that were issued up to now. Returns the time of the
/// revocation.
///
/// Call this function at the end of a transaction. A token that the issuer issues between the time
/// of the revocation and the commit stays valid.
pub async fn revoke_access(tx: &mut Tx, subject: RevokedSubject) -> Result<OffsetDateTime, Error> {
    let revocation = db::access::revoke(tx, subject).await?;
    outbox::append(tx, &AccessRevoked::of(&revocation)).await?;
    Ok(revocation.not_before)
}
