//! Revoked access. A token that is older than a loss of rights grants nothing.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use time::OffsetDateTime;

use crate::id::{CompanyId, UserId};

/// The user or the company that lost rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevokedSubject {
    User(UserId),
    /// All users whose tokens name the company.
    Company(CompanyId),
}

/// The revocations in force: for each subject, the time up to which issued tokens are invalid.
///
/// Clones share them. A service without an updater has none, and accepts every verified token.
#[derive(Clone, Default)]
pub struct Revocations(Arc<RwLock<HashMap<RevokedSubject, OffsetDateTime>>>);

impl Revocations {
    /// Replaces all revocations.
    pub fn replace(&self, revoked: HashMap<RevokedSubject, OffsetDateTime>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = revoked;
    }

    /// Returns true if a token of the user and the company, issued at this second since 1970, is
    /// revoked.
    pub(crate) fn revokes_token(&self, user: UserId, company: Option<CompanyId>, issued_at: i64) -> bool {
        let revoked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let subjects = [Some(RevokedSubject::User(user)), company.map(RevokedSubject::Company)];
        let mut ends = subjects.iter().flatten().filter_map(|subject| revoked.get(subject));
        // `iat` has whole seconds, so a token of the same second may be older.
        ends.any(|not_before| issued_at <= not_before.unix_timestamp())
    }
}
