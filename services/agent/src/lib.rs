//! Agent: what agents do and earn. Statistics of their deals, the ledger of their commissions, and payouts.

mod app;
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
