//! The error codes of selections.

use values::Code;
use web::Problem;

use crate::domain::{
    CHART_MAX_ADDED_ITEMS, ItemsError, MAX_COLLABORATORS, MAX_FAVORITES, MAX_ITEMS, MAX_SELECTIONS,
    MAX_SHARED, MAX_SHARED_BY_OWNER,
};

pub use ::service::Error;

/// Rejects a missing, a deleted and another user's selection alike (INV-SEL-002).
pub const NOT_FOUND: Code = Code::new(404, "SELECTIONS_NOT_FOUND");
pub const SNAPSHOT_NOT_FOUND: Code = Code::new(404, "SELECTIONS_SNAPSHOT_NOT_FOUND");
/// Rejects a request that lost a race or names an outdated version.
pub const CONFLICT: Code = Code::conflict("SELECTIONS_CONCURRENCY_CONFLICT");
/// Rejects a list that names an object twice (INV-SEL-003). The pointer is an example.
pub const DUPLICATE_ITEM: Code =
    Code::new(400, "SELECTIONS_DUPLICATE_ITEM").at("/Items/1/PropertyObjectId", "duplicate");
/// Rejects a list of more than [`MAX_ITEMS`] objects (INV-SEL-004).
pub const ITEMS_LIMIT_EXCEEDED: Code = Code::new(400, "SELECTIONS_ITEMS_LIMIT_EXCEEDED")
    .with_arg("max", MAX_ITEMS as u64)
    .at("/Items", "too_many");
/// Rejects a new selection of an owner at the limit (INV-SEL-007).
pub const LIMIT_EXCEEDED: Code =
    Code::new(409, "SELECTIONS_LIMIT_EXCEEDED").with_arg("max", MAX_SELECTIONS as u64);
/// Rejects items of a user who has added the maximum number of items in this hour.
pub const ADDED_ITEMS_LIMIT_EXCEEDED: Code = Code::new(429, "SELECTIONS_ADDED_ITEMS_LIMIT_EXCEEDED")
    .with_arg("max", CHART_MAX_ADDED_ITEMS as u64)
    .retry_after(3_600);
pub const FAVORITES_EMPTY: Code = Code::new(400, "SELECTIONS_FAVORITES_EMPTY");
pub const FAVORITES_LIMIT_EXCEEDED: Code =
    Code::new(409, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED").with_arg("max", MAX_FAVORITES as u64);
pub const COLLABORATORS_LIMIT_EXCEEDED: Code =
    Code::new(409, "SELECTIONS_COLLABORATORS_LIMIT_EXCEEDED").with_arg("max", MAX_COLLABORATORS as u64);
/// Rejects a collaborator with whom the maximum number of selections is shared.
pub const SHARED_LIMIT_EXCEEDED: Code =
    Code::new(409, "SELECTIONS_SHARED_LIMIT_EXCEEDED").with_arg("max", MAX_SHARED as u64);
/// Rejects a collaborator with whom the owner shares the maximum number of selections.
pub const SHARED_BY_OWNER_LIMIT_EXCEEDED: Code =
    Code::new(409, "SELECTIONS_SHARED_BY_OWNER_LIMIT_EXCEEDED").with_arg("max", MAX_SHARED_BY_OWNER as u64);
/// Rejects a collaborator who has left the selection.
pub const COLLABORATOR_LEFT: Code = Code::new(409, "SELECTIONS_COLLABORATOR_LEFT");
/// Rejects a snapshot of a deleted selection (INV-SNP-002).
pub const SOURCE_DELETED: Code = Code::new(400, "SELECTIONS_SOURCE_DELETED");
/// Rejects a snapshot of a selection without items (INV-SNP-002).
pub const SOURCE_EMPTY: Code = Code::new(400, "SELECTIONS_SOURCE_EMPTY");
/// Rejects a creation if every generated public code is taken (INV-SEL-005).
pub const CODE_UNAVAILABLE: Code = Code::new(503, "SELECTIONS_CODE_UNAVAILABLE").retry_after(1);

impl From<ItemsError> for Error {
    fn from(error: ItemsError) -> Self {
        match error {
            ItemsError::TooMany => ITEMS_LIMIT_EXCEEDED.into(),
            ItemsError::Duplicate(position) => {
                Problem::from(DUPLICATE_ITEM).at(&format!("/Items/{position}/PropertyObjectId")).into()
            }
        }
    }
}
