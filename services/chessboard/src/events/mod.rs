//! What this service tells.

use messaging::Published;

pub const ALL: &[Published] = &[];
