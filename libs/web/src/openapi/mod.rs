//! The OpenAPI document of a service and the page that shows it.

mod caching;
pub(crate) mod declarations;
mod descriptions;
pub(crate) mod document;
mod enums;
pub(crate) mod file_content;
mod idempotency;
mod names;
pub(crate) mod operations;
pub(crate) mod page;
mod problem_responses;
mod schemas;
pub(crate) mod security;
mod whole_responses;
