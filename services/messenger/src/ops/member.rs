//! Who comes and goes.

use ::db::Tx;
use auth::UserId;

use super::conference::member_gone;
use super::message::post_card;
use super::stream::{take_turn, tell};
use crate::db;
use crate::domain::{Card, Chat, ChatId, ChatKind, MemberCard, Role, Told, Viewer};
use crate::error::{
    CHAT_FULL, CHAT_NOT_DEAL, CHAT_NOT_FOUND, Error, FORBIDDEN, MEMBER_OF_DEAL, PARTICIPANT_NOT_FOUND,
};

/// # Errors
/// [`CHAT_NOT_FOUND`], [`FORBIDDEN`], [`CHAT_NOT_DEAL`], [`CHAT_FULL`]
pub async fn add_member(tx: &mut Tx, viewer: &Viewer, chat: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = lock_seen(tx, viewer, chat).await?;
    if !may_manage(viewer, &chat) {
        return Err(FORBIDDEN.into());
    }
    refuse_direct(&chat)?;
    if chat.member(user).is_some() {
        return Ok(());
    }
    if !chat.has_room() {
        return Err(CHAT_FULL.into());
    }
    chat.enter(user, Role::Member);
    welcome(tx, &mut chat, user, Some(viewer.user_id)).await
}

/// # Errors
/// [`CHAT_NOT_FOUND`], [`FORBIDDEN`], [`CHAT_NOT_DEAL`], [`PARTICIPANT_NOT_FOUND`], [`MEMBER_OF_DEAL`]
pub async fn remove_member(tx: &mut Tx, viewer: &Viewer, chat: ChatId, user: UserId) -> Result<(), Error> {
    let mut chat = lock_seen(tx, viewer, chat).await?;
    let is_oneself = viewer.user_id == user;
    if !is_oneself && !may_manage(viewer, &chat) {
        return Err(FORBIDDEN.into());
    }
    refuse_direct(&chat)?;
    match chat.member(user).ok_or(PARTICIPANT_NOT_FOUND)?.role {
        Role::Client => return Err(MEMBER_OF_DEAL.into()),
        Role::Agent if is_oneself => return Err(MEMBER_OF_DEAL.into()),
        Role::Agent | Role::Manager | Role::Member => {}
    }
    take_turn(tx, &chat.user_ids()).await?;
    chat.remove(user);
    dismiss(tx, &mut chat, user, Some(viewer.user_id)).await
}

/// Writes and tells that somebody is new in a chat.
pub async fn welcome(tx: &mut Tx, chat: &mut Chat, user: UserId, by: Option<UserId>) -> Result<(), Error> {
    let Some(member) = chat.members.iter_mut().find(|member| member.user_id == user) else { return Ok(()) };
    // What was said until now they have read, cards that came a moment ago among it.
    member.read_sequence = chat.last_sequence;
    db::member::put(tx, &[member]).await?;
    tell(tx, chat, Told::Chat).await?;
    let readers: Vec<_> = by.into_iter().chain([user]).collect();
    let card = Card::MemberAdded(MemberCard { user_id: user, by_user_id: by });
    post_card(tx, chat, card, &readers).await
}

/// Writes and tells that somebody is in a chat no longer. Whom all this is told has been named before.
pub async fn dismiss(tx: &mut Tx, chat: &mut Chat, user: UserId, by: Option<UserId>) -> Result<(), Error> {
    db::member::delete(tx, chat.id, user).await?;
    db::stream::append(tx, &[user], chat.id, Told::ChatRemoved).await?;
    tell(tx, chat, Told::Chat).await?;
    let card = Card::MemberRemoved(MemberCard { user_id: user, by_user_id: by });
    post_card(tx, chat, card, by.as_slice()).await?;
    member_gone(tx, chat, user, by).await
}

/// A chat that somebody may look at, locked.
///
/// # Errors
/// [`CHAT_NOT_FOUND`]
async fn lock_seen(tx: &mut Tx, viewer: &Viewer, id: ChatId) -> Result<Chat, Error> {
    let is_seen = |chat: &Chat| chat.member(viewer.user_id).is_some() || viewer.supervises(chat.tenant_id);
    Ok(db::chat::lock(tx, id).await?.filter(is_seen).ok_or(CHAT_NOT_FOUND)?)
}

/// A Direct chat has no supervisors; who supervises everywhere is told so, and not that they may not.
fn may_manage(viewer: &Viewer, chat: &Chat) -> bool {
    viewer.supervises(chat.tenant_id) || viewer.supervises_all()
}

/// # Errors
/// [`CHAT_NOT_DEAL`]
fn refuse_direct(chat: &Chat) -> Result<(), Error> {
    if chat.kind == ChatKind::Deal { Ok(()) } else { Err(CHAT_NOT_DEAL.into()) }
}
