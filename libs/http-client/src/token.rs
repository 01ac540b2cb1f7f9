//! The machine token of this service (OAuth 2.0 client credentials), kept until shortly before it expires.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A token is renewed when so much of its life is left, at most: long enough for a call with its retries.
const RENEW_BEFORE: Duration = Duration::from_secs(30);

/// After a failure nobody asks for so long.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct MachineToken {
    http: reqwest::Client,
    issuer: String,
    client_id: String,
    client_secret: String,
    /// Held while asking, so that many calls ask once.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// A token, and when it is to be renewed.
    token: Option<(String, Instant)>,
    failed_at: Option<Instant>,
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
        }
    }

    pub(crate) async fn get(&self) -> anyhow::Result<String> {
        let mut kept = self.kept.lock().await;
        if let Some((token, _)) = kept.token.as_ref().filter(|(_, renew_at)| Instant::now() < *renew_at) {
            return Ok(token.clone());
        }
        // Those who waited do not each ask a silent issuer again.
        let failed = kept.failed_at.is_some_and(|failed_at| failed_at.elapsed() < FAILURE_PAUSE);
        ensure!(!failed, "no machine token: the issuer did not answer a moment ago");
        let granted = self.ask().await.inspect_err(|_| kept.failed_at = Some(Instant::now()));
        let granted = granted.context("no machine token")?;
        let life = Duration::from_secs(granted.expires_in);
        let renew_at = Instant::now() + life.saturating_sub(RENEW_BEFORE).max(life / 2);
        kept.token = Some((granted.access_token.clone(), renew_at));
        Ok(granted.access_token)
    }

    /// The other side does not accept it (its keys were changed, say): the next call asks anew.
    pub(crate) async fn forget(&self) {
        self.kept.lock().await.token = None;
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
