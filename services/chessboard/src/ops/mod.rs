//! Use cases.

pub mod company;
pub mod developer;
pub mod outside_profile;
