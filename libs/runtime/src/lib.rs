//! The lifecycle of a process: typed configuration, logs, traces, metrics, tracked tasks, readiness
//! and a graceful shutdown.

pub mod clock;
mod description;
mod env;
mod example;
mod metrics_age;
mod process;
pub mod telemetry;
#[doc(hidden)]
pub mod trace_context;

pub use description::description_of;
pub use env::{Env, Variable};
pub use example::example_of;
pub use metrics_age::MetricsAge;
pub use process::{Metrics, Phase, Process, ReadinessCheck};
