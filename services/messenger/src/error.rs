//! Refusals of the business rules.

use values::Code;

use crate::domain::limits::{CHART_MAX_MESSAGES_PER_HOUR, MAX_CONFERENCE_STARTS, MAX_MEMBERS, MAX_SEATS};

pub use service::Error;
pub use web::FORBIDDEN;

pub const CHAT_NOT_FOUND: Code = Code::new(404, "MESSENGER_CHAT_NOT_FOUND");
pub const CHAT_NOT_DEAL: Code = Code::new(422, "MESSENGER_CHAT_NOT_DEAL");
pub const CHAT_NOT_DIRECT: Code = Code::new(422, "MESSENGER_CHAT_NOT_DIRECT");
/// One of the two users of the Direct chat blocks the other.
pub const CHAT_BLOCKED: Code = Code::new(403, "MESSENGER_CHAT_BLOCKED");
/// The other user left the Direct chat.
pub const CHAT_LEFT: Code = Code::new(409, "MESSENGER_CHAT_LEFT");
/// A moderator closed the Direct chat.
pub const CHAT_CLOSED: Code = Code::new(409, "MESSENGER_CHAT_CLOSED");
pub const CHAT_FULL: Code = Code::new(409, "MESSENGER_CHAT_FULL").with_arg("max", MAX_MEMBERS as u64);
pub const MEMBER_OF_DEAL: Code = Code::new(409, "MESSENGER_MEMBER_OF_DEAL");
/// The user's employment in the company of the chat has ended or is suspended.
pub const EMPLOYMENT_ENDED: Code = Code::new(422, "MESSENGER_EMPLOYMENT_ENDED");
pub const PARTICIPANT_NOT_FOUND: Code = Code::new(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
pub const MESSAGE_NOT_FOUND: Code = Code::new(404, "MESSENGER_MESSAGE_NOT_FOUND");
pub const MESSAGE_DELETED: Code = Code::new(409, "MESSENGER_MESSAGE_DELETED");
pub const MESSAGE_LOCKED: Code = Code::new(409, "MESSENGER_MESSAGE_LOCKED");
/// The sender has sent the maximum number of messages in this hour, edits included. `Retry-After`
/// has the seconds until its end.
pub const MESSAGES_LIMIT_EXCEEDED: Code = Code::new(429, "MESSENGER_MESSAGES_LIMIT_EXCEEDED")
    .with_arg("max", CHART_MAX_MESSAGES_PER_HOUR as u64)
    .retry_after(3_600);
pub const REPORT_NOT_FOUND: Code = Code::new(404, "MESSENGER_REPORT_NOT_FOUND");
/// The report has another outcome than the requested one, or its chat is read after the decision.
pub const REPORT_DECIDED: Code = Code::new(409, "MESSENGER_REPORT_DECIDED");
pub const CONFERENCE_NOT_FOUND: Code = Code::new(404, "MESSENGER_CONFERENCE_NOT_FOUND");
/// The chat has a live conference (INV-CNF-1).
pub const CONFERENCE_ALREADY_ACTIVE: Code = Code::new(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE")
    .with_member(&("conferenceId", "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3"));
/// The user has started the maximum number of conferences in this chat within ten minutes.
/// `Retry-After` has the seconds until the next start.
pub const CONFERENCES_LIMIT_EXCEEDED: Code = Code::new(429, "MESSENGER_CONFERENCES_LIMIT_EXCEEDED")
    .with_arg("max", MAX_CONFERENCE_STARTS as u64)
    .retry_after(600);
/// An Ended conference does not change (INV-CNF-3).
pub const CONFERENCE_ENDED: Code = Code::new(409, "MESSENGER_CONFERENCE_ENDED");
pub const CONFERENCE_FULL: Code =
    Code::new(409, "MESSENGER_CONFERENCE_FULL").with_arg("max", MAX_SEATS as u64);
/// The conference has a lobby, and the user was neither invited nor admitted.
pub const ADMISSION_REQUIRED: Code = Code::new(403, "MESSENGER_ADMISSION_REQUIRED");
/// The host denied the admission of the user.
pub const ADMISSION_DENIED: Code = Code::new(403, "MESSENGER_ADMISSION_DENIED");
pub const PARTICIPANT_REMOVED: Code = Code::new(403, "MESSENGER_PARTICIPANT_REMOVED");
pub const MEDIA_UNAVAILABLE: Code = Code::new(503, "MESSENGER_MEDIA_UNAVAILABLE").retry_after(10);
