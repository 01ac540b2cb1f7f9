//! Messenger: chats of deals and of two, and conferences that ring.

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
mod settings;
mod stream;

pub use app::Service;
