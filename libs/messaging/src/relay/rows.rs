//! The statements of a relay session: reading, deleting and parking rows under its lease.

use std::time::Duration;

use db::{Db, PooledConn};
use diesel::dsl::{exists, sql};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use rdkafka::error::KafkaError;

use super::batch::{Exclusions, MAX_BATCH_BYTES, MAX_BATCH_ROWS, PendingRow};
use super::error::SessionError;
use super::lease::Lease;
use crate::schema::{outbox, outbox_lease};

const CONNECTION_RETRY_INTERVAL: Duration = Duration::from_millis(25);

#[diesel::declare_sql_function]
extern "SQL" {
    /// Returns the time of the call. `now()` returns the time when the transaction began.
    fn clock_timestamp() -> Timestamptz;
}

/// The access of a lease's owner to the rows of the outbox.
pub(super) struct OutboxRows<'r> {
    pub db: &'r Db,
    pub lease: Lease,
}

impl OutboxRows<'_> {
    /// Reads the next batch in id order. Rows `in_flight`, excluded rows and rows behind a parked
    /// event are left out.
    pub async fn read(
        &self,
        in_flight: &[i64],
        exclusions: &Exclusions,
    ) -> Result<Vec<PendingRow>, SessionError> {
        let (topics, keys): (Vec<_>, Vec<_>) = exclusions.keys.iter().cloned().unzip();
        // diesel prepares raw SQL for each execution, so PostgreSQL plans it each time. A cached
        // plan would be the one for an almost empty outbox, which scans a whole backlog.
        let rows = diesel::sql_query(format!(
            "select * from (\
             select id, event_id, topic, key, type as event_type, payload, headers, created_at, \
             sum(octet_length(payload)) over (order by id rows between unbounded preceding and 1 preceding) as before \
             from outbox where id <> all($1) and topic <> all($2) \
             and (topic, key) not in (select * from unnest($3, $4)) and not exists (select from outbox_parked \
             where outbox_parked.topic = outbox.topic and outbox_parked.key = outbox.key) \
             order by id limit {MAX_BATCH_ROWS}) as next \
             where before is null or before < {MAX_BATCH_BYTES} order by id"
        ))
        .bind::<Array<BigInt>, _>(in_flight)
        .bind::<Array<Text>, _>(exclusions.topics.iter().collect::<Vec<_>>())
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Text>, _>(keys)
        .load(&mut self.conn().await?)
        .await?;
        Ok(rows)
    }

    /// Deletes rows if the lease is still held.
    pub async fn delete(&self, ids: &[i64]) -> Result<(), SessionError> {
        if ids.is_empty() {
            return Ok(());
        }
        let lease = outbox_lease::table
            .filter(outbox_lease::owner.eq(self.lease.owner))
            .filter(outbox_lease::epoch.eq(self.lease.epoch))
            .filter(outbox_lease::expires_at.gt(clock_timestamp()));
        let delivered = outbox::table.filter(outbox::id.eq_any(ids)).filter(exists(lease));
        // The raw SQL makes PostgreSQL plan the statement for each execution, as in `read`.
        let delete = diesel::delete(delivered.filter(sql::<Bool>("true")));
        let deleted = delete.execute(&mut self.conn().await?).await?;
        if deleted == ids.len() { Ok(()) } else { Err(SessionError::Fenced) }
    }

    /// Moves a row to `outbox_parked` if the lease is still held.
    pub async fn park(&self, row: &PendingRow, error: &KafkaError) -> Result<(), SessionError> {
        let parked = diesel::sql_query(
            "with moved as (delete from outbox where id = $1 \
             and exists (select from outbox_lease where owner = $2 and epoch = $3 and expires_at > clock_timestamp()) \
             returning *) \
             insert into outbox_parked (id, event_id, topic, key, type, payload, headers, created_at, error) \
             select id, event_id, topic, key, type, payload, headers, created_at, $4 from moved",
        )
        .bind::<BigInt, _>(row.id)
        .bind::<SqlUuid, _>(self.lease.owner)
        .bind::<BigInt, _>(self.lease.epoch)
        .bind::<Text, _>(error.to_string())
        .execute(&mut self.conn().await?)
        .await?;
        if parked == 1 { Ok(()) } else { Err(SessionError::Fenced) }
    }

    /// Takes a connection from the pool, and retries while none is free. The retries end when the
    /// lease is lost, because the relay then cancels the session.
    async fn conn(&self) -> Result<PooledConn, SessionError> {
        loop {
            match self.db.conn().await {
                Err(db::Error::Unavailable(reason)) => {
                    tracing::debug!(reason, "relay found no database connection, retrying");
                    tokio::time::sleep(CONNECTION_RETRY_INTERVAL).await;
                }
                conn => return Ok(conn?),
            }
        }
    }
}
