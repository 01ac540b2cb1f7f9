//! Events of conferences.

use auth::{CompanyId, UserId};
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{ChatId, Conference, ConferenceId, DealId, EndReason, Media, ParticipantState};

const CONFERENCE: Aggregate = Aggregate { name: "Conference", table: "conference", key: "id" };

/// A member started a conference in a deal's chat.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.messenger.conference-started.v1", version = 1, aggregate = CONFERENCE, key = conference_id)]
pub struct ConferenceStarted {
    conference_id: ConferenceId,
    chat_id: ChatId,
    deal_id: DealId,
    tenant_id: CompanyId,
    media: Media,
    started_by_user_id: UserId,
    invited_user_ids: Vec<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

impl ConferenceStarted {
    pub fn of(conference: &Conference) -> Self {
        Self {
            conference_id: conference.id,
            chat_id: conference.chat_id,
            deal_id: conference.deal_id,
            tenant_id: conference.tenant_id,
            media: conference.media,
            started_by_user_id: conference.started_by_user_id,
            invited_user_ids: conference.users_in(ParticipantState::Invited),
            created_at: conference.created_at,
        }
    }
}

/// A member invited users to a live conference.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.messenger.conference-invited.v1", version = 1, aggregate = CONFERENCE, key = conference_id)]
pub struct ConferenceInvited {
    conference_id: ConferenceId,
    chat_id: ChatId,
    deal_id: DealId,
    tenant_id: CompanyId,
    media: Media,
    invited_user_ids: Vec<UserId>,
    by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
}

impl ConferenceInvited {
    pub fn of(conference: &Conference, invited: Vec<UserId>, by: UserId, at: OffsetDateTime) -> Self {
        Self {
            conference_id: conference.id,
            chat_id: conference.chat_id,
            deal_id: conference.deal_id,
            tenant_id: conference.tenant_id,
            media: conference.media,
            invited_user_ids: invited,
            by_user_id: by,
            at,
        }
    }
}

/// The host of a conference made another participant the host.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.messenger.conference-host-changed.v1", version = 1, aggregate = CONFERENCE, key = conference_id)]
pub struct ConferenceHostChanged {
    conference_id: ConferenceId,
    chat_id: ChatId,
    deal_id: DealId,
    tenant_id: CompanyId,
    /// Id of the previous host.
    from_user_id: UserId,
    /// Id of the new host.
    to_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
}

impl ConferenceHostChanged {
    pub fn of(conference: &Conference, from: UserId, to: UserId, at: OffsetDateTime) -> Self {
        Self {
            conference_id: conference.id,
            chat_id: conference.chat_id,
            deal_id: conference.deal_id,
            tenant_id: conference.tenant_id,
            from_user_id: from,
            to_user_id: to,
            at,
        }
    }
}

/// A conference ended.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.messenger.conference-ended.v1", version = 1, aggregate = CONFERENCE, key = conference_id)]
pub struct ConferenceEnded {
    conference_id: ConferenceId,
    chat_id: ChatId,
    deal_id: DealId,
    tenant_id: CompanyId,
    pub end_reason: EndReason,
    /// Time when the first participant beside the host was Joined.
    #[serde(with = "time::serde::rfc3339::option")]
    started_at: Option<OffsetDateTime>,
    /// Time of the end, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    ended_at: OffsetDateTime,
    /// Users who were ever Joined, the host first.
    participant_user_ids: Vec<UserId>,
}

impl ConferenceEnded {
    /// Returns the event, or `None` for a live conference.
    pub fn of(conference: &Conference) -> Option<Self> {
        let (end_reason, ended_at) = conference.end_reason.zip(conference.ended_at)?;
        Some(Self {
            conference_id: conference.id,
            chat_id: conference.chat_id,
            deal_id: conference.deal_id,
            tenant_id: conference.tenant_id,
            end_reason,
            started_at: conference.active_at,
            ended_at,
            participant_user_ids: conference.attendees(),
        })
    }
}
