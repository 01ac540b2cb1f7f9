//! Messages and cards of a chat.

use std::num::NonZeroU32;
use std::time::Duration;

use ::db::{Json, Tx};
use auth::UserId;
use futures_util::future::try_join;
use messaging::outbox;
use service::erase_responses;
use time::OffsetDateTime;
use values::Code;

use super::stream::notify_members;
use crate::db;
use crate::db::sender::SentInHour;
use crate::domain::{
    Card, Chat, ChatId, ClientMessageId, Message, MessageId, MessageKind, PrivateText, StreamEvent,
};
use crate::error::{CHAT_NOT_FOUND, Error, MESSAGE_NOT_FOUND, MESSAGES_LIMIT_EXCEEDED};
use crate::events::MessageSent;

/// Sends a message. Returns the message, and false if the client id was used before.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the sender is not a member.
/// - The errors of [`Chat::check_accepts_text`].
/// - [`MESSAGES_LIMIT_EXCEEDED`]: the sender has sent the maximum number of messages in this hour.
pub async fn send_message(
    tx: &mut Tx,
    sender: UserId,
    chat: ChatId,
    text: PrivateText,
    client_message_id: Option<ClientMessageId>,
    max_per_hour: Option<NonZeroU32>,
) -> Result<(Message, bool), Error> {
    let mut chat = lock_as_member(tx, chat, sender).await?;
    if let Some(id) = client_message_id
        && let Some(stored) = db::message::find_by_client_id(tx, chat.id, sender, id).await?
    {
        return Ok((stored, false));
    }
    chat.check_accepts_text()?;
    let mut message = next_message(&mut chat);
    message.kind = MessageKind::Text;
    message.sender_user_id = Some(sender);
    message.client_message_id = client_message_id;
    message.text = Some(text);
    let conn = &*tx.conn();
    let insert = db::message::insert(conn, &message, &[]);
    if let Some(max) = max_per_hour {
        // A refusal rolls the message back.
        let count = db::sender::count_message(conn, sender, chat.now);
        let (sent, ()) = try_join(count, insert).await?;
        check_hourly_limit(sent, max, chat.now)?;
    } else {
        insert.await?;
    }
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
    notify_members(tx, &chat, StreamEvent::Message(message.id)).await?;
    Ok((message, true))
}

/// Refuses a message or an edit above the limit of its hour. `sent` includes it.
fn check_hourly_limit(sent: SentInHour, max: NonZeroU32, now: OffsetDateTime) -> Result<(), Code> {
    if u32::try_from(sent.messages).is_ok_and(|messages| messages <= max.get()) {
        return Ok(());
    }
    let end = sent.hour_began_at + time::Duration::HOUR;
    Err(MESSAGES_LIMIT_EXCEEDED.with_arg("max", max.get().into()).retry_at(end, now))
}

/// The limits of an edit.
#[derive(Clone, Copy, Debug)]
pub struct EditLimits {
    /// Time since the message was sent.
    pub window: Duration,
    /// Maximum number of messages and edits of a user in an hour, or `None` for no limit.
    pub max_per_hour: Option<NonZeroU32>,
}

/// Edits a message. The same text changes nothing.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the user is not a member.
/// - [`MESSAGE_NOT_FOUND`]: the chat has no such message.
/// - The errors of [`Message::edit`] and [`Chat::check_accepts_text`].
/// - [`MESSAGES_LIMIT_EXCEEDED`]: the user has sent the maximum number of messages in this hour,
///   edits included.
pub async fn edit_message(
    tx: &mut Tx,
    by: UserId,
    chat: ChatId,
    id: MessageId,
    text: PrivateText,
    limits: EditLimits,
) -> Result<Message, Error> {
    let chat = lock_as_member(tx, chat, by).await?;
    let mut message = db::message::find(tx, chat.id, id).await?.ok_or(MESSAGE_NOT_FOUND)?;
    if message.edit(by, text, limits.window, chat.now)? {
        chat.check_accepts_text()?;
        if let Some(max) = limits.max_per_hour {
            // An edit has the cost of a message: an event for each member.
            let sent = db::sender::count_message(tx.conn(), by, chat.now).await?;
            check_hourly_limit(sent, max, chat.now)?;
        }
        save_change(tx, &chat, &message).await?;
    }
    Ok(message)
}

/// Deletes a message. A repeat changes nothing.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the user is not a member.
/// - [`MESSAGE_NOT_FOUND`]: the chat has no such message.
/// - The errors of [`Message::delete`].
pub async fn delete_message(
    tx: &mut Tx,
    by: UserId,
    chat: ChatId,
    id: MessageId,
    window: Duration,
) -> Result<(), Error> {
    let chat = lock_as_member(tx, chat, by).await?;
    let mut message = db::message::find(tx, chat.id, id).await?.ok_or(MESSAGE_NOT_FOUND)?;
    if message.delete(by, window, chat.now)? {
        save_change(tx, &chat, &message).await?;
        erase_responses(tx, message.id).await?;
    }
    Ok(())
}

/// Posts a card in a locked chat. The card counts as read for those `readers` who have read all
/// earlier messages.
pub async fn post_card(tx: &mut Tx, chat: &mut Chat, card: Card, readers: &[UserId]) -> Result<(), Error> {
    let mut message = next_message(chat);
    message.card = Some(Json(card));
    db::message::insert(tx.conn(), &message, readers).await?;
    notify_members(tx, chat, StreamEvent::Message(message.id)).await?;
    Ok(())
}

/// Returns an empty message with the next sequence. The time of the message is never earlier than
/// that of the message before (INV-MSG-2), even if the database's clock was set back.
fn next_message(chat: &mut Chat) -> Message {
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

/// Locks a chat for a member.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]: the user is not a member.
async fn lock_as_member(tx: &mut Tx, id: ChatId, user: UserId) -> Result<Chat, Error> {
    let chat = db::chat::lock(tx, id).await?;
    Ok(chat.filter(|chat| chat.member(user).is_some()).ok_or(CHAT_NOT_FOUND)?)
}

async fn save_change(tx: &mut Tx, chat: &Chat, message: &Message) -> Result<(), Error> {
    db::message::save(tx, message).await?;
    notify_members(tx, chat, StreamEvent::Message(message.id)).await?;
    Ok(())
}
