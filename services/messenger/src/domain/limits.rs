//! Limits of chats and conferences.

/// Members of a chat (INV-MSG-6).
pub const MAX_MEMBERS: u32 = 50;

/// Participants of a conference who are Invited or Joined (INV-CNF-2).
pub const MAX_SEATS: u32 = 21;

/// Users that one request invites. The host has the remaining seat.
pub const MAX_INVITATIONS: usize = MAX_SEATS as usize - 1;
