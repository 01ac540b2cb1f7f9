//! Selections and snapshots with their rules, without clock and I/O.

mod items;
mod public_code;
mod selection;
mod snapshot;

pub use items::{Item, ItemOrder, ItemsError, MAX_ITEMS};
pub use public_code::PublicCode;
pub use selection::{ChangedField, Description, Selection, Title};
pub use snapshot::{DetachReason, ShownObject, SnapshotItem, freeze};

ids::typed_id!(
    /// A selection.
    SelectionId
);
ids::typed_id!(
    /// An immutable copy of a selection.
    SnapshotId
);
ids::typed_id!(
    /// A flat, a parking space or another object of chessboard.
    PropertyObjectId
);
ids::typed_id!(
    /// A post of news.
    PostId
);

/// Maximum number of selections of an owner, without deleted ones (INV-SEL-007).
pub const MAX_SELECTIONS: u16 = 100;
/// Maximum number of favorites of a user, so that all of them fit into one selection.
pub const MAX_FAVORITES: u16 = MAX_ITEMS;
