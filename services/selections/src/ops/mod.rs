//! Use cases: read, decide, write, tell, in one transaction that an edge has opened.

pub mod favorite;
pub mod property_object;
pub mod selection;
pub mod snapshot;
