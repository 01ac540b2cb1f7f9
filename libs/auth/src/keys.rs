//! The issuer's public keys (JWKS): fetched, kept, refreshed in the background and on an unknown id.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use runtime::Env;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A key that is withdrawn is forgotten after so long.
const REFRESH: Duration = Duration::from_mins(5);
/// Between attempts while the issuer is away.
const RETRY: Duration = Duration::from_secs(1);
/// Tokens with made-up key ids cannot make us ask the issuer more often.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(5);

/// The issuer that is believed.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) actor_requests_per_minute: u32,
    pub(crate) issuer: String,
    jwks_url: Option<String>,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let issuer = env.require("AUTH_ISSUER", "the OIDC issuer, as tokens name it in `iss`");
        let jwks_url = env.optional("AUTH_JWKS_URL", "its keys; found by discovery when unset");
        let actor_requests_per_minute =
            env.or("ACTOR_REQUESTS_PER_MINUTE", 0, "requests for each signed-in person; 0 for no limit");
        Some(Self {
            actor_requests_per_minute: actor_requests_per_minute?,
            issuer: issuer?,
            jwks_url: jwks_url?,
        })
    }
}

/// The keys of one issuer. Cloning shares them.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    config: Config,
    http: reqwest::Client,
    known: RwLock<Option<JwkSet>>,
    /// When the issuer was last asked; held while asking, so that many requests ask once.
    asked: Mutex<Option<Instant>>,
}

#[derive(Deserialize)]
struct Discovery {
    jwks_uri: String,
}

impl Keys {
    /// Nothing is fetched yet: that is [`Keys::refresh`]'s, or the first token's.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let http = http_client::client(Duration::from_secs(3))?;
        Ok(Self(Arc::new(Inner { config, http, known: RwLock::default(), asked: Mutex::default() })))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.0.config.issuer
    }

    /// Keeps the keys fresh until `stopping`.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub async fn refresh(self, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            let pause = match self.fetch().await {
                Ok(()) => REFRESH,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the issuer's keys cannot be fetched");
                    RETRY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// The key `id`, asking the issuer if it is not known. `None`: the issuer has no such key.
    ///
    /// # Errors
    /// When there are no keys at all, since the issuer cannot be reached.
    pub(crate) async fn find(&self, id: &str) -> anyhow::Result<Option<Jwk>> {
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        let mut asked = self.0.asked.lock().await;
        // Whoever waited for the lock finds what the one before it has fetched.
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        let pause = if self.any() { UNKNOWN_KEY_PAUSE } else { RETRY };
        if asked.is_none_or(|asked| asked.elapsed() >= pause) {
            let fetched = self.fetch().await;
            // From its end: those who waited do not each ask a silent issuer again.
            *asked = Some(Instant::now());
            if !self.any() {
                fetched?;
            }
        }
        anyhow::ensure!(self.any(), "the issuer did not answer a moment ago");
        Ok(self.known(id))
    }

    pub(crate) fn known(&self, id: &str) -> Option<Jwk> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.find(id).cloned()
    }

    fn any(&self) -> bool {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    async fn fetch(&self) -> anyhow::Result<()> {
        let inner = &self.0;
        let jwks_url = if let Some(url) = &inner.config.jwks_url {
            url.clone()
        } else {
            let url =
                format!("{}/.well-known/openid-configuration", inner.config.issuer.trim_end_matches('/'));
            get::<Discovery>(&inner.http, &url).await?.jwks_uri
        };
        let keys = get(&inner.http, &jwks_url).await?;
        *inner.known.write().unwrap_or_else(PoisonError::into_inner) = Some(keys);
        Ok(())
    }
}

async fn get<T: serde::de::DeserializeOwned>(http: &reqwest::Client, url: &str) -> anyhow::Result<T> {
    let response = http.get(url).send().await.context("no answer")?.error_for_status()?;
    response.json().await.with_context(|| format!("{url} does not answer what it should"))
}
