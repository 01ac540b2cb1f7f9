//! Telling anew what is: for a consumer that comes after its topic's retention, for a replica that was
//! lost, and where the value that a compacted topic keeps was overwritten by a late one.

use std::future::Future;
use std::time::Duration;

use db::Tx;
use diesel::OptionalExtension;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::contract::message::Aggregate;
use crate::{Bus, outbox};

/// Things that are told of together, in one transaction.
const BATCH: usize = 200;
/// Events that may wait in the outbox before more is told: what happens meanwhile goes behind them.
const PENDING: i64 = 5_000;
const PAUSE: Duration = Duration::from_millis(100);

/// How a service tells anew of one kind of thing.
pub trait Republish {
    const AGGREGATE: Aggregate;

    /// Appends the events that tell of those of `keys` as they are now, under their stored versions: whoever knows
    /// them changes nothing. Their rows are locked, so nothing else is told of them meanwhile.
    fn tell(tx: &mut Tx, keys: &[Uuid]) -> impl Future<Output = Result<(), db::Error>> + Send;
}

type Told<'a> = BoxFuture<'a, Result<(), db::Error>>;

/// A [`Republish`] as a value.
#[derive(Clone, Copy)]
pub struct Republished {
    aggregate: Aggregate,
    tell: for<'a> fn(&'a mut Tx, &'a [Uuid]) -> Told<'a>,
}

#[derive(diesel::QueryableByName)]
struct Progress {
    #[diesel(sql_type = Nullable<SqlUuid>)]
    told_to: Option<Uuid>,
    #[diesel(sql_type = BigInt)]
    told: i64,
}

#[derive(diesel::QueryableByName)]
struct Key {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
}

#[derive(diesel::QueryableByName)]
struct Pending {
    #[diesel(sql_type = BigInt)]
    pending: i64,
}

impl Republished {
    pub const fn of<R: Republish + 'static>() -> Self {
        Self { aggregate: R::AGGREGATE, tell: |tx, keys| Box::pin(R::tell(tx, keys)) }
    }

    /// Tells of the next batch, and remembers how far it has come. Answers how many were told of so far, and whether
    /// that is all.
    async fn tell_next(&self, tx: &mut Tx) -> Result<(i64, bool), db::Error> {
        let Aggregate { name, table, key } = self.aggregate;
        diesel::sql_query("insert into outbox_republish (aggregate) values ($1) on conflict do nothing")
            .bind::<Text, _>(name)
            .execute(tx.conn())
            .await?;
        let progress =
            diesel::sql_query("select told_to, told from outbox_republish where aggregate = $1 for update")
                .bind::<Text, _>(name)
                .get_result::<Progress>(tx.conn())
                .await
                .optional()?;
        // Another command has come to the end meanwhile.
        let Some(Progress { told_to, told }) = progress else { return Ok((0, true)) };
        let keys = diesel::sql_query(format!(
            "select {key} as key from {table} where $1 is null or {key} > $1 order by {key} limit {BATCH} for no key update"
        ))
        .bind::<Nullable<SqlUuid>, _>(told_to)
        .load::<Key>(tx.conn())
        .await?;
        let keys: Vec<Uuid> = keys.into_iter().map(|row| row.key).collect();
        let Some(last) = keys.last() else {
            diesel::sql_query("delete from outbox_republish where aggregate = $1")
                .bind::<Text, _>(name)
                .execute(tx.conn())
                .await?;
            return Ok((told, true));
        };
        (self.tell)(tx, &keys).await?;
        let told = told + i64::try_from(keys.len()).unwrap_or(i64::MAX);
        diesel::sql_query("update outbox_republish set told_to = $2, told = $3 where aggregate = $1")
            .bind::<Text, _>(name)
            .bind::<SqlUuid, _>(*last)
            .bind::<BigInt, _>(told)
            .execute(tx.conn())
            .await?;
        Ok((told, false))
    }
}

/// Tells anew of every thing of a kind, by name. Interrupted and begun again it goes on where it was.
pub(crate) async fn execute(bus: &Bus, kinds: &[Republished], name: &str) -> anyhow::Result<()> {
    let Some(kind) = kinds.iter().find(|kind| kind.aggregate.name == name) else {
        let names: Vec<_> = kinds.iter().map(|kind| kind.aggregate.name).collect();
        anyhow::bail!("{} tells anew of {names:?}, not of {name}", bus.service);
    };
    loop {
        let (told, is_all) = bus.db.tx(async |tx| kind.tell_next(tx).await).await?;
        if is_all {
            println!("{told} told");
            return Ok(());
        }
        println!("{told} told so far");
        while pending(bus).await? > PENDING {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn pending(bus: &Bus) -> Result<i64, db::Error> {
    let count =
        format!("select count(*) as pending from (select from outbox limit {PENDING} + 1) as waiting");
    Ok(diesel::sql_query(count).get_result::<Pending>(&mut bus.db.conn().await?).await?.pending)
}

/// After the database went back in time: sequences go on from the clock, which is beyond all that were given out.
pub(crate) async fn restored(bus: &Bus) -> anyhow::Result<()> {
    let mut conn = bus.db.conn().await?;
    println!("events are numbered from {}", outbox::number_from_the_clock(&mut conn).await?);
    Ok(())
}
