//! The HTTP server side, the same for every service: listeners, problem details and their
//! localization, the JSON extractor, paging, rate limits, health, metrics, the API page.

mod answer;
mod config;
mod document;
mod json;
mod messages;
mod middleware;
mod overload;
mod page;
mod paging;
mod problem;
mod query;
mod rate_limit;
mod refusal;
mod room;
mod server;
mod strict;
mod unread;

pub use answer::AnswerRoom;
pub use config::Config;
pub use document::{describe, to_yaml};
pub use json::{Fields, Json, decode_part};
pub use messages::Messages;
pub use paging::{Page, Paging, SortKey};
pub use problem::{FieldError, Problem, ProblemBody};
pub use query::Query;
pub use rate_limit::{ClientAddress, KnownCaller, RateLimit};
pub use refusal::{Refuses, Refusing};
pub use server::{Area, Callers, Listener, Routes, Server};
