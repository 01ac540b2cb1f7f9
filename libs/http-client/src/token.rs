//! The machine token of this service (OAuth 2.0 client credentials), kept until shortly before it expires.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

/// A token is renewed when so much of its life is left, at most: long enough for a call with its retries.
const RENEW_BEFORE: Duration = Duration::from_secs(30);
/// A call that has an old token that still holds waits no longer for a new one.
const RENEW_PATIENCE: Duration = Duration::from_secs(1);

/// After a failure nobody asks for so long.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct MachineToken {
    http: reqwest::Client,
    issuer: String,
    client_id: String,
    client_secret: String,
    kept: Mutex<Option<Kept>>,
    /// Held while asking, so that many calls ask once. When that failed.
    asking: tokio::sync::Mutex<Option<Instant>>,
}

struct Kept {
    token: String,
    renew_at: Instant,
    expires_at: Instant,
}

#[derive(Deserialize)]
struct Discovery {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// Seconds.
    expires_in: u64,
}

impl MachineToken {
    pub(crate) fn new(http: reqwest::Client, issuer: &str, client_id: &str, client_secret: &str) -> Self {
        Self {
            http,
            issuer: issuer.trim_end_matches('/').to_owned(),
            client_id: client_id.to_owned(),
            client_secret: client_secret.to_owned(),
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) async fn get(&self) -> anyhow::Result<String> {
        if let Some(token) = self.kept(|kept| kept.renew_at) {
            return Ok(token);
        }
        let Some(old) = self.kept(|kept| kept.expires_at) else {
            return self.renew(self.asking.lock().await).await.context("no machine token");
        };
        // As long as the old one holds, one call renews it; no other waits, and that one not for long.
        let Ok(failed_at) = self.asking.try_lock() else { return Ok(old) };
        let renewed = timeout(RENEW_PATIENCE, self.renew(failed_at)).await;
        Ok(renewed.ok().and_then(Result::ok).unwrap_or(old))
    }

    /// The other side does not accept it (its keys were changed, say): the next call asks anew.
    pub(crate) fn forget(&self, refused: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|kept| kept.token == refused);
    }

    /// The token, until that moment.
    fn kept(&self, until: impl Fn(&Kept) -> Instant) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|kept| Instant::now() < until(kept)).map(|kept| kept.token.clone())
    }

    async fn renew(&self, mut failed_at: MutexGuard<'_, Option<Instant>>) -> anyhow::Result<String> {
        // Those who waited do not each ask again: neither for another token, nor a silent issuer.
        if let Some(token) = self.kept(|kept| kept.renew_at) {
            return Ok(token);
        }
        let failed = failed_at.is_some_and(|failed_at| failed_at.elapsed() < FAILURE_PAUSE);
        ensure!(!failed, "the issuer did not answer a moment ago");
        let asked_at = Instant::now();
        let granted = self.ask().await.inspect_err(|error| {
            tracing::warn!(error = format!("{error:#}"), "the issuer gives no machine token");
            *failed_at = Some(Instant::now());
        })?;
        let life = Duration::from_secs(granted.expires_in);
        let renew_at = asked_at + life.saturating_sub(RENEW_BEFORE).max(life / 2);
        let token = granted.access_token;
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Kept { token: token.clone(), renew_at, expires_at: asked_at + life });
        Ok(token)
    }

    async fn ask(&self) -> anyhow::Result<Granted> {
        let discovery = format!("{}/.well-known/openid-configuration", self.issuer);
        let discovery: Discovery = self.http.get(discovery).send().await?.error_for_status()?.json().await?;
        let request = self
            .http
            .post(discovery.token_endpoint)
            .basic_auth(&self.client_id, Some(&self.client_secret))
            .form(&[("grant_type", "client_credentials")]);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }
}
