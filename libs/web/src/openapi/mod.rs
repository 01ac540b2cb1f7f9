//! The OpenAPI document of a service and the page that shows it.

pub(crate) mod declarations;
mod descriptions;
pub(crate) mod document;
mod enums;
mod idempotency;
mod names;
pub(crate) mod operations;
pub(crate) mod page;
mod problem_responses;
mod schemas;
pub(crate) mod security;
