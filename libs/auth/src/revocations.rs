//! Revoked access. A token that is older than a loss of rights grants nothing.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::id::{CompanyId, UserId};
use crate::verification_error::VerificationError;

/// The revocations in force, as a time for each user or company. Tokens that were issued up to that
/// time are invalid. A revocation of a company applies to all tokens that name it.
///
/// A user and a company never have the same id, so the kind of the id is not stored. Clones share
/// the revocations.
#[derive(Clone)]
pub struct Revocations(Arc<RwLock<Option<HashMap<Uuid, OffsetDateTime>>>>);

impl Revocations {
    /// Returns an empty set, for a service that accepts every verified token.
    pub fn none() -> Self {
        Self(Arc::new(RwLock::new(Some(HashMap::new()))))
    }

    /// Returns a set that has not been read yet. [`Self::check`] fails until [`Self::replace`],
    /// because any token may be revoked.
    pub fn unread() -> Self {
        Self(Arc::default())
    }

    /// Replaces all revocations.
    pub fn replace(&self, revoked: HashMap<Uuid, OffsetDateTime>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(revoked);
    }

    /// Checks a token of the user and the company. `issued_at` is in seconds since 1970.
    ///
    /// # Errors
    /// If the token is revoked, or no revocations have been read.
    pub(crate) fn check(
        &self,
        user: UserId,
        company: Option<CompanyId>,
        issued_at: i64,
    ) -> Result<(), VerificationError> {
        let revoked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(revoked) = &*revoked else {
            return Err(VerificationError::Unavailable("no revocations have been read".to_owned()));
        };
        let subjects = [Some(user.into()), company.map(Uuid::from)];
        let mut not_before = subjects.iter().flatten().filter_map(|subject| revoked.get(subject));
        // `iat` has whole seconds, so a token of the same second may be older.
        if not_before.any(|time| issued_at <= time.unix_timestamp()) {
            return Err(VerificationError::Invalid);
        }
        Ok(())
    }
}
