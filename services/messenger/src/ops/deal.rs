//! Changes of a chat by its deal.

use ::db::Tx;
use auth::UserId;

use super::member::{record_joined, record_left};
use super::message::post_card;
use super::stream::{lock_streams, notify_members};
use crate::db;
use crate::domain::{AgentChange, Card, Chat, Deal, DealId, Role, StatusCard, StreamEvent};
use crate::error::Error;

/// A change of a deal.
#[derive(Clone, Debug)]
pub struct DealChange {
    pub deal_id: DealId,
    pub row_version: i64,
    pub status: StatusCard,
    /// The agent, or `None` if the event keeps the agent.
    #[expect(clippy::option_option, reason = "the inner None means that the deal has no agent")]
    pub agent_user_id: Option<Option<UserId>>,
}

/// Returns true if the deal has a chat.
pub async fn is_known(tx: &mut Tx, deal: DealId) -> Result<bool, Error> {
    Ok(db::chat::find_by_deal(tx.conn(), deal).await?.is_some())
}

/// Creates the chat of a deal, and applies its deferred `changes`, which are ordered by version.
///
/// A manager or agent whose employments bar this role does not become a member. The user may
/// already have a new employment whose event has not arrived yet. When the event arrives, the job
/// `employment-end` adds the user.
pub async fn open_chat(tx: &mut Tx, mut deal: Deal, changes: &[DealChange]) -> Result<(), Error> {
    let newer: Vec<_> = newer_than(deal.row_version, changes).collect();
    // The agent of the highest version is a member from the start, without a card.
    if let Some(agent) = newer.iter().rev().find_map(|change| change.agent_user_id) {
        deal.agent_user_id = agent;
    }
    if let Some(newest) = newer.last() {
        deal.row_version = newest.row_version;
    }
    let barred_roles = find_barred_roles(tx, &deal).await?;
    let mut chat = Chat::of_deal(&deal, &barred_roles, db::clock::read(tx.conn()).await?);
    let cards: Vec<_> = newer.iter().filter_map(|change| chat.change_deal_status(&change.status)).collect();
    if !db::chat::insert(tx, &chat).await? {
        return Ok(());
    }
    for (user, role) in list_named_users(&deal) {
        if barred_roles.contains(&role) && chat.member(user).is_none() {
            db::employment::insert_barred_entry(tx, chat.id, user, role).await?;
        }
    }
    notify_members(tx, &chat, StreamEvent::Chat).await?;
    for card in cards {
        post_card(tx, &mut chat, Card::DealStatusChanged(card), &[]).await?;
    }
    Ok(())
}

/// Returns the deal's manager, and then its agent.
fn list_named_users(deal: &Deal) -> impl Iterator<Item = (UserId, Role)> {
    let agent = deal.agent_user_id.map(|agent| (agent, Role::Agent));
    std::iter::once((deal.created_by_user_id, Role::Manager)).chain(agent)
}

/// Locks the employments of the deal's manager and agent, and returns the roles that they may not
/// take.
async fn find_barred_roles(tx: &mut Tx, deal: &Deal) -> Result<Vec<Role>, Error> {
    let now = db::clock::read(tx.conn()).await?;
    let mut users: Vec<_> = list_named_users(deal).collect();
    // Transactions that lock several users use the order of ids.
    users.sort_by_key(|(user, _)| *user);
    let mut barred_roles = Vec::new();
    for (user, role) in users {
        if db::employment::load_locked(tx, user).await?.is_barred(deal.tenant_id, role, now) {
            barred_roles.push(role);
        }
    }
    Ok(barred_roles)
}

/// Applies a change of a known deal, unless the same or a newer version was applied before.
pub async fn apply_change(tx: &mut Tx, change: &DealChange) -> Result<(), Error> {
    let Some(id) = db::chat::find_by_deal(tx.conn(), change.deal_id).await? else { return Ok(()) };
    let Some(mut chat) = db::chat::lock(tx, id).await? else { return Ok(()) };
    if chat.row_version >= Some(change.row_version) {
        return Ok(());
    }
    chat.row_version = Some(change.row_version);
    // `chat` keeps the members before the change, and `changed` gets those after it.
    let mut changed = chat.clone();
    let agent_change = match change.agent_user_id {
        Some(agent) => changed.assign_agent(agent, may_enter(tx, &chat, agent).await?),
        None => AgentChange::default(),
    };
    let card = changed.change_deal_status(&change.status);
    db::chat::save_deal_state(tx, &changed).await?;
    if let Some(new) = changed.agent_user_id
        && changed.agent_user_id != chat.agent_user_id
        && changed.member(new).is_none()
    {
        db::employment::insert_barred_entry(tx, chat.id, new, Role::Agent).await?;
    }
    if agent_change.left.is_some() || agent_change.joined.is_some() {
        let users = chat.members.iter().chain(&changed.members).map(|member| member.user_id);
        lock_streams(tx, &users.collect::<Vec<_>>()).await?;
    }
    // The status card comes first, so that the old agent receives it and the new agent does not.
    if let Some(card) = card {
        post_card(tx, &mut chat, Card::DealStatusChanged(card), &[]).await?;
    }
    // All further cards go to the members after the change.
    (changed.last_sequence, changed.last_activity_at) = (chat.last_sequence, chat.last_activity_at);
    let mut chat = changed;
    if let Some(joined) = agent_change.joined {
        // The new agent receives no event from before joining.
        chat.remove_member(joined);
    }
    let role_changed = agent_change.role_changed.iter();
    let role_changed: Vec<_> = role_changed.filter_map(|user| chat.member(*user)).collect();
    if !role_changed.is_empty() {
        db::member::upsert(tx, &role_changed).await?;
        notify_members(tx, &chat, StreamEvent::Chat).await?;
    }
    if let Some(left) = agent_change.left {
        record_left(tx, &mut chat, left, None).await?;
    }
    if let Some(joined) = agent_change.joined {
        chat.add_member(joined, Role::Agent);
        db::employment::delete_departure(tx, chat.id, joined).await?;
        record_joined(tx, &mut chat, joined, None).await?;
    }
    Ok(())
}

/// Locks the employments of a new agent, and returns false if they bar this user from the chat.
async fn may_enter(tx: &mut Tx, chat: &Chat, agent: Option<UserId>) -> Result<bool, Error> {
    let Some((agent, tenant)) = agent.zip(chat.tenant_id) else { return Ok(true) };
    if chat.agent_user_id == Some(agent) || chat.member(agent).is_some() {
        return Ok(true);
    }
    let employments = db::employment::load_locked(tx, agent).await?;
    Ok(!employments.is_barred(tenant, Role::Agent, chat.now))
}

/// Returns the changes above this version, each version once.
fn newer_than(version: i64, changes: &[DealChange]) -> impl Iterator<Item = &DealChange> {
    changes
        .iter()
        .scan(version, |newest, change| {
            let is_newer = change.row_version > *newest;
            *newest = change.row_version.max(*newest);
            Some(is_newer.then_some(change))
        })
        .flatten()
}
