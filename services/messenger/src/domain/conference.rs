//! Conferences: their participants, their status and their deadlines.

use std::time::Duration;

use ::db::Json;
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Code;

use super::knock::Knock;
use super::limits::MAX_INVITATIONS;
use super::participant::{Participant, ParticipantEntry, ParticipantState};
use super::{ChatId, ConferenceId, DealId};
use crate::error::PARTICIPANT_NOT_FOUND;
use crate::schema::conference;

values::text_enum! {
    /// The status of a conference. `Ended` is final.
    pub enum ConferenceStatus {
        Ringing,
        Active,
        Ended,
    }
}

values::text_enum! {
    /// The media that participants may publish.
    pub enum Media {
        Audio,
        Video,
    }
}

values::text_enum! {
    /// The reason of the end.
    pub enum EndReason {
        EndedByHost,
        AllLeft,
        NoAnswer,
        AllDeclined,
        MaxDuration,
    }
}

/// The aggregate, its row and its representation in responses.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = conference, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Conference {
    pub id: ConferenceId,
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub status: ConferenceStatus,
    pub media: Media,
    /// The first host.
    pub started_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Time when the first participant beside the host was Joined.
    #[serde(with = "time::serde::rfc3339::option")]
    pub active_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
    pub end_reason: Option<EndReason>,
    /// The user who ended the conference. Null if the deal or a timer did.
    pub ended_by_user_id: Option<UserId>,
    /// The host, then by `InvitedAt`, or by `JoinedAt` for a participant without invitation.
    #[serde(serialize_with = "serialize_participants")]
    #[schema(value_type = Vec<Participant>)]
    pub participants: Json<Vec<ParticipantEntry>>,
    /// True if members without an invitation have to knock.
    #[serde(rename = "Lobby")]
    pub has_lobby: bool,
    /// Members who wait for an admission, and those whose admission was denied, by `KnockedAt`.
    #[schema(value_type = Vec<Knock>)]
    pub knocks: Json<Vec<Knock>>,
    /// Time since which no participant of an Active conference is Joined.
    #[serde(skip)]
    pub empty_since: Option<OffsetDateTime>,
    /// Grows by 1 with each visible change.
    pub version: i64,
}

fn serialize_participants<S: Serializer>(
    participants: &Json<Vec<ParticipantEntry>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(participants.0.iter().map(|entry| &entry.participant))
}

/// The timeouts of a conference.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Ringing time of a conference and of an invitation.
    pub ring_timeout: Duration,
    /// Time that an Active conference may be empty.
    pub empty_timeout: Duration,
    /// Longest time of an Active conference.
    pub max_duration: Duration,
}

/// The ids of a deal's chat.
#[derive(Clone, Copy, Debug)]
pub struct DealChatIds {
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
}

/// Returns the `requested` users, or the first [`MAX_INVITATIONS`] `members` beside the host.
///
/// # Errors
/// [`PARTICIPANT_NOT_FOUND`]: a requested user is not a member, or no other member exists.
pub fn select_invitees(
    host: UserId,
    requested: Option<&[UserId]>,
    members: &[UserId],
) -> Result<Vec<UserId>, Code> {
    let invitees: Vec<_> = match requested {
        Some(requested) => requested.to_vec(),
        None => members.iter().copied().filter(|member| *member != host).take(MAX_INVITATIONS).collect(),
    };
    let are_members = invitees.iter().all(|user| members.contains(user));
    if invitees.is_empty() || !are_members { Err(PARTICIPANT_NOT_FOUND) } else { Ok(invitees) }
}

