//! The copy of chessboard's developers.

use ::db::{Prepared, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use values::Text;

use crate::schema::developer;

/// The name of a developer.
pub type DeveloperName = Text<0, 512>;

/// Stores the name of a developer, unless a version at least as high is stored.
pub async fn upsert(
    tx: &mut Tx,
    id: CompanyId,
    name: &DeveloperName,
    version: i64,
) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let newest =
        (developer::name.eq(excluded(developer::name)), developer::version.eq(excluded(developer::version)));
    let upsert = diesel::insert_into(developer::table)
        .values((developer::id.eq(id), developer::name.eq(name), developer::version.eq(version)))
        .on_conflict(developer::id)
        .do_update()
        .set(newest)
        .filter(developer::version.lt(excluded(developer::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}
