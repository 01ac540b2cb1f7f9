//! The error of use cases, common to all services.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use messaging::Failure;
use values::Code;
use web::Problem;

/// A refusal by a rule, or a failure of the database.
///
/// A response reports the error as a problem. A consumer retries after a transient error, and
/// dead-letters the message after any other.
#[derive(Debug)]
pub enum Error {
    Refused(Problem),
    Database(db::Error),
}

impl Error {
    /// Returns true if this is the refusal `code`.
    pub fn is(&self, code: Code) -> bool {
        matches!(self, Self::Refused(problem) if problem.code() == code)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => {
                problem.fmt(f)?;
                problem.cause().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self::Refused(code.into())
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<db::Error> for Error {
    fn from(error: db::Error) -> Self {
        Self::Database(error)
    }
}

impl From<diesel::result::Error> for Error {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Refused(problem) => problem.clone(),
            Error::Database(db::Error::Unavailable(cause)) => Self::unavailable(cause),
            Error::Database(db::Error::OutcomeUnknown(cause)) => Self::outcome_unknown(cause),
            Error::Database(error @ db::Error::Query(_)) => Self::internal(error),
        }
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        Problem::from(self).status_code()
    }

    fn error_response(&self) -> HttpResponse {
        Problem::from(self).error_response()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::Database(error) => error.into(),
            Error::Refused(problem) if problem.code().is_transient() => Self::Transient(reason),
            Error::Refused(_) => Self::Rejected(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use messaging::Failure;
    use values::Code;
    use web::Problem;

    use super::Error;

    /// RULE-ALL-040: a consumer retries after a transient error, and dead-letters a message that a
    /// rule refuses.
    #[test]
    fn conflict_is_transient_and_refusal_is_not() {
        let failure = |code: Code| Failure::from(Error::from(code));
        let unavailable = Problem::from(Code::new(503, "UNAVAILABLE")).caused_by(&"no response");
        let text = Error::from(unavailable).to_string();
        assert_eq!(text, "503 UNAVAILABLE: no response", "the log has the cause");
        assert!(matches!(failure(Code::conflict("CHANGED")), Failure::Transient(_)));
        assert!(matches!(failure(Code::new(503, "UNAVAILABLE")), Failure::Transient(_)));
        assert!(matches!(failure(Code::new(409, "TAKEN")), Failure::Rejected(_)));
    }
}
