//! Published events. Their key is the post's id.

mod post;

use messaging::PublishedEvent;

pub use post::PostPublished;

pub const ALL: &[PublishedEvent] = &[PublishedEvent::of::<PostPublished>()];
