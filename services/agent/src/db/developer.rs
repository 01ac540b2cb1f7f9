//! Developers as chessboard tells of them.

use ::db::{Cached, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use values::Text;

use super::schema::developer;

/// What a developer is called.
pub type ToldName = Text<0, 512>;

/// Keeps what a developer is called, unless something newer is known.
pub async fn upsert(tx: &mut Tx, id: CompanyId, name: &ToldName, version: i64) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let newest =
        (developer::name.eq(excluded(developer::name)), developer::version.eq(excluded(developer::version)));
    let put = diesel::insert_into(developer::table)
        .values((developer::id.eq(id), developer::name.eq(name), developer::version.eq(version)))
        .on_conflict(developer::id)
        .do_update()
        .set(newest)
        .filter(developer::version.lt(excluded(developer::version)));
    Cached(put).execute(tx.conn()).await?;
    Ok(())
}
