//! Published events. Their key is the selection's id.

mod selection;

use messaging::PublishedEvent;

pub use selection::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<SelectionCreated>(),
    PublishedEvent::of::<SelectionUpdated>(),
    PublishedEvent::of::<SelectionItemAdded>(),
    PublishedEvent::of::<SelectionDeleted>(),
];
