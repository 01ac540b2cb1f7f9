//! Companies, their employees and the roles that become permissions in tokens.

mod app;
mod bootstrap;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod messages;
mod ops;
mod service;
mod settings;

pub use self::service::Service;
