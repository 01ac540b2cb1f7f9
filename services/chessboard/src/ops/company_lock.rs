//! The lock of a company, which several use cases take.

use std::collections::BTreeSet;

use ::db::Tx;
use auth::CompanyId;
use messaging::EntityLock;

/// The consumer group of identity's company events, which is the namespace of the lock.
pub const COMPANY_GROUP: &str = "chessboard.identity";

/// Locks companies until the transaction ends, in ascending order of their ids, so that two
/// transactions that lock the same companies cannot deadlock.
pub async fn acquire_locks(tx: &mut Tx, ids: &BTreeSet<CompanyId>) -> Result<(), ::db::Error> {
    for id in ids {
        acquire_lock(tx, *id).await?;
    }
    Ok(())
}

/// Locks a company until the transaction ends.
///
/// The lock serializes handlers of events about the company and about its external profile.
/// Otherwise two concurrent handlers could each miss the other one's write.
pub async fn acquire_lock(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    EntityLock::acquire(tx, COMPANY_GROUP, id).await?;
    Ok(())
}
