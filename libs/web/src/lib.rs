//! The HTTP server side, the same for every service: listeners, problem details and their
//! localization, the JSON extractor, paging, rate limits, health, metrics, the API page.

mod config;
mod limits;
mod listener;
mod messages;
mod observe;
mod openapi;
mod request;
mod response;
mod server;

pub use config::Config;
pub use limits::byte_budget::response::reserve;
pub use limits::caller::{ClientAddress, KnownCaller};
pub use limits::rate_limit::RateLimit;
pub use listener::{Area, Callers, Listener, Routes};
pub use messages::Messages;
pub use openapi::document::{describe, to_yaml};
pub use openapi::refuses::{Refuses, Refusing};
pub use request::cursor::{CursorPage, CursorPaging, unknown_cursor};
pub use request::fields::Fields;
pub use request::json::{Json, OptionalJson, Raw, decode_part};
pub use request::moment::Moment;
pub use request::paging::{COUNTED, Page, Paging, SortKey, Sorting};
pub use request::path::{EMPTY_ID, PathReference};
pub use request::query::{Both, Check, Filter, FromQuery, Query};
pub use request::query_value::{Limit, Several, date, parsed, time};
pub use request::utc;
pub use request::version::seen_version;
pub use response::cacheable::cacheable;
pub use response::problem::{
    FORBIDDEN, FieldError, METHOD_NOT_ALLOWED, Problem, SERVICE_UNAVAILABLE, UNAUTHORIZED,
};
pub use response::render::ProblemBody;
pub use server::{CONNECTIONS, Server};
