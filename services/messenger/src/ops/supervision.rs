//! Supervisors who hand over the chats of one user to another.

use ::db::{Db, Tx};
use auth::{Reach, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use super::member::{record_joined, record_left};
use super::stream::lock_streams;
use crate::db;
use crate::domain::limits::MAX_HANDED_OVER_CHATS;
use crate::domain::{ChatId, Role};
use crate::error::{EMPLOYMENT_ENDED, Error};

/// The outcome of a request to hand over chats.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HandOver {
    /// Number of chats that this request handed over.
    #[schema(minimum = 0, maximum = 100)]
    handed_over_count: u32,
    /// Chats without a free seat, which did not change.
    #[schema(max_items = 100)]
    full_chat_ids: Vec<ChatId>,
    /// True if the user has further chats, which the next request hands over.
    has_more: bool,
}

/// The two users of a hand-over, and its supervisor.
#[derive(Clone, Copy, Debug)]
pub struct HandOverRequest {
    pub by: UserId,
    pub reach: Reach,
    pub from: UserId,
    pub to: UserId,
}

/// Hands over up to [`MAX_HANDED_OVER_CHATS`] deal chats, each in a transaction of its own.
///
/// # Errors
/// [`EMPLOYMENT_ENDED`]: the new user no longer works for the company. Chats of other companies may
/// have been handed over before.
pub async fn hand_over_chats(db: &Db, request: HandOverRequest) -> Result<HandOver, Error> {
    let limit = MAX_HANDED_OVER_CHATS as i64 + 1;
    let conn = db.conn().await?;
    let mut chats = db::chat_view::list_ids_of_member(&conn, request.reach, request.from, limit).await?;
    drop(conn);
    let has_more = chats.len() > MAX_HANDED_OVER_CHATS;
    chats.truncate(MAX_HANDED_OVER_CHATS);
    let mut outcome = HandOver { has_more, ..HandOver::default() };
    for chat in chats {
        match db.tx(async |tx| hand_over_chat(tx, chat, request).await).await? {
            ChatOutcome::HandedOver => outcome.handed_over_count += 1,
            ChatOutcome::Full => outcome.full_chat_ids.push(chat),
            ChatOutcome::Unchanged => {}
        }
    }
    Ok(outcome)
}

enum ChatOutcome {
    HandedOver,
    /// The chat has no free seat.
    Full,
    /// The user left the chat since the list was read.
    Unchanged,
}

/// # Errors
/// [`EMPLOYMENT_ENDED`]: the new user no longer works for the company.
async fn hand_over_chat(tx: &mut Tx, id: ChatId, request: HandOverRequest) -> Result<ChatOutcome, Error> {
    let HandOverRequest { by, from, to, .. } = request;
    let Some(mut chat) = db::chat::lock(tx, id).await? else { return Ok(ChatOutcome::Unchanged) };
    let Some(company) = chat.tenant_id else { return Ok(ChatOutcome::Unchanged) };
    if db::employment::lock_ended(tx, to, company).await? {
        return Err(EMPLOYMENT_ENDED.into());
    }
    let is_member =
        chat.member(from).is_some_and(|member| matches!(member.role, Role::Manager | Role::Member));
    let mut users = chat.user_ids();
    users.push(to);
    if is_member {
        chat.remove_member(from);
    }
    let is_new = chat.member(to).is_none();
    if is_new && !chat.has_free_seat() {
        return Ok(ChatOutcome::Full);
    }
    if !is_member && !db::employment::delete_departure(tx, chat.id, from).await? {
        return Ok(ChatOutcome::Unchanged);
    }
    if is_new {
        db::employment::delete_departure(tx, chat.id, to).await?;
    }
    lock_streams(tx, &users).await?;
    if is_member {
        record_left(tx, &mut chat, from, Some(by)).await?;
    }
    if is_new {
        chat.add_member(to, Role::Member);
        record_joined(tx, &mut chat, to, Some(by)).await?;
    }
    Ok(ChatOutcome::HandedOver)
}
