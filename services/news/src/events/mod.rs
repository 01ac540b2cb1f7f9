//! What this service publishes. The key is the post's id.

mod post;

use messaging::Event;

pub use post::PostPublished;

/// Every topic that is published to.
pub const TOPICS: [&str; 1] = [PostPublished::TOPIC];

/// The AsyncAPI document of what is published.
///
/// # Errors
/// When it cannot be written.
pub fn asyncapi() -> anyhow::Result<String> {
    messaging::AsyncApi::new("news").publishes::<PostPublished>().to_yaml()
}
