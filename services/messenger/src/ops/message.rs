//! What is said in a chat.

use std::time::Duration;

use ::db::{Json, Tx};
use auth::UserId;
use messaging::outbox;

use super::stream::tell;
use crate::db;
use crate::domain::{
    Card, Chat, ChatId, ClientMessageId, Message, MessageId, MessageKind, PrivateText, Told,
};
use crate::error::{CHAT_NOT_FOUND, Error, MESSAGE_NOT_FOUND};
use crate::events::MessageSent;

/// Sends a message; `false` beside one that this sender has called so before.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]
pub async fn send_message(
    tx: &mut Tx,
    sender: UserId,
    chat: ChatId,
    text: PrivateText,
    client_message_id: Option<ClientMessageId>,
) -> Result<(Message, bool), Error> {
    let mut chat = lock_own(tx, chat, sender).await?;
    if let Some(id) = client_message_id
        && let Some(repeated) = db::message::find_repeated(tx, chat.id, sender, id).await?
    {
        return Ok((repeated, false));
    }
    let mut message = next(&mut chat);
    message.kind = MessageKind::Text;
    message.sender_user_id = Some(sender);
    message.client_message_id = client_message_id;
    message.text = Some(text);
    db::message::insert(tx, &message, &[]).await?;
    let sent = MessageSent {
        chat_id: chat.id,
        deal_id: chat.deal_id,
        message_id: message.id,
        sequence: message.sequence,
        sender_user_id: sender,
        recipient_user_ids: chat.user_ids().into_iter().filter(|user| *user != sender).collect(),
        at: message.created_at,
    };
    outbox::append(tx, &sent).await?;
    tell(tx, &chat, Told::Message(message.id)).await?;
    Ok((message, true))
}

/// # Errors
/// [`CHAT_NOT_FOUND`], [`MESSAGE_NOT_FOUND`], [`FORBIDDEN`](crate::error::FORBIDDEN),
/// [`MESSAGE_DELETED`](crate::error::MESSAGE_DELETED), [`MESSAGE_LOCKED`](crate::error::MESSAGE_LOCKED)
pub async fn edit_message(
    tx: &mut Tx,
    by: UserId,
    chat: ChatId,
    id: MessageId,
    text: PrivateText,
    window: Duration,
) -> Result<Message, Error> {
    let chat = lock_own(tx, chat, by).await?;
    let mut message = db::message::find(tx, chat.id, id).await?.ok_or(MESSAGE_NOT_FOUND)?;
    if message.edit(by, text, window, chat.now)? {
        keep(tx, &chat, &message).await?;
    }
    Ok(message)
}

/// # Errors
/// [`CHAT_NOT_FOUND`], [`MESSAGE_NOT_FOUND`], [`FORBIDDEN`](crate::error::FORBIDDEN),
/// [`MESSAGE_LOCKED`](crate::error::MESSAGE_LOCKED)
pub async fn delete_message(
    tx: &mut Tx,
    by: UserId,
    chat: ChatId,
    id: MessageId,
    window: Duration,
) -> Result<(), Error> {
    let chat = lock_own(tx, chat, by).await?;
    let mut message = db::message::find(tx, chat.id, id).await?.ok_or(MESSAGE_NOT_FOUND)?;
    if message.delete(by, window, chat.now)? {
        keep(tx, &chat, &message).await?;
    }
    Ok(())
}

/// Posts a card in a chat that is locked. Those of `readers` who had read all before it have read it, too.
pub async fn post_card(tx: &mut Tx, chat: &mut Chat, card: Card, readers: &[UserId]) -> Result<(), Error> {
    let mut message = next(chat);
    message.card = Some(Json(card));
    db::message::insert(tx, &message, readers).await?;
    tell(tx, chat, Told::Message(message.id)).await?;
    Ok(())
}

/// The message that comes next. INV-MSG-2: also where the clock was set back.
fn next(chat: &mut Chat) -> Message {
    chat.last_sequence += 1;
    chat.last_activity_at = chat.last_activity_at.max(chat.now);
    Message {
        id: MessageId::generate(),
        chat_id: chat.id,
        sequence: chat.last_sequence,
        kind: MessageKind::System,
        sender_user_id: None,
        client_message_id: None,
        text: None,
        card: None,
        created_at: chat.last_activity_at,
        edited_at: None,
        deleted_at: None,
        version: 1,
    }
}

/// A chat whose member somebody is, locked.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]
pub async fn lock_own(tx: &mut Tx, id: ChatId, user: UserId) -> Result<Chat, Error> {
    let chat = db::chat::lock(tx, id).await?;
    Ok(chat.filter(|chat| chat.member(user).is_some()).ok_or(CHAT_NOT_FOUND)?)
}

async fn keep(tx: &mut Tx, chat: &Chat, message: &Message) -> Result<(), Error> {
    db::message::save(tx, message).await?;
    tell(tx, chat, Told::Message(message.id)).await?;
    Ok(())
}
