//! Members who join and leave a chat.

use ::db::Tx;
use auth::UserId;

use super::conference::end_participation;
use super::message::post_card;
use super::stream::{lock_streams, notify_members};
use crate::db;
use crate::domain::{Card, Chat, ChatId, ChatKind, MemberCard, Role, StreamEvent, Viewer};
use crate::error::{
    CHAT_FULL, CHAT_NOT_DEAL, CHAT_NOT_FOUND, EMPLOYMENT_ENDED, Error, FORBIDDEN, MEMBER_OF_DEAL,
    PARTICIPANT_NOT_FOUND,
};

/// Adds a user to a deal chat for a supervisor. An existing member does not change.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the chat does not exist for the viewer.
/// - [`FORBIDDEN`]: the viewer is not a supervisor.
/// - [`CHAT_NOT_DEAL`]: the chat is a Direct chat.
/// - [`EMPLOYMENT_ENDED`]: the user has worked for the company of the chat, and does not now.
/// - [`CHAT_FULL`]: no seat is free.
pub async fn add_member(tx: &mut Tx, viewer: &Viewer, chat: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = lock_visible(tx, viewer, chat).await?;
    if !may_manage(viewer, &chat) {
        return Err(FORBIDDEN.into());
    }
    refuse_direct(&chat)?;
    if chat.member(user).is_some() {
        return Ok(());
    }
    if let Some(company) = chat.tenant_id
        && db::employment::load_locked(tx, user).await?.has_lost_membership(company, Role::Member, chat.now)
    {
        return Err(EMPLOYMENT_ENDED.into());
    }
    if !chat.has_free_seat() {
        return Err(CHAT_FULL.into());
    }
    db::employment::delete_departure(tx, chat.id, user).await?;
    chat.add_member(user, Role::Member);
    record_joined(tx, &mut chat, user, Some(viewer.user_id)).await
}

/// Removes a member, for a supervisor or for the member who leaves.
///
/// # Errors
/// - [`CHAT_NOT_FOUND`]: the chat does not exist for the viewer.
/// - [`FORBIDDEN`]: the viewer is neither a supervisor nor the user.
/// - [`CHAT_NOT_DEAL`]: the chat is a Direct chat.
/// - [`PARTICIPANT_NOT_FOUND`]: the user is not a member.
/// - [`MEMBER_OF_DEAL`]: the user is the Client, or is the Agent and leaves.
pub async fn remove_member(tx: &mut Tx, viewer: &Viewer, chat: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = lock_visible(tx, viewer, chat).await?;
    let is_self = viewer.user_id == user;
    if !is_self && !may_manage(viewer, &chat) {
        return Err(FORBIDDEN.into());
    }
    refuse_direct(&chat)?;
    match chat.member(user).ok_or(PARTICIPANT_NOT_FOUND)?.role {
        Role::Client => return Err(MEMBER_OF_DEAL.into()),
        Role::Agent if is_self => return Err(MEMBER_OF_DEAL.into()),
        Role::Agent | Role::Manager | Role::Member => {}
    }
    lock_streams(tx, &chat.user_ids()).await?;
    chat.remove_member(user);
    record_left(tx, &mut chat, user, Some(viewer.user_id)).await
}

/// Stores a new member, notifies all members and posts the card.
pub async fn record_joined(
    tx: &mut Tx,
    chat: &mut Chat,
    user: UserId,
    by: Option<UserId>,
) -> Result<(), Error> {
    let Some(member) = chat.members.iter_mut().find(|member| member.user_id == user) else { return Ok(()) };
    // Cards of this transaction may have raised `last_sequence` after the member was created. These
    // cards count as read too.
    member.read_sequence = chat.last_sequence;
    db::member::upsert(tx, &[member]).await?;
    notify_members(tx, chat, StreamEvent::Chat).await?;
    let readers: Vec<_> = by.into_iter().chain([user]).collect();
    let card = Card::MemberAdded(MemberCard { user_id: user, by_user_id: by });
    post_card(tx, chat, card, &readers).await
}

/// Deletes a member, notifies all members and the user, posts the card, and ends the user's
/// participation in the live conference.
///
/// The caller has removed the user from `chat`, and has locked the streams of all users.
pub async fn record_left(
    tx: &mut Tx,
    chat: &mut Chat,
    user: UserId,
    by: Option<UserId>,
) -> Result<(), Error> {
    db::member::delete(tx, chat.id, user).await?;
    db::stream::append(tx, &[user], chat.id, StreamEvent::ChatRemoved).await?;
    notify_members(tx, chat, StreamEvent::Chat).await?;
    let card = Card::MemberRemoved(MemberCard { user_id: user, by_user_id: by });
    post_card(tx, chat, card, by.as_slice()).await?;
    end_participation(tx, chat, user, by).await
}

/// Locks a chat that the viewer may see.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]: the viewer is neither member nor supervisor.
async fn lock_visible(tx: &mut Tx, viewer: &Viewer, id: ChatId) -> Result<Chat, Error> {
    let is_visible = |chat: &Chat| chat.member(viewer.user_id).is_some() || viewer.supervises(chat.tenant_id);
    Ok(db::chat::lock(tx, id).await?.filter(is_visible).ok_or(CHAT_NOT_FOUND)?)
}

/// Returns true for a supervisor of the chat.
///
/// Returns true for a supervisor of all companies even in a Direct chat, so that the caller gets
/// [`CHAT_NOT_DEAL`] instead of [`FORBIDDEN`].
fn may_manage(viewer: &Viewer, chat: &Chat) -> bool {
    viewer.supervises(chat.tenant_id) || viewer.supervises_all()
}

/// Refuses a Direct chat.
///
/// # Errors
/// [`CHAT_NOT_DEAL`]: the chat is a Direct chat.
fn refuse_direct(chat: &Chat) -> Result<(), Error> {
    if chat.kind == ChatKind::Deal { Ok(()) } else { Err(CHAT_NOT_DEAL.into()) }
}
