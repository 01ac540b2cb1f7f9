//! How a process starts, is observed and stops: typed configuration, logs, traces and metrics,
//! signals, tracked tasks, readiness.

pub mod clock;
mod env;
mod example;
mod process;
pub mod telemetry;

pub use env::{Env, Variable};
pub use example::example_of;
pub use process::{Check, Metrics, Phase, Process};
