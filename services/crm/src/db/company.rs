//! Companies of Type Developer, as identity tells of them.

use ::db::{Cached, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::company;
use crate::domain::Company;

/// Keeps what is told of a company, unless something newer is known.
pub async fn upsert(tx: &mut Tx, told: &Company) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

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
