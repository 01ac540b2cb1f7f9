//! News: posts made of blocks, with embedded snapshots of selections.

mod app;
mod clients;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod jobs;
mod ops;
mod settings;

pub use app::Service;
