//! What the environment configures beside what it does for all services.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

pub struct Settings {
    pub board_totals_interval: Duration,
    pub booking_expiry_interval: Duration,
    /// Of a booking that names no time of its own.
    pub booking_ttl: Duration,
    pub selections: http_client::Config,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let totals = env.or(
            "CRM_BOARD_TOTALS_INTERVAL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "how often the totals of boards are added up, in milliseconds",
        );
        let interval = env.or(
            "CRM_BOOKING_EXPIRY_INTERVAL_MS",
            const { NonZeroU32::new(5_000).unwrap() },
            "how often overdue bookings are looked for, in milliseconds",
        );
        let ttl = env.or(
            "CRM_BOOKING_TTL_SECONDS",
            const { NonZeroU32::new(259_200).unwrap() },
            "how long a booking lasts that names no time, in seconds",
        );
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "crm");
        Some(Self {
            board_totals_interval: Duration::from_millis(totals?.get().into()),
            booking_expiry_interval: Duration::from_millis(interval?.get().into()),
            booking_ttl: Duration::from_secs(ttl?.get().into()),
            selections: selections?,
        })
    }
}
