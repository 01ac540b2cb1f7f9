//! What deals do to their chats.

use ::db::Tx;
use auth::UserId;

use super::member::{dismiss, welcome};
use super::message::post_card;
use super::stream::{take_turn, tell};
use crate::db;
use crate::domain::{Card, Chat, Deal, DealId, Role, StatusCard, Told, Turnover};
use crate::error::Error;

/// What a deal's change tells of it.
#[derive(Clone, Debug)]
pub struct DealChange {
    pub deal_id: DealId,
    pub row_version: i64,
    pub status: StatusCard,
    /// `None`: nothing was said of the agent.
    #[expect(clippy::option_option, reason = "that there is no agent any more is said by null")]
    pub agent_user_id: Option<Option<UserId>>,
}

/// Whether a deal has its chat.
pub async fn is_known(tx: &mut Tx, deal: DealId) -> Result<bool, Error> {
    Ok(db::chat::of_deal(tx.conn(), deal).await?.is_some())
}

/// Makes the chat of a deal that has none, as it is after the `changes` that were kept for it, by version.
pub async fn open(tx: &mut Tx, mut deal: Deal, changes: &[DealChange]) -> Result<(), Error> {
    let newer: Vec<_> = newer_than(deal.row_version, changes).collect();
    // The agent of the newest that speaks of one is there from the start.
    if let Some(agent) = newer.iter().rev().find_map(|change| change.agent_user_id) {
        deal.agent_user_id = agent;
    }
    if let Some(newest) = newer.last() {
        deal.row_version = newest.row_version;
    }
    let mut chat = Chat::of_deal(&deal, db::chat::clock(tx.conn()).await?);
    if !db::chat::insert(tx, &chat).await? {
        return Ok(());
    }
    tell(tx, &chat, Told::Chat).await?;
    for change in newer {
        post_status(tx, &mut chat, change).await?;
    }
    Ok(())
}

/// Follows a change of a deal whose chat is there, unless a newer one was followed before.
pub async fn follow(tx: &mut Tx, change: &DealChange) -> Result<(), Error> {
    let Some(id) = db::chat::of_deal(tx.conn(), change.deal_id).await? else { return Ok(()) };
    let Some(mut chat) = db::chat::lock(tx, id).await? else { return Ok(()) };
    if chat.row_version >= Some(change.row_version) {
        return Ok(());
    }
    chat.row_version = Some(change.row_version);
    let mut followed = chat.clone();
    let turnover = match change.agent_user_id {
        Some(agent) => followed.assign(agent),
        None => Turnover::default(),
    };
    db::chat::follow(tx, &followed).await?;
    if turnover.left.is_some() || turnover.joined.is_some() {
        let everybody = chat.members.iter().chain(&followed.members).map(|member| member.user_id);
        take_turn(tx, &everybody.collect::<Vec<_>>()).await?;
    }
    // Those who were there see what became of the deal.
    post_status(tx, &mut chat, change).await?;
    (followed.last_sequence, followed.last_activity_at) = (chat.last_sequence, chat.last_activity_at);
    let mut chat = followed;
    if let Some(joined) = turnover.joined {
        // Who comes is told of nothing that was before.
        chat.remove(joined);
    }
    let recast: Vec<_> = turnover.recast.iter().filter_map(|user| chat.member(*user)).collect();
    if !recast.is_empty() {
        db::member::put(tx, &recast).await?;
        tell(tx, &chat, Told::Chat).await?;
    }
    if let Some(left) = turnover.left {
        dismiss(tx, &mut chat, left, None).await?;
    }
    if let Some(joined) = turnover.joined {
        chat.enter(joined, Role::Agent);
        welcome(tx, &mut chat, joined, None).await?;
    }
    Ok(())
}

/// Each version once, above this one.
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

async fn post_status(tx: &mut Tx, chat: &mut Chat, change: &DealChange) -> Result<(), Error> {
    if change.status.from_status == change.status.to_status {
        return Ok(());
    }
    post_card(tx, chat, Card::DealStatusChanged(change.status.clone()), &[]).await
}
