//! What chats, messages and conferences are and may do. No clock, no I/O.

mod access;
mod card;
mod chat;
mod conference;
mod decision;
mod message;
mod participant;
mod told;

pub use access::{SuperviseChats, Viewer, moderation};
pub use card::{Card, ConferenceCard, DealStatus, MemberCard, StatusCard};
pub use chat::{Chat, ChatKind, Deal, Member, Role, Turnover};
pub use conference::{Conference, ConferenceStatus, EndReason, MOST_INVITED, Media, Place, Timing, rung};
pub use decision::{Act, Order};
pub use message::{Message, MessageKind, PrivateText};
pub use participant::{ConnectionSid, Entry, ParticipantState, Present};
pub use told::{Told, ToldKind};

ids::typed_id!(
    /// A chat.
    ChatId
);
ids::typed_id!(
    /// A message.
    MessageId
);
ids::typed_id!(
    /// What a sender calls a message, so that sending can be repeated.
    ClientMessageId
);
ids::typed_id!(
    /// A conference.
    ConferenceId
);
ids::typed_id!(
    /// A deal, of CRM.
    DealId
);
ids::typed_id!(
    /// A property object, of chessboard.
    PropertyObjectId
);
