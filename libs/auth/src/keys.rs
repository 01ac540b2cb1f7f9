//! The issuer's public keys (JWKS): fetched, kept, refreshed in the background and on an unknown id.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, bail};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use runtime::Env;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

#[cfg(test)]
mod tests;

/// A key that is withdrawn is forgotten after so long.
const REFRESH: Duration = Duration::from_mins(5);
/// Between attempts while the issuer is away.
const RETRY: Duration = Duration::from_secs(1);
/// Tokens with made-up key ids cannot make us ask the issuer more often.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(5);
/// A request does not wait longer for a key; [`Keys::refresh`] does.
const PATIENCE: Duration = Duration::from_secs(5);

/// The issuer that is believed.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) actor_requests_per_minute: u32,
    pub(crate) issuer: String,
    jwks_url: Option<String>,
    /// Seconds.
    pub(crate) token_max_lifetime: u32,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let issuer = env.require("AUTH_ISSUER", "the OIDC issuer, as tokens name it in `iss`");
        let jwks_url = env.optional("AUTH_JWKS_URL", "its keys; found by discovery when unset");
        let actor_requests_per_minute =
            env.or("ACTOR_REQUESTS_PER_MINUTE", 0, "requests for each signed-in person; 0 for no limit");
        let token_max_lifetime = env.or(
            "AUTH_TOKEN_MAX_LIFETIME_SECONDS",
            3600,
            "a token that lives longer, or does not say since when it does, is refused",
        );
        Some(Self {
            actor_requests_per_minute: actor_requests_per_minute?,
            issuer: issuer?,
            jwks_url: jwks_url?,
            token_max_lifetime: token_max_lifetime?,
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
    /// Held while asking, so that many requests ask once.
    asked: Mutex<Option<Asked>>,
}

/// When the issuer was last asked for an unknown key, and whether it answered.
struct Asked {
    at: Instant,
    answered: bool,
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
    /// When the issuer does not say, or not in time: nobody knows whether the key is its own.
    pub(crate) async fn find(&self, id: &str) -> anyhow::Result<Option<Jwk>> {
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        timeout(PATIENCE, self.ask_for(id)).await.context("the issuer does not answer in time")?
    }

    async fn ask_for(&self, id: &str) -> anyhow::Result<Option<Jwk>> {
        let mut asked = self.0.asked.lock().await;
        // Whoever waited for the lock finds what the one before it has fetched.
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        match *asked {
            Some(Asked { at, answered: true }) if at.elapsed() < UNKNOWN_KEY_PAUSE => return Ok(None),
            Some(Asked { at, answered: false }) if at.elapsed() < RETRY => {
                bail!("the issuer did not answer a moment ago")
            }
            _ => {}
        }
        // It stays at that if the caller hangs up: those who wait do not each ask again.
        *asked = Some(Asked { at: Instant::now(), answered: false });
        let fetched = self.fetch().await;
        *asked = Some(Asked { at: Instant::now(), answered: fetched.is_ok() });
        fetched?;
        Ok(self.known(id))
    }

    /// Whether the issuer still vouches for what this key has signed.
    pub(crate) fn has(&self, id: &str) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| known.find(id).is_some())
    }

    fn known(&self, id: &str) -> Option<Jwk> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.find(id).cloned()
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
