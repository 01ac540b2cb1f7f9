//! Published events. Their key is the post's id.

mod post;

use messaging::Published;

pub use post::PostPublished;

pub const ALL: &[Published] = &[Published::of::<PostPublished>()];
