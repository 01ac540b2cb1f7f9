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
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};
use tokio::time::{Instant, timeout_at};
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};
use values::{Invalid, Number, read_number, read_past};

use crate::rate_limit::caller;
use crate::room::{BODIES, LARGE, Place, SMALL};
use crate::strict::Strict;
use crate::{FieldError, Problem};

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

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
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

/// So many of the values that are wrong with a request are told at once.
const MOST_TOLD: usize = 16;

/// Reads a request, past what is wrong with its values, until all of it is known.
pub(crate) fn gather<T>(read: impl FnMut() -> Result<T, FieldError>) -> Result<T, Problem> {
    match gather_all(read) {
        (Some(value), errors) if errors.is_empty() => Ok(value),
        (_, errors) => Err(Problem::validation_failed(errors)),
    }
}

/// The same, and what was read all the same: where a value was refused it has none, or one that means nothing.
pub(crate) fn gather_all<T>(mut read: impl FnMut() -> Result<T, FieldError>) -> (Option<T>, Vec<FieldError>) {
    let mut errors = Vec::new();
    loop {
        match read_past(errors.len(), &mut read) {
            (Ok(value), _) => return (Some(value), errors),
            (Err(FieldError { field, invalid }), refused) => {
                // What serde has read past by itself (a flattened part, say) is not what this error is of.
                let refused = refused.filter(|_| invalid.code == "invalid_type");
                // What is no value at all cannot be read past.
                let is_last = refused.is_none() || errors.len() + 1 == MOST_TOLD;
                errors.push(FieldError { field, invalid: refused.unwrap_or(invalid) });
                if is_last {
                    return (None, errors);
                }
            }
        }
    }
}

/// serde tells what is wrong by its text alone; of an absent or repeated member the path ends above it.
pub(crate) fn blame(path: &Path, message: &str) -> FieldError {
    let pointer = pointer(path);
    let member = |prefix: &str| {
        let name = message.strip_prefix(prefix)?.split('`').next()?;
        Some(format!("{pointer}/{name}"))
    };
    if let Some(member) = member("missing field `") {
        refused(member, "required")
    } else if let Some(member) = member("duplicate field `") {
        refused(member, "duplicate")
    } else if message.starts_with("unknown variant `") {
        refused(pointer, "unknown_value")
    } else {
        refused(pointer, "invalid_type")
    }
}

/// Whether some `\u` escape is half of a character. In what is ignored serde does not look.
fn has_lone_surrogate(body: &[u8]) -> bool {
    let unit = |at: usize| {
        let digits = body.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &body[at..]) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => return true,
            _ => 2,
        };
        if at >= body.len() {
            break;
        }
    }
    false
}

fn refused(field: String, code: &'static str) -> FieldError {
    FieldError { field, invalid: Invalid::new(code) }
}

fn malformed() -> FieldError {
    refused(String::new(), "malformed")
}

fn pointer(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => String::new(),
        })
        .collect()
}

/// Gathers what is wrong with the members of a request, so that all of it is told at once.
#[derive(Default)]
pub struct Fields(Vec<FieldError>);

impl Fields {
    /// The parsed member, or `None` with its refusal remembered under the JSON pointer `field`.
    pub fn check<T>(&mut self, field: &str, parsed: Result<T, Invalid>) -> Option<T> {
        parsed.map_err(|invalid| self.0.push(FieldError { field: field.to_owned(), invalid })).ok()
    }

    /// Adds refusals that were found elsewhere.
    pub fn refuse(&mut self, errors: Vec<FieldError>) {
        self.0.extend(errors);
    }

    /// Refuses a range whose end (exclusive) is not after its start (inclusive).
    pub fn range<T: PartialOrd>(&mut self, field: &str, from: Option<&T>, to: Option<&T>) {
        let is_empty = from.zip(to).is_some_and(|(from, to)| to <= from);
        self.check(field, if is_empty { Err(Invalid::new("empty_range")) } else { Ok(()) });
    }

    /// Refuses a range of inclusive bounds whose end is before its start.
    pub fn span<T: PartialOrd>(&mut self, field: &str, min: Option<&T>, max: Option<&T>) {
        let is_empty = min.zip(max).is_some_and(|(min, max)| max < min);
        self.check(field, if is_empty { Err(Invalid::new("empty_range")) } else { Ok(()) });
    }

    /// # Errors
    /// `400 VALIDATION_FAILED` when anything was refused.
    pub fn finish<T>(self, command: Option<T>) -> Result<T, Problem> {
        match command {
            Some(command) if self.0.is_empty() => Ok(command),
            _ => {
                let mut told = self.0;
                told.truncate(MOST_TOLD);
                Err(Problem::validation_failed(told))
            }
        }
    }
}

/// Reads a version that a caller has seen, of a member that may be left out; any number of 64 bits may be one. What is none is
/// refused as a value is, so that it hides nothing else that is wrong.
///
/// # Errors
/// Those of the reading.
pub fn seen_version<'de, D: Deserializer<'de>>(version: D) -> Result<Option<i64>, D::Error> {
    struct Version(i64);

    impl<'de> Deserialize<'de> for Version {
        fn deserialize<D: Deserializer<'de>>(version: D) -> Result<Self, D::Error> {
            let parse = |number| match number {
                Number::Whole(number) => Ok(Self(number)),
                Number::Fraction(_) => Err(Invalid::new("invalid_type")),
            };
            read_number(version, parse, || Self(0))
        }
    }

    let version: Option<Version> = Option::deserialize(version)?;
    Ok(version.map(|Version(number)| number))
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

    /// What is no version is told of beside what follows on it.
    #[test]
    fn a_version_that_is_none_hides_nothing_else() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Seen {
            #[serde(default, deserialize_with = "super::seen_version")]
            version: Option<i64>,
            #[expect(dead_code, reason = "only decoding is tested")]
            name: Text<1, 3>,
        }
        for version in ["\"x\"", "1.5", "true", "[1]", "9223372036854775808"] {
            let problem =
                decode::<Seen>(format!(r#"{{"Version": {version}, "Name": ""}}"#).as_bytes()).unwrap_err();
            let told: Vec<_> =
                problem.details().errors.iter().map(|error| (&*error.field, error.invalid.code)).collect();
            assert_eq!(told, [("/Version", "invalid_type"), ("/Name", "too_short")], "{version}");
        }
        let seen = |body: &str| decode::<Seen>(body.as_bytes()).unwrap().version;
        assert_eq!(seen(r#"{"Name": "a"}"#), None);
        assert_eq!(seen(r#"{"Version": null, "Name": "a"}"#), None);
        assert_eq!(seen(r#"{"Version": -9223372036854775808, "Name": "a"}"#), Some(i64::MIN));
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
