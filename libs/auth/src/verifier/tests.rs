//! The accepted algorithms.

use jsonwebtoken::jwk::JwkSet;
use runtime::Env;
use serde::Deserialize;
use tokio::time::Instant;

use super::{USER_AUDIENCE, Verifier};
use crate::keys::{Config, Keys};
use crate::revocations::Revocations;

/// Tokens that are valid until 2100, each with its algorithm, and the keys that signed them.
#[derive(Deserialize)]
struct Signed {
    jwks: JwkSet,
    tokens: Vec<(String, String)>,
}

/// RULE-ALL-047: RS256, ES256 and `EdDSA` are accepted. A token of another algorithm is rejected
/// even if its key is known.
#[tokio::test]
async fn token_of_another_algorithm_is_rejected() {
    let Signed { jwks, tokens } = serde_json::from_str(include_str!("signed.json")).unwrap();
    let mut env = Env::new(|name| match name {
        "AUTH_ISSUER" => Some("https://issuer".to_owned()),
        "AUTH_JWKS_URL" => Some("http://127.0.0.1:9".to_owned()),
        "AUTH_TOKEN_MAX_LIFETIME_SECONDS" => Some(u32::MAX.to_string()),
        _ => None,
    });
    let config = Config::read(&mut env);
    let keys = Keys::new(env.finish(config).unwrap()).unwrap();
    keys.store(jwks, Instant::now());
    let verifier = Verifier::new(keys, USER_AUDIENCE, Revocations::none());
    let mut accepted = Vec::new();
    for (algorithm, token) in &tokens {
        if verifier.verify(token).await.is_ok() {
            accepted.push(algorithm.as_str());
        }
    }
    assert_eq!(tokens.len(), 5);
    assert_eq!(accepted, ["RS256", "ES256", "EdDSA"]);
}
