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

use super::participant::{ConnectionSid, Entry, Participant, ParticipantState, Present};
use super::{ChatId, ConferenceId, DealId};
use crate::db::schema::conference;
use crate::error::{
    CONFERENCE_ENDED, CONFERENCE_FULL, FORBIDDEN, MOST_SEATS, PARTICIPANT_NOT_FOUND, PARTICIPANT_REMOVED,
};

/// INV-CNF-2
const SEATS: usize = MOST_SEATS as usize;
/// Beside the host.
pub const MOST_INVITED: usize = SEATS - 1;
/// So long a client may take to connect, or to hear that it has been let go.
const UNDER_WAY: Duration = Duration::from_secs(10);

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

/// What somebody asks for, or what has happened. Whether they may is decided by who they are to the chat; what depends on who they
/// are to the conference is decided here.
#[derive(Clone, Debug)]
pub enum Act<'a> {
    /// `users` are distinct, and `by` is none of them.
    Invite {
        by: UserId,
        users: &'a [UserId],
        members: &'a [UserId],
    },
    Join(UserId),
    Leave(UserId),
    Decline(UserId),
    Remove(UserId),
    End(UserId),
    /// Somebody is no member of the chat any more.
    Depart {
        user: UserId,
        by: Option<UserId>,
    },
    Connect {
        user: UserId,
        sid: Option<ConnectionSid>,
        at: OffsetDateTime,
    },
    Disconnect {
        user: UserId,
        sid: Option<ConnectionSid>,
        at: OffsetDateTime,
    },
    FinishRoom {
        at: OffsetDateTime,
    },
    /// Those who were in the room, as LiveKit said when it was asked at `at`.
    Compare {
        present: &'a [Present],
        at: OffsetDateTime,
    },
    /// A deadline has passed, it may be.
    Expire(&'a Timing),
}

/// What LiveKit has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Remove(UserId),
    Close,
}

/// What becomes of a conference, and who has to hear of it.
#[derive(Clone, Debug)]
pub struct Decision {
    pub conference: Conference,
    /// Those whom this made Invited.
    pub invited: Vec<UserId>,
    pub orders: Vec<Order>,
}

impl Decision {
    /// Whether readers see another card than `before`.
    pub fn is_seen(&self, before: &Conference) -> bool {
        self.conference.version != before.version
    }

    /// Whether it is this that ended it.
    pub fn ends(&self, before: &Conference) -> bool {
        before.is_live() && !self.conference.is_live()
    }
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

    fn entry_mut(&mut self, user: UserId) -> Option<&mut Entry> {
        self.participants.0.iter_mut().find(|entry| entry.shown.user_id == user)
    }

