//! Who is in a chat, and how far they have read.

use ::db::{Cached, Conn, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::{chat, member};
use crate::domain::{ChatId, Member};

/// Everybody, by when they joined.
pub async fn of_chat(conn: &mut Conn, id: ChatId) -> Result<Vec<Member>, ::db::Error> {
    let members = member::table.filter(member::chat_id.eq(id));
    let members = members.order((member::joined_at, member::user_id)).select(Member::as_select());
    Ok(members.load(conn).await?)
}

/// Writes those who are new, or have another role.
pub async fn put(tx: &mut Tx, changed: &[&Member]) -> Result<(), ::db::Error> {
    let put = diesel::insert_into(member::table)
        .values(changed.to_vec())
        .on_conflict((member::user_id, member::chat_id))
        .do_update()
        .set((
            member::role.eq(excluded(member::role)),
            member::role_beneath.eq(excluded(member::role_beneath)),
        ));
    put.execute(tx.conn()).await?;
    Ok(())
}

pub async fn delete(tx: &mut Tx, id: ChatId, user: UserId) -> Result<(), ::db::Error> {
    diesel::delete(member::table.find((user, id))).execute(tx.conn()).await?;
    Ok(())
}

/// How far somebody has read, and how far the chat goes. Nobody else moves the marker until the transaction ends.
pub async fn lock_marker(tx: &mut Tx, id: ChatId, user: UserId) -> Result<Option<(i64, i64)>, ::db::Error> {
    let marker = member::table.find((user, id)).select(member::read_sequence).for_no_key_update();
    let Some(read) = marker.first::<i64>(tx.conn()).await.optional()? else { return Ok(None) };
    // Behind the lock: whoever held it may have sent something.
    let last: i64 = chat::table.find(id).select(chat::last_sequence).first(tx.conn()).await?;
    Ok(Some((read, last)))
}

/// Moves a marker that is locked.
pub async fn move_marker(tx: &mut Tx, id: ChatId, user: UserId, to: i64) -> Result<(), ::db::Error> {
    let row = diesel::update(member::table.find((user, id))).set(member::read_sequence.eq(to));
    Cached(row).execute(tx.conn()).await?;
    Ok(())
}
