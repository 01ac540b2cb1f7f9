//! The HTTP server of every service: listeners, extractors, problems, limits and OpenAPI documents.

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
pub use limits::caller::{AuthenticatedCaller, ClientAddress};
pub use limits::rate_limit::RateLimit;
pub use limits::shares::Shares;
pub use listener::{Callers, Listener, Routes, ServiceInfo};
pub use messages::Messages;
pub use openapi::declarations::{OperationExt, Requirement, WithCallers, WithRefusals};
pub use openapi::document::{describe, to_yaml};
pub use openapi::file_content::FileContent;
pub use openapi::security::add_sign_in;
pub use request::body::{BodyStream, RawBody};
pub use request::cursor::{CursorPage, CursorPaging, unknown_cursor};
pub use request::fields::Fields;
pub use request::json::{Json, OptionalJson, decode_part};
pub use request::keyed::KeyedRequest;
pub use request::paging::{MAX_TOTAL_COUNT, Page, Paging, SortKey, Sorting};
pub use request::path::{EMPTY_ID, PathReference};
pub use request::query::{Both, Check, CheckedQuery, FromQuery, Query};
pub use request::query_value::{CommaSeparated, Limit, read_date, read_from_str, read_time};
pub use request::utc;
pub use request::version::read_version;
pub use response::cacheable::{accepts, cacheable, is_cached_by_caller};
pub use response::problem::{
    FORBIDDEN, IDEMPOTENCY_KEY_IN_USE, IDEMPOTENCY_KEY_REUSED, METHOD_NOT_ALLOWED, OUTCOME_UNKNOWN, Problem,
    SERVICE_UNAVAILABLE, UNAUTHORIZED,
};
pub use response::render::ProblemBody;
pub use response::static_file::StaticFile;
pub use server::{DEFAULT_MAX_CONNECTIONS, Server};
pub use values::FieldError;