    fn entry_or_new(&mut self, user: UserId) -> &mut Entry {
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

    fn has(&self, state: ParticipantState) -> bool {
        self.participants.0.iter().any(|entry| entry.is(state))
    }

    fn seats(&self) -> usize {
        self.participants.0.iter().filter(|entry| entry.is_seated()).count()
    }

    fn is_removed(&self, user: UserId) -> bool {
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
    fn ends(&self, timing: &Timing) -> Vec<(OffsetDateTime, EndReason)> {
        let max = self.active_at.map(|from| (from + timing.max, EndReason::MaxDuration));
        let empty = self.empty_since.map(|since| (since + timing.empty, EndReason::AllLeft));
        max.into_iter().chain(empty).collect()
    }

    /// # Errors
    /// [`PARTICIPANT_REMOVED`], [`CONFERENCE_ENDED`], [`PARTICIPANT_NOT_FOUND`], [`CONFERENCE_FULL`], [`FORBIDDEN`] where the
    /// host is to be removed.
    pub fn decide(&self, act: Act<'_>, now: OffsetDateTime) -> Result<Decision, Code> {
        let mut next = Decision { conference: self.clone(), invited: Vec::new(), orders: Vec::new() };
        match act {
            Act::Invite { by, users, members } => next.invite(by, users, members, now)?,
            Act::Join(user) => next.join(user, now)?,
            Act::Leave(user) => next.leave(user, now)?,
            Act::Decline(user) => {
                let entry = next.conference.entry_mut(user).ok_or(PARTICIPANT_NOT_FOUND)?;
                if entry.is(ParticipantState::Invited) {
                    entry.leave(ParticipantState::Declined, now);
                }
            }
            Act::Remove(user) => {
                let entry = self.entry(user).ok_or(PARTICIPANT_NOT_FOUND)?;
                if entry.is_host() {
                    return Err(FORBIDDEN);
                }
                next.dismiss(user, now);
            }
            Act::End(by) => next.end(EndReason::EndedByHost, Some(by), now),
            Act::Depart { user, by } if user == self.started_by_user_id => {
                next.end(EndReason::EndedByHost, by, now);
            }
            Act::Depart { user, .. } => next.dismiss(user, now),
            Act::Connect { user, sid, at } => next.connect(user, sid, at, now),
            Act::Disconnect { user, sid, at } => next.disconnect(user, sid, at),
            Act::FinishRoom { at } => {
                let gone = next.conference.participants.0.iter_mut().filter(|entry| entry.joined_before(at));
                gone.for_each(|entry| entry.leave(ParticipantState::Left, at));
            }
            Act::Compare { present, at } if self.is_live() => next.compare(present, at, now),
            Act::Compare { .. } => {}
            Act::Expire(timing) => next.expire(now, timing),
        }
        next.settle(now);
        if next.conference.is_another_card(self) {
            next.conference.version += 1;
        }
        Ok(next)
    }

    fn is_another_card(&self, before: &Self) -> bool {
        let shown = |conference: &Self| {
            conference.participants.0.iter().map(|entry| entry.shown.clone()).collect::<Vec<_>>()
        };
        self.status != before.status || shown(self) != shown(before)
    }
}

/// One part of a decision each.
impl Decision {
    fn invite(
        &mut self,
        by: UserId,
        users: &[UserId],
        members: &[UserId],
        now: OffsetDateTime,
    ) -> Result<(), Code> {
        let conference = &mut self.conference;
        if conference.is_removed(by) {
            return Err(PARTICIPANT_REMOVED);
        }
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        if users.iter().any(|user| !members.contains(user)) {
            return Err(PARTICIPANT_NOT_FOUND);
        }
        if by != conference.started_by_user_id && users.iter().any(|user| conference.is_removed(*user)) {
            return Err(PARTICIPANT_REMOVED);
        }
        for user in users {
            let entry = conference.entry_or_new(*user);
            if !entry.is_host() && !entry.is_seated() {
                entry.invite(now);
                self.invited.push(*user);
            }
        }
        if conference.seats() > SEATS { Err(CONFERENCE_FULL) } else { Ok(()) }
    }

    fn join(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        let conference = &mut self.conference;
        if conference.is_removed(user) {
            return Err(PARTICIPANT_REMOVED);
        }
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        conference.entry_or_new(user).join(now);
        if conference.seats() > SEATS { Err(CONFERENCE_FULL) } else { Ok(()) }
    }

    fn leave(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        let is_ringing = self.conference.status == ConferenceStatus::Ringing;
        let entry = self.conference.entry_mut(user).ok_or(PARTICIPANT_NOT_FOUND)?;
        if entry.is_host() && is_ringing {
            self.end(EndReason::EndedByHost, Some(user), now);
        } else if entry.is(ParticipantState::Joined) {
            entry.leave(ParticipantState::Left, now);
            self.orders.push(Order::Remove(user));
        }
        Ok(())
    }

    /// One who is no participant is none afterwards.
    fn dismiss(&mut self, user: UserId, now: OffsetDateTime) {
        let is_live = self.conference.is_live();
        if let Some(entry) = self.conference.entry_mut(user)
            && is_live
            && !entry.is(ParticipantState::Removed)
        {
            entry.leave(ParticipantState::Removed, now);
            self.orders.push(Order::Remove(user));
        }
    }

    fn connect(&mut self, user: UserId, sid: Option<ConnectionSid>, at: OffsetDateTime, now: OffsetDateTime) {
        let conference = &mut self.conference;
        if !conference.is_live() {
            self.orders.push(Order::Close);
            return;
        }
        let has_seat = conference.seats() < SEATS;
        match conference.entry_mut(user) {
            None => self.orders.push(Order::Remove(user)),
            Some(entry) if entry.is(ParticipantState::Removed) => self.orders.push(Order::Remove(user)),
            Some(entry) if entry.has_ended(sid.as_ref()) => {}
            Some(entry) if !entry.is_seated() && !has_seat => self.orders.push(Order::Remove(user)),
            Some(entry) => entry.connect(sid, at, now),
        }
    }

    fn disconnect(&mut self, user: UserId, sid: Option<ConnectionSid>, at: OffsetDateTime) {
        if let Some(entry) = self.conference.entry_mut(user)
            && entry.disconnect(sid)
            && entry.is(ParticipantState::Joined)
        {
            entry.leave(ParticipantState::Left, at);
        }
    }

    /// As if webhooks had told. Who came or went a moment before is left alone: LiveKit may not have heard of it, or they
    /// are about to connect.
    fn compare(&mut self, present: &[Present], at: OffsetDateTime, now: OffsetDateTime) {
        let before = at - UNDER_WAY;
        let is_there = |user: UserId| present.iter().find(|present| present.user_id == user);
        for entry in self.conference.participants.0.iter_mut().filter(|entry| entry.joined_before(before)) {
            if is_there(entry.shown.user_id).is_none() {
                entry.leave(ParticipantState::Left, now);
            }
        }
        for Present { user_id, sid } in present {
            let entry = self.conference.entry(*user_id);
            if entry.is_none_or(|entry| entry.is_settled_since(before) && !entry.is(ParticipantState::Joined))
            {
                self.connect(*user_id, sid.clone(), at, now);
            }
        }
    }

    fn expire(&mut self, now: OffsetDateTime, timing: &Timing) {
        match self.conference.status {
            ConferenceStatus::Ringing if self.conference.created_at + timing.ring <= now => {
                self.end(EndReason::NoAnswer, None, now);
            }
            ConferenceStatus::Active => {
                let due = self.conference.ends(timing).into_iter().filter(|(at, _)| *at <= now);
                if let Some((_, reason)) = due.min_by_key(|(at, _)| *at) {
                    self.end(reason, None, now);
                }
                let entries = self.conference.participants.0.iter_mut();
                let invited = entries.filter(|entry| entry.is(ParticipantState::Invited));
                invited
                    .filter(|entry| entry.shown.invited_at.is_none_or(|at| at + timing.ring <= now))
                    .for_each(|entry| entry.leave(ParticipantState::Missed, now));
            }
            ConferenceStatus::Ringing | ConferenceStatus::Ended => {}
        }
    }

    /// An ended one stays as it is.
    fn end(&mut self, reason: EndReason, by: Option<UserId>, now: OffsetDateTime) {
        let conference = &mut self.conference;
        if !conference.is_live() {
            return;
        }
        conference.status = ConferenceStatus::Ended;
        conference.ended_at = Some(now);
        conference.end_reason = Some(reason);
        conference.ended_by_user_id = by;
        for entry in &mut conference.participants.0 {
            match entry.shown.state {
                ParticipantState::Invited => entry.leave(ParticipantState::Missed, now),
                ParticipantState::Joined => entry.leave(ParticipantState::Left, now),
                _ => {}
            }
        }
        self.orders.push(Order::Close);
    }

    /// What follows from who is where now.
    fn settle(&mut self, now: OffsetDateTime) {
        let conference = &mut self.conference;
        conference
            .participants
            .0
            .sort_by_key(|Entry { shown, .. }| (shown.role, shown.invited_at.or(shown.joined_at)));
        let is_answered = conference
            .participants
            .0
            .iter()
            .any(|entry| !entry.is_host() && entry.is(ParticipantState::Joined));
        if conference.status == ConferenceStatus::Ringing {
            if is_answered {
                conference.status = ConferenceStatus::Active;
                conference.active_at = Some(now);
            } else if !conference.has(ParticipantState::Invited) {
                self.end(EndReason::AllDeclined, None, now);
            }
        }
        let conference = &mut self.conference;
        let is_empty =
            conference.status == ConferenceStatus::Active && !conference.has(ParticipantState::Joined);
        conference.empty_since = is_empty.then(|| conference.empty_since.unwrap_or(now));
    }
}
