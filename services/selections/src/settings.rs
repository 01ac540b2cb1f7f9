//! The settings that only this service has.

use std::num::NonZeroU32;

use runtime::Env;

pub struct Settings {
    pub public_open: bool,
    pub guest_reads_per_minute: u32,
    pub guest_misses_per_minute: u32,
    /// `None` means no limit.
    pub max_added_items_per_hour: Option<NonZeroU32>,
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
        let max_added_items_per_hour = env.with_default(
            "SELECTIONS_MAX_ADDED_ITEMS_PER_PERSON_PER_HOUR",
            0,
            "maximum number of items that a user adds to selections in an hour; 0 for no limit",
        );
        Some(Self {
            public_open: public_open?,
            guest_reads_per_minute: guest_reads_per_minute?,
            guest_misses_per_minute: guest_misses_per_minute?,
            max_added_items_per_hour: NonZeroU32::new(max_added_items_per_hour?),
        })
    }
}
