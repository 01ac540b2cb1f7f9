//! The settings of this service. The libraries read the settings that all services share.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

pub struct Settings {
    /// The largest difference of an amount from the object's price on company routes, in percent of
    /// the price.
    pub amount_tolerance_percent: u8,
    pub board_totals_interval: Duration,
    pub booking_expiry_interval: Duration,
    /// The life of a booking without an expiry time in its request.
    pub booking_ttl: Duration,
    pub selections: http_client::Config,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let tolerance = env.with_default(
            "CRM_AMOUNT_TOLERANCE_PERCENT",
            20,
            "maximum difference of an amount on company routes from the object's price, in percent",
        );
        let totals = env.with_default(
            "CRM_BOARD_TOTALS_INTERVAL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "interval of the job board-totals, in milliseconds",
        );
        let interval = env.with_default(
            "CRM_BOOKING_EXPIRY_INTERVAL_MS",
            const { NonZeroU32::new(5_000).unwrap() },
            "interval of the job booking-expiry, in milliseconds",
        );
        let ttl = env.with_default(
            "CRM_BOOKING_TTL_SECONDS",
            const { NonZeroU32::new(259_200).unwrap() },
            "life of a booking without an expiry time in its request, in seconds",
        );
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "crm");
        Some(Self {
            amount_tolerance_percent: tolerance?,
            board_totals_interval: Duration::from_millis(totals?.get().into()),
            booking_expiry_interval: Duration::from_millis(interval?.get().into()),
            booking_ttl: Duration::from_secs(ttl?.get().into()),
            selections: selections?,
        })
    }
}
