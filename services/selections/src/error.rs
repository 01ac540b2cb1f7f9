//! What can go wrong in selections, and what the caller is told.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use values::Invalid;
use web::Problem;

use crate::domain::{ItemsError, MAX_FAVORITES, MAX_ITEMS, MAX_SELECTIONS, SourceError};

/// Every failure of the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing, deleted, or not the caller's: the same to them (INV-SEL-002).
    #[error("selection not found")]
    NotFound,
    #[error("snapshot not found")]
    SnapshotNotFound,
    /// The losing side of a race, or a version that is no longer the current one.
    #[error("the selection has changed meanwhile")]
    Conflict,
    /// INV-SEL-003 or INV-SEL-004
    #[error(transparent)]
    Items(#[from] ItemsError),
    /// INV-SEL-007
    #[error("the owner has {MAX_SELECTIONS} selections")]
    LimitExceeded,
    #[error("there are no favorites")]
    FavoritesEmpty,
    #[error("the owner has {MAX_FAVORITES} favorites")]
    FavoritesLimitExceeded,
    /// INV-SNP-002
    #[error("no snapshot can be taken: {0:?}")]
    Source(SourceError),
    /// INV-SEL-005: every code that was tried is taken.
    #[error("no free public code was found")]
    CodeUnavailable,
    #[error(transparent)]
    Database(#[from] ::db::Error),
    /// What the HTTP edge has found.
    #[error("{0}")]
    Request(Problem),
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Request(problem)
    }
}

impl From<diesel::result::Error> for Error {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.problem()
    }
}

impl Error {
    fn problem(&self) -> Problem {
        use StatusCode as S;
        match self {
            Self::NotFound => Problem::new(S::NOT_FOUND, "SELECTIONS_NOT_FOUND"),
            Self::SnapshotNotFound => Problem::new(S::NOT_FOUND, "SELECTIONS_SNAPSHOT_NOT_FOUND"),
            Self::Conflict => Problem::new(S::CONFLICT, "SELECTIONS_CONCURRENCY_CONFLICT"),
            Self::Items(ItemsError::TooMany) => {
                Problem::new(S::BAD_REQUEST, "SELECTIONS_ITEMS_LIMIT_EXCEEDED")
                    .arg("limit", MAX_ITEMS.into())
                    .field("/Items".to_owned(), Invalid::new("too_many").with("max", MAX_ITEMS.into()))
            }
            Self::Items(ItemsError::Duplicate(second)) => {
                Problem::new(S::BAD_REQUEST, "SELECTIONS_DUPLICATE_ITEM")
                    .field(format!("/Items/{second}/PropertyObjectId"), Invalid::new("duplicate"))
            }
            Self::LimitExceeded => {
                Problem::new(S::CONFLICT, "SELECTIONS_LIMIT_EXCEEDED").arg("limit", MAX_SELECTIONS.into())
            }
            Self::FavoritesEmpty => Problem::new(S::BAD_REQUEST, "SELECTIONS_FAVORITES_EMPTY"),
            Self::FavoritesLimitExceeded => Problem::new(S::CONFLICT, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED")
                .arg("limit", MAX_FAVORITES.into()),
            Self::Source(SourceError::Deleted) => Problem::new(S::BAD_REQUEST, "SELECTIONS_SOURCE_DELETED"),
            Self::Source(SourceError::Empty) => Problem::new(S::BAD_REQUEST, "SELECTIONS_SOURCE_EMPTY"),
            Self::CodeUnavailable => Problem::new(S::SERVICE_UNAVAILABLE, "SELECTIONS_CODE_UNAVAILABLE")
                .retry_after(std::time::Duration::from_secs(1)),
            Self::Database(::db::Error::Unavailable(cause)) => Problem::unavailable(cause),
            Self::Database(error @ ::db::Error::Query(_)) => Problem::internal(error),
            Self::Request(problem) => problem.clone(),
        }
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        self.problem().status_code()
    }

    fn error_response(&self) -> HttpResponse {
        self.problem().error_response()
    }
}

impl From<Error> for messaging::Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Database(error) => error.into(),
            refused => Self::Rejected(refused.to_string()),
        }
    }
}
