//! Companies, their employees and the roles that become permissions in tokens.

mod app;
mod bootstrap;
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
mod update_clients;

pub use self::service::Service;
