//! The events that the service publishes.

mod developer;
mod project;
mod property_object;

use messaging::{PublishedEvent, Republisher, Restorer};

pub use developer::{DeveloperUpserted, Developers};
pub use project::ProjectStatusChanged;
pub use property_object::{PropertyObjectUpserted, PropertyObjects};

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<DeveloperUpserted>(),
    PublishedEvent::of::<ProjectStatusChanged>(),
    PublishedEvent::of::<PropertyObjectUpserted>(),
];

/// The aggregates that `chessboard republish` knows.
pub const REPUBLISHED: &[Republisher] =
    &[Republisher::of::<Developers>(), Republisher::of::<PropertyObjects>()];

/// The aggregates whose lost rows and versions `chessboard restored` publishes after a restore of
/// the database.
pub const RESTORED: &[Restorer] = &[Restorer::of::<Developers>(), Restorer::of::<PropertyObjects>()];
