//! The service agent: statistics, commissions and payouts of agents.

mod app;
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
