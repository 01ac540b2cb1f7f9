//! The tables with the events that were read, so that an interrupted command can continue.

use std::collections::{BTreeMap, HashMap};

use db::Tx;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use uuid::Uuid;

use super::reader::ReadEvent;
use super::{PublishedState, VersionNames};
use crate::contract::event::Aggregate;

/// The number of keys that one transaction raises or ends.
const BATCH_KEYS: i64 = 200;

/// The next keys with their newest events.
pub(super) struct Batch {
    pub states: Vec<PublishedState>,
    pub last_key: Uuid,
}

/// The stored versions of the aggregates that exist.
pub(super) struct Versions(HashMap<Uuid, i64>);

#[derive(diesel::QueryableByName)]
struct KeyVersion {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
    #[diesel(sql_type = BigInt)]
    version: i64,
}

#[derive(diesel::QueryableByName)]
struct StoredEvent {
    #[diesel(sql_type = SqlUuid)]
    key: Uuid,
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Nullable<Binary>)]
    payload: Option<Vec<u8>>,
}

/// Keeps the progress of an interrupted command with the same time, and deletes any other progress.
pub(super) async fn begin(tx: &mut Tx, since: OffsetDateTime) -> Result<(), db::Error> {
    let begin = diesel::sql_query(
        "insert into restored_run (since) values ($1) on conflict (only_one) do update \
         set since = excluded.since where restored_run.since <> excluded.since",
    );
    if begin.bind::<Timestamptz, _>(since).execute(tx.conn()).await? == 1 {
        delete_events(tx).await?;
    }
    Ok(())
}

/// Deletes the progress.
pub(super) async fn finish(tx: &mut Tx) -> Result<(), db::Error> {
    diesel::sql_query("delete from restored_run").execute(tx.conn()).await?;
    delete_events(tx).await
}

async fn delete_events(tx: &mut Tx) -> Result<(), db::Error> {
    diesel::sql_query("truncate restored_topic, restored_event").execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if the command has read the topic before an interruption.
pub(super) async fn is_read(tx: &mut Tx, topic: &str) -> Result<bool, db::Error> {
    let read = diesel::sql_query("select from restored_topic where topic = $1");
    Ok(read.bind::<Text, _>(topic).execute(tx.conn()).await? == 1)
}

pub(super) async fn mark_read(tx: &mut Tx, topic: &str) -> Result<(), db::Error> {
    let read = diesel::sql_query("insert into restored_topic (topic) values ($1) on conflict do nothing");
    read.bind::<Text, _>(topic).execute(tx.conn()).await?;
    Ok(())
}

/// Stores, for each key, the event that consumers have applied last.
///
/// With versions, this is the first event with the highest version, since consumers ignore later
/// events with the same version. Without versions, it is the last event.
pub(super) async fn keep_newest(
    tx: &mut Tx,
    has_versions: bool,
    aggregate: &str,
    topic: &str,
    events: Vec<ReadEvent>,
) -> Result<(), db::Error> {
    // The statement may name each key only once.
    let mut newest = BTreeMap::<_, ReadEvent>::new();
    for event in events {
        let is_newer = |known: &ReadEvent| !has_versions || known.version < event.version;
        if newest.get(&event.key).is_none_or(is_newer) {
            newest.insert(event.key, event);
        }
    }
    let (mut keys, mut versions, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
    for (key, event) in newest {
        keys.push(key);
        versions.push(event.version);
        payloads.push(event.payload);
    }
    let keep = diesel::sql_query(
        "insert into restored_event (aggregate, topic, key, version, payload) \
         select $1, $2, key, version, payload from unnest($3, $4, $5) as newest (key, version, payload) \
         on conflict (aggregate, key, topic) do update \
         set version = excluded.version, payload = excluded.payload \
         where not $6 or restored_event.version < excluded.version",
    )
    .bind::<Text, _>(aggregate)
    .bind::<Text, _>(topic)
    .bind::<Array<SqlUuid>, _>(keys)
    .bind::<Array<BigInt>, _>(versions)
    .bind::<Array<Nullable<Binary>>, _>(payloads)
    .bind::<Bool, _>(has_versions);
    keep.execute(tx.conn()).await?;
    Ok(())
}

/// Returns the keys above `after` with their events, or `None` if none is left.
pub(super) async fn next_batch(
    tx: &mut Tx,
    aggregate: &str,
    after: Option<Uuid>,
) -> Result<Option<Batch>, db::Error> {
    let next = diesel::sql_query(
        "select key, topic, version, payload from restored_event where aggregate = $1 and key in ( \
             select distinct key from restored_event where aggregate = $1 and ($2 is null or key > $2) \
             order by key limit $3)",
    );
    let events = next
        .bind::<Text, _>(aggregate)
        .bind::<Nullable<SqlUuid>, _>(after)
        .bind::<BigInt, _>(BATCH_KEYS)
        .load::<StoredEvent>(tx.conn())
        .await?;
    let mut states = BTreeMap::new();
    for StoredEvent { key, topic, version, payload } in events {
        let state =
            states.entry(key).or_insert_with(|| PublishedState { key, version, payloads: HashMap::new() });
        state.version = state.version.max(version);
        state.payloads.insert(topic, payload);
    }
    let Some(last_key) = states.keys().last().copied() else { return Ok(None) };
    Ok(Some(Batch { states: states.into_values().collect(), last_key }))
}

impl Versions {
    /// Locks the rows of the aggregates that exist, and reads their versions.
    pub(super) async fn lock(
        tx: &mut Tx,
        aggregate: Aggregate,
        version: Option<VersionNames>,
        keys: &[Uuid],
    ) -> Result<Self, db::Error> {
        let Aggregate { table, key, .. } = aggregate;
        let column = version.map_or("0::bigint", |version| version.column);
        let lock = diesel::sql_query(format!(
            "select {key} as key, {column} as version from {table} where {key} = any($1) \
             order by {key} for no key update"
        ));
        let rows = lock.bind::<Array<SqlUuid>, _>(keys).load::<KeyVersion>(tx.conn()).await?;
        Ok(Self(rows.into_iter().map(|row| (row.key, row.version)).collect()))
    }

    /// Returns the version of a row, or `None` if the row does not exist.
    pub(super) fn get(&self, key: Uuid) -> Option<i64> {
        self.0.get(&key).copied()
    }
}

/// Raises the versions of locked rows above the published ones.
pub(super) async fn raise_versions(
    tx: &mut Tx,
    aggregate: Aggregate,
    version: VersionNames,
    raised: &[PublishedState],
) -> Result<(), db::Error> {
    let Aggregate { table, key, .. } = aggregate;
    let column = version.column;
    let (keys, versions): (Vec<_>, Vec<_>) =
        raised.iter().map(|state| (state.key, state.next_version())).unzip();
    let raise = diesel::sql_query(format!(
        "update {table} set {column} = raised.version from unnest($1, $2) as raised (key, version) \
         where {table}.{key} = raised.key"
    ));
    raise.bind::<Array<SqlUuid>, _>(keys).bind::<Array<BigInt>, _>(versions).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes the events of keys that the command has aligned.
pub(super) async fn delete_aligned(tx: &mut Tx, aggregate: &str, keys: &[Uuid]) -> Result<(), db::Error> {
    let delete = diesel::sql_query("delete from restored_event where aggregate = $1 and key = any($2)");
    delete.bind::<Text, _>(aggregate).bind::<Array<SqlUuid>, _>(keys).execute(tx.conn()).await?;
    Ok(())
}
