//! Where a service listens and whom it believes.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use runtime::Env;
use url::Url;

/// At the 10,000 light requests a second that a replica answers at least, a full house takes 50 ms. Those that
/// wait for another service, for 5 s each, fill it when a hundred of them come in a second.
const MOST_UNDER_WAY: NonZeroU32 = NonZeroU32::new(512).unwrap();

/// Longer than a proxy keeps an idle connection, so that none sends a request into one that is just being
/// closed.
const KEEP_ALIVE_SECONDS: u64 = 75;

/// None on a developer's machine, where nobody has to learn that a process goes.
const DRAIN_SECONDS: u64 = 0;

/// Listeners and what holds for all of them.
#[derive(Clone, Debug)]
pub struct Config {
    pub public: SocketAddr,
    pub admin: SocketAddr,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub default_language: String,
    pub(crate) workers: usize,
    pub(crate) most_under_way: NonZeroU32,
    pub(crate) keep_alive: Duration,
    /// For so long requests are still answered after SIGTERM, until every proxy knows that this process goes.
    pub drain: Duration,
    pub(crate) allowed_origins: Vec<Origin>,
}

/// Where a page comes from, as browsers name it: `https://example.org`, with a port that is not the usual one.
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
        let public = env.or("PUBLIC_LISTEN", SocketAddr::from(([0, 0, 0, 0], 8080)), "the API");
        let admin = env.or("ADMIN_LISTEN", SocketAddr::from(([0, 0, 0, 0], 9090)), "health and metrics");
        let trusted_proxies =
            env.list("TRUSTED_PROXIES", "networks whose X-Forwarded-For is believed, as in 10.0.0.0/8");
        let default_language = env.or(
            "DEFAULT_LANGUAGE",
            "en".to_owned(),
            "of messages, when the caller names none of ours: en or ru",
        );
        let workers = env.or("HTTP_WORKERS", 2, "threads of each listener");
        let most_under_way = env.or(
            "HTTP_MAX_REQUESTS_UNDER_WAY",
            MOST_UNDER_WAY,
            "requests that each listener has under way at once; those above are told to come again (503)",
        );
        let keep_alive = env.or(
            "HTTP_KEEP_ALIVE_SECONDS",
            KEEP_ALIVE_SECONDS,
            "an idle connection is closed after so long; longer than the proxies keep theirs",
        );
        let drain = env.or(
            "HTTP_DRAIN_SECONDS",
            DRAIN_SECONDS,
            "after SIGTERM requests are still answered for so long, while readiness is false and each answer ends its connection",
        );
        let allowed_origins = env.list(
            "CORS_ALLOWED_ORIGINS",
            "origins whose pages may call the public API, as in https://example.org; none when unset",
        );
        Some(Self {
            public: public?,
            admin: admin?,
            trusted_proxies: trusted_proxies?,
            default_language: default_language?,
            workers: workers?,
            most_under_way: most_under_way?,
            keep_alive: Duration::from_secs(keep_alive?),
            drain: Duration::from_secs(drain?),
            allowed_origins: allowed_origins?,
        })
    }
}

#[cfg(test)]
mod tests {
    use runtime::Env;

    use super::{Config, Origin};

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for origin in ["https://example.org", "http://localhost:3000", "https://[::1]:8443"] {
            assert_eq!(origin.parse(), Ok(Origin(origin.to_owned())));
        }
        for other in
            ["*", "null", "example.org", "https://example.org/", "https://example.org:443", "file:///x"]
        {
            other.parse::<Origin>().unwrap_err();
        }
    }

    /// It would look ready and answer nobody.
    #[test]
    fn a_service_that_lets_no_request_in_is_a_mistake() {
        let mut env = Env::new(|name| (name == "HTTP_MAX_REQUESTS_UNDER_WAY").then(|| "0".to_owned()));
        let config = Config::read(&mut env);
        let error = env.finish(config).unwrap_err().to_string();
        assert!(error.contains("HTTP_MAX_REQUESTS_UNDER_WAY is not valid"), "{error}");
    }
}
