//! Writes and locks of the replicated deals of CRM.

use ::db::{Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::deal;
use crate::domain::{Deal, DealId};

/// Locks a deal, if it is stored. A transaction locks deals before accounts.
pub async fn lock(tx: &mut Tx, id: DealId) -> Result<Option<Deal>, ::db::Error> {
    let find = deal::table.find(id).select(Deal::as_select()).for_no_key_update();
    Ok(Prepared(find).get_result(tx.conn()).await.optional()?)
}

/// Stores a new deal. Returns false if a concurrent transaction has stored it.
pub async fn insert(tx: &Tx, new: &Deal) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(deal::table).values(new).on_conflict_do_nothing();
    Ok(Prepared(insert).execute(&mut tx.pipeline()).await? == 1)
}

/// Updates a deal that the transaction has locked.
pub async fn save(tx: &Tx, known: &Deal) -> Result<(), ::db::Error> {
    let update = diesel::update(deal::table.find(known.id)).set(known);
    Prepared(update).execute(&mut tx.pipeline()).await?;
    Ok(())
}

/// Locks the deals that are still unrated, by id.
/// Deals that another transaction has locked are skipped.
pub async fn lock_unrated(tx: &mut Tx, ids: &[DealId]) -> Result<Vec<Deal>, ::db::Error> {
    let unrated = deal::table.filter(deal::id.eq_any(ids)).filter(deal::is_unrated);
    let lock = unrated.select(Deal::as_select()).order(deal::id).for_no_key_update().skip_locked();
    Ok(Prepared(lock).load(tx.conn()).await?)
}

/// Clears `is_unrated` of deals that now have a Base.
pub async fn mark_rated(tx: &mut Tx, ids: &[DealId]) -> Result<(), ::db::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let update = diesel::update(deal::table.filter(deal::id.eq_any(ids))).set(deal::is_unrated.eq(false));
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the number of held deals (INV-AGT-8).
pub async fn count_held(conn: &mut Conn) -> QueryResult<i64> {
    deal::table.filter(deal::held_since.is_not_null()).count().get_result(conn).await
}