impl Conference {
    /// Returns a new Ringing conference with the host Joined and the invitees Invited.
    pub fn start(
        chat: DealChatIds,
        media: Media,
        host: UserId,
        invitees: &[UserId],
        has_lobby: bool,
        now: OffsetDateTime,
    ) -> Self {
        let invited = invitees.iter().map(|user| {
            let mut entry = ParticipantEntry::member(*user);
            entry.invite(now);
            entry
        });
        Self {
            id: ConferenceId::generate(),
            chat_id: chat.chat_id,
            deal_id: chat.deal_id,
            tenant_id: chat.tenant_id,
            status: ConferenceStatus::Ringing,
            media,
            started_by_user_id: host,
            created_at: now,
            active_at: None,
            ended_at: None,
            end_reason: None,
            ended_by_user_id: None,
            participants: Json([ParticipantEntry::host(host, now)].into_iter().chain(invited).collect()),
            has_lobby,
            knocks: Json(Vec::new()),
            empty_since: None,
            version: 1,
        }
    }

    pub fn is_live(&self) -> bool {
        self.status != ConferenceStatus::Ended
    }

    pub fn entry(&self, user: UserId) -> Option<&ParticipantEntry> {
        self.participants.0.iter().find(|entry| entry.participant.user_id == user)
    }

    pub fn entry_mut(&mut self, user: UserId) -> Option<&mut ParticipantEntry> {
        self.participants.0.iter_mut().find(|entry| entry.participant.user_id == user)
    }

    pub fn entry_or_insert(&mut self, user: UserId) -> &mut ParticipantEntry {
        let entries = &mut self.participants.0;
        let at = entries.iter().position(|entry| entry.participant.user_id == user).unwrap_or_else(|| {
            entries.push(ParticipantEntry::member(user));
            entries.len() - 1
        });
        &mut entries[at]
    }

    /// Returns the users in this state, in the order of the participants.
    pub fn users_in(&self, state: ParticipantState) -> Vec<UserId> {
        self.users_where(|entry| entry.is(state))
    }

    /// Returns the users who were ever Joined, the host first.
    pub fn attendees(&self) -> Vec<UserId> {
        self.users_where(|entry| entry.participant.joined_at.is_some())
    }

    fn users_where(&self, matches: impl Fn(&ParticipantEntry) -> bool) -> Vec<UserId> {
        self.participants
            .0
            .iter()
            .filter(|entry| matches(entry))
            .map(|entry| entry.participant.user_id)
            .collect()
    }

    pub fn has(&self, state: ParticipantState) -> bool {
        self.participants.0.iter().any(|entry| entry.is(state))
    }

    pub fn taken_seats(&self) -> usize {
        self.participants.0.iter().filter(|entry| entry.is_seated()).count()
    }

    /// Returns true for the present host.
    pub fn is_host(&self, user: UserId) -> bool {
        self.entry(user).is_some_and(ParticipantEntry::is_host)
    }

    pub fn is_removed(&self, user: UserId) -> bool {
        self.entry(user).is_some_and(|entry| entry.is(ParticipantState::Removed))
    }

    /// Returns the seconds that the conference was Active, or 0.
    pub fn duration_seconds(&self) -> i64 {
        self.active_at.zip(self.ended_at).map_or(0, |(from, to)| (to - from).whole_seconds().max(0))
    }

    /// Returns the time of the next change by a timer.
    pub fn deadline(&self, timing: &Timing) -> Option<OffsetDateTime> {
        match self.status {
            ConferenceStatus::Ringing => Some(self.created_at + timing.ring_timeout),
            ConferenceStatus::Active => {
                let end_times = self.end_deadlines(timing).into_iter().map(|(at, _)| at);
                let invited = self.participants.0.iter().filter(|entry| entry.is(ParticipantState::Invited));
                let invitation_deadlines =
                    invited.filter_map(|entry| Some(entry.participant.invited_at? + timing.ring_timeout));
                end_times.chain(invitation_deadlines).min()
            }
            ConferenceStatus::Ended => None,
        }
    }

    /// Returns the times at which timers end an Active conference, with the reasons.
    pub fn end_deadlines(&self, timing: &Timing) -> Vec<(OffsetDateTime, EndReason)> {
        let max = self.active_at.map(|from| (from + timing.max_duration, EndReason::MaxDuration));
        let empty = self.empty_since.map(|since| (since + timing.empty_timeout, EndReason::AllLeft));
        max.into_iter().chain(empty).collect()
    }
}
