//! Responses: problems and their rendering, caching, and the headers of every response.

pub(crate) mod cacheable;
pub(crate) mod headers;
pub(crate) mod holding_body;
pub(crate) mod problem;
pub(crate) mod refusal;
pub(crate) mod render;
pub(crate) mod static_file;
