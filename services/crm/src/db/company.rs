//! Companies of Type Developer, as identity tells of them.

use ::db::{Cached, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::company;
use crate::domain::{Company, CompanyStatus};

/// `None`: not told of.
pub async fn status(tx: &mut Tx, id: CompanyId) -> Result<Option<CompanyStatus>, ::db::Error> {
    Ok(company::table.find(id).select(company::status).first(tx.conn()).await.optional()?)
}

/// Keeps what is told of a company, unless something newer is known.
pub async fn upsert(tx: &mut Tx, told: &Company) -> Result<(), ::db::Error> {
    let newest =
        (company::status.eq(excluded(company::status)), company::version.eq(excluded(company::version)));
    let put = diesel::insert_into(company::table)
        .values(told)
        .on_conflict(company::id)
        .do_update()
        .set(newest)
        .filter(company::version.lt(excluded(company::version)));
    Cached(put).execute(tx.conn()).await?;
    Ok(())
}
