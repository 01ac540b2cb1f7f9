//! Supervisors who hand over the chats of one user to another.

use ::db::{Db, Tx};
use auth::{Reach, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use super::member::{record_joined, record_left};
use super::stream::lock_streams;
use crate::db;
use crate::domain::{ChatId, Role};
use crate::error::{EMPLOYMENT_ENDED, Error};

/// The outcome of a request to hand over chats.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HandOver {
    /// Number of chats that this request handed over.
    #[schema(minimum = 0)]
    handed_over_count: u32,
    /// Number of chats without a free seat, which did not change.
    #[schema(minimum = 0)]
    full_chat_count: u32,
}

/// Chats that one query reads.
const BATCH: i64 = 200;

/// The two users of a hand-over, and its supervisor.
#[derive(Clone, Copy, Debug)]
pub struct HandOverRequest {
    pub by: UserId,
    pub reach: Reach,
    pub from: UserId,
    pub to: UserId,
}

/// Hands over all deal chats of a user, each in a transaction of its own. If one fails, a repeat
/// continues.
///
/// # Errors
/// [`EMPLOYMENT_ENDED`]: the new user no longer works for the company. Chats of other companies may
/// have been handed over before.
pub async fn hand_over_chats(db: &Db, request: HandOverRequest) -> Result<HandOver, Error> {
    let HandOverRequest { reach, from, .. } = request;
    let (mut outcome, mut after) = (HandOver::default(), None);
    loop {
        let conn = db.conn().await?;
        let chats = db::chat_view::list_ids_of_member(&conn, reach, from, after, BATCH).await?;
        drop(conn);
        let Some(last) = chats.last() else { return Ok(outcome) };
        after = Some(*last);
        for chat in chats {
            match db.tx(async |tx| hand_over_chat(tx, chat, request).await).await? {
                ChatOutcome::HandedOver => outcome.handed_over_count += 1,
                ChatOutcome::Full => outcome.full_chat_count += 1,
                ChatOutcome::Unchanged => {}
            }
        }
    }
}

enum ChatOutcome {
    HandedOver,
    /// The chat has no free seat.
    Full,
    /// The user left the chat since the list was read.
    Unchanged,
}

/// Hands over one deal chat.
///
/// # Errors
/// [`EMPLOYMENT_ENDED`]: the new user no longer works for the company.
async fn hand_over_chat(tx: &mut Tx, id: ChatId, request: HandOverRequest) -> Result<ChatOutcome, Error> {
    let HandOverRequest { by, from, to, .. } = request;
    let Some(mut chat) = db::chat::lock(tx, id).await? else { return Ok(ChatOutcome::Unchanged) };
    let Some(company) = chat.tenant_id else { return Ok(ChatOutcome::Unchanged) };
    if db::employment::load_locked(tx, to).await?.has_lost_membership(company, Role::Member, chat.now) {
        return Err(EMPLOYMENT_ENDED.into());
    }
    let is_leaving =
        chat.member(from).is_some_and(|member| matches!(member.role, Role::Manager | Role::Member));
    let mut users = chat.user_ids();
    users.push(to);
    if is_leaving {
        chat.remove_member(from);
    }
    let is_new = chat.member(to).is_none();
    if is_new && !chat.has_free_seat() {
        return Ok(ChatOutcome::Full);
    }
    if !is_leaving && !db::employment::delete_departure(tx, chat.id, from).await? {
        return Ok(ChatOutcome::Unchanged);
    }
    if is_new {
        db::employment::delete_departure(tx, chat.id, to).await?;
    }
    lock_streams(tx, &users).await?;
    if is_leaving {
        record_left(tx, &mut chat, from, Some(by)).await?;
    }
    if is_new {
        chat.add_member(to, Role::Member);
        record_joined(tx, &mut chat, to, Some(by)).await?;
    }
    Ok(ChatOutcome::HandedOver)
}
