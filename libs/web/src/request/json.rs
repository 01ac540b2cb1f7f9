//! JSON bodies. Each error in a body has a JSON pointer.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_ENCODING;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};
use values::{FieldError, MAX_ERRORS};

use crate::request::body::read_body;
use crate::request::diagnosis::{
    field_error, has_lone_surrogate, malformed, read_collecting_errors, to_field_error,
};
use crate::request::strict::Strict;
use crate::response::problem::Problem;

/// The default limit of a body in bytes. Only operations with large documents set another limit.
pub(crate) const DEFAULT_LIMIT: usize = 256 * 1024;

/// A JSON body of at most `LIMIT` bytes.
///
/// # Errors
/// `415` for another media type than JSON, `400` when the body does not match `T`.
/// Otherwise as [`RawBody`].
/// A `Content-Length` above the limit is rejected before the body is read.
///
/// [`RawBody`]: crate::RawBody
pub struct Json<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

impl<T: DeserializeOwned + PartialSchema, const LIMIT: usize> FromRequest for Json<T, LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            if !is_json(&request) {
                return Err(Problem::unsupported_media_type());
            }
            decode_body(&read_body::<LIMIT>(&request, payload).await?).map(Self)
        })
    }
}

/// An optional JSON body. A missing body is read as `{}`.
///
/// # Errors
/// As [`Json`].
pub struct OptionalJson<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

impl<T: DeserializeOwned + PartialSchema, const LIMIT: usize> FromRequest for OptionalJson<T, LIMIT> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = read_body::<LIMIT>(&request, payload).await?;
            match body.trim_ascii() {
                [] => decode_body(b"{}").map(Self),
                _ if !is_json(&request) => Err(Problem::unsupported_media_type()),
                body => decode_body(body).map(Self),
            }
        })
    }
}

fn is_json(request: &HttpRequest) -> bool {
    matches!(request.mime_type(), Ok(Some(mime))
        if (mime.subtype() == "json" || mime.suffix().is_some_and(|suffix| suffix == "json"))
            && mime.get_param("charset").is_none_or(|charset| charset == "utf-8"))
        && !request.headers().contains_key(CONTENT_ENCODING)
}

/// Decodes a body and reports every missing top-level member. serde alone stops at the first one.
fn decode_body<T: DeserializeOwned + PartialSchema>(body: &[u8]) -> Result<T, Problem> {
    decode(body).map_err(|problem| {
        let errors = &problem.details().errors;
        let Ok(members) = serde_json::from_slice::<HashMap<String, Box<RawValue>>>(body) else {
            return problem;
        };
        let RefOr::T(Schema::Object(schema)) = T::schema() else { return problem };
        let missing = schema.required.iter().filter(|name| !members.contains_key(*name));
        let missing = missing.map(|name| field_error(format!("/{name}"), "required"));
        let missing: Vec<_> = missing.filter(|error| !errors.contains(error)).collect();
        Problem::validation_failed(errors.iter().cloned().chain(missing).take(MAX_ERRORS).collect())
    })
}

