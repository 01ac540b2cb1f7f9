//! The copy of developers.

use ::db::{Prepared, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::PublishedName;
use crate::schema::developer;

/// Stores the name of a developer unless the stored version is at least as high.
///
/// Returns true if the developer is new.
pub async fn upsert(
    tx: &mut Tx,
    id: CompanyId,
    name: &PublishedName,
    version: i64,
) -> Result<bool, ::db::Error> {
    let values = (developer::id.eq(id), developer::name.eq(name), developer::version.eq(version));
    let insert = diesel::insert_into(developer::table).values(values).on_conflict_do_nothing();
    if Prepared(insert).execute(tx.conn()).await? == 1 {
        return Ok(true);
    }
    let older = developer::table.find(id).filter(developer::version.lt(version));
    let update = diesel::update(older).set((developer::name.eq(name), developer::version.eq(version)));
    Prepared(update).execute(tx.conn()).await?;
    Ok(false)
}
