//! Queries, and the views that reads return.

pub mod added_object;
pub mod collaborator;
pub mod favorite;
pub mod opening;
pub mod owner;
pub mod property_object;
pub mod selection;
pub mod snapshot;
