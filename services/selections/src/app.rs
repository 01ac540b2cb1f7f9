//! The state that all handlers share.

use ::db::Db;
use ::web::RateLimit;

/// The database, the flag and the rate limits of the read by code.
pub struct App {
    pub db: Db,
    pub public_open: bool,
    pub guest_reads: RateLimit,
    pub guest_misses: RateLimit,
}
