//! The state that handlers and jobs share.

use std::time::Duration;

use ::db::Db;
use ::web::RateLimit;

use crate::atom::AtomFeeds;
use crate::clients::Selections;
use crate::domain::Quotas;

pub struct App {
    pub db: Db,
    pub selections: Selections,
    pub guest_reads: RateLimit,
    pub embeds_wait: Duration,
    pub quotas: Quotas,
    pub atom_feeds: AtomFeeds,
}
