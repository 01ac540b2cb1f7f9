//! Counts accounts up, in transactions that end as transactions do: soon, late, or not at all.

use std::time::Duration;

use anyhow::ensure;
use db::{Db, Tx};
use diesel::sql_types::{BigInt, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use messaging::outbox;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Counted;

/// After a failure of the database.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(diesel::QueryableByName)]
struct Account {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
    #[diesel(sql_type = BigInt)]
    n: i64,
}

/// Counts until `ending`.
pub async fn write(db: Db, pause: Duration, ending: CancellationToken) -> anyhow::Result<()> {
    while !ending.is_cancelled() {
        if let Err(error) = db.tx(count).await {
            tracing::debug!(error = format!("{error:#}"), "not counted");
            tokio::time::sleep(PATIENCE).await;
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
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
    // While one transaction lingers, others commit events with later ids.
    if rand::random_ratio(1, 10) {
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..50))).await;
    }
    ensure!(!rand::random_ratio(1, 10), "another change of mind");
    Ok(())
}
