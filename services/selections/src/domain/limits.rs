//! The limits of the lists of one user or one selection.

use super::MAX_ITEMS;

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
