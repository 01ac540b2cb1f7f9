//! Chessboard: developers' profiles, their projects and buildings, and the grid of flats that guests see.

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
mod waiting;

pub use app::Service;
