//! Companies, as identity tells of them.

use ::db::{Cached, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::company;
use crate::domain::Company;

pub async fn find(tx: &mut Tx, id: CompanyId) -> Result<Option<Company>, ::db::Error> {
    let row = company::table.find(id).select(Company::as_select());
    Ok(row.first(tx.conn()).await.optional()?)
}

/// The company, which stays as it is until this transaction ends.
pub async fn lock_for_reading(tx: &mut Tx, id: CompanyId) -> Result<Option<Company>, ::db::Error> {
    let row = company::table.find(id).select(Company::as_select()).for_share();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Keeps what is told of a company.
pub async fn upsert(tx: &mut Tx, told: &Company) -> Result<(), ::db::Error> {
    let put = diesel::insert_into(company::table).values(told).on_conflict(company::id).do_update().set(told);
    Cached(put).execute(tx.conn()).await?;
    Ok(())
}
