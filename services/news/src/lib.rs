//! News: posts made of blocks, with embedded snapshots of selections.

mod app;
mod clients;
mod config;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod jobs;
mod ops;

pub use app::Service;
pub use config::Config;
