//! Republishes accounts, and aligns consumers with accounts of a restored database.

use db::Tx;
use diesel::sql_types::{Array, BigInt, Bool, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use uuid::Uuid;

use crate::{ACCOUNT, AccountUpserted};

pub struct Accounts;

#[derive(diesel::QueryableByName)]
struct Account {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
    #[diesel(sql_type = BigInt)]
    n: i64,
    #[diesel(sql_type = Bool)]
    closed: bool,
}

impl Republish for Accounts {
    const AGGREGATE: Aggregate = ACCOUNT;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), db::Error> {
        let accounts =
            diesel::sql_query("select key, n, closed from account where key = any($1) order by key")
                .bind::<Array<SqlUuid>, _>(keys)
                .load::<Account>(tx.conn())
                .await?;
        let (closed, open): (Vec<_>, Vec<_>) = accounts.into_iter().partition(|account| account.closed);
        let open: Vec<_> =
            open.into_iter().map(|Account { key, n, .. }| AccountUpserted { key, n }).collect();
        outbox::append_all(tx, &open).await?;
        let closed = closed.into_iter().map(|account| account.key).collect();
        outbox::append_tombstones::<AccountUpserted>(tx, closed).await
    }
}

impl Restore for Accounts {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "n", member: "N" });
    const TOPICS: &'static [&'static str] = &[AccountUpserted::TOPIC];

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, db::Error> {
        let keys: Vec<_> = lost.iter().map(|state| state.key).collect();
        outbox.append_tombstones::<AccountUpserted>(keys.clone()).await?;
        Ok(keys)
    }
}
