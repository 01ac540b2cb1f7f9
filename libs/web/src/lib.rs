//! The HTTP server side, the same for every service: listeners, problem details and their
//! localization, the JSON extractor, paging, rate limits, health, metrics, the API page.

mod answer;
mod cacheable;
mod config;
mod cursor;
mod document;
mod headers;
mod json;
mod messages;
mod middleware;
mod moment;
mod overload;
mod page;
mod paging;
mod path;
mod problem;
mod query;
mod rate_limit;
mod refusal;
mod room;
mod server;
mod strict;
mod unread;
pub mod utc;

pub use answer::reserve;
pub use cacheable::cacheable;
pub use config::Config;
pub use cursor::{CursorPage, CursorPaging, unknown_cursor};
pub use document::{describe, to_yaml};
pub use json::{Fields, Json, OptionalJson, Raw, decode_part, seen_version};
pub use messages::Messages;
pub use moment::Moment;
pub use paging::{COUNTED, Page, Paging, SortKey, Sorting};
pub use path::{EMPTY_ID, PathReference};
pub use problem::{
    FORBIDDEN, FieldError, METHOD_NOT_ALLOWED, Problem, ProblemBody, SERVICE_UNAVAILABLE, UNAUTHORIZED,
};
pub use query::{Both, Check, Filter, FromQuery, Limit, Query, Several, date, parsed, time};
pub use rate_limit::{ClientAddress, KnownCaller, RateLimit};
pub use refusal::{Refuses, Refusing};
pub use server::{Area, CONNECTIONS, Callers, Listener, Routes, Server};
