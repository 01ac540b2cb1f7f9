//! Telling people what happens, as it happens.
//!
//! A transaction that tells several times names at first everybody whom it will tell: those who tell wait for each other
//! in order of the people's ids. The members of one chat, which is locked, are always the same; where one of them goes,
//! [`take_turn`] names all.

use ::db::Tx;
use auth::UserId;

use crate::db;
use crate::domain::{Chat, Told};

/// Has whoever else tells one of these people something wait until the transaction ends.
pub async fn take_turn(tx: &mut Tx, people: &[UserId]) -> Result<(), ::db::Error> {
    db::stream::lock(tx, people).await
}

/// Tells all members of a chat.
pub async fn tell(tx: &mut Tx, chat: &Chat, told: Told) -> Result<(), ::db::Error> {
    db::stream::append(tx, &chat.user_ids(), chat.id, told).await
}
