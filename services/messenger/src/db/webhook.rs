//! What LiveKit has told.

use ::db::{Cached, Db, Tx};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::schema::webhook;

/// Whether it is news: who tells it again at the same time waits until it is known whether it was kept.
pub async fn hear(tx: &mut Tx, id: &[u8], now: OffsetDateTime) -> Result<bool, ::db::Error> {
    let heard = diesel::insert_into(webhook::table)
        .values((webhook::id.eq(id), webhook::heard_at.eq(now)))
        .on_conflict_do_nothing();
    Ok(Cached(heard).execute(tx.conn()).await? == 1)
}

/// Forgets what was heard before `then`.
pub async fn forget(db: &Db, then: OffsetDateTime) -> Result<(), ::db::Error> {
    let old = diesel::delete(webhook::table.filter(webhook::heard_at.lt(then)));
    old.execute(&mut db.conn().await?).await?;
    Ok(())
}
