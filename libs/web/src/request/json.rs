//! JSON bodies in, with each refusal named by a JSON pointer.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use actix_web::web::{Bytes, BytesMut};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::limits::byte_budget::budget::{BODIES, LARGE, Place, SMALL};
use crate::limits::caller::caller;
use crate::request::diagnosis::{MOST_TOLD, blame, gather, has_lone_surrogate, malformed, refused};
use crate::request::strict::Strict;
use crate::response::problem::{FieldError, Problem};

/// Room for any body but that of a long post.
pub(crate) const DEFAULT_LIMIT: usize = 256 * 1024;
/// A body that has not come after so long comes at this pace at least, so that nobody holds a
/// connection, or room for a large one, by sending slowly.
const READ_PATIENCE: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: u32 = 256 * 1024;

/// A request body of at most `LIMIT` bytes.
///
/// # Errors
/// `415` unless it is sent as JSON, `413` above the limit (by `Content-Length` before anything is
/// read, else as soon as it is passed), `400` when it does not have the members of `T`.
pub struct Json<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

/// The room of a body, until its request has been answered.
struct Body {
    _place: Place<'static>,
}

impl<T: DeserializeOwned + PartialSchema, const LIMIT: usize> FromRequest for Json<T, LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            if !is_json(&request) {
                return Err(Problem::unsupported_media_type());
            }
            decode_whole(&read::<LIMIT>(&request, payload).await?).map(Self)
        })
    }
}

/// A request body as [`Json`], which may also be left out: that is as good as `{}`.
pub struct OptionalJson<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

impl<T: DeserializeOwned + PartialSchema, const LIMIT: usize> FromRequest for OptionalJson<T, LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = read::<LIMIT>(&request, payload).await?;
            match body.trim_ascii() {
                [] => decode_whole(b"{}").map(Self),
                _ if !is_json(&request) => Err(Problem::unsupported_media_type()),
                body => decode_whole(body).map(Self),
            }
        })
    }
}

/// A request body of at most `LIMIT` bytes as it came, whatever it says that it is: for those who sign what they send.
///
/// # Errors
/// `413` above the limit.
pub struct Raw<const LIMIT: usize>(pub Bytes);

impl<const LIMIT: usize> FromRequest for Raw<LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move { Ok(Self(read::<LIMIT>(&request, payload).await?.freeze())) })
    }
}

fn is_json(request: &HttpRequest) -> bool {
    matches!(request.mime_type(), Ok(Some(mime))
        if (mime.subtype() == "json" || mime.suffix().is_some_and(|suffix| suffix == "json"))
            && mime.get_param("charset").is_none_or(|charset| charset == "utf-8"))
        && !request.headers().contains_key(CONTENT_ENCODING)
}

/// The bytes of a body, which has room until its request has been answered.
async fn read<const LIMIT: usize>(request: &HttpRequest, mut payload: Payload) -> Result<BytesMut, Problem> {
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length| length > LIMIT) {
        return Err(Problem::payload_too_large(LIMIT));
    }
    let mut body = BytesMut::new();
    let mut place: Option<Place<'static>> = None;
    let mut deadline = Instant::now() + READ_PATIENCE;
    while let Some(chunk) =
        timeout_at(deadline, payload.next()).await.map_err(|_| Problem::request_timeout())?
    {
        let chunk = chunk.map_err(|_| Problem::validation_failed(vec![malformed()]))?;
        let length = body.len() + chunk.len();
        if length > LIMIT {
            return Err(Problem::payload_too_large(LIMIT));
        }
        if length > LARGE && body.len() <= LARGE {
            let asked = Instant::now();
            // Who waits has a small one.
            drop(place.take());
            place = Some(BODIES.wait(caller(request), BODIES.share()).await?);
            deadline += asked.elapsed();
            body.reserve(announced.unwrap_or(length).saturating_sub(body.len()));
        } else if length > SMALL && length <= LARGE {
            match &mut place {
                Some(place) => place.grow(chunk.len())?,
                None => place = Some(BODIES.take(caller(request), length)?),
            }
        }
        deadline += Duration::from_secs(chunk.len() as u64) / BYTES_PER_SECOND;
        body.extend_from_slice(&chunk);
    }
    if let Some(place) = place {
        request.extensions_mut().insert(Body { _place: place });
    }
    Ok(body)
}

/// Decodes a body. Of its own members those that are missing are all told, too, where serde tells of the first.
fn decode_whole<T: DeserializeOwned + PartialSchema>(body: &[u8]) -> Result<T, Problem> {
    decode(body).map_err(|problem| {
        let told = &problem.details().errors;
        let Ok(members) = serde_json::from_slice::<HashMap<String, Box<RawValue>>>(body) else {
            return problem;
        };
        let RefOr::T(Schema::Object(schema)) = T::schema() else { return problem };
        let missing = schema.required.iter().filter(|name| !members.contains_key(*name));
        let missing = missing.map(|name| refused(format!("/{name}"), "required"));
        let missing: Vec<_> = missing.filter(|error| !told.contains(error)).collect();
        Problem::validation_failed(told.iter().cloned().chain(missing).take(MOST_TOLD).collect())
    })
}

