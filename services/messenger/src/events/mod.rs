//! The published events.

mod conference;
mod message;

use messaging::{Aggregate, PublishedEvent};

pub use conference::{ConferenceEnded, ConferenceInvited, ConferenceStarted};
pub use message::MessageSent;

const CHAT: Aggregate = Aggregate { name: "Chat", table: "chat", key: "id" };
const CONFERENCE: Aggregate = Aggregate { name: "Conference", table: "conference", key: "id" };

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<ConferenceStarted>(),
    PublishedEvent::of::<ConferenceInvited>(),
    PublishedEvent::of::<ConferenceEnded>(),
    PublishedEvent::of::<MessageSent>(),
];