/// Decodes a raw part of a body, such as an item of a list. The pointers of errors begin with
/// `prefix`.
pub fn decode_part<T: DeserializeOwned>(prefix: &str, part: &RawValue) -> Result<T, Vec<FieldError>> {
    decode(part.get().as_bytes()).map_err(|problem| {
        let errors = problem.details().errors.iter().cloned();
        errors.map(|error| FieldError { field: format!("{prefix}{}", error.field), ..error }).collect()
    })
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // serde does not check the text of ignored members.
    if std::str::from_utf8(body).is_err() || has_lone_surrogate(body) {
        return Err(Problem::validation_failed(vec![malformed()]));
    }
    let read = || {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = T::deserialize(Strict(&mut json))?;
        json.end()?;
        Ok(value)
    };
    read_collecting_errors(read, |pointer, error: serde_json::Error| match error.classify() {
        Category::Data => to_field_error(pointer, error),
        _ => malformed(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

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

    fn first_error(body: &[u8]) -> (String, &'static str) {
        let problem = decode::<Request>(body).unwrap_err();
        (problem.details().errors[0].field.clone(), problem.details().errors[0].invalid.code)
    }

    /// RULE-ALL-022: a refused value is reported at its member.
    #[test]
    fn refusal_points_at_the_member() {
        assert_eq!(
            first_error(br#"{"Items":[{"SortOrder":1},{"SortOrder":"x"}]}"#),
            ("/Items/1/SortOrder".into(), "invalid_type")
        );
        assert_eq!(first_error(br#"{"Items":[{}]}"#), ("/Items/0/SortOrder".into(), "required"));
        assert_eq!(first_error(b"{}"), ("/Items".into(), "required"));
    }

    /// RULE-ALL-022: every refused value is reported.
    #[test]
    fn all_refused_values_are_reported() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only decoding is tested")]
        struct Card {
            name: Text<1, 3>,
            tags: List<Text<1, 2>, 0, 2>,
            note: Option<Text<1, 3>>,
        }
        let errors = |body: &str| {
            let problem = decode::<Card>(body.as_bytes()).unwrap_err();
            let errors = problem.details().errors.iter();
            errors.map(|error| format!("{} {}", error.field, error.invalid.code)).collect::<Vec<_>>()
        };
        let long = r#"{"name": "", "tags": ["abc", "x", "y"], "note": "a\u0000"}"#;
        let all = ["/name too_short", "/tags/0 too_long", "/tags too_many", "/note forbidden_character"];
        assert_eq!(errors(long), all);
        assert_eq!(errors(r#"{"name": "", "tags": 1}"#), ["/name too_short", "/tags invalid_type"]);
        assert_eq!(errors(r#"{"name": "abcd"}"#), ["/name too_long", "/tags required"]);
        let many = format!(r#"{{"name": "a", "tags": [{}]}}"#, ["\"\""; 100].join(","));
        assert_eq!(errors(&many).len(), 16, "at most 16 errors");
    }

    /// RULE-ALL-022: serde reads a flattened part without the names of its members, so a refusal in
    /// this part points at the object.
    #[test]
    fn refusal_in_flattened_part_points_at_the_object() {
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
        let problem = decode::<Whole>(br#"{"text": "", "name": "a"}"#).unwrap_err();
        let error = &problem.details().errors[0];
        assert_eq!((error.field.as_str(), error.invalid.code), ("", "too_short"));
    }

    /// RULE-ALL-022: a pointer escapes the names of members. The keys of a map are also checked.
    #[test]
    fn pointer_escapes_names_of_members() {
        let problem = decode::<HashMap<Text<1, 5>, Text<1, 3>>>(br#"{"a~/b": "", "abcdef": "\u0061"}"#);
        let problem = problem.unwrap_err();
        let errors = problem.details().errors.iter().map(|error| (error.field.as_str(), error.invalid.code));
        assert_eq!(errors.collect::<Vec<_>>(), [("/a~0~1b", "too_short"), ("/abcdef", "too_long")]);
    }

    /// RULE-ALL-002: a body that is not JSON is 400.
    #[test]
    fn invalid_json_is_malformed() {
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
            assert_eq!(first_error(body).1, "malformed", "{body:?}");
        }
    }

    /// RULE-ALL-002: escaped characters are accepted unless a surrogate is broken.
    #[test]
    fn escaped_characters_are_accepted() {
        for text in [r"\ud83c\udfe0", r"\\ud83c", r"\u0041\\", "🏠"] {
            decode::<Request>(format!(r#"{{"Items":[],"X":"{text}"}}"#).as_bytes()).unwrap();
        }
    }

    /// RULE-ALL-022: deep nesting is refused and does not overflow the stack.
    #[test]
    fn deep_nesting_is_refused() {
        let deep = "[".repeat(100_000);
        decode::<serde_json::Value>(deep.as_bytes()).unwrap_err();
        decode::<Request>(format!("{{\"Items\":{deep}").as_bytes()).unwrap_err();
    }
}
