//! Selections and snapshots with their rules, without clock and I/O.

mod card;
mod change;
mod items;
mod limits;
mod public_code;
mod selection;
mod snapshot;

pub use card::{CardItem, ObjectCard, with_cards};
pub use change::{AddedObject, ItemChange, changes_of};
pub use items::{Item, ItemOrder, ItemsError, MAX_ITEMS};
pub use limits::{
    AddedItems, CHART_MAX_ADDED_ITEMS, MAX_COLLABORATORS, MAX_FAVORITES, MAX_SELECTIONS, MAX_SHARED,
    MAX_SHARED_BY_OWNER,
};
pub use public_code::PublicCode;
pub use selection::{ChangedField, Description, Link, Selection, Title};
pub use snapshot::{
    DetachReason, ShownObject, SnapshotItem, SnapshotItemView, to_snapshot_items, withhold_hidden,
};

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
