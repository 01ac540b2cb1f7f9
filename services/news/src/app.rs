//! The state that handlers and jobs share.

use std::time::Duration;

use ::db::Db;
use ::web::RateLimit;

use crate::clients::Selections;
use crate::domain::Quotas;

/// The database, the client of selections and the limits of readers.
pub struct App {
    pub db: Db,
    pub selections: Selections,
    pub guest_reads: RateLimit,
    pub embeds_wait: Duration,
    pub quotas: Quotas,
}
