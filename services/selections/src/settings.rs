//! The settings that only this service has.

use runtime::Env;

pub struct Settings {
    pub public_open: bool,
    pub guest_reads_per_minute: u32,
    pub guest_misses_per_minute: u32,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let public_open = env.with_default(
            "SELECTIONS_PUBLIC_OPEN_ENABLED",
            true,
            "flag selections.public-open.enabled: guests and users can open selections by code",
        );
        let guest_reads_per_minute = env.with_default(
            "GUEST_READS_PER_MINUTE",
            120,
            "reads by code a minute for each guest address; 0 for no limit",
        );
        let guest_misses_per_minute = env.with_default(
            "GUEST_MISSES_PER_MINUTE",
            10,
            "reads of unknown codes a minute for each guest address; 0 for no limit",
        );
        Some(Self {
            public_open: public_open?,
            guest_reads_per_minute: guest_reads_per_minute?,
            guest_misses_per_minute: guest_misses_per_minute?,
        })
    }
}
