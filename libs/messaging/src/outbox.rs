//! Appends events to the outbox, in the transaction of the change that they describe.

use db::{CommitSignal, Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, Binary, Json, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use opentelemetry::{Context, global};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::contract::event::{Aggregate, Event};
use crate::contract::message::{KafkaPosition, Message};
use crate::schema::outbox;

/// Selects the parameters `$3` to `$5` as rows, one for each event.
const EVENTS_SQL: &str =
    "select event.* from unnest($3, $4, $5) with ordinality as event (event_id, key, payload, ordinal)";

/// Wakes the relay after a commit that appended events.
pub(crate) const EVENTS_APPENDED: CommitSignal = CommitSignal("events");

ids::typed_id!(
    /// The id of an event, `ce_id` on the wire.
    EventId
);

/// The size of the largest dead letter that is copied with its headers and payload.
/// Brokers accept messages of 1 MB by default.
const MAX_DEAD_LETTER_COPY_BYTES: usize = 900_000;

/// Publishes `event` when `tx` commits.
///
/// Events of one key are numbered in the order in which their transactions commit. To ensure this
/// order, `append` locks the row of the event's aggregate.
///
/// A call outside a transaction does not compile:
///
/// ```compile_fail,E0308
/// async fn publish(db: &db::Db, event: &impl messaging::Event) -> Result<(), db::Error> {
///     let mut conn = db.conn().await?;
///     messaging::outbox::append(&mut conn, event).await
/// }
/// ```
///
/// # Errors
/// [`db::Error::Query`] if the aggregate's table has no row with the event's key.
pub async fn append<E: Event>(tx: &mut Tx, event: &E) -> Result<(), db::Error> {
    let Aggregate { table, key, .. } = E::AGGREGATE;
    let insert = diesel::sql_query(insert_sql(&format!(
        "select $3 as event_id, {key} as key, $4 as payload from {table} where {key} = $5 for no key update"
    )))
    .bind::<Text, _>(E::TOPIC)
    .bind::<Json, _>(stored_headers::<E>())
    .bind::<SqlUuid, _>(EventId::generate())
    .bind::<Binary, _>(serialize(event)?)
    .bind::<SqlUuid, _>(event.key());
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    signal_relay::<E>(tx, inserted, 1)
}

/// Publishes `events`, in their order, when `tx` commits.
///
/// # Errors
/// As [`append`].
pub async fn append_all<E: Event>(tx: &mut Tx, events: &[E]) -> Result<(), db::Error> {
    let payloads = events.iter().map(|event| serialize(event).map(Some)).collect::<Result<_, _>>()?;
    insert_all::<E>(tx, events.iter().map(Event::key).collect(), payloads).await
}

/// An event in the trace of its cause.
pub struct TracedEvent<E> {
    event: E,
    headers: Value,
}

impl<E: Event> TracedEvent<E> {
    /// Returns an event in the current trace.
    pub fn in_current_trace(event: E) -> Self {
        Self { event, headers: stored_headers::<E>() }
    }
}

/// Publishes `events`, in their order and each in its own trace, when `tx` commits.
///
/// # Errors
/// As [`append`].
pub async fn append_traced<E: Event>(tx: &mut Tx, events: Vec<TracedEvent<E>>) -> Result<(), db::Error> {
    let Aggregate { table, key, .. } = E::AGGREGATE;
    if events.is_empty() {
        return Ok(());
    }
    let (count, mut keys, mut payloads) = (events.len(), Vec::new(), Vec::new());
    for TracedEvent { event, .. } in &events {
        keys.push(event.key());
        payloads.push(serialize(event)?);
    }
    let ids: Vec<EventId> = keys.iter().map(|_| EventId::generate()).collect();
    let headers: Vec<_> = events.into_iter().map(|traced| traced.headers).collect();
    let insert = diesel::sql_query(format!(
        "insert into outbox (event_id, topic, key, type, payload, headers) \
         select event_id, $1, key::text, $1, payload, headers from ( \
            select event.* from unnest($2, $3, $4, $5) with ordinality \
            as event (headers, event_id, key, payload, ordinal) \
            join {table} on {table}.{key} = event.key order by ordinal for no key update of {table} \
         ) as locked"
    ))
    .bind::<Text, _>(E::TOPIC)
    .bind::<Array<Json>, _>(headers)
    .bind::<Array<SqlUuid>, _>(ids)
    .bind::<Array<SqlUuid>, _>(keys)
    .bind::<Array<Binary>, _>(payloads);
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    signal_relay::<E>(tx, inserted, count)
}

/// Publishes a tombstone for each of `keys` when `tx` commits, so that a compacted topic removes
/// them. Call this before the rows are deleted.
///
/// The topics of the platform have no tombstones: a removed aggregate is published with its last
/// state. This function is for topics whose removed keys carry no state.
///
/// # Errors
/// As [`append`].
pub async fn append_tombstones<E: Event>(tx: &mut Tx, keys: Vec<Uuid>) -> Result<(), db::Error> {
    let payloads = vec![None; keys.len()];
    insert_all::<E>(tx, keys, payloads).await
}

/// Appends events of aggregates that have no row, since a restore of the database has removed it.
///
/// Only the command `restored` creates this type. The aggregate of any other event has a row, whose
/// lock orders the events of its key.
pub struct RowlessOutbox<'t> {
    tx: &'t mut Tx,
}

