//! Events of a user's stream.

use auth::UserId;

use super::{ConferenceId, MessageId};

values::text_enum! {
    /// The kinds of stream events, by their names in Server-Sent Events.
    pub enum StreamEventKind {
        #[strum(serialize = "chat")]
        Chat,
        #[strum(serialize = "chat-removed")]
        ChatRemoved,
        #[strum(serialize = "message")]
        Message,
        #[strum(serialize = "read")]
        Read,
        #[strum(serialize = "conference")]
        Conference,
    }
}

/// A change in a chat that is sent to a user's streams.
/// The event is a reference, because the content is read when the event is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The chat was created, or its members or their roles changed.
    Chat,
    /// The user is no longer a member.
    ChatRemoved,
    Message(MessageId),
    /// The read marker of this user rose.
    Read(UserId),
    Conference(ConferenceId),
}

impl StreamEvent {
    pub fn kind(self) -> StreamEventKind {
        match self {
            Self::Chat => StreamEventKind::Chat,
            Self::ChatRemoved => StreamEventKind::ChatRemoved,
            Self::Message(_) => StreamEventKind::Message,
            Self::Read(_) => StreamEventKind::Read,
            Self::Conference(_) => StreamEventKind::Conference,
        }
    }
}
