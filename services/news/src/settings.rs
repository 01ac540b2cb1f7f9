//! What the environment configures beside what it does for all services.

use runtime::Env;

pub struct Settings {
    pub selections: http_client::Config,
    pub guest_reads_per_minute: u32,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "news");
        let guest_reads_per_minute =
            env.or("GUEST_READS_PER_MINUTE", 120, "reads for each guest address; 0 for no limit");
        Some(Self { selections: selections?, guest_reads_per_minute: guest_reads_per_minute? })
    }
}
