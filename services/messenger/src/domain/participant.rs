//! One of those who are, were or may be in a conference.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

/// What LiveKit calls one connection of somebody to a room.
pub type ConnectionSid = Text<1, 128>;

/// Connections that have ended, or were replaced, and are remembered: the events of a connection come within minutes.
const REMEMBERED: usize = 16;

values::text_enum! {
    /// Whose conference it is.
    pub enum ParticipantRole {
        Host,
        Member,
    }
}

values::text_enum! {
    /// Invited and Joined take a seat.
    pub enum ParticipantState {
        Invited,
        Joined,
        Left,
        Declined,
        Removed,
        Missed,
    }
}

/// Who is, was or may be in a conference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Participant {
    pub user_id: UserId,
    pub role: ParticipantRole,
    pub state: ParticipantState,
    /// The last time; null for who came unasked.
    #[serde(with = "time::serde::rfc3339::option")]
    pub invited_at: Option<OffsetDateTime>,
    /// The first time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub joined_at: Option<OffsetDateTime>,
    /// The last time; null while Joined.
    #[serde(with = "time::serde::rfc3339::option")]
    pub left_at: Option<OffsetDateTime>,
}

/// A participant, with what is kept of their connections and shown to nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry {
    #[serde(flatten)]
    pub shown: Participant,
    /// The newest connection that LiveKit has told of, until it ends.
    connection: Option<ConnectionSid>,
    /// When the newest one began.
    #[serde(default, with = "time::serde::rfc3339::option")]
    connected_at: Option<OffsetDateTime>,
    /// Those that have ended: what is told of them late is no news.
    ended_connections: Vec<ConnectionSid>,
    /// Those behind which another has come: that one of them ends is no news either.
    #[serde(default)]
    replaced_connections: Vec<ConnectionSid>,
    /// By request or by connection.
    #[serde(with = "time::serde::rfc3339::option")]
    latest_join_at: Option<OffsetDateTime>,
}

/// Somebody who is connected to a room, by the connection that LiveKit names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    pub user_id: UserId,
    pub sid: Option<ConnectionSid>,
}

impl Entry {
    /// Nowhere yet; what makes the entry says where.
    fn new(user_id: UserId, role: ParticipantRole) -> Self {
        Self {
            shown: Participant {
                user_id,
                role,
                state: ParticipantState::Left,
                invited_at: None,
                joined_at: None,
                left_at: None,
            },
            connection: None,
            connected_at: None,
            ended_connections: Vec::new(),
            replaced_connections: Vec::new(),
            latest_join_at: None,
        }
    }

    pub fn host(user_id: UserId, now: OffsetDateTime) -> Self {
        let mut host = Self::new(user_id, ParticipantRole::Host);
        host.join(now);
        host
    }

    pub fn member(user_id: UserId) -> Self {
        Self::new(user_id, ParticipantRole::Member)
    }

    pub fn is(&self, state: ParticipantState) -> bool {
        self.shown.state == state
    }

    pub fn is_host(&self) -> bool {
        self.shown.role == ParticipantRole::Host
    }

    pub fn is_seated(&self) -> bool {
        self.is(ParticipantState::Invited) || self.is(ParticipantState::Joined)
    }

    pub fn invite(&mut self, now: OffsetDateTime) {
        self.shown.state = ParticipantState::Invited;
        self.shown.invited_at = Some(now);
    }

    /// By request. A repeat is a join, too, but shows nothing new.
    pub fn join(&mut self, now: OffsetDateTime) {
        self.shown.state = ParticipantState::Joined;
        self.shown.joined_at.get_or_insert(now);
        self.shown.left_at = None;
        self.latest_join_at = Some(now);
    }

    /// By a connection that began at `at`, of which is heard now.
    pub fn connect(&mut self, sid: Option<ConnectionSid>, at: OffsetDateTime, now: OffsetDateTime) {
        let latest = self.latest_join_at.filter(|_| self.is(ParticipantState::Joined));
        self.join(now);
        self.latest_join_at = latest.max(Some(at));
        // One that began before another which is there has been replaced by it, and is told of late.
        let replaced = if self.connection.is_none() || self.connected_at <= Some(at) {
            self.connected_at = Some(at);
            std::mem::replace(&mut self.connection, sid)
        } else {
            sid
        };
        if let Some(replaced) = replaced.filter(|replaced| self.connection.as_ref() != Some(replaced)) {
            remember(&mut self.replaced_connections, replaced);
        }
    }

    /// One who is Joined is in this state from `at` on.
    pub fn leave(&mut self, state: ParticipantState, at: OffsetDateTime) {
        if self.is(ParticipantState::Joined) {
            self.shown.left_at = Some(at);
        }
        self.shown.state = state;
    }

    /// Whether the connection has ended already, whatever is told of it now.
    pub fn has_ended(&self, sid: Option<&ConnectionSid>) -> bool {
        sid.is_some_and(|sid| self.ended_connections.contains(sid))
    }

    /// Remembers that a connection has ended. Whether it was the newest that is known of.
    pub fn disconnect(&mut self, sid: Option<ConnectionSid>) -> bool {
        let was_replaced = sid.as_ref().is_some_and(|sid| self.replaced_connections.contains(sid));
        let is_newest = sid.is_none() || self.connection == sid || self.connection.is_none() && !was_replaced;
        if is_newest {
            self.connection = None;
        }
        if let Some(sid) = sid {
            remember(&mut self.ended_connections, sid);
        }
        is_newest
    }

    /// Whether they came and went, if at all, before `at`.
    pub fn is_settled_since(&self, at: OffsetDateTime) -> bool {
        self.latest_join_at.max(self.shown.left_at).is_none_or(|changed| changed < at)
    }

    /// Joined for the last time before `at`.
    pub fn joined_before(&self, at: OffsetDateTime) -> bool {
        self.is(ParticipantState::Joined) && self.latest_join_at.is_none_or(|joined| joined < at)
    }
}

fn remember(known: &mut Vec<ConnectionSid>, sid: ConnectionSid) {
    if known.contains(&sid) {
        return;
    }
    if known.len() == REMEMBERED {
        known.remove(0);
    }
    known.push(sid);
}
