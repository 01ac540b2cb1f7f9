//! Decisions about conferences, after actions of users, webhooks of LiveKit and timers.

mod lobby;

use std::time::Duration;

use auth::UserId;
use time::OffsetDateTime;
use values::Code;

use super::conference::{Conference, ConferenceStatus, EndReason, Timing};
use super::limits::MAX_SEATS;
use super::participant::{ConnectedParticipant, ConnectionSid, ParticipantEntry, ParticipantState};
use crate::error::{
    ADMISSION_DENIED, CONFERENCE_ENDED, CONFERENCE_FULL, FORBIDDEN, PARTICIPANT_NOT_FOUND,
    PARTICIPANT_REMOVED,
};

/// Seats of a conference (INV-CNF-2).
const SEATS: usize = MAX_SEATS as usize;

/// Time that a client may need to connect to LiveKit, or to disconnect from it.
const CONNECT_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// A request or an event that may change a conference.
/// The caller has checked membership and permissions. [`Conference::decide`] checks the state.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// The `users` are distinct and do not contain `by`.
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
    /// The user asks to be admitted.
    Knock(UserId),
    Admit {
        user: UserId,
        by: UserId,
    },
    Deny {
        user: UserId,
        by: UserId,
    },
    /// The host makes another participant the host.
    HandOver {
        from: UserId,
        to: UserId,
    },
    /// The user stopped being a member of the chat.
    LeaveChat {
        user: UserId,
        by: Option<UserId>,
    },
    /// LiveKit reported a connection that began at `at`.
    Connect {
        user: UserId,
        sid: Option<ConnectionSid>,
        at: OffsetDateTime,
    },
    /// LiveKit reported the end of a connection at `at`.
    Disconnect {
        user: UserId,
        sid: Option<ConnectionSid>,
        at: OffsetDateTime,
    },
    /// LiveKit reported the end of the room at `at`.
    FinishRoom {
        at: OffsetDateTime,
    },
    /// LiveKit listed the participants of the room at `at`.
    Reconcile {
        present: &'a [ConnectedParticipant],
        at: OffsetDateTime,
    },
    /// A deadline may have passed.
    Expire(&'a Timing),
}

/// A command for LiveKit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaCommand {
    RemoveParticipant(UserId),
    DeleteRoom,
}

/// The outcome of an action.
#[derive(Clone, Debug)]
pub struct Decision {
    pub conference: Conference,
    /// Users whom the action made Invited.
    pub invited: Vec<UserId>,
    pub media_commands: Vec<MediaCommand>,
}

impl Decision {
    /// Returns true if users see a difference from `before`.
    pub fn is_visible_change(&self, before: &Conference) -> bool {
        self.conference.version != before.version
    }

    /// Returns true if the action ended the conference.
    pub fn is_end(&self, before: &Conference) -> bool {
        before.is_live() && !self.conference.is_live()
    }
}

impl Conference {
    /// Returns the conference after the action, with the commands for LiveKit.
    ///
    /// # Errors
    /// - [`PARTICIPANT_REMOVED`]: the user, or an invited user, is Removed.
    /// - [`CONFERENCE_ENDED`]: the conference is Ended, and the action changes only a live one.
    /// - [`ADMISSION_REQUIRED`](crate::error::ADMISSION_REQUIRED): the user needs an admission.
    /// - [`PARTICIPANT_NOT_FOUND`]: an invited user is not a member, the user has no entry and does
    ///   not wait, or the new host is not Joined.
    /// - [`ADMISSION_DENIED`]: the admission of the user, or of an invited user, was denied.
    /// - [`CONFERENCE_FULL`]: no seat is free.
    /// - [`FORBIDDEN`]: removal of the host.
    pub fn decide(&self, action: Action<'_>, now: OffsetDateTime) -> Result<Decision, Code> {
        let mut next = Decision { conference: self.clone(), invited: Vec::new(), media_commands: Vec::new() };
        match action {
            Action::Invite { by, users, members } => next.invite(by, users, members, now)?,
            Action::Join(user) => next.join(user, now)?,
            Action::Leave(user) => next.leave(user, now)?,
            Action::Decline(user) => {
                let entry = next.conference.entry_mut(user).ok_or(PARTICIPANT_NOT_FOUND)?;
                if entry.is(ParticipantState::Invited) {
                    entry.move_to(ParticipantState::Declined, now);
                }
            }
            Action::Remove(user) => {
                let entry = self.entry(user).ok_or(PARTICIPANT_NOT_FOUND)?;
                if entry.is_host() {
                    return Err(FORBIDDEN);
                }
                next.remove(user, now);
            }
            Action::End(by) => next.end(EndReason::EndedByHost, Some(by), now),
            Action::Knock(user) => next.knock(user, now)?,
            Action::Admit { user, .. } => next.admit(user, now)?,
            Action::Deny { user, .. } => next.deny(user)?,
            Action::HandOver { to, .. } => next.hand_over(to)?,
            Action::LeaveChat { user, by } if self.is_host(user) => {
                next.end(EndReason::EndedByHost, by, now);
            }
            Action::LeaveChat { user, .. } => {
                next.remove(user, now);
                next.conference.withdraw_knock(user);
            }
            Action::Connect { user, sid, at } => match next.conference.overtaken_entry(user, at) {
                Some(entry) => entry.record_replaced(sid),
                None => next.connect(user, sid, at, now),
            },
            Action::Disconnect { user, sid, at } => next.disconnect(user, sid, at),
            Action::FinishRoom { at } => {
                next.conference.participants.0.iter_mut().for_each(|entry| entry.finish_room(at));
            }
            Action::Reconcile { present, at } if self.is_live() => next.reconcile(present, at, now),
            Action::Reconcile { .. } => {}
            Action::Expire(timing) => next.expire(now, timing),
        }
        next.update_status(now);
        if next.conference.is_visibly_different_from(self) {
            next.conference.version += 1;
        }
        Ok(next)
    }

