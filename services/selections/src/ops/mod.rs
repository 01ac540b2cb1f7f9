//! Use cases: read, decide, write and publish, in a transaction that an edge opened.
//!
//! Two modules are no use cases: `card` caches cards, and `opening` counts openings in memory.

pub mod card;
pub mod collaborator;
pub mod favorite;
pub mod opening;
pub mod property_object;
pub mod selection;
pub mod snapshot;
