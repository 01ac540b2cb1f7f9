//! Published events. Their key is the selection's id.

mod selection;

use messaging::{Aggregate, Published};

pub use selection::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

const SELECTION: Aggregate = Aggregate { name: "Selection", table: "selection", key: "id" };

pub const ALL: &[Published] = &[
    Published::of::<SelectionCreated>(),
    Published::of::<SelectionUpdated>(),
    Published::of::<SelectionItemAdded>(),
    Published::of::<SelectionDeleted>(),
];
