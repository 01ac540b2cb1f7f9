//! Use cases: read, decide, write, tell, in one transaction that an edge has opened.

pub mod building;
pub mod claim;
pub mod company;
pub mod developer;
pub mod grid;
pub mod outside_profile;
pub mod project;
pub mod propagation;
pub mod property_object;