    /// Returns the entry of a user, if LiveKit has reported an event of the participant or of the
    /// room that is later than `at`. Otherwise returns `None`, and the caller applies the
    /// connection.
    ///
    /// Returns `None` also for an Ended conference or a Removed user. LiveKit then gets a command,
    /// even if a later event is known.
    fn overtaken_entry(&mut self, user: UserId, at: OffsetDateTime) -> Option<&mut ParticipantEntry> {
        let is_live = self.is_live();
        let entry = self.entry_mut(user)?;
        (is_live && !entry.is(ParticipantState::Removed) && entry.is_overtaken(at)).then_some(entry)
    }

    /// Refuses the access to the room.
    ///
    /// # Errors
    /// - [`PARTICIPANT_REMOVED`]: the user is Removed.
    /// - [`CONFERENCE_ENDED`]: the conference is Ended.
    /// - [`PARTICIPANT_NOT_FOUND`]: the user is neither Joined, nor Left because a connection
    ///   broke.
    /// - [`CONFERENCE_FULL`]: the user is Left, and no seat is free.
    pub fn require_media_access(&self, user: UserId) -> Result<(), Code> {
        if self.is_removed(user) {
            return Err(PARTICIPANT_REMOVED);
        }
        if !self.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        let entry = self.entry(user).filter(|entry| entry.may_reconnect()).ok_or(PARTICIPANT_NOT_FOUND)?;
        let has_seat = entry.is_seated() || self.taken_seats() < SEATS;
        if has_seat { Ok(()) } else { Err(CONFERENCE_FULL) }
    }

    fn is_visibly_different_from(&self, before: &Self) -> bool {
        let participants = |conference: &Self| {
            conference.participants.0.iter().map(|entry| entry.participant.clone()).collect::<Vec<_>>()
        };
        self.status != before.status
            || self.knocks != before.knocks
            || participants(self) != participants(before)
    }
}

