//! Participants of a conference and their connections to LiveKit.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

/// LiveKit's id of one connection of a participant.
pub type ConnectionSid = Text<1, 128>;

/// Maximum number of ended, and of replaced, connections that a participant remembers.
/// Webhooks about one connection arrive within minutes, so 16 connections suffice.
const MAX_REMEMBERED_CONNECTIONS: usize = 16;

values::text_enum! {
    /// The role of a participant. The host started the conference, or a former host handed it over.
    pub enum ParticipantRole {
        Host,
        Member,
    }
}

values::text_enum! {
    /// The state of a participant. `Invited` and `Joined` take a seat.
    pub enum ParticipantState {
        Invited,
        Joined,
        Left,
        Declined,
        Removed,
        Missed,
    }
}

/// A participant as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Participant {
    pub user_id: UserId,
    pub role: ParticipantRole,
    pub state: ParticipantState,
    /// Time of the last invitation. Null for a participant without invitation.
    #[serde(with = "time::serde::rfc3339::option")]
    pub invited_at: Option<OffsetDateTime>,
    /// Time of the first join.
    #[serde(with = "time::serde::rfc3339::option")]
    pub joined_at: Option<OffsetDateTime>,
    /// Time of the last leave. Null while Joined.
    #[serde(with = "time::serde::rfc3339::option")]
    pub left_at: Option<OffsetDateTime>,
}

/// A participant with its connections, which no response shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ParticipantEntry {
    #[serde(flatten)]
    pub participant: Participant,
    /// The newest known connection, until it ends.
    connection: Option<ConnectionSid>,
    /// Time when the newest known connection began.
    #[serde(default, with = "time::serde::rfc3339::option")]
    connected_at: Option<OffsetDateTime>,
    /// Ended connections. A late webhook about their start has no effect.
    ended_connections: Vec<ConnectionSid>,
    /// Connections that a newer one replaced, or whose start a later event overtook. A webhook
    /// about their end has no effect.
    #[serde(default)]
    replaced_connections: Vec<ConnectionSid>,
    /// Time of the latest join, by request or by connection.
    #[serde(with = "time::serde::rfc3339::option")]
    latest_join_at: Option<OffsetDateTime>,
    /// Time of the newest end of a connection or of the room that LiveKit reported.
    #[serde(default, with = "time::serde::rfc3339::option")]
    latest_end_at: Option<OffsetDateTime>,
    /// True if the participant is Left because a connection broke, and not by request.
    #[serde(default)]
    has_lost_connection: bool,
}

/// A user who is connected to a room of LiveKit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedParticipant {
    pub user_id: UserId,
    pub sid: Option<ConnectionSid>,
}

