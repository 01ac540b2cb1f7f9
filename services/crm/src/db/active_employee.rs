//! The copy of active employments.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::{CompanyKind, CompanyStatus};
use crate::schema::{active_employee, company};

/// Stores the company of an active employee. `None` deletes the row of a user who has no active
/// employment any more.
pub async fn set_company(tx: &mut Tx, user: UserId, company: Option<CompanyId>) -> Result<(), ::db::Error> {
    let Some(company) = company else {
        Prepared(diesel::delete(active_employee::table.find(user))).execute(tx.conn()).await?;
        return Ok(());
    };
    let upsert = diesel::insert_into(active_employee::table)
        .values((active_employee::user_id.eq(user), active_employee::company_id.eq(company)))
        .on_conflict(active_employee::user_id)
        .do_update()
        .set(active_employee::company_id.eq(company));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if the user is an active employee of an active agency, or if `user` is `None`.
pub async fn is_active_agent(mut conn: &Conn, user: Option<UserId>) -> QueryResult<bool> {
    let Some(user) = user else { return Ok(true) };
    let employed = active_employee::table
        .inner_join(company::table.on(company::id.eq(active_employee::company_id)))
        .filter(active_employee::user_id.eq(user))
        .filter(company::kind.eq(CompanyKind::Agency))
        .filter(company::status.eq(CompanyStatus::Active));
    Prepared(diesel::select(exists(employed))).get_result(&mut conn).await
}
