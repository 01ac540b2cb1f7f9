//! The token of a request, its callers, and the tokens that a revocation invalidates.

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use actix_web::test::TestRequest;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Actor, Authentication, Caller, Crm, Issuer, News, OptionalActor, bearer};
use crate::grant::Grant;
use crate::id::{CompanyId, UserId};
use crate::revocations::Revocations;

fn actor(user: UserId, company: Option<CompanyId>, issued_at: OffsetDateTime) -> Actor {
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
        assert_eq!(revocations.revokes(&actor(user, None, issued_at)), is_revoked, "{seconds}");
    }
}

/// RULE-ALL-075: a revocation applies to the tokens of its user, or to those that name its company.
#[test]
fn revocation_concerns_its_own_subject_only() {
    let (user, company, at) = (UserId::generate(), CompanyId::generate(), OffsetDateTime::UNIX_EPOCH);
    let (other_user, other_company) = (UserId::generate(), CompanyId::generate());
    for (subject, concerned, others) in [
        (
            Uuid::from(user),
            [actor(user, None, at), actor(user, Some(company), at)],
            [actor(other_user, Some(company), at), actor(other_user, None, at)],
        ),
        (
            Uuid::from(company),
            [actor(user, Some(company), at), actor(other_user, Some(company), at)],
            [actor(user, None, at), actor(user, Some(other_company), at)],
        ),
    ] {
        let revocations = revocations(&[(subject, at)]);
        assert!(concerned.iter().all(|actor| revocations.revokes(actor)), "{subject:?}");
        assert!(!others.iter().any(|actor| revocations.revokes(actor)), "{subject:?}");
    }
}

/// Returns a request with a verified token that has these claims.
fn verified(members: &Value) -> HttpRequest {
    let mut claims = json!({"sub": UserId::generate(), "iat": 0, "exp": u32::MAX});
    for (name, value) in members.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let request = TestRequest::default().insert_header((AUTHORIZATION, "Bearer token")).to_http_request();
    let claims = serde_json::from_value(claims).unwrap();
    request.extensions_mut().insert(Authentication::Verified(Arc::new(claims)));
    request
}

/// The bearer token is the rest of the header. The scheme may have any letter case.
#[test]
fn bearer_token_is_the_rest_of_the_header() {
    for (header, token) in [
        ("Bearer a.b.c", Some("a.b.c")),
        ("bearer  a.b.c ", Some("a.b.c")),
        ("Basic YTpi", None),
        ("Bearer", None),
    ] {
        let request = TestRequest::default().insert_header((AUTHORIZATION, header)).to_http_request();
        assert_eq!(bearer(&request), token, "{header}");
    }
    assert_eq!(bearer(&TestRequest::default().to_http_request()), None);
}

/// A request without a token comes from a guest. An invalid token gets status 401.
#[test]
fn optional_actor_is_a_guest_only_without_a_token() {
    let has_actor = |request: &HttpRequest| {
        OptionalActor::extract(request).into_inner().map(|caller| caller.actor.is_some())
    };
    assert!(!has_actor(&TestRequest::default().to_http_request()).unwrap());
    assert!(has_actor(&verified(&json!({}))).unwrap());
    let invalid = TestRequest::default().insert_header((AUTHORIZATION, "Bearer token")).to_http_request();
    invalid.extensions_mut().insert(Authentication::Invalid);
    assert!(has_actor(&invalid).is_err());
}

/// An internal operation accepts its own caller only.
#[test]
fn internal_operation_accepts_its_own_caller_only() {
    let accepting = |request: &HttpRequest| {
        [
            Caller::<News>::extract(request).into_inner().is_ok(),
            Caller::<Crm>::extract(request).into_inner().is_ok(),
            Caller::<Issuer>::extract(request).into_inner().is_ok(),
        ]
    };
    assert_eq!(accepting(&verified(&json!({"client_id": "crm"}))), [false, true, false]);
    assert_eq!(accepting(&verified(&json!({"client_id": "issuer"}))), [false, false, true]);
    assert_eq!(accepting(&verified(&json!({}))), [false; 3]);
}

/// `with_grants` keeps the company and the times of the token.
#[test]
fn actor_with_other_grants_keeps_company_and_times() {
    let before = actor(UserId::generate(), Some(CompanyId::generate()), OffsetDateTime::UNIX_EPOCH);
    let grants = vec![Grant::parse("crm.deals.manage@platform").unwrap()];
    let after = before.with_grants(grants.clone());
    assert_eq!(after.grants(), grants);
    assert_eq!((after.user_id, after.company_id), (before.user_id, before.company_id));
    assert_eq!((after.issued_at(), after.expires_at()), (before.issued_at(), before.expires_at()));
}
