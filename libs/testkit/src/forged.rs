//! Tokens that every service must reject: each has one flaw.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::issuer::{Claims, Issuer, PLATFORM, PLATFORM_INTERNAL};
use crate::service::issuer;

/// Returns tokens of `claims` with one flaw each, and a description of the flaw.
///
/// # Panics
/// If a token cannot be created.
#[must_use]
pub fn tokens(claims: &Claims) -> Vec<(&'static str, String)> {
    let valid = valid_claims(claims);
    let now = valid["iat"].as_i64().expect("a time");
    let with = |name: &str, value: Value| {
        let mut claims = valid.clone();
        claims[name] = value;
        issuer().sign(&claims).expect("a token")
    };
    let without = |name: &str| {
        let mut claims = valid.clone();
        claims.as_object_mut().expect("claims").remove(name);
        issuer().sign(&claims).expect("a token")
    };
    let token = issuer().sign(&valid).expect("a token");
    let (head, signature) = token.rsplit_once('.').expect("a signature");
    let (header, _) = head.split_once('.').expect("a header");
    let mut another = valid.clone();
    another["sub"] = json!(uuid::Uuid::from_u128(rand::random()));
    let stranger = Issuer::new(issuer().url()).expect("an issuer");
    let known_key = Header { kid: Some(issuer().key_id().to_owned()), ..Header::new(Algorithm::ES256) };
    let other_audience = if claims.aud == PLATFORM { PLATFORM_INTERNAL } else { PLATFORM };
    vec![
        ("expired", with("exp", json!(now - 60))),
        ("not valid yet", with("nbf", json!(now + 60))),
        ("for another audience", with("aud", json!(other_audience))),
        ("of another issuer", with("iss", json!("https://issuer.example"))),
        ("of the future", with("iat", json!(now + 60))),
        ("with too long a lifetime", with("exp", json!(now + 3601))),
        ("without an expiry", without("exp")),
        ("without an issue time", without("iat")),
        ("without an audience", without("aud")),
        ("without an issuer", without("iss")),
        ("without a subject", without("sub")),
        ("of an unknown key", stranger.sign(&valid).expect("a token")),
        ("of an unknown key under a known key id", stranger.sign_with(&known_key, &valid).expect("a token")),
        ("without a key id", issuer().sign_with(&Header::new(Algorithm::ES256), &valid).expect("a token")),
        ("alg: none", unsigned(&valid)),
        ("HS256 with the public key as the secret", signed_by_public_key(&valid)),
        ("with the claims of another user", format!("{header}.{}.{signature}", encode(&another))),
        ("without its signature", format!("{head}.")),
        ("truncated", head.to_owned()),
        ("not a token", "nonsense".to_owned()),
        ("empty", String::new()),
    ]
}

/// Returns all claims of a valid token.
fn valid_claims(claims: &Claims) -> Value {
    let token = issuer().token(claims).expect("a token");
    let payload = token.split('.').nth(1).expect("claims");
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).expect("base64");
    serde_json::from_slice(&payload).expect("JSON")
}

fn encode(part: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part.to_string())
}

fn unsigned(claims: &Value) -> String {
    let header = json!({"alg": "none", "typ": "JWT", "kid": issuer().key_id()});
    format!("{}.{}.", encode(&header), encode(claims))
}

/// Signs with the published key as the secret of HS256. A verifier that trusts the algorithm in the
/// header would accept the token.
fn signed_by_public_key(claims: &Value) -> String {
    let header = Header { kid: Some(issuer().key_id().to_owned()), ..Header::new(Algorithm::HS256) };
    let secret = serde_json::to_vec(&issuer().jwks().keys[0]).expect("a key");
    jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(&secret)).expect("a token")
}
