//! The settings of the service, beside the common ones.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use runtime::Env;
use values::{Currency, PhoneRegion};

pub struct Settings {
    /// Currency of all prices.
    pub currency: Currency,
    /// Region of phone numbers without a country code.
    pub phone_region: PhoneRegion,
    pub project_recount_interval: Duration,
    pub propagation_interval: Duration,
    pub propagation_batch: NonZeroU32,
    pub guest_reads_per_minute: u32,
    /// Maximum size of the catalog index. 0 means no index.
    pub catalog_index_mib: u16,
    /// Days after which an import without a change is deleted.
    pub feed_retention_days: NonZeroU16,
    /// Maximum number of files that a developer uploads in an hour. `None` means no limit.
    pub feed_max_uploads_per_hour: Option<NonZeroU32>,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let currency =
            env.with_default("CATALOG_CURRENCY", Currency::RUB, "currency of all prices, as ISO 4217 code");
        let phone_region = env.with_default(
            "PHONE_DEFAULT_REGION",
            PhoneRegion::RU,
            "region of phone numbers without a country code, as ISO 3166 code",
        );
        let project_recount_interval = env.with_default(
            "PROJECT_RECOUNT_INTERVAL_S",
            const { NonZeroU32::new(3600).unwrap() },
            "interval of the job that recounts published projects, in seconds",
        );
        let interval = env.with_default(
            "OBJECT_PROPAGATION_INTERVAL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "pause of the propagation job when it has no work, in milliseconds",
        );
        let batch = env.with_default(
            "OBJECT_PROPAGATION_BATCH",
            const { NonZeroU32::new(500).unwrap() },
            "objects in one batch of the propagation job",
        );
        let guest_reads_per_minute = env.with_default(
            "GUEST_READS_PER_MINUTE",
            120,
            "catalog reads of one guest address per minute; 0 for no limit",
        );
        let catalog_index_mib = env.with_default(
            "CATALOG_INDEX_MIB",
            64,
            "maximum size of the index of projects in the memory of a replica, in MiB; 0 for no index",
        );
        let feed_retention_days = env.with_default(
            "FEED_RETENTION_DAYS",
            const { NonZeroU16::new(30).unwrap() },
            "time after its last change in which an import of a feed is kept, in days",
        );
        let feed_max_uploads_per_hour = env.with_default(
            "FEED_MAX_UPLOADS_PER_HOUR",
            0,
            "maximum number of files of feeds that a developer uploads in an hour; 0 for no limit",
        );
        Some(Self {
            currency: currency?,
            phone_region: phone_region?,
            project_recount_interval: Duration::from_secs(project_recount_interval?.get().into()),
            propagation_interval: Duration::from_millis(interval?.get().into()),
            propagation_batch: batch?,
            guest_reads_per_minute: guest_reads_per_minute?,
            catalog_index_mib: catalog_index_mib?,
            feed_retention_days: feed_retention_days?,
            feed_max_uploads_per_hour: NonZeroU32::new(feed_max_uploads_per_hour?),
        })
    }
}
