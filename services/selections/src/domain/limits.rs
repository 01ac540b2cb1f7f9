//! The limits of the lists of one user or one selection.

use std::num::NonZeroU32;

use time::{Duration, OffsetDateTime};
use values::Code;

use super::MAX_ITEMS;
use crate::error::ADDED_ITEMS_LIMIT_EXCEEDED;

/// Maximum number of selections of an owner, without deleted ones (INV-SEL-007).
pub const MAX_SELECTIONS: u16 = 100;
/// Maximum number of favorites of a user, so that all of them fit into one selection.
pub const MAX_FAVORITES: u16 = MAX_ITEMS;
/// Maximum number of collaborators of a selection.
pub const MAX_COLLABORATORS: u16 = 20;
/// Maximum number of selections that are shared with one person.
pub const MAX_SHARED: u16 = 1_000;
/// Maximum number of selections that one owner shares with one person, with those that the person
/// has left.
pub const MAX_SHARED_BY_OWNER: u16 = 50;
/// The default of `SELECTIONS_MAX_ADDED_ITEMS_PER_PERSON_PER_HOUR` in the charts: all items of all
/// selections of an owner.
pub const CHART_MAX_ADDED_ITEMS: u32 = 20_000;

/// The items that a user has added in the present hour, which begins with the first item after the
/// previous hour.
#[derive(Clone, Copy, Debug)]
pub struct AddedItems {
    pub count: i32,
    pub since: OffsetDateTime,
}

impl AddedItems {
    pub const PERIOD: Duration = Duration::HOUR;

    /// Checks the added items, the new ones included.
    ///
    /// # Errors
    /// [`ADDED_ITEMS_LIMIT_EXCEEDED`] above the maximum, with the rest of the hour as
    /// `Retry-After`.
    pub fn check(self, max: NonZeroU32, now: OffsetDateTime) -> Result<(), Code> {
        if u32::try_from(self.count).is_ok_and(|count| count <= max.get()) {
            return Ok(());
        }
        Err(ADDED_ITEMS_LIMIT_EXCEEDED
            .with_arg("max", max.get().into())
            .retry_at(self.since + Self::PERIOD, now))
    }
}
