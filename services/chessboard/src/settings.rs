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
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let currency = env.or("CATALOG_CURRENCY", Currency::RUB, "the currency of all prices, as ISO 4217 has it");
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
        Some(Self {
            currency: currency?,
            phone_region: phone_region?,
            project_recount_interval: Duration::from_secs(project_recount_interval?.get().into()),
        })
    }
}
