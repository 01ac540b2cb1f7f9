//! What can go wrong with a database, told apart by who should act.

use deadpool::managed::PoolError;
use diesel::result::{ConnectionError, DatabaseErrorKind, Error as DieselError};

/// A failure of the database, never of the caller: absence and conflicts are answers, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, is restarting, has no connection to spare, or chose this transaction as the
    /// victim of a conflict: try again later.
    #[error("the database is away: {0}")]
    Unavailable(String),
    /// The statement failed.
    #[error("the database refused a statement")]
    Query(#[source] DieselError),
}

/// How PostgreSQL, and a pooler before it, say that the same statement may succeed later; diesel does not pass the
/// SQLSTATE on, and the pooler's says nothing.
const NOT_NOW: [&str; 17] = [
    "terminating connection",
    "the database system is",
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "canceling statement due to",
    "deadlock detected",
    "could not extend file",
    "out of memory",
    "out of shared memory",
    // PgBouncer's.
    "bouncer resources exhaustion",
    "client connections exceeded",
    "no more connections allowed",
    "pgbouncer cannot connect to server",
    "query timeout",
    "query_wait_timeout",
    "server conn crashed",
    "server login has been failing",
];

impl From<DieselError> for Error {
    fn from(error: DieselError) -> Self {
        match &error {
            DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, info) => {
                Self::Unavailable(info.message().to_owned())
            }
            DieselError::DatabaseError(DatabaseErrorKind::Unknown, info)
                if NOT_NOW.iter().any(|text| info.message().starts_with(text)) =>
            {
                Self::Unavailable(info.message().to_owned())
            }
            // Between a failover and the connections to the new primary, the old one takes no writes.
            DieselError::DatabaseError(
                DatabaseErrorKind::SerializationFailure | DatabaseErrorKind::ReadOnlyTransaction,
                info,
            ) => Self::Unavailable(info.message().to_owned()),
            DieselError::BrokenTransactionManager => Self::Unavailable("the connection broke".to_owned()),
            _ => Self::Query(error),
        }
    }
}

/// Whether the connection is gone: nothing else can be asked on it.
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
    /// The name of the constraint that a write would have broken, if that is what happened.
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

    fn refused(message: &str) -> Error {
        DieselError::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned())).into()
    }

    #[test]
    fn what_a_server_or_a_pooler_cannot_do_now_may_be_tried_again() {
        for message in [
            "out of memory",
            "query_wait_timeout",
            "no more connections allowed (max_client_conn)",
            "server conn crashed?",
            "server login has been failing, cached error: connect failed (server_login_retry)",
        ] {
            assert!(matches!(refused(message), Error::Unavailable(_)), "{message}");
        }
        assert!(matches!(refused("division by zero"), Error::Query(_)));
    }
}
