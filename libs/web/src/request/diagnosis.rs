//! Errors of request values, each with a JSON pointer.

use std::fmt::Display;

use values::{FieldError, Invalid, collect_errors};

use crate::response::problem::Problem;

/// Reads a request and reports its errors together.
pub(crate) fn read_collecting_errors<T, E>(
    read: impl FnOnce() -> Result<T, E>,
    describe: impl FnOnce(String, E) -> FieldError,
) -> Result<T, Problem> {
    match collect_errors(read, describe) {
        (Some(value), errors) if errors.is_empty() => Ok(value),
        (_, errors) => Err(Problem::validation_failed(errors)),
    }
}

/// Derives the error from serde's message, since serde exposes no error kinds.
///
/// For a missing or duplicate member, the pointer ends at the parent. serde's message has the name.
pub(crate) fn to_field_error(pointer: String, error: impl Display) -> FieldError {
    let message = error.to_string();
    let member = |prefix: &str| {
        let name = message.strip_prefix(prefix)?.split('`').next()?;
        Some(format!("{pointer}/{name}"))
    };
    if let Some(member) = member("missing field `") {
        field_error(member, "required")
    } else if let Some(member) = member("duplicate field `") {
        field_error(member, "duplicate")
    } else if message.starts_with("unknown variant `") {
        field_error(pointer, "unknown_value")
    } else {
        field_error(pointer, "invalid_type")
    }
}

/// Returns true if a `\u` escape is half of a surrogate pair. serde does not check the escapes of
/// ignored members.
pub(crate) fn has_lone_surrogate(body: &[u8]) -> bool {
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

pub(crate) fn field_error(field: String, code: &'static str) -> FieldError {
    FieldError { field, invalid: Invalid::new(code) }
}

pub(crate) fn malformed() -> FieldError {
    field_error(String::new(), "malformed")
}
