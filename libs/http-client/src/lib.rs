//! Calls to other services: a timeout of 5 s per attempt, two retries with jitter, trace context, a
//! machine token, a limit of concurrent calls and a circuit breaker.

mod attempt;
mod breaker;
mod call;
mod client;
mod issuer;
mod plain;
mod token;

pub use call::Call;
pub use client::{CallError, Config, ServiceClient};
pub use issuer::{Discovery, Issuer};
pub use plain::{new_client, trace_headers};
