//! Queries on conferences.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;

use crate::domain::{ChatId, Conference, ConferenceId, ConferenceStatus};
use crate::schema::conference;

/// The sort keys of a list of conferences.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum ConferenceSort {
    CreatedAt,
}

impl SortKey for ConferenceSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filter of a list of conferences.
pub struct ConferenceFilter {
    pub statuses: Option<Vec<ConferenceStatus>>,
    pub from: Option<OffsetDateTime>,
    pub to: Option<OffsetDateTime>,
}

/// Stores a new conference of a locked chat that has no live one (INV-CNF-1).
pub async fn insert(tx: &mut Tx, new: &Conference) -> Result<(), ::db::Error> {
    Prepared(diesel::insert_into(conference::table).values(new)).execute(tx.conn()).await?;
    Ok(())
}

/// Stores the changes of a conference of a locked chat.
pub async fn save(tx: &mut Tx, changed: &Conference) -> Result<(), ::db::Error> {
    let save = diesel::update(conference::table.find(changed.id)).set((
        conference::status.eq(changed.status),
        conference::active_at.eq(changed.active_at),
        conference::ended_at.eq(changed.ended_at),
        conference::end_reason.eq(changed.end_reason),
        conference::ended_by_user_id.eq(changed.ended_by_user_id),
        conference::participants.eq(&changed.participants),
        conference::knocks.eq(&changed.knocks),
        conference::empty_since.eq(changed.empty_since),
        conference::version.eq(changed.version),
    ));
    Prepared(save).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the chat of a conference. A change of the conference needs the lock of this chat.
pub async fn find_chat_id(tx: &mut Tx, id: ConferenceId) -> Result<Option<ChatId>, ::db::Error> {
    let chat = conference::table.find(id).select(conference::chat_id);
    Ok(chat.first(tx.conn()).await.optional()?)
}

/// Returns a conference of a locked chat.
pub async fn find(tx: &mut Tx, id: ConferenceId) -> Result<Option<Conference>, ::db::Error> {
    let found = conference::table.find(id).select(Conference::as_select());
    Ok(found.first(tx.conn()).await.optional()?)
}

/// Returns the live conference of a locked chat.
pub async fn find_live(tx: &mut Tx, chat: ChatId) -> Result<Option<Conference>, ::db::Error> {
    let live = in_chat(chat).filter(is_live()).select(Conference::as_select());
    Ok(live.first(tx.conn()).await.optional()?)
}

/// Returns the times at which a user started conferences of a locked chat after `after`, the latest
/// first, up to `limit`.
pub async fn list_starts(
    tx: &mut Tx,
    chat: ChatId,
    host: UserId,
    after: OffsetDateTime,
    limit: i64,
) -> Result<Vec<OffsetDateTime>, ::db::Error> {
    let starts = in_chat(chat)
        .filter(conference::started_by_user_id.eq(host))
        .filter(conference::created_at.gt(after))
        .select(conference::created_at)
        .order(conference::created_at.desc());
    Ok(starts.limit(limit).load(tx.conn()).await?)
}

pub async fn look_up(mut conn: &Conn, id: ConferenceId) -> QueryResult<Option<Conference>> {
    let found = conference::table.find(id).select(Conference::as_select());
    found.first(&mut conn).await.optional()
}

/// Returns the conferences with these ids, in any order.
pub async fn list_by_ids(mut conn: &Conn, ids: &[ConferenceId]) -> QueryResult<Vec<Conference>> {
    let found = conference::table.filter(conference::id.eq_any(ids));
    found.select(Conference::as_select()).load(&mut conn).await
}

/// Returns the next live conferences after `after`, by id.
pub async fn list_live_after(
    mut conn: &Conn,
    after: Option<ConferenceId>,
    limit: i64,
) -> QueryResult<Vec<ConferenceId>> {
    let mut live = conference::table.filter(is_live()).select(conference::id).into_boxed();
    if let Some(after) = after {
        live = live.filter(conference::id.gt(after));
    }
    live.order(conference::id).limit(limit).load(&mut conn).await
}

/// Returns one page of a chat's conferences.
pub async fn list(
    conn: &Conn,
    chat: ChatId,
    filter: &ConferenceFilter,
    paging: &Paging<ConferenceSort>,
) -> QueryResult<Page<Conference>> {
    let ConferenceSort::CreatedAt = paging.sort;
    let order = list::order_by(paging, conference::created_at);
    let tie = list::order_by(paging, conference::id);
    let sorted = filtered(chat, filter).order((order, tie)).select(Conference::as_select());
    list::page(conn, paging, sorted, filtered(chat, filter).select(conference::id)).await
}

fn filtered(chat: ChatId, filter: &ConferenceFilter) -> conference::BoxedQuery<'static, Pg> {
    let mut found = in_chat(chat).into_boxed();
    if let Some(statuses) = &filter.statuses {
        found = found.filter(conference::status.eq_any(statuses.clone()));
    }
    if let Some(from) = filter.from {
        found = found.filter(conference::created_at.ge(from));
    }
    if let Some(to) = filter.to {
        found = found.filter(conference::created_at.lt(to));
    }
    found
}

#[diesel::dsl::auto_type(no_type_alias)]
fn in_chat(chat: ChatId) -> _ {
    conference::table.filter(conference::chat_id.eq(chat))
}

/// Returns the condition of the partial index of live conferences.
fn is_live() -> diesel::expression::SqlLiteral<diesel::sql_types::Bool> {
    diesel::dsl::sql("conference.status <> 'Ended'")
}