impl<'t> RowlessOutbox<'t> {
    pub(crate) fn new(tx: &'t mut Tx) -> Self {
        Self { tx }
    }

    /// Returns the transaction, for queries.
    pub fn tx(&mut self) -> &mut Tx {
        self.tx
    }

    /// Publishes `events`, in their order, when the transaction commits.
    pub async fn append_all<E: Event>(&mut self, events: &[E]) -> Result<(), db::Error> {
        let payloads = events.iter().map(|event| serialize(event).map(Some)).collect::<Result<_, _>>()?;
        self.insert::<E>(events.iter().map(Event::key).collect(), payloads).await
    }

    /// Publishes a tombstone for each of `keys` when the transaction commits.
    pub async fn append_tombstones<E: Event>(&mut self, keys: Vec<Uuid>) -> Result<(), db::Error> {
        let payloads = vec![None; keys.len()];
        self.insert::<E>(keys, payloads).await
    }

    async fn insert<E: Event>(
        &mut self,
        keys: Vec<Uuid>,
        payloads: Vec<Option<Vec<u8>>>,
    ) -> Result<(), db::Error> {
        insert_all_from::<E>(self.tx, keys, payloads, &format!("{EVENTS_SQL} order by ordinal")).await
    }
}

/// Inserts events with one statement. Its SQL does not depend on the number of events.
async fn insert_all<E: Event>(
    tx: &mut Tx,
    keys: Vec<Uuid>,
    payloads: Vec<Option<Vec<u8>>>,
) -> Result<(), db::Error> {
    let Aggregate { table, key, .. } = E::AGGREGATE;
    let locked = format!(
        "{EVENTS_SQL} join {table} on {table}.{key} = event.key order by ordinal for no key update of {table}"
    );
    insert_all_from::<E>(tx, keys, payloads, &locked).await
}

/// Inserts the events that the query `selected` returns. Fails if the query returns fewer events
/// than `keys` has.
async fn insert_all_from<E: Event>(
    tx: &mut Tx,
    keys: Vec<Uuid>,
    payloads: Vec<Option<Vec<u8>>>,
    selected: &str,
) -> Result<(), db::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let count = keys.len();
    let ids: Vec<EventId> = keys.iter().map(|_| EventId::generate()).collect();
    let insert = diesel::sql_query(insert_sql(selected))
        .bind::<Text, _>(E::TOPIC)
        .bind::<Json, _>(stored_headers::<E>())
        .bind::<Array<SqlUuid>, _>(ids)
        .bind::<Array<SqlUuid>, _>(keys)
        .bind::<Array<Nullable<Binary>>, _>(payloads);
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    signal_relay::<E>(tx, inserted, count)
}

/// Returns the statement that inserts the rows which the query `selected` returns.
///
/// Ids are assigned after this query has locked the aggregates' rows. Of two transactions that
/// publish events of one key, the one that commits first therefore has the lower ids.
fn insert_sql(selected: &str) -> String {
    format!(
        "insert into outbox (event_id, topic, key, type, payload, headers) \
         select event_id, $1, key::text, $1, payload, $2 from ({selected}) as selected"
    )
}

