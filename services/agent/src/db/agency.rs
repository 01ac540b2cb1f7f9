//! The copy of identity's agencies.

use ::db::{Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::schema::{agency, agent};

/// Stores whether an agency is active, unless a version at least as high is stored.
pub async fn upsert(tx: &mut Tx, id: CompanyId, is_active: bool, version: i64) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let newest =
        (agency::is_active.eq(excluded(agency::is_active)), agency::version.eq(excluded(agency::version)));
    let upsert = diesel::insert_into(agency::table)
        .values((agency::id.eq(id), agency::is_active.eq(is_active), agency::version.eq(version)))
        .on_conflict(agency::id)
        .do_update()
        .set(newest)
        .filter(agency::version.lt(excluded(agency::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the agency of an agent if it is active.
pub async fn find_active(tx: &mut Tx, user: UserId) -> Result<Option<CompanyId>, ::db::Error> {
    let find = agent::table
        .inner_join(agency::table.on(agent::agency_company_id.eq(agency::id.nullable())))
        .filter(agent::user_id.eq(user))
        .filter(agency::is_active)
        .select(agency::id);
    Ok(Prepared(find).get_result(tx.conn()).await.optional()?)
}
