//! Queries, and the views that reads return.

pub mod favorite;
pub mod owner;
pub mod property_object;
mod schema;
pub mod selection;
pub mod snapshot;
