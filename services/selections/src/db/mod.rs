//! Queries, and the shapes that reads answer with.

pub mod favorite;
pub mod owner;
pub mod property_object;
mod schema;
pub mod selection;
pub mod snapshot;
