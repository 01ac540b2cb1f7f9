//! Writes counts and remarks in transactions of different length, some of which are rolled back.

use std::time::Duration;

use anyhow::ensure;
use db::{Db, Tx};
use diesel::sql_types::{BigInt, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use messaging::outbox;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Counted, Remarked};

/// Delay after a failed transaction.
const FAILURE_DELAY: Duration = Duration::from_millis(100);

#[derive(diesel::QueryableByName)]
struct Account {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
    #[diesel(sql_type = BigInt)]
    n: i64,
}

#[derive(diesel::QueryableByName)]
struct Remark {
    #[diesel(sql_type = SqlUuid)]
    account: Uuid,
}

/// Increments accounts until the process stops.
pub async fn write_counts(db: Db, pause: Duration, stopping: CancellationToken) -> anyhow::Result<()> {
    while !stopping.is_cancelled() {
        pause_after(db.tx(increment).await, pause).await;
    }
    Ok(())
}

/// Adds remarks until the process stops.
pub async fn write_remarks(db: Db, pause: Duration, stopping: CancellationToken) -> anyhow::Result<()> {
    while !stopping.is_cancelled() {
        pause_after(db.tx(add_remark).await, pause).await;
    }
    Ok(())
}

async fn pause_after(result: anyhow::Result<()>, pause: Duration) {
    if let Err(error) = result {
        tracing::debug!(error = format!("{error:#}"), "transaction rolled back");
        tokio::time::sleep(FAILURE_DELAY).await;
    }
    tokio::time::sleep(pause).await;
}

async fn increment(tx: &mut Tx) -> anyhow::Result<()> {
    let Account { key, n } = diesel::sql_query(
        "update account set n = n + 1 where key = (select key from account order by random() limit 1) \
         returning key, n",
    )
    .get_result(tx.conn())
    .await
    .map_err(db::Error::from)?;
    outbox::append(tx, &Counted { key, n }).await?;
    delay_or_fail().await
}

/// Inserts a child of the account. Only the outbox then orders the events of the account.
///
/// Services also publish events of a row that they do not lock, for example when a participant
/// joins a conference.
async fn add_remark(tx: &mut Tx) -> anyhow::Result<()> {
    let Remark { account: key } = diesel::sql_query(
        "insert into remark (account) select key from account order by random() limit 1 returning account",
    )
    .get_result(tx.conn())
    .await
    .map_err(db::Error::from)?;
    outbox::append(tx, &Remarked { key }).await?;
    delay_or_fail().await
}

/// Delays one transaction in ten, and rolls back one in ten.
///
/// During the delay other transactions commit events with later ids.
async fn delay_or_fail() -> anyhow::Result<()> {
    if rand::random_ratio(1, 10) {
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..50))).await;
    }
    ensure!(!rand::random_ratio(1, 10), "rolled back on purpose");
    Ok(())
}
