//! Chats as they are stored and locked.

use ::db::{Cached, Conn, Lookup, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::schema::{chat, member};
use crate::domain::{Chat, ChatId, ChatKind, DealId, PropertyObjectId};

#[derive(Queryable, Selectable)]
#[diesel(table_name = chat, check_for_backend(Pg))]
struct Row {
    id: ChatId,
    kind: ChatKind,
    deal_id: Option<DealId>,
    tenant_id: Option<CompanyId>,
    property_object_id: Option<PropertyObjectId>,
    agent_user_id: Option<UserId>,
    row_version: Option<i64>,
    last_sequence: i64,
    created_at: OffsetDateTime,
    last_activity_at: OffsetDateTime,
}

/// The chat, which is this transaction's to say and do something in until it ends.
pub async fn lock(tx: &mut Tx, id: ChatId) -> Result<Option<Chat>, ::db::Error> {
    let row = chat::table.find(id).select(Row::as_select()).for_no_key_update();
    let Some(row) = row.first(tx.conn()).await.optional()? else { return Ok(None) };
    // Behind the lock, so that nobody is missed who came while it was waited for, and nothing happens before what came first.
    let Some((members, now)) = super::member::of_chat(tx, id).await? else { return Ok(None) };
    let Row {
        id,
        kind,
        deal_id,
        tenant_id,
        property_object_id,
        agent_user_id,
        row_version,
        last_sequence,
        created_at,
        last_activity_at,
    } = row;
    Ok(Some(Chat {
        id,
        kind,
        deal_id,
        tenant_id,
        property_object_id,
        agent_user_id,
        row_version,
        last_sequence,
        created_at,
        last_activity_at,
        members,
        now,
    }))
}

/// What the database's clock says, by which everything happens in a chat.
pub async fn clock(mut conn: Lookup<'_>) -> QueryResult<OffsetDateTime> {
    let now = diesel::dsl::sql::<Timestamptz>("clock_timestamp()");
    diesel::select(now).get_result(&mut conn).await
}

/// The chat of a deal, if there is one.
pub async fn of_deal(conn: &mut Conn, deal: DealId) -> Result<Option<ChatId>, ::db::Error> {
    let chat = chat::table.filter(chat::deal_id.eq(deal)).select(chat::id);
    Ok(chat.first(conn).await.optional()?)
}

/// The Direct chat of two, if there is one.
pub async fn of_two(conn: &mut Conn, one: UserId, other: UserId) -> Result<Option<ChatId>, ::db::Error> {
    let pair = chat::direct_low.eq(one.min(other)).and(chat::direct_high.eq(one.max(other)));
    Ok(chat::table.filter(pair).select(chat::id).first(conn).await.optional()?)
}

/// Whether two people meet in some deal's chat.
pub async fn have_met(conn: &mut Conn, one: UserId, other: UserId) -> Result<bool, ::db::Error> {
    let theirs = diesel::alias!(member as theirs);
    let met = member::table
        .inner_join(chat::table)
        .inner_join(theirs.on(theirs.field(member::chat_id).eq(member::chat_id)))
        .filter(member::user_id.eq(one))
        .filter(theirs.field(member::user_id).eq(other))
        .filter(chat::kind.eq(ChatKind::Deal));
    Ok(diesel::select(exists(met)).get_result(conn).await?)
}

/// How far a chat goes whose member somebody is. `None` to everybody else.
pub async fn look_up_own(mut conn: Lookup<'_>, id: ChatId, user: UserId) -> QueryResult<Option<i64>> {
    let own = member::table.find((user, id)).inner_join(chat::table).select(chat::last_sequence);
    own.first(&mut conn).await.optional()
}

/// Stores a chat with its members; `false` when there is one of the same deal, or of the same two.
pub async fn insert(tx: &mut Tx, new: &Chat) -> Result<bool, ::db::Error> {
    let pair = match (new.kind, &new.members[..]) {
        (ChatKind::Direct, [one, other]) => Some((one.user_id, other.user_id)),
        _ => None,
    };
    let insert = diesel::insert_into(chat::table)
        .values((
            chat::id.eq(new.id),
            chat::kind.eq(new.kind),
            chat::deal_id.eq(new.deal_id),
            chat::tenant_id.eq(new.tenant_id),
            chat::property_object_id.eq(new.property_object_id),
            chat::direct_low.eq(pair.map(|(one, other)| one.min(other))),
            chat::direct_high.eq(pair.map(|(one, other)| one.max(other))),
            chat::agent_user_id.eq(new.agent_user_id),
            chat::row_version.eq(new.row_version),
            chat::last_sequence.eq(new.last_sequence),
            chat::created_at.eq(new.created_at),
            chat::last_activity_at.eq(new.last_activity_at),
        ))
        .on_conflict_do_nothing();
    if Cached(insert).execute(tx.conn()).await? == 0 {
        return Ok(false);
    }
    diesel::insert_into(member::table).values(&new.members).execute(tx.conn()).await?;
    Ok(true)
}

/// Writes how far the deal was followed.
pub async fn follow(tx: &mut Tx, followed: &Chat) -> Result<(), ::db::Error> {
    let row = diesel::update(chat::table.find(followed.id))
        .set((chat::agent_user_id.eq(followed.agent_user_id), chat::row_version.eq(followed.row_version)));
    Cached(row).execute(tx.conn()).await?;
    Ok(())
}
