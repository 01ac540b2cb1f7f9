//! The state that handlers and jobs share.

use std::sync::Arc;

use ::db::Db;
use ::web::{ClientAddress, Problem, RateLimit};
use auth::AnyCaller;

use crate::catalog_index::CatalogIndex;
use crate::public_feed::PublicFeeds;
use crate::settings::Settings;

pub struct App {
    pub db: Db,
    pub settings: Settings,
    pub guest_reads: RateLimit,
    pub public_feeds: Arc<PublicFeeds>,
    pub catalog_index: Arc<CatalogIndex>,
}

impl App {
    /// Counts a catalog read of a guest against the limit of the guest's address.
    ///
    /// Signed-in users have no limit.
    ///
    /// # Errors
    /// `429 RATE_LIMITED` if the address has exceeded its reads.
    pub fn limit_guest(&self, caller: &AnyCaller, address: ClientAddress) -> Result<(), Problem> {
        if caller.actor.is_some() { Ok(()) } else { self.guest_reads.check(address) }
    }

    /// Counts each whole MiB of a response to a guest as one more read.
    ///
    /// # Errors
    /// As [`limit_guest`](Self::limit_guest).
    pub fn limit_guest_bytes(
        &self,
        caller: &AnyCaller,
        address: ClientAddress,
        bytes: usize,
    ) -> Result<(), Problem> {
        if caller.actor.is_some() { Ok(()) } else { self.guest_reads.check_size(address, bytes) }
    }
}
