//! Appending to the outbox: in the transaction of the change that the event tells of, or not at all.

use db::{Cached, Conn, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, Binary, Json, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use opentelemetry::{Context, global};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::contract::message::{Aggregate, Event, Message, Place};
use crate::schema::outbox;

ids::typed_id!(
    /// An event, `ce_id` on the wire.
    EventId
);

/// A copy of more bytes goes without headers and payload: brokers take a million by default.
const LARGEST_COPY: usize = 900_000;

/// Publishes `event` when `tx` commits. Events of one key are numbered in the order in which their
/// transactions commit: this locks the row that the event tells of, unless `tx` has written it before.
///
/// Outside a transaction there is no way to call it:
///
/// ```compile_fail,E0308
/// async fn publish(db: &db::Db, event: &impl messaging::Event) -> Result<(), db::Error> {
///     let mut conn = db.conn().await?;
///     messaging::outbox::append(&mut conn, event).await
/// }
/// ```
///
/// # Errors
/// Those of the database; and when there is no row with the event's key.
pub async fn append<E: Event>(tx: &mut Tx, event: &E) -> Result<(), db::Error> {
    let Aggregate { table, key, .. } = E::AGGREGATE;
    let insert = diesel::sql_query(insert_from(&format!(
        "select $3 as event_id, {key} as key, $4 as payload from {table} where {key} = $5 for no key update"
    )))
    .bind::<Text, _>(E::TOPIC)
    .bind::<Json, _>(context::<E>())
    .bind::<SqlUuid, _>(EventId::generate())
    .bind::<Binary, _>(payload(event)?)
    .bind::<SqlUuid, _>(event.key());
    let inserted = Cached(insert).execute(tx.conn()).await?;
    announce::<E>(tx, inserted, 1)
}

/// Publishes `events`, in their order, when `tx` commits.
///
/// # Errors
/// As [`append`].
pub async fn append_all<E: Event>(tx: &mut Tx, events: &[E]) -> Result<(), db::Error> {
    let payloads = events.iter().map(|event| payload(event).map(Some)).collect::<Result<_, _>>()?;
    insert_all::<E>(tx, events.iter().map(Event::key).collect(), payloads).await
}

/// Publishes when `tx` commits that nothing is left of `keys`: a compacted topic forgets them. Call it before the
/// rows are deleted.
///
/// # Errors
/// As [`append`].
pub async fn append_tombstones<E: Event>(tx: &mut Tx, keys: Vec<Uuid>) -> Result<(), db::Error> {
    let payloads = vec![None; keys.len()];
    insert_all::<E>(tx, keys, payloads).await
}

/// One statement, whose SQL is the same for any number of events.
async fn insert_all<E: Event>(
    tx: &mut Tx,
    keys: Vec<Uuid>,
    payloads: Vec<Option<Vec<u8>>>,
) -> Result<(), db::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let Aggregate { table, key, .. } = E::AGGREGATE;
    let count = keys.len();
    let ids: Vec<EventId> = keys.iter().map(|_| EventId::generate()).collect();
    let insert = diesel::sql_query(insert_from(&format!(
        "select event.* from unnest($3, $4, $5) with ordinality as event (event_id, key, payload, place) \
         join {table} on {table}.{key} = event.key order by place for no key update of {table}"
    )))
    .bind::<Text, _>(E::TOPIC)
    .bind::<Json, _>(context::<E>())
    .bind::<Array<SqlUuid>, _>(ids)
    .bind::<Array<SqlUuid>, _>(keys)
    .bind::<Array<Nullable<Binary>>, _>(payloads);
    let inserted = Cached(insert).execute(tx.conn()).await?;
    announce::<E>(tx, inserted, count)
}

/// Ids are given out above the lock that `held` takes, so that of two transactions that tell of the same key
/// the one that commits first has the lower ones.
fn insert_from(held: &str) -> String {
    format!(
        "insert into outbox (event_id, topic, key, type, payload, headers) \
         select event_id, $1, key::text, $1, payload, $2 from ({held}) as held"
    )
}

fn announce<E: Event>(tx: &mut Tx, inserted: usize, count: usize) -> Result<(), db::Error> {
    if inserted != count {
        let (topic, table) = (E::TOPIC, E::AGGREGATE.table);
        let missing = format!("{} of {count} events of {topic} tell of no row in {table}", count - inserted);
        return Err(diesel::result::Error::QueryBuilderError(missing.into()).into());
    }
    tx.announce(db::Work::Events);
    Ok(())
}

fn payload<E: Event>(event: &E) -> Result<Vec<u8>, db::Error> {
    let payload = serde_json::to_vec(event);
    payload.map_err(|error| diesel::result::Error::SerializationError(error.into()).into())
}

/// Copies a message that could not be taken to the dead-letter topic of its consumer, with the reason. The inbox has its key locked.
pub(crate) async fn append_dead(
    tx: &mut Tx,
    consumer: &str,
    message: &Message,
    topic: &str,
    reason: &str,
) -> Result<(), db::Error> {
    // What no broker takes would wait in the outbox for a person; the dead letter has it whole.
    let (mut headers, payload) = if message.bytes() <= LARGEST_COPY {
        (message.headers.clone(), message.payload.as_ref())
    } else {
        (Map::new(), None)
    };
    let Place { partition, offset, .. } = message.at;
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
    tx.announce(db::Work::Events);
    Ok(())
}

/// What the relay cannot know later: what kind of thing this tells of, the contract's version, and the trace that the change is part of.
fn context<E: Event>() -> Value {
    let mut trace = std::collections::HashMap::new();
    let current = Context::current();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&current, &mut trace));
    let mut headers = Map::new();
    headers.insert("aggregatetype".to_owned(), json!(E::AGGREGATE.name));
    headers.insert("contractversion".to_owned(), json!(E::CONTRACT_VERSION.to_string()));
    headers.insert("content-type".to_owned(), json!("application/json"));
    // An empty `tracestate` says nothing.
    let trace = trace.into_iter().filter(|(_, value)| !value.is_empty());
    headers.extend(trace.map(|(name, value)| (name, Value::String(value))));
    Value::Object(headers)
}

#[derive(QueryableByName)]
struct Next {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    next: i64,
}

/// Has ids, which are `ce_sequence`, go on from the microseconds of the clock, and answers from where. No service
/// appends a million events a second, so ids from a counter are always behind the clock.
pub(crate) async fn number_from_the_clock(conn: &mut Conn) -> Result<i64, db::Error> {
    let next = diesel::sql_query(
        "select setval(pg_get_serial_sequence('outbox', 'id'), \
         greatest(last_value, (extract(epoch from clock_timestamp()) * 1000000)::bigint)) as next from outbox_id_seq",
    );
    Ok(next.get_result::<Next>(conn).await?.next)
}

/// A row on its way to the broker.
#[derive(Clone, QueryableByName)]
#[diesel(table_name = outbox)]
pub(crate) struct PendingRow {
    pub id: i64,
    pub event_id: Uuid,
    pub topic: String,
    pub key: String,
    pub event_type: String,
    /// None: a tombstone.
    pub payload: Option<Vec<u8>>,
    pub headers: Value,
    pub created_at: time::OffsetDateTime,
}

impl PendingRow {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Vec::len)
    }

    /// Whether this one must not be sent before `other`: a later event of its topic and key.
    pub(crate) fn waits_behind(&self, other: &Self) -> bool {
        self.id > other.id && self.topic == other.topic && self.key == other.key
    }
}
