//! Ids of LiveKit's webhooks. A stored id marks a webhook as received.

use std::time::Duration;

use ::db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::schema::webhook;

/// Records a webhook. Returns false if it was received before.
///
/// A concurrent repeat waits until the first transaction has committed or rolled back.
pub async fn record(tx: &mut Tx, id: &[u8], now: OffsetDateTime) -> Result<bool, ::db::Error> {
    let recorded = diesel::insert_into(webhook::table)
        .values((webhook::id.eq(id), webhook::received_at.eq(now)))
        .on_conflict_do_nothing();
    Ok(Prepared(recorded).execute(tx.conn()).await? == 1)
}

/// Deletes up to `limit` ids that are older than `retention`, and returns their number.
pub async fn delete_older_than(tx: &mut Tx, retention: Duration, limit: u32) -> Result<usize, ::db::Error> {
    let delete = diesel::sql_query(
        "delete from webhook where id in (\
             select id from webhook where received_at < clock_timestamp() - make_interval(secs => $1) \
             order by received_at limit $2 for update skip locked)",
    );
    let delete = delete.bind::<Double, _>(retention.as_secs_f64()).bind::<BigInt, _>(i64::from(limit));
    Ok(Prepared(delete).execute(tx.conn()).await?)
}
