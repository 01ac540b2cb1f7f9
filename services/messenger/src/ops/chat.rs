//! Direct chats and read markers.

use ::db::Tx;
use auth::UserId;

use super::stream::notify_members;
use crate::db;
use crate::domain::{Chat, ChatId, StreamEvent};
use crate::error::{CHAT_NOT_FOUND, Error, PARTICIPANT_NOT_FOUND};

/// The read marker of a member, and the newest message of the chat.
#[derive(Clone, Copy, Debug)]
pub struct ReadMarker {
    pub read_sequence: i64,
    pub last_sequence: i64,
}

/// Opens the Direct chat of two users. Returns false with it if the chat existed before.
///
/// # Errors
/// [`PARTICIPANT_NOT_FOUND`]: the users share no deal chat.
pub async fn open_direct(tx: &mut Tx, by: UserId, with: UserId) -> Result<(ChatId, bool), Error> {
    if let Some(id) = db::chat::find_direct(tx.conn(), by, with).await? {
        return Ok((id, false));
    }
    if !db::chat::share_deal_chat(tx.conn(), by, with).await? {
        return Err(PARTICIPANT_NOT_FOUND.into());
    }
    let chat = Chat::direct(by, with, db::chat::read_clock(tx.conn()).await?);
    if db::chat::insert(tx, &chat).await? {
        notify_members(tx, &chat, StreamEvent::Chat).await?;
        return Ok((chat.id, true));
    }
    // The insert waited for a concurrent one, which has committed.
    let id = db::chat::find_direct(tx.conn(), by, with).await?.ok_or(PARTICIPANT_NOT_FOUND)?;
    Ok((id, false))
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
