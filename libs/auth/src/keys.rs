//! The issuer's public keys (JWKS). They are fetched in the background and when a token has an
//! unknown key id.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, bail};
use http_client::Issuer;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyOperations, PublicKeyUse};
use runtime::Env;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

#[cfg(test)]
mod tests;

/// The maximum interval between fetches. A withdrawn key is accepted until the next fetch.
const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// The interval between fetches while the issuer is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum interval between fetches for unknown key ids. It limits the requests to the issuer
/// that tokens with invented key ids cause.
const UNKNOWN_KEY_COOLDOWN: Duration = Duration::from_secs(5);
/// The time that a caller's request waits for an unknown key. It does not limit [`Keys::refresh`].
const KEY_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of one request to the issuer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The time that revocations stay in force beyond the maximum lifetime of a token. It exceeds the
/// tolerated skew of a token's times and a difference of minutes between the clocks of services.
const REVOCATION_MARGIN: Duration = Duration::from_mins(10);

/// The trusted issuer, and the limits of its tokens.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) actor_requests_per_minute: u32,
    pub(crate) actor_expensive_requests_per_minute: u32,
    issuer: Issuer,
    jwks_url: Option<String>,
    /// In seconds.
    pub(crate) token_max_lifetime: u32,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let issuer = Issuer::read(env);
        let jwks_url = env.optional::<String>(
            "AUTH_JWKS_URL",
            "URL of the issuer's keys (JWKS); found by discovery when unset",
        );
        let actor_requests_per_minute = env.with_default(
            "ACTOR_REQUESTS_PER_MINUTE",
            0,
            "requests per minute of each signed-in user; 0 for no limit",
        );
        let actor_expensive_requests_per_minute = env.with_default(
            "ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE",
            0,
            "searches, boards and exports per minute of each signed-in user; 0 for no limit",
        );
        let token_max_lifetime = env.with_default(
            "AUTH_TOKEN_MAX_LIFETIME_SECONDS",
            3600,
            "maximum lifetime of a token from `iat` to `exp`, in seconds",
        );
        let (issuer, jwks_url) = (issuer?, jwks_url?);
        if let Some(url) = &jwks_url
            && let Err(error) = issuer.check_address(url)
        {
            return env.reject("AUTH_JWKS_URL", &error.to_string());
        }
        Some(Self {
            actor_requests_per_minute: actor_requests_per_minute?,
            actor_expensive_requests_per_minute: actor_expensive_requests_per_minute?,
            issuer,
            jwks_url,
            token_max_lifetime: token_max_lifetime?,
        })
    }

    /// Returns the time for which keys are trusted while the issuer does not respond.
    ///
    /// This time is the maximum lifetime of a token. After this time, every token that was issued
    /// before the last fetch has expired. The key of a newer token may be withdrawn.
    fn max_key_age(&self) -> Duration {
        Duration::from_secs(self.token_max_lifetime.into())
    }

    /// Returns the time after which every token from before a revocation has expired.
    pub fn revocation_window(&self) -> Duration {
        Duration::from_secs(self.token_max_lifetime.into()) + REVOCATION_MARGIN
    }
}

/// The keys of one issuer. Clones share them.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    config: Config,
    http: reqwest::Client,
    known: RwLock<Option<Known>>,
    /// The last fetch for an unknown key. Locked during a fetch, so that concurrent requests cause
    /// one fetch.
    last_lookup: Mutex<Option<Lookup>>,
}

/// A fetch for an unknown key.
struct Lookup {
    at: Instant,
    succeeded: bool,
}

/// The keys of the last fetch.
struct Known {
    keys: JwkSet,
    fetched_at: Instant,
}

impl Keys {
    /// Creates an empty set. [`Keys::refresh`] or the first token fetches the keys.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let http = http_client::new_client(REQUEST_TIMEOUT)?;
        Ok(Self(Arc::new(Inner { config, http, known: RwLock::default(), last_lookup: Mutex::default() })))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn issuer(&self) -> &str {
        self.0.config.issuer.url()
    }

    /// Fetches the keys repeatedly until `stopping`.
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub async fn refresh(self, stopping: CancellationToken) -> anyhow::Result<()> {
        // At most half of the maximum age, so that known keys stay trusted until the next fetch.
        let refresh_interval = (self.0.config.max_key_age() / 2).clamp(RETRY_INTERVAL, REFRESH_INTERVAL);
        loop {
            let interval = match self.fetch().await {
                Ok(()) => refresh_interval,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "failed to fetch the issuer's keys");
                    RETRY_INTERVAL
                }
            };
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// Returns the key `id`, or `None` if the issuer has no such key. Fetches the keys if `id` is
    /// unknown.
    ///
    /// # Errors
    /// If the issuer does not respond in time. The token may still be valid.
    pub(crate) async fn find(&self, id: &str) -> anyhow::Result<Option<Jwk>> {
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        timeout(KEY_LOOKUP_TIMEOUT, self.look_up(id)).await.context("no response from the issuer in time")?
    }

    async fn look_up(&self, id: &str) -> anyhow::Result<Option<Jwk>> {
        let mut last_lookup = self.0.last_lookup.lock().await;
        // Another request may have fetched the key while this one waited for the lock.
        if let Some(key) = self.known(id) {
            return Ok(Some(key));
        }
        match *last_lookup {
            // Keys that are too old do not show that the issuer has no such key.
            Some(Lookup { at, succeeded: true })
                if at.elapsed() < UNKNOWN_KEY_COOLDOWN && self.read_known(|_| ()).is_some() =>
            {
                return Ok(None);
            }
            Some(Lookup { at, succeeded: false }) if at.elapsed() < RETRY_INTERVAL => {
                bail!("the last request to the issuer has just failed")
            }
            _ => {}
        }
        // The fetch counts as failed until it succeeds. A caller that disconnects cancels its
        // fetch, and the waiting requests must not each repeat it.
        *last_lookup = Some(Lookup { at: Instant::now(), succeeded: false });
        let fetched = self.fetch().await;
        *last_lookup = Some(Lookup { at: Instant::now(), succeeded: fetched.is_ok() });
        fetched?;
        Ok(self.known(id))
    }

    /// Returns true if the issuer has not withdrawn the key.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.read_known(|keys| keys.find(id).is_some()).unwrap_or_default()
    }

    fn known(&self, id: &str) -> Option<Jwk> {
        self.read_known(|keys| keys.find(id).cloned()).flatten()
    }

    /// Reads the known keys, unless they are too old.
    fn read_known<T>(&self, read: impl FnOnce(&JwkSet) -> T) -> Option<T> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|known| known.fetched_at.elapsed() < self.0.config.max_key_age());
        known.map(|known| read(&known.keys))
    }

    async fn fetch(&self) -> anyhow::Result<()> {
        let Inner { config, http, .. } = &*self.0;
        let fetched_at = Instant::now();
        let jwks_url = match &config.jwks_url {
            Some(url) => url.clone(),
            None => config.issuer.discover(http).await?.jwks_uri,
        };
        let keys = config.issuer.get(http, &jwks_url).await?;
        self.store(keys, fetched_at);
        Ok(())
    }

    /// Replaces the known keys. Keys for encryption are left out.
    pub(crate) fn store(&self, mut keys: JwkSet, fetched_at: Instant) {
        keys.keys.retain(is_for_signatures);
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Known { keys, fetched_at });
    }
}

/// Returns true unless the issuer publishes the key for another use (RFC 7517, sections 4.2 and
/// 4.3).
fn is_for_signatures(key: &Jwk) -> bool {
    let has_use = key.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    let operations = key.common.key_operations.as_ref();
    has_use && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}
