//! Where a service listens and whom it believes.

use std::net::SocketAddr;

use ipnet::IpNet;
use runtime::Env;

/// Listeners and what holds for all of them.
#[derive(Clone, Debug)]
pub struct Config {
    pub public: SocketAddr,
    pub admin: SocketAddr,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub default_language: String,
    pub(crate) workers: usize,
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
        Some(Self {
            public: public?,
            admin: admin?,
            trusted_proxies: trusted_proxies?,
            default_language: default_language?,
            workers: workers?,
        })
    }
}
