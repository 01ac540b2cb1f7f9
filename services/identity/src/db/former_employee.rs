//! Queries of former employees.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::schema::former_employee;

/// Records that a user left a company.
pub async fn record(
    tx: &mut Tx,
    user: UserId,
    company: CompanyId,
    left_at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let upsert = diesel::insert_into(former_employee::table)
        .values((
            former_employee::user_id.eq(user),
            former_employee::company_id.eq(company),
            former_employee::left_at.eq(left_at),
        ))
        .on_conflict((former_employee::user_id, former_employee::company_id))
        .do_update()
        .set(former_employee::left_at.eq(excluded(former_employee::left_at)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if the user has ever left the company, even if the company employs the user again.
pub async fn has_left(conn: &mut Conn, user: UserId, company: CompanyId) -> Result<bool, ::db::Error> {
    Ok(diesel::select(exists(former_employee::table.find((user, company)))).get_result(conn).await?)
}
