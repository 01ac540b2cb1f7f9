//! Others, as this service sees them.

pub mod livekit;

pub use livekit::{CALLS, LiveKit, MediaAccess, SignedSha256, present};
