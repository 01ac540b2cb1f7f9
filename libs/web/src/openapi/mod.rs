//! The OpenAPI document of a service and the page that shows it.

pub(crate) mod document;
mod idempotency;
pub(crate) mod operations;
pub(crate) mod page;
mod problem_responses;
pub(crate) mod refuses;
mod security;
