//! What the environment configures beside what it does for all services.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;
use values::{Currency, PhoneRegion};

pub struct Settings {
    /// Of every price.
    pub currency: Currency,
    /// Of phone numbers without a country.
    pub phone_region: PhoneRegion,
    pub project_recount_interval: Duration,
    pub propagation_interval: Duration,
    pub propagation_batch: NonZeroU32,
    pub guest_reads_per_minute: u32,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let currency =
            env.or("CATALOG_CURRENCY", Currency::RUB, "the currency of all prices, as ISO 4217 has it");
        let phone_region = env.or(
            "PHONE_DEFAULT_REGION",
            PhoneRegion::RU,
            "the region of phone numbers without a country, as ISO 3166 has it",
        );
        let project_recount_interval = env.or(
            "PROJECT_RECOUNT_INTERVAL_S",
            const { NonZeroU32::new(3600).unwrap() },
            "published projects are counted anew every so many seconds, beside what their events tell",
        );
        let interval = env.or(
            "OBJECT_PROPAGATION_INTERVAL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "how long nobody looks for what is to be told of objects after there was nothing, in milliseconds",
        );
        let batch = env.or(
            "OBJECT_PROPAGATION_BATCH",
            const { NonZeroU32::new(500).unwrap() },
            "objects that are told together of what changed above them",
        );
        let guest_reads_per_minute =
            env.or("GUEST_READS_PER_MINUTE", 120, "reads for each guest address; 0 for no limit");
        Some(Self {
            currency: currency?,
            phone_region: phone_region?,
            project_recount_interval: Duration::from_secs(project_recount_interval?.get().into()),
            propagation_interval: Duration::from_millis(interval?.get().into()),
            propagation_batch: batch?,
            guest_reads_per_minute: guest_reads_per_minute?,
        })
    }
}
