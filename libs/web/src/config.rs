//! The settings of a service's listeners.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use runtime::Env;
use url::Url;

/// The default of `HTTP_MAX_REQUESTS_UNDER_WAY`.
///
/// A replica handles at least 10,000 light requests a second, so 512 of them take 50 ms.
/// A request that waits for another service takes up to 5 s. A rate of 100 such requests a second
/// reaches the limit.
const DEFAULT_MAX_IN_FLIGHT: NonZeroU32 = NonZeroU32::new(512).unwrap();

/// The default of `HTTP_KEEP_ALIVE_SECONDS`: longer than the idle timeout of proxies.
///
/// Otherwise a proxy could send a request on a connection that the listener is closing.
const DEFAULT_KEEP_ALIVE_SECONDS: u64 = 75;

/// The default of `HTTP_MAX_CONNECTIONS_PER_PEER`: an eighth of the connections of a listener, and
/// more than the people of one office open.
const DEFAULT_MAX_CONNECTIONS_PER_PEER: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The default of `HTTP_DRAIN_SECONDS`. A developer's machine has no proxy to wait for.
const DEFAULT_DRAIN_SECONDS: u64 = 0;

/// The addresses of the listeners, and the settings that all of them share.
#[derive(Clone, Debug)]
pub struct Config {
    pub public: SocketAddr,
    pub admin: SocketAddr,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub default_language: String,
    pub(crate) workers: usize,
    pub(crate) max_in_flight: NonZeroU32,
    pub(crate) keep_alive: Duration,
    pub(crate) max_connections_per_peer: NonZeroUsize,
    /// The time after SIGTERM in which requests are still answered, since proxies notice the stop
    /// late.
    pub drain: Duration,
    pub(crate) allowed_origins: Vec<Origin>,
}

/// The origin of a page, as browsers write it: `https://example.org`, with a port unless it is the
/// default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(pub(crate) String);

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let origin = Url::parse(text).map(|url| url.origin().ascii_serialization());
        if origin.is_ok_and(|origin| origin == text) {
            Ok(Self(text.to_owned()))
        } else {
            Err("not an origin, as in https://example.org")
        }
    }
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let public = env.with_default(
            "PUBLIC_LISTEN",
            SocketAddr::from(([0, 0, 0, 0], 8080)),
            "address of the public API",
        );
        let admin = env.with_default(
            "ADMIN_LISTEN",
            SocketAddr::from(([0, 0, 0, 0], 9090)),
            "address of health checks and metrics",
        );
        let trusted_proxies = env.list(
            "TRUSTED_PROXIES",
            "networks of the proxies whose X-Forwarded-For is trusted, as in 10.42.7.0/24",
        );
        let default_language = env.with_default(
            "DEFAULT_LANGUAGE",
            "en".to_owned(),
            "language of messages for callers that accept no other: en or ru",
        );
        let workers = env.with_default("HTTP_WORKERS", 2, "threads of each listener");
        let max_in_flight = env.with_default(
            "HTTP_MAX_REQUESTS_UNDER_WAY",
            DEFAULT_MAX_IN_FLIGHT,
            "in-flight requests of each listener; above it requests get 503 with Retry-After",
        );
        let keep_alive = env.with_default(
            "HTTP_KEEP_ALIVE_SECONDS",
            DEFAULT_KEEP_ALIVE_SECONDS,
            "time after which an idle connection is closed, in seconds; longer than the idle timeout of the proxies",
        );
        let max_connections_per_peer = env.with_default(
            "HTTP_MAX_CONNECTIONS_PER_PEER",
            DEFAULT_MAX_CONNECTIONS_PER_PEER,
            "open connections of one address to each listener; further ones are closed, except those of TRUSTED_PROXIES",
        );
        let drain = env.with_default(
            "HTTP_DRAIN_SECONDS",
            DEFAULT_DRAIN_SECONDS,
            "time after SIGTERM in which requests are still answered, in seconds; readiness is false and each response closes its connection",
        );
        let allowed_origins = env.list(
            "CORS_ALLOWED_ORIGINS",
            "origins whose pages may call the public API, as in https://example.org",
        );
        Some(Self {
            public: public?,
            admin: admin?,
            trusted_proxies: trusted_proxies?,
            default_language: default_language?,
            workers: workers?,
            max_in_flight: max_in_flight?,
            keep_alive: Duration::from_secs(keep_alive?),
            max_connections_per_peer: max_connections_per_peer?,
            drain: Duration::from_secs(drain?),
            allowed_origins: allowed_origins?,
        })
    }
}

#[cfg(test)]
mod tests {
    use runtime::Env;

    use super::{Config, Origin};

    /// RULE-ALL-072: origins are configured as browsers write them.
    #[test]
    fn origin_is_accepted_only_as_browsers_write_it() {
        for origin in ["https://example.org", "http://localhost:3000", "https://[::1]:8443"] {
            assert_eq!(origin.parse(), Ok(Origin(origin.to_owned())));
        }
        for other in
            ["*", "null", "example.org", "https://example.org/", "https://example.org:443", "file:///x"]
        {
            other.parse::<Origin>().unwrap_err();
        }
    }

    /// RULE-ALL-074: a service with a limit of zero would be ready and reject every request.
    #[test]
    fn zero_max_in_flight_is_rejected() {
        let mut env = Env::new(|name| (name == "HTTP_MAX_REQUESTS_UNDER_WAY").then(|| "0".to_owned()));
        let config = Config::read(&mut env);
        let error = env.finish(config).unwrap_err().to_string();
        assert!(error.contains("HTTP_MAX_REQUESTS_UNDER_WAY is not valid"), "{error}");
    }
}
