//! JSON bodies of requests.

use std::sync::LazyLock;

use actix_web::http::header::ContentType;
use actix_web::test::TestRequest;
use actix_web::{FromRequest, ResponseError};
use chessboard::parsers::{ReplaceGrid, UpsertPropertyObject};
use crm::parsers::CreateDeal;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use utoipa::PartialSchema;
use web::{Json, Problem};

/// The extractor of bodies uses timers of this runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

/// Reads a body as the type that the first byte names: blocks (`b`), a deal (`d`), a grid (`g`) or
/// an object (`o`).
///
/// A refusal is the caller's error. An accepted body is also accepted without white space and
/// escapes.
pub fn body(data: &[u8]) {
    match data.split_first() {
        Some((b'b', body)) => check(body, |body| {
            let blocks: Vec<Box<RawValue>> = serde_json::from_slice(body).unwrap_or_default();
            news::parsers::parse_blocks(&blocks)
        }),
        Some((b'd', body)) => check(body, read::<CreateDeal>),
        Some((b'g', body)) => check(body, read::<ReplaceGrid>),
        Some((b'o', body)) => check(body, read::<UpsertPropertyObject>),
        _ => {}
    }
}

fn check<T, E: ResponseError>(body: &[u8], read: impl Fn(&[u8]) -> Result<T, E>) {
    if let Err(refusal) = read(body) {
        assert!(refusal.status_code().is_client_error(), "{refusal}");
        return;
    }
    // A number that no float can represent is accepted in an ignored member.
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return };
    let rewritten = value.to_string();
    assert!(read(rewritten.as_bytes()).is_ok(), "{rewritten}");
}

fn read<T: DeserializeOwned + PartialSchema>(body: &[u8]) -> Result<T, Problem> {
    let request = TestRequest::post().insert_header(ContentType::json()).set_payload(body.to_vec());
    let (request, mut payload) = request.to_http_parts();
    RUNTIME.block_on(Json::<T>::from_request(&request, &mut payload)).map(|Json(value)| value)
}
