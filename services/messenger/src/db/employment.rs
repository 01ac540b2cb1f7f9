//! Queries on ended employments, and on the chats that their users left.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use messaging::EntityGate;

use super::schema::{chat, departure, ended_employment, member};
use crate::domain::{ChatId, EMPLOYMENT_CONSUMER_GROUP, Role};

/// Locks the employments of a user until the end of the transaction.
///
/// A use case that adds a user to a deal chat locks before it reads, so that the end of the
/// employment follows the addition and removes the user.
/// The lock follows that of the chat, and precedes those of streams.
pub async fn lock(tx: &mut Tx, user: UserId) -> Result<(), ::db::Error> {
    EntityGate::lock(tx, EMPLOYMENT_CONSUMER_GROUP, user).await.map(drop)
}

/// Locks the employments of a user, and returns true if the one in the company is known to have
/// ended or to be suspended.
pub async fn lock_ended(tx: &mut Tx, user: UserId, company: CompanyId) -> Result<bool, ::db::Error> {
    lock(tx, user).await?;
    let ended = diesel::select(exists(ended_employment::table.find((user, company))));
    Ok(Prepared(ended).get_result(tx.conn()).await?)
}

/// Stores the end of an employment whose user is locked.
pub async fn insert_ended(tx: &mut Tx, user: UserId, company: CompanyId) -> Result<(), ::db::Error> {
    let ended = (ended_employment::user_id.eq(user), ended_employment::company_id.eq(company));
    let insert = diesel::insert_into(ended_employment::table).values(ended).on_conflict_do_nothing();
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes the end of an employment whose user is locked.
pub async fn delete_ended(tx: &mut Tx, user: UserId, company: CompanyId) -> Result<(), ::db::Error> {
    Prepared(diesel::delete(ended_employment::table.find((user, company)))).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the next deal chats of the company after `after`, by id, in which the user has a role
/// that depends on the employment.
pub async fn list_chats_after(
    mut conn: &Conn,
    user: UserId,
    company: CompanyId,
    after: Option<ChatId>,
    limit: i64,
) -> QueryResult<Vec<ChatId>> {
    let depends = member::role.eq_any([Role::Manager, Role::Member]).or(member::fallback_role.is_not_null());
    let mut chats = member::table
        .inner_join(chat::table)
        .filter(member::user_id.eq(user))
        .filter(chat::tenant_id.eq(company))
        .filter(depends)
        .select(member::chat_id)
        .into_boxed();
    if let Some(after) = after {
        chats = chats.filter(member::chat_id.gt(after));
    }
    chats.order(member::chat_id).limit(limit).load(&mut conn).await
}

/// Records that a user left a chat because the employment ended.
pub async fn insert_departure(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<(), ::db::Error> {
    let left = (departure::user_id.eq(user), departure::chat_id.eq(chat));
    let insert = diesel::insert_into(departure::table).values(left).on_conflict_do_nothing();
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes the departure of a user from a chat. Returns false if there is none.
pub async fn delete_departure(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<bool, ::db::Error> {
    let delete = diesel::delete(departure::table.find((user, chat)));
    Ok(Prepared(delete).execute(tx.conn()).await? == 1)
}
