//! The service chessboard: developers' profiles, projects, buildings and grids of property objects.

mod app;
mod catalog_index;
mod consumers;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod jobs;
mod metrics;
mod ops;
mod public_feed;
mod service;
mod settings;

pub use self::service::Service;
