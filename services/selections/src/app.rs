//! The state that all handlers share.

use ::db::Db;
use ::web::RateLimit;

use crate::ops::card::Cards;
use crate::ops::opening::Openings;

/// The database, and the state of the read by code: its flag, rate limits, cards and counts.
pub struct App {
    pub db: Db,
    pub public_open: bool,
    pub guest_reads: RateLimit,
    pub guest_misses: RateLimit,
    pub cards: Cards,
    pub openings: Openings,
}
