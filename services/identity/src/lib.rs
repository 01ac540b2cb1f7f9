//! Identity: companies, the people who work for them, and the roles that become permissions in tokens.

mod app;
mod bootstrap;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod ops;
mod settings;

pub use app::Service;
