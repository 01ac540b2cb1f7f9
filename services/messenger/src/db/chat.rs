//! Queries on chats, and their lock.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{Chat, ChatId, ChatKind, DealId, DealStatus, PropertyObjectId};
use crate::schema::{chat, member};

#[derive(Queryable, Selectable)]
#[diesel(table_name = chat, check_for_backend(Pg))]
struct Row {
    id: ChatId,
    kind: ChatKind,
    deal_id: Option<DealId>,
    tenant_id: Option<CompanyId>,
    property_object_id: Option<PropertyObjectId>,
    direct_low: Option<UserId>,
    direct_high: Option<UserId>,
    blocked_by: Vec<UserId>,
    closed_at: Option<OffsetDateTime>,
    agent_user_id: Option<UserId>,
    row_version: Option<i64>,
    deal_status: Option<DealStatus>,
    last_sequence: i64,
    created_at: OffsetDateTime,
    last_activity_at: OffsetDateTime,
}

/// Locks a chat until the end of the transaction. The lock serializes all changes of the chat.
pub async fn lock(tx: &mut Tx, id: ChatId) -> Result<Option<Chat>, ::db::Error> {
    let row = chat::table.find(id).select(Row::as_select()).for_no_key_update();
    let Some(row) = row.first(tx.conn()).await.optional()? else { return Ok(None) };
    // Members and clock are read after the lock, because both may have changed during the wait.
    let (members, now) = super::member::load_with_clock(tx, id).await?;
    let Row {
        id,
        kind,
        deal_id,
        tenant_id,
        property_object_id,
        direct_low,
        direct_high,
        blocked_by,
        closed_at,
        agent_user_id,
        row_version,
        deal_status,
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
        direct_users: direct_low.zip(direct_high),
        blocked_by,
        closed_at,
        agent_user_id,
        row_version,
        deal_status,
        last_sequence,
        created_at,
        last_activity_at,
        members,
        now,
    }))
}

pub async fn find_by_deal(conn: &mut Conn, deal: DealId) -> Result<Option<ChatId>, ::db::Error> {
    let chat = chat::table.filter(chat::deal_id.eq(deal)).select(chat::id);
    Ok(chat.first(conn).await.optional()?)
}

/// Returns the Direct chat of two users, and true if `one` is a member.
pub async fn find_direct(
    conn: &mut Conn,
    one: UserId,
    other: UserId,
) -> Result<Option<(ChatId, bool)>, ::db::Error> {
    let pair = chat::direct_low.eq(one.min(other)).and(chat::direct_high.eq(one.max(other)));
    let own = member::table.filter(member::chat_id.eq(chat::id)).filter(member::user_id.eq(one));
    Ok(chat::table.filter(pair).select((chat::id, exists(own))).first(conn).await.optional()?)
}

/// Returns true if both users are members of one deal's chat.
pub async fn share_deal_chat(conn: &mut Conn, one: UserId, other: UserId) -> Result<bool, ::db::Error> {
    let theirs = diesel::alias!(member as theirs);
    let shared = member::table
        .inner_join(chat::table)
        .inner_join(theirs.on(theirs.field(member::chat_id).eq(member::chat_id)))
        .filter(member::user_id.eq(one))
        .filter(theirs.field(member::user_id).eq(other))
        .filter(chat::kind.eq(ChatKind::Deal));
    Ok(diesel::select(exists(shared)).get_result(conn).await?)
}

/// Returns the sequence of the chat's newest message, or `None` if the user is not a member.
pub async fn look_up_last_sequence(mut conn: &Conn, id: ChatId, user: UserId) -> QueryResult<Option<i64>> {
    let own = member::table.find((user, id)).inner_join(chat::table).select(chat::last_sequence);
    own.first(&mut conn).await.optional()
}

/// Stores a chat with its members.
/// Returns false if a chat of the same deal, or of the same two users, exists.
pub async fn insert(tx: &mut Tx, new: &Chat) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(chat::table)
        .values((
            chat::id.eq(new.id),
            chat::kind.eq(new.kind),
            chat::deal_id.eq(new.deal_id),
            chat::tenant_id.eq(new.tenant_id),
            chat::property_object_id.eq(new.property_object_id),
            chat::direct_low.eq(new.direct_users.map(|(low, _)| low)),
            chat::direct_high.eq(new.direct_users.map(|(_, high)| high)),
            chat::agent_user_id.eq(new.agent_user_id),
            chat::row_version.eq(new.row_version),
            chat::deal_status.eq(&new.deal_status),
            chat::last_sequence.eq(new.last_sequence),
            chat::created_at.eq(new.created_at),
            chat::last_activity_at.eq(new.last_activity_at),
        ))
        .on_conflict_do_nothing();
    if Prepared(insert).execute(tx.conn()).await? == 0 {
        return Ok(false);
    }
    diesel::insert_into(member::table).values(&new.members).execute(tx.conn()).await?;
    Ok(true)
}

/// Stores the deal's agent, version and status.
pub async fn save_deal_state(tx: &mut Tx, changed: &Chat) -> Result<(), ::db::Error> {
    let row = diesel::update(chat::table.find(changed.id)).set((
        chat::agent_user_id.eq(changed.agent_user_id),
        chat::row_version.eq(changed.row_version),
        chat::deal_status.eq(&changed.deal_status),
    ));
    Prepared(row).execute(tx.conn()).await?;
    Ok(())
}

/// Stores the users who block the other one, and the time of the closing.
pub async fn save_direct_state(tx: &mut Tx, changed: &Chat) -> Result<(), ::db::Error> {
    let row = diesel::update(chat::table.find(changed.id))
        .set((chat::blocked_by.eq(&changed.blocked_by), chat::closed_at.eq(changed.closed_at)));
    Prepared(row).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the sequence of a chat's newest message, regardless of members.
pub async fn read_last_sequence(mut conn: &Conn, id: ChatId) -> QueryResult<i64> {
    chat::table.find(id).select(chat::last_sequence).first(&mut conn).await
}
