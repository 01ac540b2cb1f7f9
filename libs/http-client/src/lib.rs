//! Calls to other services. A call has a timeout of 5 s per attempt, two retries with jitter, the
//! trace context and a machine token. Calls to one service share a limit of concurrency and a
//! circuit breaker.

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
pub use reqwest::{Method, StatusCode};
