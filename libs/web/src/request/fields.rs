//! Members of a request that are checked after it was read.

use values::Invalid;

use crate::request::diagnosis::MOST_TOLD;
use crate::response::problem::{FieldError, Problem};

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
