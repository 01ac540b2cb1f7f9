//! Direct chats: their users open them, leave them and block each other.

use ::db::Tx;
use auth::UserId;

use super::member::{record_joined, record_left};
use super::stream::{lock_streams, notify_members};
use crate::db;
use crate::domain::{Chat, ChatId, Role, StreamEvent};
use crate::error::{CHAT_NOT_FOUND, Error, PARTICIPANT_NOT_FOUND};

/// Opens the Direct chat of two users. Returns its id, and true if the chat is new.
/// A user who left the chat becomes a member again.
///
/// # Errors
/// - [`PARTICIPANT_NOT_FOUND`]: the users share no deal chat, and the caller is not a member of
///   their Direct chat.
/// - The errors of [`Chat::check_accepts_return`].
pub async fn open_direct(tx: &mut Tx, by: UserId, other: UserId) -> Result<(ChatId, bool), Error> {
    let found = db::chat::find_direct(tx.conn(), by, other).await?;
    if let Some((id, true)) = found {
        return Ok((id, false));
    }
    if !db::chat::share_deal_chat(tx.conn(), by, other).await? {
        return Err(PARTICIPANT_NOT_FOUND.into());
    }
    if let Some((id, false)) = found {
        return_to_direct(tx, id, by).await?;
        return Ok((id, false));
    }
    let chat = Chat::direct(by, other, db::clock::read(tx.conn()).await?);
    if db::chat::insert(tx, &chat).await? {
        notify_members(tx, &chat, StreamEvent::Chat).await?;
        return Ok((chat.id, true));
    }
    // The insert waited for a concurrent one, which has committed.
    let (id, _) = db::chat::find_direct(tx.conn(), by, other).await?.ok_or(PARTICIPANT_NOT_FOUND)?;
    Ok((id, false))
}

/// Makes a user who left a Direct chat a member again, with a card.
///
/// # Errors
/// The errors of [`Chat::check_accepts_return`].
async fn return_to_direct(tx: &mut Tx, id: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = db::chat::lock(tx, id).await?.ok_or(CHAT_NOT_FOUND)?;
    if chat.member(user).is_some() {
        return Ok(());
    }
    chat.check_accepts_return(user)?;
    chat.add_member(user, Role::Member);
    record_joined(tx, &mut chat, user, Some(user)).await
}

/// Removes a user from a Direct chat at the user's own request.
///
/// # Errors
/// - The errors of [`lock_direct`].
/// - [`CHAT_NOT_FOUND`]: the user has left.
pub async fn leave_direct(tx: &mut Tx, id: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = lock_direct(tx, id, user).await?;
    chat.member(user).ok_or(CHAT_NOT_FOUND)?;
    lock_streams(tx, &chat.user_ids()).await?;
    chat.remove_member(user);
    record_left(tx, &mut chat, user, Some(user)).await
}

/// Blocks the other user of a Direct chat, or ends the user's own block. A repeat changes nothing.
/// A user who left the chat may do so too.
///
/// # Errors
/// The errors of [`lock_direct`].
pub async fn set_blocked(tx: &mut Tx, id: ChatId, user: UserId, is_blocked: bool) -> Result<(), Error> {
    let mut chat = lock_direct(tx, id, user).await?;
    if chat.blocked_by.contains(&user) == is_blocked {
        return Ok(());
    }
    chat.blocked_by.retain(|blocker| *blocker != user);
    if is_blocked {
        chat.blocked_by.push(user);
    }
    db::chat::save_direct_state(tx, &chat).await?;
    // Only the blocker sees the block, and only while being a member.
    if chat.member(user).is_none() {
        return Ok(());
    }
    Ok(db::stream::append(tx, &[user], chat.id, StreamEvent::Chat).await?)
}

/// Locks a Direct chat for one of its two users, who may have left it.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the user is not one of the two users.
/// - [`CHAT_NOT_DIRECT`](crate::error::CHAT_NOT_DIRECT): the chat is a deal chat with this member.
pub async fn lock_direct(tx: &mut Tx, id: ChatId, user: UserId) -> Result<Chat, Error> {
    let has_part = |chat: &Chat| chat.member(user).is_some() || chat.is_direct_of(user);
    let chat = db::chat::lock(tx, id).await?.filter(has_part).ok_or(CHAT_NOT_FOUND)?;
    chat.other_user(user)?;
    Ok(chat)
}
