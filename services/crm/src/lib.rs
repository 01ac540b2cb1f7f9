//! The service crm: deals from application to completion, their board, and the status override.

mod app;
mod clients;
mod consumers;
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

/// The parsers of bodies, for the fuzz targets in `libs/testing/fuzz-parsers`.
#[doc(hidden)]
pub mod parsers {
    pub use crate::http::CreateDeal;
}
