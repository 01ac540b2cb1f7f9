//! The lanes of the outbox: one for each topic, with a floor below which no row is pending.
//!
//! A read begins above the floor of its lane. Deleted rows below the floor cost nothing, even if a
//! long snapshot keeps them for hours. A lane that waits costs the other lanes nothing.

use db::{Conn, Db, Prepared, Tx};
use diesel::OptionalExtension;
use diesel::dsl::sql;
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

/// A point in the order of ids, with the open transactions that had written to the outbox by then.
///
/// After these transactions have ended, no row can appear at or below `last_id`.
pub(crate) struct Horizon {
    last_id: i64,
    writers: Vec<String>,
}

#[derive(diesel::QueryableByName)]
struct Writer {
    #[diesel(sql_type = Text)]
    writer: String,
}

impl Horizon {
    /// Reads the current horizon.
    ///
    /// A transaction locks the outbox before it takes an id, and unlocks it after its rows are
    /// visible. The id is therefore read before the locks.
    pub async fn read(conn: &mut Conn) -> Result<Self, db::Error> {
        let last_id = diesel::select(sql::<BigInt>(
            "(select case when is_called then last_value else 0 end from outbox_id_seq)",
        ))
        .get_result(conn)
        .await?;
        Ok(Self { last_id, writers: writing_transactions(conn).await? })
    }

    /// Returns true if every transaction has ended that may have taken an id up to the horizon.
    pub async fn is_settled(&self, conn: &mut Conn) -> Result<bool, db::Error> {
        if self.writers.is_empty() {
            return Ok(true);
        }
        let running = writing_transactions(conn).await?;
        Ok(!self.writers.iter().any(|writer| running.contains(writer)))
    }

    /// Raises the floors of `topics` to this settled horizon, or to the last id before their first
    /// pending row.
    pub async fn raise_floors(&self, db: &Db, topics: &[String]) -> Result<(), db::Error> {
        db.tx(async |tx| {
            read_in_index_order(tx).await?;
            // A release of parked events lowers a floor under this lock. The statement waits for a
            // running release, so that the update below sees the rows of the release.
            diesel::sql_query(
                "select from outbox_lane where topic = any($1) order by topic for no key update",
            )
            .bind::<Array<Text>, _>(topics)
            .execute(tx.conn())
            .await?;
            diesel::sql_query(
                "update outbox_lane set floor = coalesce((select id - 1 from outbox \
                 where outbox.topic = outbox_lane.topic and id > floor and id <= $2 order by id limit 1), $2) \
                 where topic = any($1) and floor < $2",
            )
            .bind::<Array<Text>, _>(topics)
            .bind::<BigInt, _>(self.last_id)
            .execute(tx.conn())
            .await?;
            Ok(())
        })
        .await
    }
}

/// Makes PostgreSQL read the outbox in the order of its index until `tx` ends.
///
/// The statistics of the planner cannot follow the size of the outbox. PostgreSQL would otherwise
/// read all rows of a topic to find the first one.
async fn read_in_index_order(tx: &mut Tx) -> Result<(), db::Error> {
    Ok(tx.conn().batch_execute("set local enable_bitmapscan = off; set local enable_seqscan = off").await?)
}

/// Returns the transactions that have locked the outbox for writing.
async fn writing_transactions(conn: &mut Conn) -> Result<Vec<String>, db::Error> {
    let writers = diesel::sql_query(
        "select virtualtransaction as writer from pg_locks where locktype = 'relation' \
         and database = (select oid from pg_database where datname = current_database()) \
         and relation = 'outbox'::regclass and mode = 'RowExclusiveLock' and granted",
    );
    let writers = writers.load::<Writer>(conn).await?;
    Ok(writers.into_iter().map(|row| row.writer).collect())
}

/// Adds a lane for each topic of the outbox that has none. Returns the number of added lanes.
///
/// Skips the index entries of topics that have a lane, so their rows cost nothing.
pub(crate) async fn add_missing(conn: &mut Conn) -> Result<i64, db::Error> {
    let mut total = 0;
    loop {
        let add = Prepared(diesel::sql_query("select outbox_add_lanes() as count"));
        let added = add.get_result::<Count>(conn).await?.count;
        if added == 0 {
            return Ok(total);
        }
        total += added;
    }
}

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Returns the number of pending rows, counted up to `limit`.
pub(crate) async fn count_pending(tx: &mut Tx, limit: i64) -> Result<i64, db::Error> {
    // If no relay is running, new topics have no lanes yet.
    add_missing(tx.conn()).await?;
    read_in_index_order(tx).await?;
    let count = diesel::sql_query(
        "select count(*) as count from (select from outbox_lane as lane cross join lateral \
         (select from outbox where outbox.topic = lane.topic and id > lane.floor limit $1) as pending \
         limit $1) as counted",
    );
    Ok(count.bind::<BigInt, _>(limit).get_result::<Count>(tx.conn()).await?.count)
}

#[derive(diesel::QueryableByName)]
struct Age {
    #[diesel(sql_type = Double)]
    seconds: f64,
}

/// Returns the age in seconds of the oldest pending row, 0 if there is none.
pub(crate) async fn oldest_seconds(tx: &mut Tx) -> Result<f64, db::Error> {
    read_in_index_order(tx).await?;
    let oldest = diesel::sql_query(
        "select coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8 as seconds \
         from outbox_lane as lane cross join lateral (select created_at from outbox \
         where outbox.topic = lane.topic and id > lane.floor order by id limit 1) as oldest",
    );
    Ok(oldest.get_result::<Age>(tx.conn()).await?.seconds)
}

/// Sets each floor above the last id to 0. A manual restore that resets the ids leaves such floors.
pub(crate) async fn lower_floors_above_ids(conn: &mut Conn) -> Result<(), db::Error> {
    diesel::sql_query(
        "update outbox_lane set floor = 0 where floor > (select last_value from outbox_id_seq)",
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(diesel::QueryableByName)]
struct Growth {
    #[diesel(sql_type = Nullable<Integer>)]
    grows_from: Option<i32>,
}

/// Holds the events of `topic`, which has `partitions` partitions and is about to get more.
pub(crate) async fn hold(tx: &mut Tx, topic: &str, partitions: i32) -> Result<(), db::Error> {
    diesel::sql_query(
        "insert into outbox_lane (topic, grows_from) values ($1, $2) \
         on conflict (topic) do update set grows_from = excluded.grows_from",
    )
    .bind::<Text, _>(topic)
    .bind::<Integer, _>(partitions)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Returns the number of partitions that the topic had when [`hold`] was called, or `None` if the
/// topic is not held.
pub(crate) async fn partitions_when_held(conn: &mut Conn, topic: &str) -> Result<Option<i32>, db::Error> {
    let growth = diesel::sql_query("select grows_from from outbox_lane where topic = $1")
        .bind::<Text, _>(topic)
        .get_result::<Growth>(conn)
        .await
        .optional()?;
    Ok(growth.and_then(|growth| growth.grows_from))
}

/// Releases a topic that [`hold`] held.
pub(crate) async fn release(conn: &mut Conn, topic: &str) -> Result<(), db::Error> {
    let release = diesel::sql_query("update outbox_lane set grows_from = null where topic = $1");
    release.bind::<Text, _>(topic).execute(conn).await?;
    Ok(())
}

/// Returns the number of topics that [`hold`] holds.
pub(crate) async fn count_held(conn: &mut Conn) -> Result<i64, db::Error> {
    let count =
        Prepared(diesel::sql_query("select count(*) as count from outbox_lane where grows_from is not null"));
    Ok(count.get_result::<Count>(conn).await?.count)
}
