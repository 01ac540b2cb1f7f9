//! What can go wrong in news, and what the caller is told.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use values::Invalid;
use web::Problem;

use crate::domain::{MAX_BLOCKS, PostError, SnapshotId};

/// Every failure of the service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing, deleted, or not to be seen by the caller.
    #[error("post not found")]
    PostNotFound,
    /// INV-NWS-007
    #[error("the post is not the caller's to change")]
    Forbidden,
    #[error(transparent)]
    Post(#[from] PostError),
    #[error("more than {MAX_BLOCKS} blocks")]
    TooManyBlocks,
    #[error("snapshot {0} is missing, detached, or of another post")]
    SnapshotInvalid(SnapshotId),
    #[error("the source selection is deleted")]
    SelectionSourceDeleted,
    #[error("the source selection is empty")]
    SelectionSourceEmpty,
    #[error("selections is unavailable: {0}")]
    SelectionsUnavailable(String),
    /// The losing side of a race, or a version that is no longer the current one.
    #[error("the post has changed meanwhile")]
    Conflict,
    #[error(transparent)]
    Database(#[from] ::db::Error),
    /// What the HTTP edge has found.
    #[error("{0}")]
    Request(Problem),
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
            Self::PostNotFound => Problem::new(S::NOT_FOUND, "NEWS_POST_NOT_FOUND"),
            Self::Forbidden => Problem::forbidden(),
            Self::Post(PostError::Archived) => Problem::new(S::CONFLICT, "NEWS_POST_ARCHIVED"),
            Self::Post(PostError::InvalidTransition { .. }) => {
                Problem::new(S::CONFLICT, "NEWS_POST_INVALID_TRANSITION")
            }
            Self::Post(PostError::PublishIncomplete) => {
                Problem::new(S::CONFLICT, "NEWS_POST_PUBLISH_INCOMPLETE")
            }
            Self::TooManyBlocks => Problem::new(S::BAD_REQUEST, "NEWS_TOO_MANY_BLOCKS")
                .arg("limit", MAX_BLOCKS)
                .field("/Blocks".to_owned(), Invalid::new("too_many").with("max", MAX_BLOCKS)),
            Self::SnapshotInvalid(_) => Problem::new(S::UNPROCESSABLE_ENTITY, "NEWS_SNAPSHOT_INVALID"),
            Self::SelectionSourceDeleted => Problem::new(S::BAD_REQUEST, "NEWS_SELECTION_SOURCE_DELETED"),
            Self::SelectionSourceEmpty => Problem::new(S::BAD_REQUEST, "NEWS_SELECTION_SOURCE_EMPTY"),
            Self::SelectionsUnavailable(cause) => {
                Problem::new(S::SERVICE_UNAVAILABLE, "NEWS_SELECTIONS_UNAVAILABLE")
                    .caused_by(cause)
                    .retry_after(std::time::Duration::from_secs(2))
            }
            Self::Conflict => Problem::new(S::CONFLICT, "CONCURRENCY_CONFLICT"),
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
