//! The statements of a relay session: reading, deleting and parking rows under its lease.

use std::time::Duration;

use db::{Db, PooledConn, Prepared};
use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use rdkafka::error::KafkaError;

use super::batch::{Exclusions, MAX_BATCH_BYTES, MAX_BATCH_ROWS, PendingRow, RowId};
use super::error::SessionError;
use super::lease::Lease;

const CONNECTION_RETRY_INTERVAL: Duration = Duration::from_millis(25);

#[derive(diesel::QueryableByName)]
struct Deleted {
    #[diesel(sql_type = BigInt)]
    deleted: i64,
}

/// The access of a lease's owner to the rows of the outbox.
pub(super) struct OutboxRows<'r> {
    pub db: &'r Db,
    pub lease: Lease,
}

impl OutboxRows<'_> {
    /// Reads the next batch in id order. Rows `in_flight`, excluded rows and rows behind a parked
    /// event are left out.
    ///
    /// Each lane is read from its floor, so excluded topics and deleted rows cost nothing.
    pub async fn read(
        &self,
        in_flight: &[i64],
        exclusions: &Exclusions,
    ) -> Result<Vec<PendingRow>, SessionError> {
        let (topics, keys): (Vec<_>, Vec<_>) = exclusions.keys.iter().cloned().unzip();
        let next = diesel::sql_query(
            "select id, event_id, topic, key, type as event_type, payload, headers, created_at \
             from outbox_next($1, $2, $3, $4, $5, $6)",
        )
        .bind::<Array<BigInt>, _>(in_flight)
        .bind::<Array<Text>, _>(exclusions.topics.iter().collect::<Vec<_>>())
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Text>, _>(keys)
        .bind::<Integer, _>(MAX_BATCH_ROWS)
        .bind::<BigInt, _>(MAX_BATCH_BYTES);
        Ok(Prepared(next).load(&mut self.conn().await?).await?)
    }

    /// Deletes rows if the lease is still held.
    pub async fn delete(&self, rows: &[RowId]) -> Result<(), SessionError> {
        if rows.is_empty() {
            return Ok(());
        }
        let (topics, ids): (Vec<_>, Vec<_>) = rows.iter().map(|row| (row.topic.as_str(), row.id)).unzip();
        let delete = diesel::sql_query("select outbox_delete($1, $2, $3, $4) as deleted")
            .bind::<Array<Text>, _>(topics)
            .bind::<Array<BigInt>, _>(ids)
            .bind::<SqlUuid, _>(self.lease.owner)
            .bind::<BigInt, _>(self.lease.epoch);
        let Deleted { deleted } = Prepared(delete).get_result(&mut self.conn().await?).await?;
        if usize::try_from(deleted) == Ok(rows.len()) { Ok(()) } else { Err(SessionError::Fenced) }
    }

    /// Moves a row to `outbox_parked` if the lease is still held.
    pub async fn park(&self, row: &PendingRow, error: &KafkaError) -> Result<(), SessionError> {
        let parked = diesel::sql_query(
            "with moved as (delete from outbox where topic = $1 and id = $2 \
             and exists (select from outbox_lease where owner = $3 and epoch = $4 and expires_at > clock_timestamp() \
             and outbox_lease.history = database_history()) \
             returning *) \
             insert into outbox_parked (id, event_id, topic, key, type, payload, headers, created_at, error) \
             select id, event_id, topic, key, type, payload, headers, created_at, $5 from moved",
        )
        .bind::<Text, _>(&row.topic)
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
