//! What this service publishes. The key is the selection's id.

mod selection;

use messaging::Event;

pub use selection::{SelectionCreated, SelectionDeleted, SelectionItemAdded, SelectionUpdated};

/// Every topic that is published to.
pub const TOPICS: [&str; 4] =
    [SelectionCreated::TOPIC, SelectionUpdated::TOPIC, SelectionItemAdded::TOPIC, SelectionDeleted::TOPIC];

/// The AsyncAPI document of what is published.
///
/// # Errors
/// When it cannot be written.
pub fn asyncapi() -> anyhow::Result<String> {
    messaging::AsyncApi::new("selections")
        .publishes::<SelectionCreated>()
        .publishes::<SelectionUpdated>()
        .publishes::<SelectionItemAdded>()
        .publishes::<SelectionDeleted>()
        .to_yaml()
}
