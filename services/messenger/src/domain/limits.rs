//! Limits of chats and conferences.

use time::Duration;

/// Maximum number of members of a chat (INV-MSG-6).
pub const MAX_MEMBERS: u32 = 50;

/// Maximum number of Invited and Joined participants of a conference (INV-CNF-2).
pub const MAX_SEATS: u32 = 21;

/// Maximum number of users in one invitation. The host has the remaining seat.
pub const MAX_INVITATIONS: usize = MAX_SEATS as usize - 1;

/// `MESSENGER_MAX_MESSAGES_PER_PERSON_PER_HOUR` in the charts, one message a second.
pub const CHART_MAX_MESSAGES_PER_HOUR: u32 = 3_600;

/// Maximum number of conferences that a user starts in a chat within [`CONFERENCE_STARTS_WINDOW`].
pub const MAX_CONFERENCE_STARTS: u32 = 10;

pub const CONFERENCE_STARTS_WINDOW: Duration = Duration::minutes(10);
