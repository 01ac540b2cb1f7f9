//! Verification of bearer tokens (JWT).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use quick_cache::sync::Cache;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use web::{Problem, RateLimit};

use crate::grant::{Grant, grants};
use crate::id::CompanyId;
use crate::keys::Keys;
use crate::revocations::Revocations;
use crate::verification_error::VerificationError;

#[cfg(test)]
mod tests;

/// The `aud` of users' tokens.
pub const USER_AUDIENCE: &str = "platform";
/// The `aud` of services' tokens.
pub const INTERNAL_AUDIENCE: &str = "platform-internal";

/// The accepted algorithms, all asymmetric. With `none` or a shared secret a client could forge
/// tokens.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
/// The tolerated difference between clocks.
const CLOCK_SKEW_SECONDS: u32 = 30;
/// The maximum length of a token. The issuer's tokens are shorter.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// The number of cached tokens. Without the cache, the verification of a token would cost more than
/// the rest of its request.
const CACHE_CAPACITY: usize = 10_000;

/// The claims of a verified token.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Claims {
    /// In seconds since 1970.
    #[serde(deserialize_with = "numeric_date")]
    pub(crate) iat: i64,
    /// In seconds since 1970.
    #[serde(deserialize_with = "numeric_date")]
    pub(crate) exp: i64,
    pub(crate) sub: String,
    pub(crate) client_id: Option<String>,
    pub(crate) company_id: Option<CompanyId>,
    #[serde(default, deserialize_with = "grants")]
    pub(crate) permissions: Vec<Grant>,
}

/// Reads a time, which may have a fraction (RFC 7519, section 2), in whole seconds.
///
/// The fraction is dropped, so a token expires up to one second early and never late.
fn numeric_date<'de, D: Deserializer<'de>>(date: D) -> Result<i64, D::Error> {
    /// Every whole number up to this one is exact as a float.
    const LAST: f64 = 9_007_199_254_740_992.0;

    let seconds = f64::deserialize(date)?;
    if !(0.0..=LAST).contains(&seconds) {
        return Err(D::Error::custom("not a date"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the number is in range")]
    Ok(seconds.floor() as i64)
}

/// Reads the algorithm of a token and the id of its key. Returns `None` for a header that this
/// verifier does not support.
pub fn read_header(token: &str) -> Option<(Algorithm, String)> {
    let header = jsonwebtoken::decode_header(token).ok()?;
    let is_supported = ALGORITHMS.contains(&header.alg) && !has_extension(&header);
    header.kid.filter(|_| is_supported).map(|key_id| (header.alg, key_id))
}

/// Returns true if the header requires an extension of JWS (RFC 7515, section 4.1.11; RFC 7797).
/// This verifier supports none.
fn has_extension(header: &Header) -> bool {
    header.crit.is_some() || header.extras.inner().contains_key("b64")
}

/// Verifies tokens of one issuer for one audience.
pub struct Verifier {
    keys: Keys,
    audience: &'static str,
    revocations: Revocations,
    /// The verified tokens by their hash, so that no valid token stays in memory.
    cache: Cache<TokenHash, CachedToken>,
    requests: RateLimit<String>,
    expensive_requests: RateLimit<String>,
}

/// The SHA-256 hash of a token.
type TokenHash = [u8; SHA256_OUTPUT_LEN];

/// The claims of a verified token, with the id of its key.
#[derive(Clone)]
struct CachedToken {
    key_id: String,
    claims: Arc<Claims>,
}

impl Verifier {
    pub fn new(keys: Keys, audience: &'static str, revocations: Revocations) -> Self {
        // Only users are rate limited, other services are not.
        let is_for_users = audience == USER_AUDIENCE;
        let limit = |requests| RateLimit::per_minute(if is_for_users { requests } else { 0 });
        let requests = limit(keys.config().actor_requests_per_minute);
        let expensive_requests = limit(keys.config().actor_expensive_requests_per_minute);
        let cache = Cache::new(CACHE_CAPACITY);
        Self { keys, audience, revocations, cache, requests, expensive_requests }
    }

    /// Counts a request against the caller's rate limit.
    ///
    /// # Errors
    /// `429` if the limit is exceeded.
    pub(crate) fn check_limit(&self, claims: &Claims) -> Result<(), Problem> {
        self.requests.check(claims.sub.clone())
    }

    /// Counts a request against the caller's rate limit of expensive requests.
    ///
    /// # Errors
    /// `429` if the limit is exceeded.
    pub(crate) fn check_expensive_limit(&self, claims: &Claims) -> Result<(), Problem> {
        self.expensive_requests.check(claims.sub.clone())
    }

    /// Verifies a token and returns its claims. A revoked token is invalid.
    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Claims>, VerificationError> {
        let claims = self.verify_signed(token).await?;
        // A machine token has no user id, and no revocation applies to it.
        if let Ok(user) = claims.sub.parse() {
            self.revocations.check(user, claims.company_id, claims.iat)?;
        }
        Ok(claims)
    }

    /// Verifies signature, issuer, audience and times of a token.
    async fn verify_signed(&self, token: &str) -> Result<Arc<Claims>, VerificationError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(VerificationError::Invalid);
        }
        let mut hash = TokenHash::default();
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let now = runtime::clock::now().unix_timestamp();
        if let Some(CachedToken { key_id, claims }) = self.cache.get(&hash)
            && now < claims.exp + i64::from(CLOCK_SKEW_SECONDS)
            && self.keys.has(&key_id)
        {
            return Ok(claims);
        }
        let (algorithm, key_id) = read_header(token).ok_or(VerificationError::Invalid)?;
        let key = self
            .keys
            .find(&key_id)
            .await
            .map_err(|error| VerificationError::Unavailable(format!("{error:#}")))?;
        let key = key.ok_or(VerificationError::Invalid)?;
        let key = DecodingKey::from_jwk(&key).map_err(|_| VerificationError::Invalid)?;
        let mut validation = Validation::new(algorithm);
        validation.leeway = CLOCK_SKEW_SECONDS.into();
        validation.validate_nbf = true;
        validation.set_audience(&[self.audience]);
        validation.set_issuer(&[self.keys.issuer()]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation)
            .map_err(|_| VerificationError::Invalid)?
            .claims;
        // With an `iat` in the future, the maximum lifetime would not limit `exp`.
        let lifetime = claims.exp.saturating_sub(claims.iat);
        if claims.iat > now + i64::from(CLOCK_SKEW_SECONDS)
            || lifetime > self.keys.config().token_max_lifetime.into()
        {
            return Err(VerificationError::Invalid);
        }
        let claims = Arc::new(claims);
        self.cache.insert(hash, CachedToken { key_id, claims: Arc::clone(&claims) });
        Ok(claims)
    }
}
