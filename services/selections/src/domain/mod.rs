//! What a selection and a snapshot are and may do. No clock, no I/O.

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
    /// A flat, a parking space, any object of chessboard's.
    PropertyObjectId
);
ids::typed_id!(
    /// A post of news.
    PostId
);

/// Selections that an owner may have, deleted ones not counted (INV-SEL-007).
pub const MAX_SELECTIONS: u16 = 100;
/// Favorites that an owner may have: as many as fit into a selection.
pub const MAX_FAVORITES: u16 = MAX_ITEMS;
