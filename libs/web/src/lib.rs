//! The HTTP server side, the same for every service: listeners, problem details and their
//! localization, the JSON extractor, paging, rate limits, health, metrics, the API page.

mod config;
mod json;
mod messages;
mod middleware;
mod page;
mod paging;
mod problem;
mod query;
mod rate_limit;
mod room;
mod server;
mod strict;
mod unread;

pub use config::Config;
pub use json::{Fields, Json, decode_part};
pub use messages::Messages;
pub use paging::{Page, Paging, SortKey};
pub use problem::{FieldError, Problem, ProblemBody, Problems};
pub use query::Query;
pub use rate_limit::{ClientAddress, KnownCaller, RateLimit};
pub use server::{Area, Listener, Routes, Server, describe, to_yaml};
