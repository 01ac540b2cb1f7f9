//! The error codes of news.

use std::fmt::Display;

use values::Code;
use web::Problem;

use crate::domain::{DEFAULT_MAX_CONTENT_MIB, DEFAULT_MAX_DRAFTS, MAX_BLOCKS};

pub use ::service::Error;
pub use web::{FORBIDDEN, UNAUTHORIZED};

/// Rejects a post that is missing, deleted or not visible to the caller.
pub const POST_NOT_FOUND: Code = Code::new(404, "NEWS_POST_NOT_FOUND");
pub const POST_ARCHIVED: Code = Code::new(409, "NEWS_POST_ARCHIVED");
pub const POST_INVALID_TRANSITION: Code = Code::new(409, "NEWS_POST_INVALID_TRANSITION");
/// Rejects the publication of a post without a block.
pub const POST_PUBLISH_INCOMPLETE: Code = Code::new(409, "NEWS_POST_PUBLISH_INCOMPLETE");
/// Rejects a publication by schedule whose time of unpublishing has already passed.
pub const POST_SCHEDULE_MISSED: Code = Code::new(409, "NEWS_POST_SCHEDULE_MISSED");
/// Rejects a revision that is missing or no longer kept.
pub const REVISION_NOT_FOUND: Code = Code::new(404, "NEWS_REVISION_NOT_FOUND");
/// Rejects a new draft of an author who has the maximum number of them.
pub const DRAFTS_LIMIT_EXCEEDED: Code =
    Code::new(409, "NEWS_DRAFTS_LIMIT_EXCEEDED").with_arg("max", DEFAULT_MAX_DRAFTS as u64);
/// Rejects an edit that grows the posts of an author above the maximum size together.
pub const CONTENT_LIMIT_EXCEEDED: Code =
    Code::new(409, "NEWS_CONTENT_LIMIT_EXCEEDED").with_arg("max", DEFAULT_MAX_CONTENT_MIB as u64);
pub const TOO_MANY_BLOCKS: Code =
    Code::new(400, "NEWS_TOO_MANY_BLOCKS").with_arg("max", MAX_BLOCKS as u64).at("/Blocks", "too_many");
/// Rejects a snapshot that is missing, detached or of another post.
pub const SNAPSHOT_INVALID: Code =
    Code::new(422, "NEWS_SNAPSHOT_INVALID").at("/Blocks/0/SnapshotId", "snapshot_invalid");
/// Rejects a source that is deleted or missing, or that belongs to neither actor nor author.
pub const SELECTION_SOURCE_DELETED: Code =
    Code::new(400, "NEWS_SELECTION_SOURCE_DELETED").at("/Blocks/0/SourceSelectionId", "source_deleted");
pub const SELECTION_SOURCE_EMPTY: Code =
    Code::new(400, "NEWS_SELECTION_SOURCE_EMPTY").at("/Blocks/0/SourceSelectionId", "source_empty");
pub const SELECTIONS_UNAVAILABLE: Code = Code::new(503, "NEWS_SELECTIONS_UNAVAILABLE").retry_after(2);
/// Rejects a request that lost a race or names an outdated version.
pub const CONFLICT: Code = Code::conflict("CONCURRENCY_CONFLICT");

/// Returns [`SELECTIONS_UNAVAILABLE`] with its cause for the log.
pub fn selections_unavailable(cause: &impl Display) -> Error {
    Problem::from(SELECTIONS_UNAVAILABLE).caused_by(cause).into()
}
