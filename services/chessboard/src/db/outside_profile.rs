//! What an outside system tells of profiles that cannot take it yet.

use ::db::{Cached, Conn, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::{developer, outside_profile};
use crate::domain::{OutsideId, OutsideProfile};

/// Has it wait, in the place that its outside id had, if it had one.
pub async fn keep(tx: &mut Tx, told: &OutsideProfile) -> Result<(), ::db::Error> {
    let put = diesel::insert_into(outside_profile::table)
        .values(told)
        .on_conflict(outside_profile::outside_id)
        .do_update()
        .set(told);
    Cached(put).execute(tx.conn()).await?;
    Ok(())
}

/// What waits under an outside id.
pub async fn find(tx: &mut Tx, outside: OutsideId) -> Result<Option<OutsideProfile>, ::db::Error> {
    let row = outside_profile::table.find(outside).select(OutsideProfile::as_select());
    Ok(row.first(tx.conn()).await.optional()?)
}

/// What waits for a company and could be applied, in the order in which it came: it is of no other's profile, and of
/// `linked` alone where there is such an id.
pub async fn first_for(
    tx: &mut Tx,
    company: CompanyId,
    linked: Option<OutsideId>,
) -> Result<Option<OutsideProfile>, ::db::Error> {
    let others = developer::table
        .filter(developer::external_chessboard_developer_id.eq(outside_profile::outside_id.nullable()))
        .filter(developer::id.ne(company));
    let waiting = outside_profile::table
        .filter(outside_profile::company_id.eq(company))
        .filter(
            outside_profile::outside_id
                .nullable()
                .eq(linked)
                .or(linked.is_none().into_sql::<diesel::sql_types::Bool>()),
        )
        .filter(diesel::dsl::not(diesel::dsl::exists(others)));
    let first = waiting.order(outside_profile::came).select(OutsideProfile::as_select());
    Ok(first.first(tx.conn()).await.optional()?)
}

/// It waits no longer.
pub async fn forget(tx: &mut Tx, outside: OutsideId) -> Result<(), ::db::Error> {
    diesel::delete(outside_profile::table.find(outside)).execute(tx.conn()).await?;
    Ok(())
}

/// How many wait.
pub async fn count(conn: &mut Conn) -> Result<i64, ::db::Error> {
    Ok(outside_profile::table.count().get_result(conn).await?)
}
