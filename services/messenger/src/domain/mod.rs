//! What chats, messages and conferences are and may do. No clock, no I/O.

mod access;

pub use access::{moderation, supervision};

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

values::text_enum! {
    /// What a conference carries.
    pub enum Media {
        Audio,
        Video,
    }
}

values::text_enum! {
    /// Why a conference ended.
    pub enum EndReason {
        /// By its host, or by a moderator.
        EndedByHost,
        AllLeft,
        NoAnswer,
        AllDeclined,
        MaxDuration,
    }
}
