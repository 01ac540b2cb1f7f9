//! Counts accounts up, and remarks on them, in transactions that end as transactions do: soon, late, or not at all.

use std::time::Duration;

use anyhow::ensure;
use db::{Db, Tx};
use diesel::sql_types::{BigInt, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use messaging::outbox;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Counted, Remarked};

/// After a failure of the database.
const PATIENCE: Duration = Duration::from_millis(100);

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

/// Counts until `ending`.
pub async fn write(db: Db, pause: Duration, ending: CancellationToken) -> anyhow::Result<()> {
    while !ending.is_cancelled() {
        rest(db.tx(count).await, pause).await;
    }
    Ok(())
}

/// Remarks until `ending`.
pub async fn remark(db: Db, pause: Duration, ending: CancellationToken) -> anyhow::Result<()> {
    while !ending.is_cancelled() {
        rest(db.tx(add_remark).await, pause).await;
    }
    Ok(())
}

async fn rest(done: anyhow::Result<()>, pause: Duration) {
    if let Err(error) = done {
        tracing::debug!(error = format!("{error:#}"), "nothing was written");
        tokio::time::sleep(PATIENCE).await;
    }
    tokio::time::sleep(pause).await;
}

async fn count(tx: &mut Tx) -> anyhow::Result<()> {
    let Account { key, n } = diesel::sql_query(
        "update account set n = n + 1 where key = (select key from account order by random() limit 1) \
         returning key, n",
    )
    .get_result(tx.conn())
    .await
    .map_err(db::Error::from)?;
    outbox::append(tx, &Counted { key, n }).await?;
    linger().await
}

/// Writes a child of the account alone, as a participant of a conference or an item of a payout is.
async fn add_remark(tx: &mut Tx) -> anyhow::Result<()> {
    let Remark { account: key } = diesel::sql_query(
        "insert into remark (account) select key from account order by random() limit 1 returning account",
    )
    .get_result(tx.conn())
    .await
    .map_err(db::Error::from)?;
    outbox::append(tx, &Remarked { key }).await?;
    linger().await
}

/// While one transaction lingers, others commit events with later ids; and one in ten is given up.
async fn linger() -> anyhow::Result<()> {
    if rand::random_ratio(1, 10) {
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..50))).await;
    }
    ensure!(!rand::random_ratio(1, 10), "another change of mind");
    Ok(())
}
