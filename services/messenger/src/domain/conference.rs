//! A conference: who rings whom, who is there, and when it is over.

use std::time::Duration;

use ::db::Json;
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Code;

use super::participant::{Entry, Participant, ParticipantState};
use super::{ChatId, ConferenceId, DealId};
use crate::db::schema::conference;
use crate::error::{MOST_SEATS, PARTICIPANT_NOT_FOUND};

/// INV-CNF-2
pub const SEATS: usize = MOST_SEATS as usize;
/// Beside the host.
pub const MOST_INVITED: usize = SEATS - 1;

values::text_enum! {
    /// Of Ended nothing comes any more.
    pub enum ConferenceStatus {
        Ringing,
        Active,
        Ended,
    }
}

values::text_enum! {
    /// What is sent and heard.
    pub enum Media {
        Audio,
        Video,
    }
}

values::text_enum! {
    /// Why a conference is over.
    pub enum EndReason {
        EndedByHost,
        AllLeft,
        NoAnswer,
        AllDeclined,
        MaxDuration,
    }
}

/// The aggregate, which is also its row and its answer.
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
    pub started_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the first beside the host was Joined.
    #[serde(with = "time::serde::rfc3339::option")]
    pub active_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
    pub end_reason: Option<EndReason>,
    /// Null where nobody in particular did.
    pub ended_by_user_id: Option<UserId>,
    /// The host, then by when they were invited, or came unasked.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = Vec<Participant>)]
    pub participants: Json<Vec<Entry>>,
    /// While it is Active: since when nobody is Joined.
    #[serde(skip)]
    pub empty_since: Option<OffsetDateTime>,
    /// Grows with each change that can be seen.
    pub version: i64,
}

fn shown<S: Serializer>(participants: &Json<Vec<Entry>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(participants.0.iter().map(|entry| &entry.shown))
}

/// How long a conference waits for whom.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// For those who are invited.
    pub ring: Duration,
    /// For anybody, once it is empty.
    pub empty: Duration,
    /// For its end.
    pub max: Duration,
}

/// Where a conference belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub chat_id: ChatId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
}

/// Who is rung: those who are `asked`, or else all `members` but the host, the first of them.
///
/// # Errors
/// [`PARTICIPANT_NOT_FOUND`]: one is no member, or there is nobody to ring.
pub fn rung(host: UserId, asked: Option<&[UserId]>, members: &[UserId]) -> Result<Vec<UserId>, Code> {
    let rung: Vec<_> = match asked {
        Some(asked) => asked.to_vec(),
        None => members.iter().copied().filter(|member| *member != host).take(MOST_INVITED).collect(),
    };
    let are_members = rung.iter().all(|user| members.contains(user));
    if rung.is_empty() || !are_members { Err(PARTICIPANT_NOT_FOUND) } else { Ok(rung) }
}

impl Conference {
    /// It rings.
    pub fn start(place: Place, media: Media, host: UserId, rung: &[UserId], now: OffsetDateTime) -> Self {
        let invited = rung.iter().map(|user| {
            let mut entry = Entry::member(*user);
            entry.invite(now);
            entry
        });
        Self {
            id: ConferenceId::generate(),
            chat_id: place.chat_id,
            deal_id: place.deal_id,
            tenant_id: place.tenant_id,
            status: ConferenceStatus::Ringing,
            media,
            started_by_user_id: host,
            created_at: now,
            active_at: None,
            ended_at: None,
            end_reason: None,
            ended_by_user_id: None,
            participants: Json([Entry::host(host, now)].into_iter().chain(invited).collect()),
            empty_since: None,
            version: 1,
        }
    }

    pub fn is_live(&self) -> bool {
        self.status != ConferenceStatus::Ended
    }

    pub fn entry(&self, user: UserId) -> Option<&Entry> {
        self.participants.0.iter().find(|entry| entry.shown.user_id == user)
    }

    pub fn entry_mut(&mut self, user: UserId) -> Option<&mut Entry> {
        self.participants.0.iter_mut().find(|entry| entry.shown.user_id == user)
    }

    pub fn entry_or_new(&mut self, user: UserId) -> &mut Entry {
        let entries = &mut self.participants.0;
        let at = entries.iter().position(|entry| entry.shown.user_id == user).unwrap_or_else(|| {
            entries.push(Entry::member(user));
            entries.len() - 1
        });
        &mut entries[at]
    }

    /// Those in this state, in their order.
    pub fn users(&self, state: ParticipantState) -> Vec<UserId> {
        self.users_who(|entry| entry.is(state))
    }

    /// Who was ever Joined, the host first.
    pub fn attendees(&self) -> Vec<UserId> {
        self.users_who(|entry| entry.shown.joined_at.is_some())
    }

    fn users_who(&self, is_one: impl Fn(&Entry) -> bool) -> Vec<UserId> {
        self.participants.0.iter().filter(|entry| is_one(entry)).map(|entry| entry.shown.user_id).collect()
    }

    pub fn has(&self, state: ParticipantState) -> bool {
        self.participants.0.iter().any(|entry| entry.is(state))
    }

    pub fn seats(&self) -> usize {
        self.participants.0.iter().filter(|entry| entry.is_seated()).count()
    }

    pub fn is_removed(&self, user: UserId) -> bool {
        self.entry(user).is_some_and(|entry| entry.is(ParticipantState::Removed))
    }

    /// For how long it was Active.
    pub fn duration_seconds(&self) -> i64 {
        self.active_at.zip(self.ended_at).map_or(0, |(from, to)| (to - from).whole_seconds().max(0))
    }

    /// When something happens to it by itself next.
    pub fn deadline(&self, timing: &Timing) -> Option<OffsetDateTime> {
        match self.status {
            ConferenceStatus::Ringing => Some(self.created_at + timing.ring),
            ConferenceStatus::Active => {
                let ends = self.ends(timing).into_iter().map(|(at, _)| at);
                let misses = self.participants.0.iter().filter(|entry| entry.is(ParticipantState::Invited));
                ends.chain(misses.filter_map(|entry| Some(entry.shown.invited_at? + timing.ring))).min()
            }
            ConferenceStatus::Ended => None,
        }
    }

    /// When it ends by itself while it is Active, and why.
    pub fn ends(&self, timing: &Timing) -> Vec<(OffsetDateTime, EndReason)> {
        let max = self.active_at.map(|from| (from + timing.max, EndReason::MaxDuration));
        let empty = self.empty_since.map(|since| (since + timing.empty, EndReason::AllLeft));
        max.into_iter().chain(empty).collect()
    }
}
