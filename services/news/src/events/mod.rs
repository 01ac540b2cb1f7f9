//! Published events. Their key is the post's id.

mod post;
mod state;

use messaging::{PublishedEvent, Republisher, Restorer};

pub use post::{PostArchived, PostDeleted, PostPublished, PostUnpublished, PostUpdated};
pub use state::Posts;

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<PostPublished>(),
    PublishedEvent::of::<PostUpdated>(),
    PublishedEvent::of::<PostUnpublished>(),
    PublishedEvent::of::<PostArchived>(),
    PublishedEvent::of::<PostDeleted>(),
];

/// The aggregates that can be republished.
pub const REPUBLISHED: &[Republisher] = &[Republisher::of::<Posts>()];

/// The aggregates whose state `news restored` publishes after a restore of the database. A row that
/// lost versions gets a higher one, and a lost row is published as deleted.
pub const RESTORED: &[Restorer] = &[Restorer::of::<Posts>()];
