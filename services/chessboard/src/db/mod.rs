//! The queries and statements of the service.

pub mod ancestors;
pub mod building;
pub mod catalog_building;
pub mod catalog_developer;
pub mod catalog_facets;
pub mod catalog_feed;
pub mod catalog_index;
pub mod catalog_object;
pub mod catalog_project;
pub mod claim;
pub mod company;
pub mod developer;
mod external_id;
pub mod external_profile;
pub mod feed_change;
pub mod feed_import;
pub mod feed_offer;
pub mod log;
pub mod object_history;
pub mod project;
pub mod propagation;
pub mod property_object;
