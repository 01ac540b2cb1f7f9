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
mod service;
mod settings;

pub use self::service::Service;
