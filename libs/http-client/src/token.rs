//! The machine token of this service (OAuth 2.0 client credentials), cached until shortly before it
//! expires.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use crate::issuer::Issuer;

/// The remaining lifetime at which a token is renewed: enough for a call with its retries.
/// A token with a lifetime below 60 s is renewed at half of it.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(30);
/// The time that a call with a valid token waits for the renewal.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The minimum time between a failed token request and the next one.
const RETRY_DELAY: Duration = Duration::from_millis(200);

pub(crate) struct MachineToken {
    http: reqwest::Client,
    issuer: Issuer,
    client_id: String,
    client_secret: String,
    cached: Mutex<Option<CachedToken>>,
    /// The time of the last failed token request. The lock is held during a token request, so that
    /// concurrent calls send only one.
    failed_at: tokio::sync::Mutex<Option<Instant>>,
}

struct CachedToken {
    token: String,
    renew_at: Instant,
    expires_at: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    /// In seconds.
    expires_in: u64,
}

impl MachineToken {
    pub(crate) fn new(http: reqwest::Client, issuer: Issuer, client_id: &str, client_secret: &str) -> Self {
        Self {
            http,
            issuer,
            client_id: client_id.to_owned(),
            client_secret: client_secret.to_owned(),
            cached: Mutex::default(),
            failed_at: tokio::sync::Mutex::default(),
        }
    }

    /// Returns a valid token.
    pub(crate) async fn get(&self) -> anyhow::Result<String> {
        if let Some(token) = self.cached_until(|cached| cached.renew_at) {
            return Ok(token);
        }
        let Some(old) = self.cached_until(|cached| cached.expires_at) else {
            return self.renew(self.failed_at.lock().await).await.context("failed to get a machine token");
        };
        // While the old token is valid, one call renews it and waits up to `RENEWAL_TIMEOUT`. Other
        // calls use the old token.
        let Ok(failed_at) = self.failed_at.try_lock() else { return Ok(old) };
        let renewed = timeout(RENEWAL_TIMEOUT, self.renew(failed_at)).await;
        Ok(renewed.ok().and_then(Result::ok).unwrap_or(old))
    }

    /// Removes a rejected token from the cache, so that the next call requests a new one.
    pub(crate) fn discard(&self, rejected: &str) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.take_if(|cached| cached.token == rejected);
    }

    /// Returns the cached token, unless the moment that `until` selects has passed.
    fn cached_until(&self, until: impl Fn(&CachedToken) -> Instant) -> Option<String> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| Instant::now() < until(cached)).map(|cached| cached.token.clone())
    }

    /// Requests a new token and caches it.
    async fn renew(&self, mut failed_at: MutexGuard<'_, Option<Instant>>) -> anyhow::Result<String> {
        // While this call waited for the lock, another one may have renewed the token or failed.
        if let Some(token) = self.cached_until(|cached| cached.renew_at) {
            return Ok(token);
        }
        let failed = failed_at.is_some_and(|failed_at| failed_at.elapsed() < RETRY_DELAY);
        ensure!(!failed, "a token request failed less than {RETRY_DELAY:?} ago");
        let requested_at = Instant::now();
        let response = self.request_token().await.inspect_err(|error| {
            tracing::warn!(error = format!("{error:#}"), "failed to get a machine token");
            *failed_at = Some(Instant::now());
        })?;
        let lifetime = Duration::from_secs(response.expires_in);
        let renew_at = requested_at + lifetime.saturating_sub(RENEW_BEFORE_EXPIRY).max(lifetime / 2);
        let token = response.access_token;
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(CachedToken { token: token.clone(), renew_at, expires_at: requested_at + lifetime });
        Ok(token)
    }

    async fn request_token(&self) -> anyhow::Result<TokenResponse> {
        let endpoint = self.issuer.discover(&self.http).await?.token_endpoint;
        let endpoint = endpoint.context("the issuer has no token endpoint")?;
        self.issuer.check_address(&endpoint).context("the token endpoint")?;
        let request = self
            .http
            .post(endpoint)
            .basic_auth(&self.client_id, Some(&self.client_secret))
            .form(&[("grant_type", "client_credentials")]);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }
}
