//! The state that all handlers share.

use std::num::NonZeroU32;

use ::db::Db;
use ::web::RateLimit;

use crate::ops::card::Cards;
use crate::ops::opening::Openings;

/// The database, the limit of added items, and the state of the read by code: its flag, rate
/// limits, cards and counts.
pub struct App {
    pub db: Db,
    /// `None` means no limit.
    pub max_added_items_per_hour: Option<NonZeroU32>,
    pub public_open: bool,
    pub guest_reads: RateLimit,
    pub guest_misses: RateLimit,
    pub cards: Cards,
    pub openings: Openings,
}
