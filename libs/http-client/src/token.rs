//! The machine token of this service (OAuth 2.0 client credentials), kept until shortly before it expires.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A token is renewed when so much of its life is left, at most: long enough for a call with its retries.
const RENEW_BEFORE: Duration = Duration::from_secs(30);

pub(crate) struct MachineToken {
    http: reqwest::Client,
    issuer: String,
    client_id: String,
    client_secret: String,
    /// Held while asking, so that many calls ask once.
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    token: String,
    renew_at: Instant,
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
        if let Some(kept) = kept.as_ref().filter(|kept| Instant::now() < kept.renew_at) {
            return Ok(kept.token.clone());
        }
        let granted = self.ask().await.context("no machine token")?;
        let life = Duration::from_secs(granted.expires_in);
        let renew_at = Instant::now() + life.saturating_sub(RENEW_BEFORE).max(life / 2);
        let token = granted.access_token;
        *kept = Some(Kept { token: token.clone(), renew_at });
        Ok(token)
    }

    /// The other side does not accept it (its keys were changed, say): the next call asks anew.
    pub(crate) async fn forget(&self) {
        *self.kept.lock().await = None;
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
