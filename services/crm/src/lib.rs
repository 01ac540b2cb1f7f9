//! CRM: deals from application to completion, their board, and the manual override of their status.

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

pub use app::Service;
