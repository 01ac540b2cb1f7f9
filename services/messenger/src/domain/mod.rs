//! Rules of chats, messages and conferences, without a clock and without I/O.

mod access;
mod card;
mod chat;
mod conference;
mod decision;
mod employment;
mod knock;
pub mod limits;
mod lobby;
mod message;
mod participant;
mod report;
mod stream_event;

pub use access::{ModerateDirectChats, SuperviseChats, Viewer, moderator_reach};
pub use card::{Card, ConferenceCard, DealStatus, MemberCard, StatusCard};
pub use chat::{AgentChange, Chat, ChatKind, Deal, Member, Role};
pub use conference::{Conference, ConferenceStatus, DealChatIds, EndReason, Media, Timing, select_invitees};
pub use decision::{Action, MediaCommand};
pub use employment::Employments;
pub use lobby::ConferenceChange;
pub use message::{Message, MessageKind, PrivateText};
pub use participant::{ConnectedParticipant, ConnectionSid, ParticipantEntry, ParticipantState};
pub use report::{Report, ReportComment, ReportReason, ReportStatus};
pub use stream_event::{StreamEvent, StreamEventKind};

ids::typed_id!(
    /// A chat.
    ChatId
);
ids::typed_id!(
    /// A message.
    MessageId
);
ids::typed_id!(
    /// The sender's own id of a message. A repeated request with the same id sends nothing.
    ClientMessageId
);
ids::typed_id!(
    /// A conference.
    ConferenceId
);
ids::typed_id!(
    /// A report of a Direct chat.
    ReportId
);
ids::typed_id!(
    /// A deal of CRM.
    DealId
);
ids::typed_id!(
    /// A property object of chessboard.
    PropertyObjectId
);
