//! What is wrong with a request, each refusal named by a JSON pointer.

use serde_path_to_error::{Path, Segment};
use values::{Invalid, read_past};

use crate::response::problem::{FieldError, Problem};

/// So many of the values that are wrong with a request are told at once.
pub(crate) const MOST_TOLD: usize = 16;

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

pub(crate) fn refused(field: String, code: &'static str) -> FieldError {
    FieldError { field, invalid: Invalid::new(code) }
}

pub(crate) fn malformed() -> FieldError {
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
