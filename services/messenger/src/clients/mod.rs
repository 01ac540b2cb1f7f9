//! Others, as this service sees them.

pub mod livekit;

pub use livekit::{LiveKit, MediaAccess, SignedSha256, present};