/// The actions, each applied to the conference of the decision.
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
        conference.require_admission(by)?;
        if users.iter().any(|user| !members.contains(user)) {
            return Err(PARTICIPANT_NOT_FOUND);
        }
        if !conference.is_host(by) {
            if users.iter().any(|user| conference.is_removed(*user)) {
                return Err(PARTICIPANT_REMOVED);
            }
            if users.iter().any(|user| conference.is_denied(*user)) {
                return Err(ADMISSION_DENIED);
            }
        }
        for user in users {
            conference.delete_knock(*user);
            let entry = conference.entry_or_insert(*user);
            if !entry.is_host() && !entry.is_seated() {
                entry.invite(now);
                self.invited.push(*user);
            }
        }
        if conference.taken_seats() > SEATS { Err(CONFERENCE_FULL) } else { Ok(()) }
    }

    fn join(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        let conference = &mut self.conference;
        if conference.is_removed(user) {
            return Err(PARTICIPANT_REMOVED);
        }
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        conference.require_admission(user)?;
        conference.entry_or_insert(user).join(now);
        if conference.taken_seats() > SEATS { Err(CONFERENCE_FULL) } else { Ok(()) }
    }

    fn leave(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        if self.conference.withdraw_knock(user) {
            return Ok(());
        }
        let is_ringing = self.conference.status == ConferenceStatus::Ringing;
        let entry = self.conference.entry_mut(user).ok_or(PARTICIPANT_NOT_FOUND)?;
        if entry.is_host() && is_ringing {
            self.end(EndReason::EndedByHost, Some(user), now);
        } else if entry.may_reconnect() {
            // A client whose connection broke may be connecting again.
            entry.leave(now);
            self.media_commands.push(MediaCommand::RemoveParticipant(user));
        }
        Ok(())
    }

    /// Makes a participant of a live conference Removed. A user without an entry does not get one.
    fn remove(&mut self, user: UserId, now: OffsetDateTime) {
        let is_live = self.conference.is_live();
        if let Some(entry) = self.conference.entry_mut(user)
            && is_live
            && !entry.is(ParticipantState::Removed)
        {
            entry.move_to(ParticipantState::Removed, now);
            self.media_commands.push(MediaCommand::RemoveParticipant(user));
        }
    }

    fn connect(&mut self, user: UserId, sid: Option<ConnectionSid>, at: OffsetDateTime, now: OffsetDateTime) {
        let conference = &mut self.conference;
        if !conference.is_live() {
            self.media_commands.push(MediaCommand::DeleteRoom);
            return;
        }
        let has_free_seat = conference.taken_seats() < SEATS;
        let remove = MediaCommand::RemoveParticipant(user);
        match conference.entry_mut(user) {
            None => self.media_commands.push(remove),
            Some(entry) if entry.is(ParticipantState::Removed) => self.media_commands.push(remove),
            Some(entry) if entry.has_ended_connection(sid.as_ref()) => {}
            Some(entry) if !entry.is_seated() && !has_free_seat => self.media_commands.push(remove),
            Some(entry) => entry.connect(sid, at, now),
        }
    }

    fn disconnect(&mut self, user: UserId, sid: Option<ConnectionSid>, at: OffsetDateTime) {
        if let Some(entry) = self.conference.entry_mut(user)
            && entry.disconnect(sid, at)
            && entry.is(ParticipantState::Joined)
        {
            entry.lose_connection(at);
        }
    }

    /// Applies the effect of the webhooks that were lost.
    ///
    /// Participants who joined or left within [`CONNECT_GRACE_PERIOD`] are skipped, because their
    /// clients may still be connecting or disconnecting.
    fn reconcile(&mut self, present: &[ConnectedParticipant], at: OffsetDateTime, now: OffsetDateTime) {
        let before = at - CONNECT_GRACE_PERIOD;
        let is_present = |user: UserId| present.iter().any(|present| present.user_id == user);
        let entries = self.conference.participants.0.iter_mut();
        for entry in entries.filter(|entry| entry.has_joined_before(before)) {
            if !is_present(entry.participant.user_id) {
                entry.lose_connection(now);
            }
        }
        for ConnectedParticipant { user_id, sid } in present {
            let entry = self.conference.entry(*user_id);
            let has_unrecorded_join = |entry: &ParticipantEntry| {
                entry.is_unchanged_since(before) && !entry.is(ParticipantState::Joined)
            };
            if entry.is_none_or(has_unrecorded_join) {
                self.connect(*user_id, sid.clone(), at, now);
            }
        }
    }

    fn expire(&mut self, now: OffsetDateTime, timing: &Timing) {
        match self.conference.status {
            ConferenceStatus::Ringing if self.conference.created_at + timing.ring_timeout <= now => {
                self.end(EndReason::NoAnswer, None, now);
            }
            ConferenceStatus::Active => {
                let due = self.conference.end_deadlines(timing).into_iter().filter(|(at, _)| *at <= now);
                if let Some((_, reason)) = due.min_by_key(|(at, _)| *at) {
                    self.end(reason, None, now);
                }
                let entries = self.conference.participants.0.iter_mut();
                let invited = entries.filter(|entry| entry.is(ParticipantState::Invited));
                let is_due = |at: OffsetDateTime| at + timing.ring_timeout <= now;
                invited
                    .filter(|entry| entry.participant.invited_at.is_none_or(is_due))
                    .for_each(|entry| entry.move_to(ParticipantState::Missed, now));
            }
            ConferenceStatus::Ringing | ConferenceStatus::Ended => {}
        }
    }

    /// Ends a live conference. An Ended one does not change.
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
            match entry.participant.state {
                ParticipantState::Invited => entry.move_to(ParticipantState::Missed, now),
                ParticipantState::Joined => entry.move_to(ParticipantState::Left, now),
                _ => {}
            }
        }
        conference.withdraw_all_knocks();
        self.media_commands.push(MediaCommand::DeleteRoom);
    }

    /// Sorts the participants, and derives the status from their states.
    fn update_status(&mut self, now: OffsetDateTime) {
        let conference = &mut self.conference;
        conference.participants.0.sort_by_key(|ParticipantEntry { participant, .. }| {
            (participant.role, participant.invited_at.or(participant.joined_at))
        });
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
