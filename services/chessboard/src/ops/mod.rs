//! Use cases. Each one reads, decides, writes and publishes in a transaction that an edge opened.

pub mod building;
pub mod claim;
pub mod company;
pub mod developer;
pub mod external_profile;
pub mod grid;
pub mod project;
pub mod propagation;
pub mod property_object;
