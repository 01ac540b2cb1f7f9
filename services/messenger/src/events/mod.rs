//! The published events.

mod conference;
mod message;

use messaging::{Aggregate, Published};

pub use conference::{ConferenceEnded, ConferenceInvited, ConferenceStarted};
pub use message::MessageSent;

const CHAT: Aggregate = Aggregate { name: "Chat", table: "chat", key: "id" };
const CONFERENCE: Aggregate = Aggregate { name: "Conference", table: "conference", key: "id" };

pub const ALL: &[Published] = &[
    Published::of::<ConferenceStarted>(),
    Published::of::<ConferenceInvited>(),
    Published::of::<ConferenceEnded>(),
    Published::of::<MessageSent>(),
];