/// Decodes a part of a body that was kept as it came, such as one item of a list; refusals point below
/// `prefix`.
///
/// # Errors
/// `400 VALIDATION_FAILED`
pub fn decode_part<T: DeserializeOwned>(prefix: &str, part: &RawValue) -> Result<T, Vec<FieldError>> {
    decode(part.get().as_bytes()).map_err(|problem| {
        let errors = problem.details().errors.iter().cloned();
        errors.map(|error| FieldError { field: format!("{prefix}{}", error.field), ..error }).collect()
    })
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // Also what no member reads must be text.
    if std::str::from_utf8(body).is_err() || has_lone_surrogate(body) {
        return Err(Problem::validation_failed(vec![malformed()]));
    }
    gather(|| {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = serde_path_to_error::deserialize(Strict(&mut json)).map_err(|error| {
            if error.inner().classify() == Category::Data {
                blame(error.path(), &error.inner().to_string())
            } else {
                malformed()
            }
        })?;
        json.end().map_err(|_| malformed())?;
        Ok(value)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use values::{List, Text};

    use super::decode;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Request {
        #[expect(dead_code, reason = "only decoding is tested")]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Item {
        #[expect(dead_code, reason = "only decoding is tested")]
        sort_order: i32,
    }

    fn refusal(body: &[u8]) -> (String, &'static str) {
        let problem = decode::<Request>(body).unwrap_err();
        (problem.details().errors[0].field.clone(), problem.details().errors[0].invalid.code)
    }

    #[test]
    fn a_refusal_points_at_the_member() {
        assert_eq!(
            refusal(br#"{"Items":[{"SortOrder":1},{"SortOrder":"x"}]}"#),
            ("/Items/1/SortOrder".into(), "invalid_type")
        );
        assert_eq!(refusal(br#"{"Items":[{}]}"#), ("/Items/0/SortOrder".into(), "required"));
        assert_eq!(refusal(b"{}"), ("/Items".into(), "required"));
    }

    /// Conventions: all that is wrong with the values of a request is told at once, each at its place.
    #[test]
    fn every_refused_value_is_told() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only decoding is tested")]
        struct Card {
            name: Text<1, 3>,
            tags: List<Text<1, 2>, 0, 2>,
            kept: Option<Text<1, 3>>,
        }
        let told = |body: &str| {
            let problem = decode::<Card>(body.as_bytes()).unwrap_err();
            let told = problem.details().errors.iter();
            told.map(|error| format!("{} {}", error.field, error.invalid.code)).collect::<Vec<_>>()
        };
        let long = r#"{"name": "", "tags": ["abc", "x", "y"], "kept": "a\u0000"}"#;
        let all = ["/name too_short", "/tags/0 too_long", "/tags too_many", "/kept forbidden_character"];
        assert_eq!(told(long), all);
        assert_eq!(told(r#"{"name": "", "tags": 1}"#), ["/name too_short", "/tags invalid_type"]);
        assert_eq!(told(r#"{"name": "abcd"}"#), ["/name too_long", "/tags required"]);
        let many = format!(r#"{{"name": "a", "tags": [{}]}}"#, ["\"\""; 100].join(","));
        assert_eq!(told(&many).len(), 16, "and no more");
    }

    /// What serde tries and leaves, as a flattened part, is blamed for nothing else.
    #[test]
    fn a_refusal_that_was_read_past_is_not_told_of_another_member() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only decoding is tested")]
        struct Whole {
            #[serde(flatten)]
            part: Option<Part>,
            name: String,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only decoding is tested")]
        struct Part {
            text: Text<1, 3>,
        }
        let problem = decode::<Whole>(br#"{"text": ""}"#).unwrap_err();
        let error = &problem.details().errors[0];
        assert_eq!((error.field.as_str(), error.invalid.code), ("/name", "required"));
        assert_eq!(problem.details().errors.len(), 1);
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        for body in [
            b"".as_slice(),
            b"{",
            b"nope",
            b"{\"Items\":[]} x",
            b"\xff\xfe",
            br#"{"Items":["\ud800"]}"#,
            br#"{"Items":[],"X":"\ud83c"}"#,
            br#"{"Items":[],"X":"\udfe0\ud83c"}"#,
            b"{\"Items\":[],\"X\":\"\xff\"}",
        ] {
            assert_eq!(refusal(body).1, "malformed", "{body:?}");
        }
    }

    #[test]
    fn whole_characters_are_fine_however_they_are_escaped() {
        for text in [r"\ud83c\udfe0", r"\\ud83c", r"\u0041\\", "🏠"] {
            decode::<Request>(format!(r#"{{"Items":[],"X":"{text}"}}"#).as_bytes()).unwrap();
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_followed() {
        let deep = "[".repeat(100_000);
        decode::<serde_json::Value>(deep.as_bytes()).unwrap_err();
        decode::<Request>(format!("{{\"Items\":{deep}").as_bytes()).unwrap_err();
    }
}
