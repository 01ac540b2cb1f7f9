//! Conferences as they are stored and found.

use ::db::{Cached, Lookup, Tx};
use ::web::{Page, Paging, SortKey};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;

use super::schema::conference;
use crate::domain::{ChatId, Conference, ConferenceId, ConferenceStatus};

/// What a list may be sorted by.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum ConferenceSort {
    CreatedAt,
}

impl SortKey for ConferenceSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// Which conferences of a chat are asked for.
pub struct ConferenceFilter {
    pub statuses: Option<Vec<ConferenceStatus>>,
    pub from: Option<OffsetDateTime>,
    pub to: Option<OffsetDateTime>,
}

/// INV-CNF-1: the chat's row is locked, and it has no live one.
pub async fn insert(tx: &mut Tx, new: &Conference) -> Result<(), ::db::Error> {
    Cached(diesel::insert_into(conference::table).values(new)).execute(tx.conn()).await?;
    Ok(())
}

/// Writes what can change; the chat's row is locked.
pub async fn save(tx: &mut Tx, changed: &Conference) -> Result<(), ::db::Error> {
    let save = diesel::update(conference::table.find(changed.id)).set((
        conference::status.eq(changed.status),
        conference::active_at.eq(changed.active_at),
        conference::ended_at.eq(changed.ended_at),
        conference::end_reason.eq(changed.end_reason),
        conference::ended_by_user_id.eq(changed.ended_by_user_id),
        conference::participants.eq(&changed.participants),
        conference::empty_since.eq(changed.empty_since),
        conference::version.eq(changed.version),
    ));
    Cached(save).execute(tx.conn()).await?;
    Ok(())
}

/// Where a conference belongs, for the lock that its commands take turns under.
pub async fn chat_of(tx: &mut Tx, id: ConferenceId) -> Result<Option<ChatId>, ::db::Error> {
    let chat = conference::table.find(id).select(conference::chat_id);
    Ok(chat.first(tx.conn()).await.optional()?)
}

/// The conference of a chat that this transaction has locked.
pub async fn read(tx: &mut Tx, id: ConferenceId) -> Result<Option<Conference>, ::db::Error> {
    let found = conference::table.find(id).select(Conference::as_select());
    Ok(found.first(tx.conn()).await.optional()?)
}

/// The live one of a chat that this transaction has locked.
pub async fn live(tx: &mut Tx, chat: ChatId) -> Result<Option<Conference>, ::db::Error> {
    let live = of_chat(chat).filter(is_live()).select(Conference::as_select());
    Ok(live.first(tx.conn()).await.optional()?)
}

pub async fn look_up(mut conn: Lookup<'_>, id: ConferenceId) -> QueryResult<Option<Conference>> {
    let found = conference::table.find(id).select(Conference::as_select());
    found.first(&mut conn).await.optional()
}

/// These, in no order.
pub async fn cards(mut conn: Lookup<'_>, ids: &[ConferenceId]) -> QueryResult<Vec<Conference>> {
    let cards = conference::table.filter(conference::id.eq_any(ids));
    cards.select(Conference::as_select()).load(&mut conn).await
}

/// The next live ones after `after`, by id.
pub async fn live_after(
    mut conn: Lookup<'_>,
    after: Option<ConferenceId>,
    limit: i64,
) -> QueryResult<Vec<ConferenceId>> {
    let mut live = conference::table.filter(is_live()).select(conference::id).into_boxed();
    if let Some(after) = after {
        live = live.filter(conference::id.gt(after));
    }
    live.order(conference::id).limit(limit).load(&mut conn).await
}

/// One page of a chat's.
pub async fn list(
    conn: Lookup<'_>,
    chat: ChatId,
    filter: &ConferenceFilter,
    paging: &Paging<ConferenceSort>,
) -> QueryResult<Page<Conference>> {
    let ConferenceSort::CreatedAt = paging.sort;
    let order = list::by(paging, conference::created_at);
    let tie = list::by(paging, conference::id);
    let sorted = found(chat, filter).order((order, tie)).select(Conference::as_select());
    list::page(conn, paging, sorted, found(chat, filter).select(conference::id)).await
}

fn found(chat: ChatId, filter: &ConferenceFilter) -> conference::BoxedQuery<'static, Pg> {
    let mut found = of_chat(chat).into_boxed();
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
fn of_chat(chat: ChatId) -> _ {
    conference::table.filter(conference::chat_id.eq(chat))
}

/// As the index of live ones has it.
fn is_live() -> diesel::expression::SqlLiteral<diesel::sql_types::Bool> {
    diesel::dsl::sql("conference.status <> 'Ended'")
}
