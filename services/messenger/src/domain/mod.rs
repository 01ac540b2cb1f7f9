//! What chats, messages and conferences are and may do. No clock, no I/O.

mod access;
mod conference;
mod participant;

pub use access::{moderation, supervision};
pub use conference::{
    Act, Conference, ConferenceStatus, Decision, EndReason, MOST_INVITED, Media, Order, Place, Timing, rung,
};
pub use participant::{ConnectionSid, Participant, ParticipantState, Present};

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
