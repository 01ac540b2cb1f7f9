//! What the environment configures.

use std::net::SocketAddr;

use runtime::Env;

/// The service's configuration.
pub struct Config {
    pub database: ::db::Config,
    pub messaging: messaging::Config,
    pub auth: auth::Config,
    pub web: web::Config,
    pub internal: SocketAddr,
    pub public_open: bool,
    pub guest_reads_per_minute: u32,
    pub guest_misses_per_minute: u32,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let database = ::db::Config::read(env, crate::app::NAME);
        let messaging = messaging::Config::read(env);
        let auth = auth::Config::read(env);
        let web = web::Config::read(env);
        let internal =
            env.or("INTERNAL_LISTEN", SocketAddr::from(([0, 0, 0, 0], 8081)), "the API for news and crm");
        let public_open = env.or(
            "SELECTIONS_PUBLIC_OPEN_ENABLED",
            true,
            "selections.public-open.enabled: whether a code opens a selection",
        );
        let guest_reads_per_minute =
            env.or("GUEST_READS_PER_MINUTE", 120, "reads by code for each guest address; 0 for no limit");
        let guest_misses_per_minute = env.or(
            "GUEST_MISSES_PER_MINUTE",
            10,
            "of these, reads of codes that do not exist; 0 for no limit",
        );
        Some(Self {
            database: database?,
            messaging: messaging?,
            auth: auth?,
            web: web?,
            internal: internal?,
            public_open: public_open?,
            guest_reads_per_minute: guest_reads_per_minute?,
            guest_misses_per_minute: guest_misses_per_minute?,
        })
    }
}
