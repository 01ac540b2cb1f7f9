//! Read markers.

use ::db::Tx;
use auth::UserId;

use super::stream::notify_members;
use crate::db;
use crate::domain::{ChatId, StreamEvent};
use crate::error::{CHAT_NOT_FOUND, Error};

/// The read marker of a member, and the newest message of the chat.
#[derive(Clone, Copy, Debug)]
pub struct ReadMarker {
    pub read_sequence: i64,
    pub last_sequence: i64,
}

/// Raises a member's read marker to `sequence`, and never lowers it.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]: the reader is not a member.
pub async fn raise_read_marker(
    tx: &mut Tx,
    reader: UserId,
    chat: ChatId,
    sequence: i64,
) -> Result<ReadMarker, Error> {
    // The chat's lock prevents a deadlock, because a new message also moves markers and notifies
    // members.
    let chat = db::chat::lock(tx, chat).await?.ok_or(CHAT_NOT_FOUND)?;
    let was = chat.member(reader).ok_or(CHAT_NOT_FOUND)?.read_sequence;
    let read_sequence = sequence.min(chat.last_sequence).max(was);
    if read_sequence > was {
        db::member::set_read_sequence(tx, chat.id, reader, read_sequence).await?;
        notify_members(tx, &chat, StreamEvent::Read(reader)).await?;
    }
    Ok(ReadMarker { read_sequence, last_sequence: chat.last_sequence })
}