impl ParticipantEntry {
    /// Returns an entry in a provisional state, which the caller replaces.
    fn new(user_id: UserId, role: ParticipantRole) -> Self {
        Self {
            participant: Participant {
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
            latest_end_at: None,
            has_lost_connection: false,
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
        self.participant.state == state
    }

    pub fn is_host(&self) -> bool {
        self.participant.role == ParticipantRole::Host
    }

    pub fn is_seated(&self) -> bool {
        self.is(ParticipantState::Invited) || self.is(ParticipantState::Joined)
    }

    pub fn invite(&mut self, now: OffsetDateTime) {
        self.has_lost_connection = false;
        self.participant.state = ParticipantState::Invited;
        self.participant.invited_at = Some(now);
    }

    /// Joins by request. A repeat changes only the latest join time, which no response shows.
    pub fn join(&mut self, now: OffsetDateTime) {
        self.participant.state = ParticipantState::Joined;
        self.participant.joined_at.get_or_insert(now);
        self.participant.left_at = None;
        self.has_lost_connection = false;
        self.latest_join_at = Some(now);
    }

    /// Joins by a connection that began at `at`.
    pub fn connect(&mut self, sid: Option<ConnectionSid>, at: OffsetDateTime, now: OffsetDateTime) {
        // The latest join is the beginning of the connection, not the arrival of its webhook.
        let latest = self.latest_join_at.filter(|_| self.is(ParticipantState::Joined));
        self.join(now);
        self.latest_join_at = latest.max(Some(at));
        // Webhooks may arrive late, so the connection that began last is the current one.
        let replaced = if self.connection.is_none() || self.connected_at <= Some(at) {
            self.connected_at = Some(at);
            std::mem::replace(&mut self.connection, sid)
        } else {
            sid
        };
        self.record_replaced(replaced);
    }

    /// Moves to a state other than Joined, and records the time if the participant was Joined.
    pub fn move_to(&mut self, state: ParticipantState, at: OffsetDateTime) {
        if self.is(ParticipantState::Joined) {
            self.participant.left_at = Some(at);
        }
        self.participant.state = state;
        self.has_lost_connection = false;
    }

    /// Moves a Joined participant to Left, because the connection broke.
    pub fn lose_connection(&mut self, at: OffsetDateTime) {
        self.move_to(ParticipantState::Left, at);
        self.has_lost_connection = true;
    }

    /// Records that the participant left by request, also after a broken connection.
    pub fn leave(&mut self, now: OffsetDateTime) {
        if self.is(ParticipantState::Joined) {
            self.move_to(ParticipantState::Left, now);
        }
        self.has_lost_connection = false;
    }

    /// Returns true for a participant who may enter the room without a further join.
    pub fn may_reconnect(&self) -> bool {
        self.is(ParticipantState::Joined) || self.has_lost_connection
    }

    /// Returns true if LiveKit has reported an event of this participant or of the room that is
    /// later than `at`.
    pub fn is_overtaken(&self, at: OffsetDateTime) -> bool {
        self.connected_at.max(self.latest_end_at).is_some_and(|latest| at < latest)
    }

    /// Records that the room ended at `at`. A participant who joined before `at` has lost the
    /// connection.
    pub fn finish_room(&mut self, at: OffsetDateTime) {
        self.latest_end_at = self.latest_end_at.max(Some(at));
        if self.has_joined_before(at) {
            self.lose_connection(at);
        }
    }

    /// Records a connection that a newer one replaced, or whose start a later event overtook. A
    /// webhook about its end has no effect.
    pub fn record_replaced(&mut self, sid: Option<ConnectionSid>) {
        if let Some(sid) = sid.filter(|sid| self.connection.as_ref() != Some(sid)) {
            remember(&mut self.replaced_connections, sid);
        }
    }

    /// Returns true if this connection is known to have ended.
    pub fn has_ended_connection(&self, sid: Option<&ConnectionSid>) -> bool {
        sid.is_some_and(|sid| self.ended_connections.contains(sid))
    }

    /// Records the end of a connection at `at`. Returns true if it was the newest known one, and no
    /// later event overtook its end.
    pub fn disconnect(&mut self, sid: Option<ConnectionSid>, at: OffsetDateTime) -> bool {
        let was_replaced = sid.as_ref().is_some_and(|sid| self.replaced_connections.contains(sid));
        let may_be_newest = match (&self.connection, &sid) {
            (Some(known), Some(ended)) => known == ended,
            (None, Some(_)) => !was_replaced,
            (_, None) => true,
        };
        let is_newest = may_be_newest && !self.is_overtaken(at);
        if is_newest {
            self.connection = None;
            self.latest_end_at = Some(at);
        }
        if let Some(sid) = sid {
            remember(&mut self.ended_connections, sid);
        }
        is_newest
    }

    /// Returns true if the participant neither joined nor left at `at` or later.
    pub fn is_unchanged_since(&self, at: OffsetDateTime) -> bool {
        self.latest_join_at.max(self.participant.left_at).is_none_or(|changed| changed < at)
    }

    /// Returns true if the participant is Joined by a join before `at`.
    pub fn has_joined_before(&self, at: OffsetDateTime) -> bool {
        self.is(ParticipantState::Joined) && self.latest_join_at.is_none_or(|joined| joined < at)
    }
}

fn remember(known: &mut Vec<ConnectionSid>, sid: ConnectionSid) {
    if known.contains(&sid) {
        return;
    }
    if known.len() == MAX_REMEMBERED_CONNECTIONS {
        known.remove(0);
    }
    known.push(sid);
}
