//! Cards: the content of System messages.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Verbatim;

use super::{ConferenceId, EndReason, Media};

/// A deal status of CRM. Unknown statuses pass through.
pub type DealStatus = Verbatim<1, 64>;

/// The content of a System message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "Type")]
pub enum Card {
    DealStatusChanged(StatusCard),
    MemberAdded(MemberCard),
    MemberRemoved(MemberCard),
    ConferenceEnded(ConferenceCard),
    /// A moderator closed the Direct chat.
    ChatClosed,
}

/// A change of the deal's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StatusCard {
    /// Status before the change.
    pub from_status: DealStatus,
    /// Status after the change.
    pub to_status: DealStatus,
    /// Id of the user who changed the status.
    pub changed_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

/// A user who joined or left the chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MemberCard {
    pub user_id: UserId,
    /// The user who made the change, or `null` if the deal or the end of an employment made it.
    pub by_user_id: Option<UserId>,
}

/// The end of a conference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConferenceCard {
    /// Id of the conference.
    pub conference_id: ConferenceId,
    pub media: Media,
    pub end_reason: EndReason,
    /// Seconds that the conference was Active.
    #[schema(minimum = 0)]
    pub duration_seconds: i64,
}
