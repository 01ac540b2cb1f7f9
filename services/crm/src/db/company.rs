//! The copy of companies: developers and agencies.

use ::db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::domain::Company;
use crate::schema::company;

/// Stores a company unless the stored version is at least as high.
pub async fn upsert(tx: &mut Tx, new: &Company) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let latest = (
        company::kind.eq(excluded(company::kind)),
        company::status.eq(excluded(company::status)),
        company::version.eq(excluded(company::version)),
    );
    let upsert = diesel::insert_into(company::table)
        .values(new)
        .on_conflict(company::id)
        .do_update()
        .set(latest)
        .filter(company::version.lt(excluded(company::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}
