//! Verification of bearer tokens (JWT).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use quick_cache::sync::Cache;
use serde::Deserialize;
use web::{Problem, RateLimit};

use crate::permission::grants;
use crate::{CompanyId, Grant, Keys, PLATFORM};

/// Asymmetric only: with `none` or a shared secret anybody could sign.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
/// Clocks may differ by so many seconds.
const SKEW: u32 = 30;
/// A longer text is not a token of ours.
const MAX_TOKEN: usize = 8 * 1024;
/// Verified tokens that are remembered until they expire, since a signature costs more than a request.
const REMEMBERED: usize = 10_000;

/// What a verified token says.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    /// Seconds since 1970, as `exp` is.
    iat: i64,
    pub(crate) exp: i64,
    pub(crate) sub: String,
    pub(crate) client_id: Option<String>,
    pub(crate) company_id: Option<CompanyId>,
    #[serde(default, deserialize_with = "grants")]
    pub(crate) permissions: Vec<Grant>,
}

/// Why a token was not accepted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It does not hold.
    Invalid,
    /// It cannot be judged: the issuer is away.
    Unavailable(String),
}

/// Accepts the tokens of one issuer that are meant for one audience.
pub struct Verifier {
    keys: Keys,
    audience: &'static str,
    /// By their hash, so that no token that still holds lies in memory.
    remembered: Cache<Hash, Remembered>,
    limit: RateLimit<String>,
}

/// SHA-256.
type Hash = [u8; SHA256_OUTPUT_LEN];

/// A token that was verified, and the key that it was verified with.
#[derive(Clone)]
struct Remembered {
    key_id: String,
    claims: Arc<Claims>,
}

impl Verifier {
    pub fn new(keys: Keys, audience: &'static str) -> Self {
        // The limit is for people; other services are not to be slowed down by it.
        let is_for_people = audience == PLATFORM;
        let limit =
            RateLimit::per_minute(if is_for_people { keys.config().actor_requests_per_minute } else { 0 });
        Self { keys, audience, remembered: Cache::new(REMEMBERED), limit }
    }

    /// Takes one request off the caller's allowance, if there is one.
    pub(crate) fn check_limit(&self, claims: &Claims) -> Result<(), Problem> {
        self.limit.check(claims.sub.clone())
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Claims>, Refusal> {
        if token.len() > MAX_TOKEN {
            return Err(Refusal::Invalid);
        }
        let mut hash = Hash::default();
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let now = runtime::clock::now().unix_timestamp();
        if let Some(Remembered { key_id, claims }) = self.remembered.get(&hash)
            && now < claims.exp + i64::from(SKEW)
            && self.keys.has(&key_id)
        {
            return Ok(claims);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refusal::Invalid)?;
        let key_id = header.kid.ok_or(Refusal::Invalid)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(Refusal::Invalid);
        }
        let key =
            self.keys.find(&key_id).await.map_err(|error| Refusal::Unavailable(format!("{error:#}")))?;
        let key = key.ok_or(Refusal::Invalid)?;
        let key = DecodingKey::from_jwk(&key).map_err(|_| Refusal::Invalid)?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = SKEW.into();
        validation.validate_nbf = true;
        validation.set_audience(&[self.audience]);
        validation.set_issuer(&[self.keys.issuer()]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let claims =
            jsonwebtoken::decode::<Claims>(token, &key, &validation).map_err(|_| Refusal::Invalid)?.claims;
        // The lifetime bounds nothing where it begins in the future.
        let lifetime = claims.exp.saturating_sub(claims.iat);
        if claims.iat > now + i64::from(SKEW) || lifetime > self.keys.config().token_max_lifetime.into() {
            return Err(Refusal::Invalid);
        }
        let claims = Arc::new(claims);
        self.remembered.insert(hash, Remembered { key_id, claims: Arc::clone(&claims) });
        Ok(claims)
    }
}
