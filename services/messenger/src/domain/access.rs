//! Who may do what beside those who are members of a chat.

use auth::{Actor, Reach};

/// The deal chats that somebody supervises: of which companies.
pub fn supervision(actor: &Actor) -> Option<Reach> {
    actor.reach_of("messenger.chats.manage")
}

/// The conferences that somebody moderates: of which companies.
pub fn moderation(actor: &Actor) -> Option<Reach> {
    actor.reach_of("messenger.conferences.moderate")
}
