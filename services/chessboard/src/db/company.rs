//! The copies of identity's companies.

use ::db::{Prepared, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::Company;
use crate::schema::company;

pub async fn find(tx: &mut Tx, id: CompanyId) -> Result<Option<Company>, ::db::Error> {
    let row = company::table.find(id).select(Company::as_select());
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Locks the company for reading until the transaction ends.
pub async fn lock_for_reading(tx: &mut Tx, id: CompanyId) -> Result<Option<Company>, ::db::Error> {
    let row = company::table.find(id).select(Company::as_select()).for_share();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Inserts or replaces a company.
pub async fn upsert(tx: &mut Tx, company: &Company) -> Result<(), ::db::Error> {
    let upsert =
        diesel::insert_into(company::table).values(company).on_conflict(company::id).do_update().set(company);
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}
