//! Use cases: read, decide, write and publish, in a transaction that an edge opened.

pub mod card;
pub mod collaborator;
pub mod favorite;
pub mod opening;
pub mod property_object;
pub mod selection;
pub mod snapshot;
