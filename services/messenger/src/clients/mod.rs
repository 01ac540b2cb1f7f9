//! Clients of other systems.

pub mod livekit;

pub use livekit::{CALLS, LiveKit, MediaAccess, SignedSha256, parse_participant};
