//! The messenger service: chats of deals, Direct chats and conferences.

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
mod stream;

pub use self::service::Service;
