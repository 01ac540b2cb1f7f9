//! The limit of request bodies.

use values::Code;

/// Maximum size of a request body.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
pub const BODY_TOO_LARGE: Code =
    Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", MAX_BODY_BYTES as u64);
