//! Writes and locks of the copies of CRM's deals.

use std::collections::BTreeSet;

use ::db::{Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::rows::execute_for_rows;
use crate::domain::{Deal, DealId};
use crate::schema::deal;

/// Locks a deal, if it is stored. A transaction locks deals before accounts.
pub async fn lock(tx: &mut Tx, id: DealId) -> Result<Option<Deal>, ::db::Error> {
    let find = deal::table.find(id).select(Deal::as_select()).for_no_key_update();
    Ok(Prepared(find).get_result(tx.conn()).await.optional()?)
}

/// Locks those of the deals that are stored, in the order of their ids.
pub async fn lock_all(tx: &mut Tx, ids: &BTreeSet<DealId>) -> Result<Vec<Deal>, ::db::Error> {
    let lock = deal::table.filter(deal::id.eq_any(ids)).select(Deal::as_select());
    Ok(Prepared(lock.order(deal::id).for_no_key_update()).load(tx.conn()).await?)
}

/// Stores new deals in the order of their ids. Returns false if a concurrent transaction has stored
/// one of them.
pub async fn insert_all(tx: &Tx, new: &[&Deal]) -> Result<bool, ::db::Error> {
    let insert = |columns, relation| {
        format!(
            "insert into deal ({columns}) select * from {relation} order by id on conflict (id) do nothing"
        )
    };
    Ok(new.is_empty() || execute(tx, new, insert).await? == new.len())
}

/// Updates deals that the transaction has locked.
pub async fn save_all(tx: &Tx, changed: &[&Deal]) -> Result<(), ::db::Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let update = |columns, relation| {
        format!("update deal set ({columns}) = (select new.*) from {relation} where deal.id = new.id")
    };
    execute(tx, changed, update).await?;
    Ok(())
}

/// Executes a statement over the columns of deals.
async fn execute(
    tx: &Tx,
    deals: &[&Deal],
    sql: impl FnOnce(String, String) -> String,
) -> Result<usize, ::db::Error> {
    let executed = execute_for_rows!(tx, deals, sql, {
        id: SqlUuid,
        developer_company_id: SqlUuid,
        property_object_id: SqlUuid,
        created_at: Nullable<Timestamptz>,
        status: Text,
        status_row_version: BigInt,
        agent_user_id: Nullable<SqlUuid>,
        agent_row_version: BigInt,
        amount: Nullable<BigInt>,
        currency: Nullable<Text>,
        amount_row_version: BigInt,
        cancelled_at: Nullable<Timestamptz>,
        known_row_version: BigInt,
        held_since: Nullable<Timestamptz>,
        applied_row_version: BigInt,
        sale_row_version: Nullable<BigInt>,
        sold_at: Nullable<Timestamptz>,
        sale_agent_user_id: Nullable<SqlUuid>,
        sale_amount: Nullable<BigInt>,
        sale_currency: Nullable<Text>,
        completed_at: Nullable<Timestamptz>,
        completed_amount: Nullable<BigInt>,
        is_unrated: Bool,
        is_agent_assigned: Bool,
    });
    Ok(executed?)
}

/// Updates a deal that the transaction has locked.
pub async fn save(tx: &Tx, changed: &Deal) -> Result<(), ::db::Error> {
    let update = diesel::update(deal::table.find(changed.id)).set(changed);
    Prepared(update).execute(&mut tx.pipeline()).await?;
    Ok(())
}

/// Locks the deals that are still unrated, in the order of their ids.
///
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
