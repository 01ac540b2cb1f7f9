//! The tokens that a revocation invalidates.

use std::sync::Arc;

use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::Actor;

use crate::id::{CompanyId, UserId};
use crate::revocations::Revocations;

fn token(user: UserId, company: Option<CompanyId>, issued_at: OffsetDateTime) -> Actor {
    let claims = json!({
        "sub": user, "company_id": company, "iat": issued_at.unix_timestamp(), "exp": u32::MAX, "permissions": [],
    });
    Actor::from_claims(Arc::new(serde_json::from_value(claims).unwrap())).unwrap()
}

fn revocations(revoked: &[(Uuid, OffsetDateTime)]) -> Revocations {
    let revocations = Revocations::none();
    revocations.replace(revoked.iter().copied().collect());
    revocations
}

/// RULE-ALL-075: a token of the same second counts as older, and a later one is valid.
#[test]
fn token_of_the_same_second_is_revoked_and_a_later_one_is_not() {
    let (user, at) = (UserId::generate(), OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(10_500));
    let revocations = revocations(&[(user.into(), at)]);
    for (seconds, is_revoked) in [(9, true), (10, true), (11, false)] {
        let issued_at = OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        assert_eq!(revocations.revokes(&token(user, None, issued_at)), is_revoked, "{seconds}");
    }
}

/// RULE-ALL-075: a revocation concerns its user, or the tokens that name its company.
#[test]
fn revocation_concerns_its_own_subject_only() {
    let (user, company, at) = (UserId::generate(), CompanyId::generate(), OffsetDateTime::UNIX_EPOCH);
    let (other_user, other_company) = (UserId::generate(), CompanyId::generate());
    for (subject, concerned, others) in [
        (
            Uuid::from(user),
            [token(user, None, at), token(user, Some(company), at)],
            [token(other_user, Some(company), at), token(other_user, None, at)],
        ),
        (
            Uuid::from(company),
            [token(user, Some(company), at), token(other_user, Some(company), at)],
            [token(user, None, at), token(user, Some(other_company), at)],
        ),
    ] {
        let revocations = revocations(&[(subject, at)]);
        assert!(concerned.iter().all(|actor| revocations.revokes(actor)), "{subject:?}");
        assert!(!others.iter().any(|actor| revocations.revokes(actor)), "{subject:?}");
    }
}
