//! The events that the service publishes.

mod developer;
mod project;
mod property_object;

use messaging::{Aggregate, PublishedEvent, Republisher};

pub use developer::{DeveloperUpserted, Developers};
pub use project::ProjectStatusChanged;
pub use property_object::{PropertyObjectUpserted, PropertyObjects};

const DEVELOPER: Aggregate = Aggregate { name: "Developer", table: "developer", key: "id" };
const PROJECT: Aggregate = Aggregate { name: "Project", table: "project", key: "id" };
const PROPERTY_OBJECT: Aggregate = Aggregate { name: "PropertyObject", table: "property_object", key: "id" };

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<DeveloperUpserted>(),
    PublishedEvent::of::<ProjectStatusChanged>(),
    PublishedEvent::of::<PropertyObjectUpserted>(),
];

/// The aggregates that `chessboard republish` knows.
pub const REPUBLISHED: &[Republisher] =
    &[Republisher::of::<Developers>(), Republisher::of::<PropertyObjects>()];
