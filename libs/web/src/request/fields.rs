//! Checks of the members of a request that has been read.

use values::{FieldError, Invalid, MAX_ERRORS};

use crate::response::problem::Problem;

/// Collects the errors of a request's members, so that a response lists them all.
#[derive(Default)]
pub struct Fields(Vec<FieldError>);

impl Fields {
    /// Returns the parsed member, or records its error under the JSON pointer `field`.
    pub fn check<T>(&mut self, field: &str, parsed: Result<T, Invalid>) -> Option<T> {
        parsed.map_err(|invalid| self.0.push(FieldError { field: field.to_owned(), invalid })).ok()
    }

    /// Adds `errors` to the collected errors.
    pub fn refuse(&mut self, errors: Vec<FieldError>) {
        self.0.extend(errors);
    }

    /// Records an error for a range whose end (exclusive) is not after its start (inclusive).
    pub fn check_range<T: PartialOrd>(&mut self, field: &str, from: Option<&T>, to: Option<&T>) {
        let is_empty = from.zip(to).is_some_and(|(from, to)| to <= from);
        self.check(field, if is_empty { Err(Invalid::new("empty_range")) } else { Ok(()) });
    }

    /// Records an error for a range of inclusive bounds whose end is before its start.
    pub fn check_inclusive_range<T: PartialOrd>(&mut self, field: &str, min: Option<&T>, max: Option<&T>) {
        let is_empty = min.zip(max).is_some_and(|(min, max)| max < min);
        self.check(field, if is_empty { Err(Invalid::new("empty_range")) } else { Ok(()) });
    }

    /// Returns `value` if no error was recorded.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` with up to 16 errors.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => {
                let mut errors = self.0;
                errors.truncate(MAX_ERRORS);
                Err(Problem::validation_failed(errors))
            }
        }
    }
}
