//! Decisions about the lobby and the host of a conference.

use auth::UserId;
use time::OffsetDateTime;
use values::Code;

use super::{Decision, SEATS};
use crate::domain::conference::Conference;
use crate::domain::knock::KnockState;
use crate::domain::participant::{ParticipantRole, ParticipantState};
use crate::error::{
    ADMISSION_DENIED, ADMISSION_REQUIRED, CONFERENCE_ENDED, CONFERENCE_FULL, PARTICIPANT_NOT_FOUND,
    PARTICIPANT_REMOVED,
};

impl Conference {
    /// Refuses a user who needs an admission and has none.
    ///
    /// # Errors
    /// - [`ADMISSION_DENIED`]: the admission of the user was denied.
    /// - [`ADMISSION_REQUIRED`]: the user was neither invited nor admitted.
    pub(super) fn require_admission(&self, user: UserId) -> Result<(), Code> {
        if self.is_admitted(user) {
            return Ok(());
        }
        Err(if self.is_denied(user) { ADMISSION_DENIED } else { ADMISSION_REQUIRED })
    }
}

impl Decision {
    /// Adds the knock of a user who needs an admission. Changes nothing for any other user.
    pub(super) fn knock(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        let conference = &mut self.conference;
        if conference.is_removed(user) {
            return Err(PARTICIPANT_REMOVED);
        }
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        match conference.knock_state(user) {
            Some(KnockState::Denied) => return Err(ADMISSION_DENIED),
            Some(KnockState::Waiting) => {}
            None if conference.is_admitted(user) => {}
            None => conference.add_knock(user, now),
        }
        Ok(())
    }

    /// Invites a waiting user. A user with an entry does not change.
    pub(super) fn admit(&mut self, user: UserId, now: OffsetDateTime) -> Result<(), Code> {
        let conference = &mut self.conference;
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        if conference.withdraw_knock(user) {
            conference.entry_or_insert(user).invite(now);
            self.invited.push(user);
        } else if conference.entry(user).is_none() {
            return Err(PARTICIPANT_NOT_FOUND);
        }
        if conference.taken_seats() > SEATS { Err(CONFERENCE_FULL) } else { Ok(()) }
    }

    /// Denies the admission of a waiting user. A user with an entry or a denial does not change.
    pub(super) fn deny(&mut self, user: UserId) -> Result<(), Code> {
        let conference = &mut self.conference;
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        let is_known =
            conference.deny_knock(user) || conference.is_denied(user) || conference.entry(user).is_some();
        if is_known { Ok(()) } else { Err(PARTICIPANT_NOT_FOUND) }
    }

    /// Makes a Joined participant the host in place of the present one.
    pub(super) fn hand_over(&mut self, to: UserId) -> Result<(), Code> {
        let conference = &mut self.conference;
        if !conference.is_live() {
            return Err(CONFERENCE_ENDED);
        }
        if !conference.entry(to).is_some_and(|entry| entry.is(ParticipantState::Joined)) {
            return Err(PARTICIPANT_NOT_FOUND);
        }
        for entry in &mut conference.participants.0 {
            let is_host = entry.participant.user_id == to;
            entry.participant.role = if is_host { ParticipantRole::Host } else { ParticipantRole::Member };
        }
        Ok(())
    }
}
