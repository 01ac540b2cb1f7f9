//! Errors of the database.

use deadpool::managed::PoolError;
use diesel::result::{ConnectionError, DatabaseErrorKind, Error as DieselError};

/// A failure of the database. Queries turn an absent row into `None`, not into an error.
///
/// The text contains the cause, since most log lines print no sources of an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be reached, is restarting, has no free connection, or cancelled the
    /// transaction because of a conflict. A retry may succeed.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The response to a `COMMIT` was lost, so the transaction may be committed or rolled back. A
    /// retry must first read the outcome.
    #[error("the outcome of a commit is unknown: {0}")]
    OutcomeUnknown(String),
    /// The statement failed.
    #[error("the database rejected a statement: {0}")]
    Query(DieselError),
}

/// Prefixes of the messages of PostgreSQL and PgBouncer after which a retry may succeed.
///
/// The messages are compared because Diesel does not expose the SQLSTATE, as proposed in
/// <https://github.com/diesel-rs/diesel/pull/5232>. PgBouncer's messages would still be needed,
/// since its SQLSTATE is too general.
const TRANSIENT_MESSAGES: [&str; 17] = [
    "terminating connection",
    "the database system is",
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "canceling statement due to",
    "deadlock detected",
    "could not extend file",
    "out of memory",
    "out of shared memory",
    // The messages of PgBouncer.
    "bouncer resources exhaustion",
    "client connections exceeded",
    "no more connections allowed",
    "pgbouncer cannot connect to server",
    "query timeout",
    "query_wait_timeout",
    "server conn crashed",
    "server login has been failing",
];

/// Prefixes of the messages of PgBouncer after it has lost the response of PostgreSQL.
const LOST_RESPONSE_MESSAGES: [&str; 2] = ["query timeout", "server conn crashed"];

/// The message of PostgreSQL for a statement that took too long.
const STATEMENT_TIMEOUT: &str = "canceling statement due to statement timeout";

impl Error {
    /// Returns true if PostgreSQL cancelled a statement because it took too long. A wait for one
    /// lock ends earlier, with another error.
    pub fn is_statement_timeout(&self) -> bool {
        matches!(self, Self::Unavailable(reason) if reason.starts_with(STATEMENT_TIMEOUT))
    }

    /// Returns the error of a failed `COMMIT`. Only an error of PostgreSQL shows that the
    /// transaction is rolled back.
    pub(crate) fn from_failed_commit(error: DieselError) -> Self {
        let lost = match &error {
            DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, info) => Some(info.message()),
            DieselError::DatabaseError(DatabaseErrorKind::Unknown, info) => {
                let message = info.message();
                LOST_RESPONSE_MESSAGES.iter().any(|text| message.starts_with(text)).then_some(message)
            }
            _ => None,
        };
        match lost {
            Some(reason) => Self::OutcomeUnknown(reason.to_owned()),
            None => error.into(),
        }
    }
}

impl From<DieselError> for Error {
    fn from(error: DieselError) -> Self {
        match &error {
            DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, info) => {
                Self::Unavailable(info.message().to_owned())
            }
            DieselError::DatabaseError(DatabaseErrorKind::Unknown, info)
                if TRANSIENT_MESSAGES.iter().any(|text| info.message().starts_with(text)) =>
            {
                Self::Unavailable(info.message().to_owned())
            }
            // During a failover connections still lead to the old primary, which is read-only.
            DieselError::DatabaseError(
                DatabaseErrorKind::SerializationFailure | DatabaseErrorKind::ReadOnlyTransaction,
                info,
            ) => Self::Unavailable(info.message().to_owned()),
            DieselError::BrokenTransactionManager => Self::Unavailable("the connection broke".to_owned()),
            _ => Self::Query(error),
        }
    }
}

/// Returns true if the connection is lost, so that no other statement can succeed on it.
pub(crate) fn is_broken(error: &DieselError) -> bool {
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, _) => true,
        DieselError::DatabaseError(_, info) => info.message().starts_with("terminating connection"),
        _ => false,
    }
}

impl From<PoolError<ConnectionError>> for Error {
    fn from(error: PoolError<ConnectionError>) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Error {
    /// Returns the name of the constraint that the statement violated, if there is one.
    pub fn violated_constraint(&self) -> Option<&str> {
        match self {
            Self::Query(DieselError::DatabaseError(_, info)) => info.constraint_name(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use diesel::result::{DatabaseErrorKind, Error as DieselError};

    use super::Error;

    fn error(message: &str) -> Error {
        DieselError::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned())).into()
    }

    /// RULE-ALL-034: callers may retry after a temporary failure of server or pooler.
    #[test]
    fn temporary_failure_of_server_or_pooler_is_unavailable() {
        for message in [
            "out of memory",
            "query_wait_timeout",
            "no more connections allowed (max_client_conn)",
            "server conn crashed?",
            "server login has been failing, cached error: connect failed (server_login_retry)",
        ] {
            assert!(matches!(error(message), Error::Unavailable(_)), "{message}");
        }
        assert!(matches!(error("division by zero"), Error::Query(_)));
    }

    /// RULE-ALL-080: only an error of PostgreSQL shows that a commit has failed.
    #[test]
    fn commit_without_response_of_server_has_unknown_outcome() {
        let commit_error = |kind, message: &str| {
            Error::from_failed_commit(DieselError::DatabaseError(kind, Box::new(message.to_owned())))
        };
        for (kind, message) in [
            (DatabaseErrorKind::UnableToSendCommand, "no response in time"),
            (DatabaseErrorKind::UnableToSendCommand, "connection closed"),
            (DatabaseErrorKind::Unknown, "server conn crashed?"),
            (DatabaseErrorKind::Unknown, "query timeout"),
        ] {
            assert!(matches!(commit_error(kind, message), Error::OutcomeUnknown(_)), "{message}");
        }
        let failover = "terminating connection due to administrator command";
        assert!(matches!(commit_error(DatabaseErrorKind::Unknown, failover), Error::Unavailable(_)));
        assert!(matches!(commit_error(DatabaseErrorKind::CheckViolation, "refused"), Error::Query(_)));
    }

    #[test]
    fn text_of_rejected_statement_has_its_cause() {
        let text = error("division by zero").to_string();
        assert_eq!(text, "the database rejected a statement: division by zero");
    }
}
