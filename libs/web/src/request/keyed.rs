//! Requests with `Idempotency-Key`, which their callers may repeat.

use actix_web::http::header::HeaderValue;
use actix_web::{HttpMessage, HttpRequest};
use twox_hash::XxHash3_128;
use values::{FieldError, Invalid};

use crate::limits::caller::AuthenticatedCaller;
use crate::response::problem::Problem;

/// The header of draft-ietf-httpapi-idempotency-key-header.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The name of the header in documents and in problems.
pub(crate) const IDEMPOTENCY_KEY_NAME: &str = "Idempotency-Key";

const MAX_KEY_LENGTH: usize = 255;

/// The hash of the body of a request with a key, which [`store_body_hash`] stores.
#[derive(Clone, Copy)]
struct BodyHash(u128);

/// A user's request with an `Idempotency-Key`.
pub struct KeyedRequest {
    /// The id of the user. Two users may use the same key.
    pub actor: String,
    pub key: String,
    request: HttpRequest,
}

impl KeyedRequest {
    /// Returns `None` if the request has no key or no authenticated caller.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` at `/Idempotency-Key` if the key is invalid.
    pub fn of(request: &HttpRequest) -> Result<Option<Self>, Problem> {
        let mut values = request.headers().get_all(IDEMPOTENCY_KEY);
        let Some(value) = values.next() else { return Ok(None) };
        let key = if values.next().is_some() { Err(Invalid::new("duplicate")) } else { parse(value) };
        let key = key.map_err(|invalid| {
            let field = format!("/{IDEMPOTENCY_KEY_NAME}");
            Problem::validation_failed(vec![FieldError { field, invalid }])
        })?;
        let extensions = request.extensions();
        let caller: Option<&AuthenticatedCaller> = extensions.get();
        Ok(caller.map(|AuthenticatedCaller(id)| Self { actor: id.clone(), key, request: request.clone() }))
    }

    /// Returns a hash of method, path, query and body, which distinguishes the requests of a user.
    ///
    /// Call this method after the extractors, because one of them reads the body. The hash need not
    /// resist attacks: a user with two requests of equal hashes only gets their own first response.
    pub fn fingerprint(&self) -> [u8; 16] {
        let body = self.request.extensions().get().map_or(0, |BodyHash(hash)| *hash);
        let parts = format!("{} {} {body:x}", self.request.method(), self.request.uri());
        XxHash3_128::oneshot(parts.as_bytes()).to_be_bytes()
    }
}

/// Stores the hash of the body in a request with a key.
pub(super) fn store_body_hash(request: &HttpRequest, body: &[u8]) {
    if request.headers().contains_key(IDEMPOTENCY_KEY) {
        request.extensions_mut().insert(BodyHash(XxHash3_128::oneshot(body)));
    }
}

/// Parses a key of visible ASCII characters, either plain or as a string of RFC 9651 in quotes.
fn parse(value: &HeaderValue) -> Result<String, Invalid> {
    let forbidden = || Invalid::new("forbidden_character");
    let text = value.to_str().map_err(|_| forbidden())?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted).ok_or_else(forbidden)?,
        None => text.to_owned(),
    };
    match key.len() {
        0 => Err(Invalid::new("too_short").with("min", 1)),
        length if length > MAX_KEY_LENGTH => Err(Invalid::new("too_long").with("max", MAX_KEY_LENGTH)),
        _ if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(key),
        _ => Err(forbidden()),
    }
}

/// Removes the closing quote and the escapes of a quoted text. Returns `None` unless the only
/// unescaped quote is the last character.
fn unquote(quoted: &str) -> Option<String> {
    let mut characters = quoted.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '"' => return None,
            '\\' => characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?,
            other => other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::parse;

    fn read(value: &str) -> Result<String, &'static str> {
        parse(&HeaderValue::from_bytes(value.as_bytes()).unwrap()).map_err(|invalid| invalid.code)
    }

    /// RULE-ALL-083: the plain form and the string of RFC 9651 name the same key.
    #[test]
    fn plain_and_quoted_key_are_equal() {
        for value in ["8e03978e-40d5", "\"8e03978e-40d5\"", "  \"8e03978e-40d5\" "] {
            assert_eq!(read(value).as_deref(), Ok("8e03978e-40d5"), "{value}");
        }
        assert_eq!(read(r#""a\"b\\c""#).as_deref(), Ok(r#"a"b\c"#));
        assert_eq!(read(&"k".repeat(255)).as_deref(), Ok(&*"k".repeat(255)));
    }

    /// RULE-ALL-083: a key has 1 to 255 visible ASCII characters.
    #[test]
    fn invalid_key_is_refused() {
        for (value, code) in [
            ("", "too_short"),
            ("\"\"", "too_short"),
            (&*"k".repeat(256), "too_long"),
            ("a b", "forbidden_character"),
            ("ключ", "forbidden_character"),
            ("\"open", "forbidden_character"),
            ("\"", "forbidden_character"),
            (r#""a"b""#, "forbidden_character"),
            (r#""a\""#, "forbidden_character"),
            (r#""a\x""#, "forbidden_character"),
            (r#""a";b=1"#, "forbidden_character"),
        ] {
            assert_eq!(read(value), Err(code), "{value}");
        }
    }
}
