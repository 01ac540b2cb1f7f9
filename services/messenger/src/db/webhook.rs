//! Ids of LiveKit's webhooks. A stored id marks a webhook as received.

use ::db::{Db, Prepared, Tx};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::schema::webhook;

/// Records a webhook. Returns false if it was received before.
///
/// A concurrent repeat waits until the first transaction has committed or rolled back.
pub async fn record(tx: &mut Tx, id: &[u8], now: OffsetDateTime) -> Result<bool, ::db::Error> {
    let recorded = diesel::insert_into(webhook::table)
        .values((webhook::id.eq(id), webhook::received_at.eq(now)))
        .on_conflict_do_nothing();
    Ok(Prepared(recorded).execute(tx.conn()).await? == 1)
}

/// Deletes the ids that were received before `limit`.
pub async fn delete_before(db: &Db, limit: OffsetDateTime) -> Result<(), ::db::Error> {
    let old = diesel::delete(webhook::table.filter(webhook::received_at.lt(limit)));
    old.execute(&mut db.conn().await?).await?;
    Ok(())
}
