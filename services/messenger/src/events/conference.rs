//! Events of conferences.

use auth::{CompanyId, UserId};
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use super::CONFERENCE;
use crate::domain::{ChatId, ConferenceId, DealId, EndReason, Media};

/// Somebody calls the others of a deal's chat.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConferenceStarted {
    pub conference_id: ConferenceId,
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub media: Media,
    pub started_by_user_id: UserId,
    pub invited_user_ids: Vec<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

impl Event for ConferenceStarted {
    const TOPIC: &'static str = "platform.messenger.conference-started.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = CONFERENCE;

    fn key(&self) -> Uuid {
        self.conference_id.into()
    }
}

/// Some more were invited to a conference that is under way, or again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConferenceInvited {
    pub conference_id: ConferenceId,
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub media: Media,
    pub invited_user_ids: Vec<UserId>,
    pub by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Event for ConferenceInvited {
    const TOPIC: &'static str = "platform.messenger.conference-invited.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = CONFERENCE;

    fn key(&self) -> Uuid {
        self.conference_id.into()
    }
}

/// A conference has ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConferenceEnded {
    pub conference_id: ConferenceId,
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub end_reason: EndReason,
    /// When the first was there beside the host.
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub ended_at: OffsetDateTime,
    /// Who was there at any time, the host first.
    pub participant_user_ids: Vec<UserId>,
}

impl Event for ConferenceEnded {
    const TOPIC: &'static str = "platform.messenger.conference-ended.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = CONFERENCE;

    fn key(&self) -> Uuid {
        self.conference_id.into()
    }
}
