//! Errors of request values, each with a JSON pointer.

use serde_path_to_error::{Path, Segment};
use values::{Invalid, read_ignoring_errors};

use crate::response::problem::{FieldError, Problem};

/// The maximum number of errors in a response.
pub(crate) const MAX_ERRORS: usize = 16;

/// Reads a request and reports up to [`MAX_ERRORS`] invalid values. serde alone stops at the first.
pub(crate) fn read_collecting_errors<T>(read: impl FnMut() -> Result<T, FieldError>) -> Result<T, Problem> {
    match collect_errors(read) {
        (Some(value), errors) if errors.is_empty() => Ok(value),
        (_, errors) => Err(Problem::validation_failed(errors)),
    }
}

/// Reads a request like [`read_collecting_errors`], and returns the value even if there are errors.
///
/// The value has placeholders instead of refused values.
pub(crate) fn collect_errors<T>(
    mut read: impl FnMut() -> Result<T, FieldError>,
) -> (Option<T>, Vec<FieldError>) {
    let mut errors = Vec::new();
    loop {
        match read_ignoring_errors(errors.len(), &mut read) {
            (Ok(value), _) => return (Some(value), errors),
            (Err(FieldError { field, invalid }), refused) => {
                // serde discards the refusal in an optional flattened part, and continues. The
                // returned error then has another cause.
                let refused = refused.filter(|_| invalid.code == "invalid_type");
                // Only a refused value has a placeholder. After any other error, reading stops.
                let is_last = refused.is_none() || errors.len() + 1 == MAX_ERRORS;
                errors.push(FieldError { field, invalid: refused.unwrap_or(invalid) });
                if is_last {
                    return (None, errors);
                }
            }
        }
    }
}

/// Derives the error from serde's message, since serde exposes no error kinds.
///
/// For a missing or duplicate member, the path ends at the parent and the message has the name.
pub(crate) fn to_field_error(path: &Path, message: &str) -> FieldError {
    let pointer = json_pointer(path);
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

/// Returns true if a `\u` escape is half of a surrogate pair. serde does not check ignored members.
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

fn json_pointer(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => String::new(),
        })
        .collect()
}
