//! The lobby of a conference, in which members without an invitation wait.

use auth::UserId;
use time::OffsetDateTime;

use super::conference::Conference;
use super::knock::{Knock, KnockState};

values::text_enum! {
    /// The kind of an entry in the log of a conference.
    pub enum ConferenceChange {
        Admitted,
        Denied,
        HostChanged,
    }
}

impl Conference {
    /// Returns true for a user who needs no admission.
    /// A user with an entry is the host, or was invited or admitted before.
    pub fn is_admitted(&self, user: UserId) -> bool {
        !self.has_lobby || self.entry(user).is_some()
    }

    /// Returns the state of the user's knock.
    pub fn knock_state(&self, user: UserId) -> Option<KnockState> {
        self.knocks.0.iter().find(|knock| knock.user_id == user).map(|knock| knock.state)
    }

    /// Returns true for a user whose admission was denied.
    pub fn is_denied(&self, user: UserId) -> bool {
        self.knock_state(user) == Some(KnockState::Denied)
    }

    /// Adds a knock of a user who has none.
    pub fn add_knock(&mut self, user_id: UserId, now: OffsetDateTime) {
        self.knocks.0.push(Knock { user_id, state: KnockState::Waiting, knocked_at: now });
    }

    /// Makes the knock of a waiting user Denied. Returns false if the user does not wait.
    pub fn deny_knock(&mut self, user: UserId) -> bool {
        let waiting = self.knocks.0.iter_mut().find(|knock| is_waiting(knock) && knock.user_id == user);
        waiting.map(|knock| knock.state = KnockState::Denied).is_some()
    }

    /// Ends the waiting of a user. Returns false if the user does not wait.
    pub fn withdraw_knock(&mut self, user: UserId) -> bool {
        let before = self.knocks.0.len();
        self.knocks.0.retain(|knock| knock.user_id != user || !is_waiting(knock));
        self.knocks.0.len() < before
    }

    /// Deletes the waiting or denied knock of a user who gets an entry.
    pub fn delete_knock(&mut self, user: UserId) {
        self.knocks.0.retain(|knock| knock.user_id != user);
    }

    /// Ends the waiting of all users.
    pub fn withdraw_all_knocks(&mut self) {
        self.knocks.0.retain(|knock| !is_waiting(knock));
    }
}

fn is_waiting(knock: &Knock) -> bool {
    knock.state == KnockState::Waiting
}
