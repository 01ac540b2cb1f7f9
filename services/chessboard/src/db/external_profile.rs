//! The queue of external profiles that cannot be applied yet.

use ::db::{Conn, Prepared, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::{ExternalDeveloperId, ExternalProfile};
use crate::schema::{developer, external_profile};

/// Adds a profile to the queue, or replaces the waiting profile with the same external id at its
/// position.
pub async fn upsert(tx: &mut Tx, profile: &ExternalProfile) -> Result<(), ::db::Error> {
    let upsert = diesel::insert_into(external_profile::table)
        .values(profile)
        .on_conflict(external_profile::external_id)
        .do_update()
        .set(profile);
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the waiting profile of an external id.
pub async fn find(
    tx: &mut Tx,
    external_id: ExternalDeveloperId,
) -> Result<Option<ExternalProfile>, ::db::Error> {
    let row = external_profile::table.find(external_id).select(ExternalProfile::as_select());
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Returns the first waiting profile of a company that can be applied, by arrival.
///
/// A profile cannot be applied if its external id belongs to another developer. If the company's
/// profile is linked, only a profile with the external id `linked` can be applied.
pub async fn find_first_applicable(
    tx: &mut Tx,
    company: CompanyId,
    linked: Option<ExternalDeveloperId>,
) -> Result<Option<ExternalProfile>, ::db::Error> {
    let owners = developer::table
        .filter(developer::external_chessboard_developer_id.eq(external_profile::external_id.nullable()))
        .filter(developer::id.ne(company));
    let waiting = external_profile::table
        .filter(external_profile::company_id.eq(company))
        .filter(
            external_profile::external_id
                .nullable()
                .eq(linked)
                .or(linked.is_none().into_sql::<diesel::sql_types::Bool>()),
        )
        .filter(diesel::dsl::not(diesel::dsl::exists(owners)));
    let first = waiting.order(external_profile::arrival_order).select(ExternalProfile::as_select());
    Ok(first.first(tx.conn()).await.optional()?)
}

/// Removes a profile from the queue.
pub async fn delete(tx: &mut Tx, external_id: ExternalDeveloperId) -> Result<(), ::db::Error> {
    diesel::delete(external_profile::table.find(external_id)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the number of waiting profiles.
pub async fn count(conn: &mut Conn) -> Result<i64, ::db::Error> {
    Ok(external_profile::table.count().get_result(conn).await?)
}
