//! What this service tells.

mod developer;

use messaging::{Aggregate, Published, Republished};

pub use developer::{DeveloperUpserted, Developers};

const DEVELOPER: Aggregate = Aggregate { name: "Developer", table: "developer", key: "id" };

pub const ALL: &[Published] = &[Published::of::<DeveloperUpserted>()];

/// What can be told anew.
pub const REPUBLISHED: &[Republished] = &[Republished::of::<Developers>()];
