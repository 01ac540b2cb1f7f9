//! The accepted algorithms, the times of tokens, the cache and the rate limits.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use runtime::Env;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    CachedToken, Claims, INTERNAL_AUDIENCE, MAX_TOKEN_BYTES, TokenHash, USER_AUDIENCE, VerificationError,
    Verifier, has_extension,
};
use crate::keys::{Config, Keys};
use crate::revocations::Revocations;

/// Tokens that are valid until 2100, each with its algorithm, and the keys that signed them.
#[derive(Deserialize)]
struct Signed {
    jwks: JwkSet,
    tokens: Vec<(String, String)>,
}

/// Returns the keys of an issuer, with a limit of two requests and one expensive request a minute.
fn keys(jwks: JwkSet, token_max_lifetime: u32) -> Keys {
    let mut env = Env::new(move |name| match name {
        "AUTH_ISSUER" => Some("https://issuer".to_owned()),
        "AUTH_JWKS_URL" => Some("http://127.0.0.1:9".to_owned()),
        "AUTH_TOKEN_MAX_LIFETIME_SECONDS" => Some(token_max_lifetime.to_string()),
        "ACTOR_REQUESTS_PER_MINUTE" => Some("2".to_owned()),
        "ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE" => Some("1".to_owned()),
        _ => None,
    });
    let config = Config::read(&mut env);
    let keys = Keys::new(env.finish(config).unwrap()).unwrap();
    keys.store(jwks, Instant::now());
    keys
}

/// An issuer of tokens that live up to an hour, and the verifier of its users' tokens.
struct Issuer {
    key: EncodingKey,
    verifier: Verifier,
}

impl Issuer {
    const KEY_ID: &str = "own";

    fn new() -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let key = EncodingKey::from_ec_der(document.unwrap().as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(Self::KEY_ID.to_owned());
        let keys = keys(JwkSet { keys: vec![jwk] }, 3600);
        Self { key, verifier: Verifier::new(keys, USER_AUDIENCE, Revocations::none()) }
    }

    /// Returns a token with a text of this length.
    fn token(&self, iat: i64, exp: i64, text: usize) -> String {
        let header = Header { kid: Some(Self::KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) };
        let claims = json!({
            "iss": "https://issuer", "aud": USER_AUDIENCE, "sub": "anna", "iat": iat, "exp": exp,
            "text": "x".repeat(text),
        });
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }

    async fn accepts(&self, token: &str) -> bool {
        match self.verifier.verify(token).await {
            Ok(_) => true,
            Err(VerificationError::Invalid) => false,
            Err(VerificationError::Unavailable(cause)) => panic!("{cause}"),
        }
    }

    /// Caches the claims of a token that expires at `exp`, under the hash of `token`.
    fn cache(&self, token: &str, exp: i64) {
        let claims: Claims =
            serde_json::from_value(json!({"iat": exp - 60, "exp": exp, "sub": "anna"})).unwrap();
        let mut hash = TokenHash::default();
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let cached = CachedToken { key_id: Self::KEY_ID.to_owned(), claims: Arc::new(claims) };
        self.verifier.cache.insert(hash, cached);
    }
}

fn now() -> i64 {
    runtime::clock::now().unix_timestamp()
}

/// RULE-ALL-047: RS256, ES256 and `EdDSA` are accepted. A token of another algorithm is rejected
/// even if its key is known.
#[tokio::test]
async fn token_of_another_algorithm_is_rejected() {
    let Signed { jwks, tokens } = serde_json::from_str(include_str!("signed.json")).unwrap();
    let verifier = Verifier::new(keys(jwks, u32::MAX), USER_AUDIENCE, Revocations::none());
    let mut accepted = Vec::new();
    for (algorithm, token) in &tokens {
        if verifier.verify(token).await.is_ok() {
            accepted.push(algorithm.as_str());
        }
    }
    assert_eq!(tokens.len(), 5);
    assert_eq!(accepted, ["RS256", "ES256", "EdDSA"]);
}

/// A token may be issued up to 30 seconds in the future, and live up to the maximum lifetime.
#[tokio::test]
async fn token_from_the_future_or_with_a_long_life_is_rejected() {
    let issuer = Issuer::new();
    for (ahead, lifetime, is_accepted) in
        [(0, 60, true), (20, 60, true), (120, 60, false), (0, 3600, true), (0, 3601, false), (20, 3600, true)]
    {
        let iat = now() + ahead;
        let is_valid = issuer.accepts(&issuer.token(iat, iat + lifetime, 0)).await;
        assert_eq!(is_valid, is_accepted, "{ahead} {lifetime}");
    }
}

/// A token of 8 KiB is accepted, and a longer one is not.
#[tokio::test]
async fn token_of_more_than_8_kib_is_rejected() {
    let issuer = Issuer::new();
    let iat = now();
    // Three bytes of the text are four characters of the token.
    let longest = (5_000..7_000).map(|text| issuer.token(iat, iat + 60, text));
    let (accepted, rejected): (Vec<_>, Vec<_>) = longest
        .filter(|token| (8 * 1024 - 2..=8 * 1024 + 3).contains(&token.len()))
        .partition(|token| token.len() <= 8 * 1024);
    assert!(accepted.iter().any(|token| token.len() == MAX_TOKEN_BYTES) && !rejected.is_empty());
    for token in &accepted {
        assert!(issuer.accepts(token).await, "{}", token.len());
    }
    for token in &rejected {
        assert!(!issuer.accepts(token).await, "{}", token.len());
    }
}

/// A verified token is read from the cache until it has expired or its key is withdrawn.
#[tokio::test]
async fn cached_token_is_valid_until_it_expires() {
    let issuer = Issuer::new();
    issuer.cache("valid", now() + 10);
    issuer.cache("just expired", now() - 10);
    issuer.cache("expired", now() - 60);
    assert!(issuer.accepts("valid").await && issuer.accepts("just expired").await);
    assert!(!issuer.accepts("expired").await && !issuer.accepts("unknown").await);
    issuer.verifier.keys.store(JwkSet { keys: vec![] }, Instant::now());
    assert!(!issuer.accepts("valid").await);
}

#[test]
fn header_that_requires_an_extension_is_detected() {
    let header = |members: Value| -> Header {
        let mut header = json!({"alg": "ES256"});
        for (name, value) in members.as_object().unwrap() {
            header[name] = value.clone();
        }
        serde_json::from_value(header).unwrap()
    };
    assert!(has_extension(&header(json!({"crit": ["exp"]}))));
    assert!(has_extension(&header(json!({"b64": true}))));
    assert!(!has_extension(&header(json!({"kid": "own", "other": true}))));
}

/// Both rate limits apply to users and not to services.
#[test]
fn rate_limits_apply_to_users_only() {
    let claims: Claims = serde_json::from_value(json!({"iat": 0, "exp": 60, "sub": "anna"})).unwrap();
    let verifier = |audience| {
        let keys = keys(JwkSet { keys: vec![] }, 3600);
        Verifier::new(keys, audience, Revocations::none())
    };
    let (users, services) = (verifier(USER_AUDIENCE), verifier(INTERNAL_AUDIENCE));
    let checks =
        [(); 3].map(|()| (users.check_limit(&claims).is_ok(), users.check_expensive_limit(&claims).is_ok()));
    assert_eq!(checks, [(true, true), (true, false), (false, false)]);
    for _ in 0..3 {
        assert!(services.check_limit(&claims).is_ok() && services.check_expensive_limit(&claims).is_ok());
    }
}
