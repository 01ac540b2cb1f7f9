//! Posts of ordered blocks, with embedded snapshots of selections.

mod app;
mod atom;
mod clients;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod jobs;
mod ops;
mod schema;
mod service;
mod settings;

pub use self::service::Service;

/// The parsers of callers' texts, for the fuzz targets in `libs/testing/fuzz-parsers`.
#[doc(hidden)]
pub mod parsers {
    pub use crate::domain::{Rendered, inner_text, render_markdown, sanitize, search_query};
    pub use crate::http::parse_blocks;
}
