//! Consumers: one stores the counts that it receives, one only decodes remarks, and one keeps the
//! newest state of each account.

use db::Tx;
use diesel::OptionalExtension;
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use messaging::{Event, Failure, Handler, Message};

use crate::{AccountUpserted, Counted, Remarked};

/// Stores each received count in `applied`, unless `poison` has the key.
pub struct Counts;

/// Receives remarks and stores nothing, because the tests read their receipts in the inbox.
pub struct Remarks;

impl Handler for Remarks {
    const GROUP: &'static str = "ledger.remarks";
    const TOPICS: &'static [&'static str] = &[Remarked::TOPIC];

    async fn handle(_: &mut Tx, message: &Message) -> Result<(), Failure> {
        message.decode::<Remarked>().map(drop)
    }
}

/// Keeps the newest state of each account in `account_replica`. A tombstone deletes the row.
pub struct AccountReplicas;

impl Handler for AccountReplicas {
    const GROUP: &'static str = "ledger.accounts";
    const TOPICS: &'static [&'static str] = &[AccountUpserted::TOPIC];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.is_tombstone() {
            let delete = diesel::sql_query("delete from account_replica where key::text = $1");
            delete.bind::<Text, _>(&message.key).execute(tx.conn()).await.map_err(db::Error::from)?;
            return Ok(());
        }
        let AccountUpserted { key, n } = message.decode()?;
        let upsert = diesel::sql_query(
            "insert into account_replica (key, n) values ($1, $2) \
             on conflict (key) do update set n = excluded.n where account_replica.n < excluded.n",
        );
        let upsert = upsert.bind::<SqlUuid, _>(key).bind::<BigInt, _>(n);
        upsert.execute(tx.conn()).await.map_err(db::Error::from)?;
        Ok(())
    }
}

#[derive(diesel::QueryableByName)]
struct Poison {
    #[diesel(sql_type = Text)]
    kind: String,
}

impl Handler for Counts {
    const GROUP: &'static str = "ledger.ledger";
    const TOPICS: &'static [&'static str] = &[Counted::TOPIC];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let Counted { key, n } = message.decode()?;
        // The insert precedes the failures below. If a failed transaction were committed, a test
        // would find its row in `applied`.
        diesel::sql_query("insert into applied (key, n) values ($1, $2)")
            .bind::<SqlUuid, _>(key)
            .bind::<BigInt, _>(n)
            .execute(tx.conn())
            .await
            .map_err(db::Error::from)?;
        let poison = diesel::sql_query("select kind from poison where key = $1")
            .bind::<SqlUuid, _>(key)
            .get_result::<Poison>(tx.conn())
            .await
            .optional()
            .map_err(db::Error::from)?;
        match poison.as_ref().map(|poison| poison.kind.as_str()) {
            None => Ok(()),
            Some("panic") => panic!("this key is poisoned"),
            Some("nul") => Err(Failure::Rejected(format!("\0{}", "x".repeat(100_000)))),
            Some("slow") => run(tx, "select pg_sleep(60)").await,
            Some("locked") => run(tx, "select from poison where kind = 'locked' for update").await,
            Some("later") => Err(Failure::Transient("this key is not ready".to_owned())),
            Some(_) => Err(Failure::Rejected("this key is poisoned".to_owned())),
        }
    }
}

async fn run(tx: &mut Tx, statement: &str) -> Result<(), Failure> {
    diesel::sql_query(statement).execute(tx.conn()).await.map_err(db::Error::from)?;
    Ok(())
}
