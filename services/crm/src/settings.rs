//! The settings of this service. The libraries read the settings that all services share.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

use crate::domain::AdditionLimits;

pub struct Settings {
    pub addition_limits: AdditionLimits,
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
        let addition_limits = read_addition_limits(env);
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "crm");
        Some(Self {
            addition_limits: addition_limits?,
            amount_tolerance_percent: tolerance?,
            board_totals_interval: Duration::from_millis(totals?.get().into()),
            booking_expiry_interval: Duration::from_millis(interval?.get().into()),
            booking_ttl: Duration::from_secs(ttl?.get().into()),
            selections: selections?,
        })
    }
}

fn read_addition_limits(env: &mut Env) -> Option<AdditionLimits> {
    let deals = env.with_default(
        "CRM_MAX_DEALS_PER_PERSON_PER_HOUR",
        0,
        "maximum number of deals of a developer that a user creates in an hour; 0 for no limit",
    );
    let deals_of_client = env.with_default(
        "CRM_MAX_DEALS_PER_CLIENT_PER_DAY",
        0,
        "maximum number of deals of a developer that a client gets in a day; 0 for no limit",
    );
    let notes = env.with_default(
        "CRM_MAX_NOTES_PER_PERSON_PER_HOUR",
        0,
        "maximum number of notes that a user writes to deals of a developer in an hour; 0 for no limit",
    );
    Some(AdditionLimits {
        deals: NonZeroU32::new(deals?),
        deals_of_client: NonZeroU32::new(deals_of_client?),
        notes: NonZeroU32::new(notes?),
    })
}
