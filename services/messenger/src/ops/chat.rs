//! Chats of two, and how far somebody has read.

use ::db::Tx;
use auth::UserId;

use super::stream::tell;
use crate::db;
use crate::domain::{Chat, ChatId, Told};
use crate::error::{CHAT_NOT_FOUND, Error, PARTICIPANT_NOT_FOUND};

/// How far somebody has read.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    pub read_sequence: i64,
    pub last_sequence: i64,
}

/// Opens the Direct chat of two people; `false` beside one that is there already.
///
/// # Errors
/// [`PARTICIPANT_NOT_FOUND`]
pub async fn open_direct(tx: &mut Tx, by: UserId, with: UserId) -> Result<(ChatId, bool), Error> {
    if let Some(id) = db::chat::of_two(tx.conn(), by, with).await? {
        return Ok((id, false));
    }
    if !db::chat::have_met(tx.conn(), by, with).await? {
        return Err(PARTICIPANT_NOT_FOUND.into());
    }
    let chat = Chat::direct(by, with, db::chat::clock(tx.conn()).await?);
    if db::chat::insert(tx, &chat).await? {
        tell(tx, &chat, Told::Chat).await?;
        return Ok((chat.id, true));
    }
    // Whoever was first has committed.
    let id = db::chat::of_two(tx.conn(), by, with).await?.ok_or(PARTICIPANT_NOT_FOUND)?;
    Ok((id, false))
}

/// Moves a reader's marker up to `sequence`, never back.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]
pub async fn read(tx: &mut Tx, reader: UserId, chat: ChatId, sequence: i64) -> Result<Marker, Error> {
    // With its turn: members are told, and others who tell them something move markers, too.
    let chat = db::chat::lock(tx, chat).await?.ok_or(CHAT_NOT_FOUND)?;
    let was = chat.member(reader).ok_or(CHAT_NOT_FOUND)?.read_sequence;
    let read_sequence = sequence.min(chat.last_sequence).max(was);
    if read_sequence > was {
        db::member::move_marker(tx, chat.id, reader, read_sequence).await?;
        tell(tx, &chat, Told::Read(reader)).await?;
    }
    Ok(Marker { read_sequence, last_sequence: chat.last_sequence })
}
