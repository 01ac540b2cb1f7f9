//! Notifications of members by their streams.
//!
//! Every event locks the streams of its users in the order of user ids.
//! A transaction that appends several events locks all their users before the first event.
//! Otherwise two such transactions could deadlock.
//! Most use cases send each event to the same members of a locked chat, so their first event
//! already locks all users.
//! A use case that removes a member calls [`lock_streams`] with all users first.

use ::db::Tx;
use auth::UserId;

use crate::db;
use crate::domain::{Chat, StreamEvent};

/// Locks the streams of these users until the end of the transaction.
pub async fn lock_streams(tx: &mut Tx, users: &[UserId]) -> Result<(), ::db::Error> {
    db::stream::lock_streams(tx, users).await
}

/// Appends an event to the streams of all members of a chat.
pub async fn notify_members(tx: &mut Tx, chat: &Chat, event: StreamEvent) -> Result<(), ::db::Error> {
    db::stream::append(tx, &chat.user_ids(), chat.id, event).await
}
