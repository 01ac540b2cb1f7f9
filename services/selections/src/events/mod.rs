//! Published events. Their key is the selection's id.

mod selection;

use messaging::{Aggregate, PublishedEvent};

pub use selection::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

const SELECTION: Aggregate = Aggregate { name: "Selection", table: "selection", key: "id" };

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<SelectionCreated>(),
    PublishedEvent::of::<SelectionUpdated>(),
    PublishedEvent::of::<SelectionItemAdded>(),
    PublishedEvent::of::<SelectionDeleted>(),
];
