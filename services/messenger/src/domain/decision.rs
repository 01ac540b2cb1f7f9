//! What becomes of a conference by what somebody does, by what LiveKit tells, and by time.

use std::time::Duration;

use auth::UserId;
use time::OffsetDateTime;
use values::Code;

use super::conference::{Conference, ConferenceStatus, EndReason, SEATS, Timing};
use super::participant::{ConnectionSid, Entry, ParticipantState, Present};
use crate::error::{
    CONFERENCE_ENDED, CONFERENCE_FULL, FORBIDDEN, PARTICIPANT_NOT_FOUND, PARTICIPANT_REMOVED,
};

/// So long a client may take to connect, or to hear that it has been let go.
const UNDER_WAY: Duration = Duration::from_secs(10);

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

impl Conference {
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

#[cfg(test)]
mod tests;
