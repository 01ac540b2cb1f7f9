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
mod service;
mod settings;

pub use self::service::Service;
