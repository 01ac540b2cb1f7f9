//! Appending to the outbox: in the transaction of the change that the event tells of, or not at all.

use db::Tx;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use opentelemetry::{Context, global};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::envelope::{Event, Message};
use crate::schema::outbox;

ids::typed_id!(
    /// An event, `ce_id` on the wire.
    EventId
);

#[derive(Insertable)]
#[diesel(table_name = outbox)]
struct NewRow<'a> {
    event_id: EventId,
    topic: &'a str,
    key: String,
    event_type: &'a str,
    payload: Vec<u8>,
    headers: Value,
}

/// Publishes `event` when `tx` commits. Call it after the aggregate's own write: that row's lock is
/// what keeps events of one key in order.
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
/// Those of the database.
pub async fn append<E: Event>(tx: &mut Tx, event: &E) -> Result<(), db::Error> {
    insert(tx, row(event)?).await
}

/// Publishes `events`, in their order, when `tx` commits.
///
/// # Errors
/// Those of the database.
pub async fn append_all<E: Event>(tx: &mut Tx, events: &[E]) -> Result<(), db::Error> {
    if events.is_empty() {
        return Ok(());
    }
    let rows = events.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    diesel::insert_into(outbox::table).values(rows).execute(tx.conn()).await?;
    tx.announce();
    Ok(())
}

/// Copies a message that could not be taken to the dead-letter topic of its consumer.
pub(crate) async fn append_dead(tx: &mut Tx, message: &Message, topic: &str) -> Result<(), db::Error> {
    let row = NewRow {
        event_id: EventId::generate(),
        topic,
        key: message.key.clone(),
        event_type: message.header("ce_type").unwrap_or(&message.topic),
        payload: message.payload.clone(),
        headers: Value::Object(message.headers.clone()),
    };
    insert(tx, row).await
}

/// One row has a fixed shape, so that its statement is prepared once and kept.
async fn insert(tx: &mut Tx, row: NewRow<'_>) -> Result<(), db::Error> {
    diesel::insert_into(outbox::table).values(row).execute(tx.conn()).await?;
    tx.announce();
    Ok(())
}

fn row<E: Event>(event: &E) -> Result<NewRow<'static>, db::Error> {
    Ok(NewRow {
        event_id: EventId::generate(),
        topic: E::TOPIC,
        key: event.key().to_string(),
        event_type: E::TOPIC,
        payload: serde_json::to_vec(event)
            .map_err(|error| diesel::result::Error::SerializationError(error.into()))?,
        headers: Value::Object(context(E::CONTRACT_VERSION)),
    })
}

/// What the relay cannot know later: the contract's version, and the trace that the change is part of.
fn context(contract_version: u32) -> Map<String, Value> {
    let mut trace = std::collections::HashMap::new();
    let current = Context::current();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&current, &mut trace));
    let mut headers = Map::new();
    headers.insert("contractversion".to_owned(), json!(contract_version.to_string()));
    headers.insert("content-type".to_owned(), json!("application/json"));
    // An empty `tracestate` says nothing.
    let trace = trace.into_iter().filter(|(_, value)| !value.is_empty());
    headers.extend(trace.map(|(name, value)| (name, Value::String(value))));
    headers
}

/// A row on its way to the broker.
#[derive(Clone, Queryable, Selectable)]
#[diesel(table_name = outbox)]
pub(crate) struct PendingRow {
    pub id: i64,
    pub event_id: Uuid,
    pub topic: String,
    pub key: String,
    pub event_type: String,
    pub payload: Vec<u8>,
    pub headers: Value,
    pub created_at: time::OffsetDateTime,
}

impl PendingRow {
    /// Whether this one must not be sent before `other`: a later event of its topic and key.
    pub(crate) fn waits_behind(&self, other: &Self) -> bool {
        self.id > other.id && self.topic == other.topic && self.key == other.key
    }
}
