//! Use cases: read, decide, write and publish, in a transaction that an edge opened.

pub mod favorite;
pub mod property_object;
pub mod selection;
pub mod snapshot;