/// Wakes the relay after the commit. Fails if fewer than `count` events were inserted.
fn signal_relay<E: Event>(tx: &mut Tx, inserted: usize, count: usize) -> Result<(), db::Error> {
    if inserted != count {
        let (topic, table) = (E::TOPIC, E::AGGREGATE.table);
        let missing = format!("{} of {count} events of {topic} have no row in {table}", count - inserted);
        return Err(diesel::result::Error::QueryBuilderError(missing.into()).into());
    }
    tx.notify_on_commit(EVENTS_APPENDED);
    Ok(())
}

fn serialize<E: Event>(event: &E) -> Result<Vec<u8>, db::Error> {
    let payload = serde_json::to_vec(event);
    payload.map_err(|error| diesel::result::Error::SerializationError(error.into()).into())
}

/// Publishes a copy of a dead letter to `topic`, with the reason in its headers.
/// The caller has locked the key in the inbox.
pub(crate) async fn append_dead_letter(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    topic: &str,
    reason: &str,
) -> Result<(), db::Error> {
    // The broker would reject a larger copy, and the relay would park it. The table `dead_letter`
    // has the whole message.
    let (mut headers, payload) = if message.bytes() <= MAX_DEAD_LETTER_COPY_BYTES {
        (message.headers.clone(), message.payload.as_ref())
    } else {
        (Map::new(), None)
    };
    let KafkaPosition { partition, offset, .. } = message.position;
    headers.extend([
        ("dlq-consumer".to_owned(), json!(consumer)),
        ("dlq-topic".to_owned(), json!(message.topic)),
        ("dlq-partition".to_owned(), json!(partition.to_string())),
        ("dlq-offset".to_owned(), json!(offset.to_string())),
        ("dlq-reason".to_owned(), json!(reason)),
    ]);
    let event_type = headers.get("ce_type").and_then(Value::as_str).unwrap_or(&message.topic).to_owned();
    let copy = (
        outbox::event_id.eq(EventId::generate()),
        outbox::topic.eq(topic),
        outbox::key.eq(&message.key),
        outbox::event_type.eq(event_type),
        outbox::payload.eq(payload),
        outbox::headers.eq(Value::Object(headers)),
    );
    diesel::insert_into(outbox::table).values(copy).execute(tx.conn()).await?;
    tx.notify_on_commit(EVENTS_APPENDED);
    Ok(())
}

/// Returns the headers that the row stores because the relay cannot derive them: the aggregate's
/// type, the contract version, the media type and the current trace.
fn stored_headers<E: Event>() -> Value {
    let mut trace = std::collections::HashMap::new();
    let current = Context::current();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&current, &mut trace));
    let mut headers = Map::new();
    headers.insert("aggregatetype".to_owned(), json!(E::AGGREGATE.name));
    headers.insert("contractversion".to_owned(), json!(E::CONTRACT_VERSION.to_string()));
    headers.insert("content-type".to_owned(), json!("application/json"));
    // The propagator sets an empty `tracestate`.
    let trace = trace.into_iter().filter(|(_, value)| !value.is_empty());
    headers.extend(trace.map(|(name, value)| (name, Value::String(value))));
    Value::Object(headers)
}

#[derive(QueryableByName)]
struct LastId {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    last_id: i64,
}

/// Advances the ids of events to the current time in microseconds, and returns the last id. The
/// next event gets a higher id. An id is the event's `ce_sequence`.
///
/// The result exceeds every id that was assigned before, since no service appends a million events
/// a second.
pub(crate) async fn advance_ids_to_clock(conn: &mut Conn) -> Result<i64, db::Error> {
    let advance = diesel::sql_query(
        "select setval(pg_get_serial_sequence('outbox', 'id'), \
         greatest(last_value, (extract(epoch from clock_timestamp()) * 1000000)::bigint)) as last_id from outbox_id_seq",
    );
    Ok(advance.get_result::<LastId>(conn).await?.last_id)
}
