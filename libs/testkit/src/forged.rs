//! Tokens that no service may accept: each is a good one but for a single flaw.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::issuer::{Claims, Issuer, PLATFORM, PLATFORM_INTERNAL};
use crate::service::issuer;

/// What is wrong with each token, and the token that would otherwise speak for `claims`.
///
/// # Panics
/// When one cannot be made.
#[must_use]
pub fn tokens(claims: &Claims) -> Vec<(&'static str, String)> {
    let good = good_claims(claims);
    let now = good["iat"].as_i64().expect("a time");
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        issuer().sign(&claims).expect("a token")
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().expect("claims").remove(name);
        issuer().sign(&claims).expect("a token")
    };
    let token = issuer().sign(&good).expect("a token");
    let (head, signature) = token.rsplit_once('.').expect("a signature");
    let (header, _) = head.split_once('.').expect("a header");
    let mut another = good.clone();
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
        ("that lives too long", with("exp", json!(now + 3601))),
        ("without an expiry", without("exp")),
        ("without the time of its issue", without("iat")),
        ("without an audience", without("aud")),
        ("without an issuer", without("iss")),
        ("without a subject", without("sub")),
        ("of an unknown key", stranger.sign(&good).expect("a token")),
        ("of a stranger under a known key's id", stranger.sign_with(&known_key, &good).expect("a token")),
        ("of no key", issuer().sign_with(&Header::new(Algorithm::ES256), &good).expect("a token")),
        ("alg: none", unsigned(&good)),
        ("HS256 by the public key", signed_by_public_key(&good)),
        ("with another's claims", format!("{header}.{}.{signature}", encode(&another))),
        ("without its signature", format!("{head}.")),
        ("cut off", head.to_owned()),
        ("no token at all", "nonsense".to_owned()),
        ("empty", String::new()),
    ]
}

/// A good token's claims, whole.
fn good_claims(claims: &Claims) -> Value {
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

/// Holds for a verifier that takes the algorithm from the token and the published key as a secret.
fn signed_by_public_key(claims: &Value) -> String {
    let header = Header { kid: Some(issuer().key_id().to_owned()), ..Header::new(Algorithm::HS256) };
    let secret = serde_json::to_vec(&issuer().jwks().keys[0]).expect("a key");
    jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(&secret)).expect("a token")
}
