//! What a chat is told by nobody: cards.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

use super::{ConferenceId, EndReason, Media};

/// A status of a deal, as CRM calls it: also one that nobody here has heard of.
pub type DealStatus = Text<1, 64>;

/// What a System message shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "Type")]
pub enum Card {
    DealStatusChanged(StatusCard),
    MemberAdded(MemberCard),
    MemberRemoved(MemberCard),
    ConferenceEnded(ConferenceCard),
}

/// What has become of the deal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StatusCard {
    pub from_status: DealStatus,
    pub to_status: DealStatus,
    pub changed_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

/// Who came or went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MemberCard {
    pub user_id: UserId,
    /// `null`: the deal did it.
    pub by_user_id: Option<UserId>,
}

/// How a conference ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConferenceCard {
    pub conference_id: ConferenceId,
    pub media: Media,
    pub end_reason: EndReason,
    /// How long it was Active.
    #[schema(minimum = 0)]
    pub duration_seconds: i64,
}
