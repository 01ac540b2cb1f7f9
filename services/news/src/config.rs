//! What the environment configures.

use runtime::Env;

/// The service's configuration.
pub struct Config {
    pub database: ::db::Config,
    pub messaging: messaging::Config,
    pub auth: auth::Config,
    pub web: web::Config,
    pub selections: http_client::Config,
    pub guest_reads_per_minute: u32,
}

impl Config {
    pub fn read(env: &mut Env) -> Option<Self> {
        let database = ::db::Config::read(env, crate::app::NAME);
        let messaging = messaging::Config::read(env);
        let auth = auth::Config::read(env);
        let web = web::Config::read(env);
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "news");
        let guest_reads_per_minute =
            env.or("GUEST_READS_PER_MINUTE", 120, "reads for each guest address; 0 for no limit");
        Some(Self {
            database: database?,
            messaging: messaging?,
            auth: auth?,
            web: web?,
            selections: selections?,
            guest_reads_per_minute: guest_reads_per_minute?,
        })
    }
}
