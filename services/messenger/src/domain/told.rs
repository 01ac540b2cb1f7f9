//! What streams tell of.

use auth::UserId;

use super::{ConferenceId, MessageId};

values::text_enum! {
    /// The events of a stream, by the names that they have in it.
    pub enum ToldKind {
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

/// What somebody is told of in a chat: a reference, never what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was made, or its members have changed.
    Chat,
    /// They are in it no longer.
    ChatRemoved,
    Message(MessageId),
    /// How far this person has read.
    Read(UserId),
    Conference(ConferenceId),
}

impl Told {
    pub fn kind(self) -> ToldKind {
        match self {
            Self::Chat => ToldKind::Chat,
            Self::ChatRemoved => ToldKind::ChatRemoved,
            Self::Message(_) => ToldKind::Message,
            Self::Read(_) => ToldKind::Read,
            Self::Conference(_) => ToldKind::Conference,
        }
    }
}
