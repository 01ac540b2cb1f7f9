//! Where a service listens and whom it believes.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use ipnet::IpNet;
use runtime::Env;

/// At the 10,000 light requests a second that a replica answers at least, a full house takes 50 ms. Those that
/// wait for another service, for 5 s each, fill it when a hundred of them come in a second.
const MOST_UNDER_WAY: NonZeroU32 = NonZeroU32::new(512).unwrap();

/// Listeners and what holds for all of them.
#[derive(Clone, Debug)]
pub struct Config {
    pub public: SocketAddr,
    pub admin: SocketAddr,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub default_language: String,
    pub(crate) workers: usize,
    pub(crate) most_under_way: NonZeroU32,
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
        Some(Self {
            public: public?,
            admin: admin?,
            trusted_proxies: trusted_proxies?,
            default_language: default_language?,
            workers: workers?,
            most_under_way: most_under_way?,
        })
    }
}

#[cfg(test)]
mod tests {
    use runtime::Env;

    use super::Config;

    /// It would look ready and answer nobody.
    #[test]
    fn a_service_that_lets_no_request_in_is_a_mistake() {
        let mut env = Env::new(|name| (name == "HTTP_MAX_REQUESTS_UNDER_WAY").then(|| "0".to_owned()));
        let config = Config::read(&mut env);
        let error = env.finish(config).unwrap_err().to_string();
        assert!(error.contains("HTTP_MAX_REQUESTS_UNDER_WAY is not valid"), "{error}");
    }
}
