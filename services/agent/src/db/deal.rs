//! Deals as they are followed.

use ::db::{Cached, Conn, Tx};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::deal;
use crate::domain::{Deal, DealId};

/// Has a deal to itself, if anybody has told of it before. Comes before any account.
pub async fn lock(tx: &mut Tx, id: DealId) -> Result<Option<Deal>, ::db::Error> {
    let find = deal::table.find(id).select(Deal::as_select()).for_no_key_update();
    Ok(Cached(find).get_result(tx.conn()).await.optional()?)
}

/// Stores one that nobody has told of before. `false`: somebody else has stored it meanwhile.
pub async fn insert(tx: &Tx, new: &Deal) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(deal::table).values(new).on_conflict_do_nothing();
    Ok(Cached(insert).execute(&mut tx.pipeline()).await? == 1)
}

/// Writes what this transaction has locked.
pub async fn save(tx: &Tx, known: &Deal) -> Result<(), ::db::Error> {
    let update = diesel::update(deal::table.find(known.id)).set(known);
    Cached(update).execute(&mut tx.pipeline()).await?;
    Ok(())
}

/// Has those of these deals to itself that are unrated still and with nobody else, always in the same order.
pub async fn lock_unrated(tx: &mut Tx, ids: &[DealId]) -> Result<Vec<Deal>, ::db::Error> {
    let unrated = deal::table.filter(deal::id.eq_any(ids)).filter(deal::is_unrated);
    let lock = unrated.select(Deal::as_select()).order(deal::id).for_no_key_update().skip_locked();
    Ok(Cached(lock).load(tx.conn()).await?)
}

/// These have their Base now.
pub async fn mark_rated(tx: &mut Tx, ids: &[DealId]) -> Result<(), ::db::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let update = diesel::update(deal::table.filter(deal::id.eq_any(ids))).set(deal::is_unrated.eq(false));
    Cached(update).execute(tx.conn()).await?;
    Ok(())
}

/// INV-AGT-8: how many are held.
pub async fn count_held(conn: &mut Conn) -> QueryResult<i64> {
    deal::table.filter(deal::held_since.is_not_null()).count().get_result(conn).await
}
