//! The published events.

mod conference;
mod message;

use messaging::PublishedEvent;

pub use conference::{ConferenceEnded, ConferenceHostChanged, ConferenceInvited, ConferenceStarted};
pub use message::MessageSent;

pub const ALL: &[PublishedEvent] = &[
    PublishedEvent::of::<ConferenceStarted>(),
    PublishedEvent::of::<ConferenceInvited>(),
    PublishedEvent::of::<ConferenceHostChanged>(),
    PublishedEvent::of::<ConferenceEnded>(),
    PublishedEvent::of::<MessageSent>(),
];
