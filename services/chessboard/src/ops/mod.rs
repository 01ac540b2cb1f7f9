//! Use cases. Each one reads, decides, writes and publishes in a transaction that an edge opened.

pub mod building;
pub mod claim;
pub mod company;
pub mod company_lock;
pub mod developer;
mod developer_store;
pub mod external_profile;
pub mod feed_import;
pub mod grid;
pub mod object_upsert;
pub mod project;
pub mod propagation;
pub mod property_object;
