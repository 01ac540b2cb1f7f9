//! Events like those of services: about 400 bytes of JSON, 48 keys, three headers of the outbox.

use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode;
use serde::Serialize;
use tokio_postgres::Client;
use utoipa::ToSchema;
use uuid::Uuid;

use messaging::Event as _;

use super::{Bench, RELAYED};

pub(super) const KEYS: u32 = 48;

/// An event with its number in the run, by which its reader identifies it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Measured {
    pub(super) number: usize,
    selection_id: Uuid,
    owner_user_id: Uuid,
    property_object_ids: [Uuid; 5],
    title: &'static str,
}

impl Measured {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            selection_id: Uuid::from_u128((number % KEYS as usize) as u128),
            owner_user_id: Uuid::from_u128(rand::random()),
            property_object_ids: rand::random::<[u128; 5]>().map(Uuid::from_u128),
            title: "Two rooms with a view of the river",
        }
    }
}

impl messaging::Event for Measured {
    const TOPIC: &'static str = RELAYED;
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: messaging::Aggregate =
        messaging::Aggregate { name: "Measured", table: "measured", key: "id" };

    fn key(&self) -> Uuid {
        self.selection_id
    }
}

/// Creates the table of the events' aggregate.
pub(super) async fn create_table(client: &Client) -> anyhow::Result<()> {
    client.batch_execute("create table if not exists measured (id uuid primary key)").await?;
    client
        .execute(
            "insert into measured select lpad(to_hex(n), 32, '0')::uuid from generate_series(0, $1 - 1) n \
             on conflict do nothing",
            &[&i32::try_from(KEYS)?],
        )
        .await?;
    Ok(())
}

/// Fills the outbox with rows of distinct payloads. Consecutive rows have different keys.
pub(super) async fn fill(client: &Client, rows: u32) -> anyhow::Result<()> {
    client
        .execute(
            "insert into outbox (event_id, topic, key, type, payload, headers) \
             select gen_random_uuid(), $1, md5((n % $2)::text)::uuid::text, $1, \
             convert_to(json_build_object('Number', n, 'SelectionId', md5((n % $2)::text)::uuid, \
               'OwnerUserId', gen_random_uuid(), 'PropertyObjectIds', json_build_array(gen_random_uuid(), \
               gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), \
               'Title', 'Two rooms with a view of the river')::text, 'UTF8'), \
             json_build_object('contractversion', '1', 'content-type', 'application/json', 'traceparent', \
               '00-' || md5(n::text) || '-' || left(md5(n::text), 16) || '-01') \
             from generate_series(1, $3) n",
            &[&RELAYED, &i32::try_from(KEYS)?, &i32::try_from(rows)?],
        )
        .await?;
    Ok(())
}

/// Empties the outbox and flushes the database, so that a round leaves no background work to the
/// next.
pub(super) async fn clear(client: &Client) -> anyhow::Result<()> {
    client.batch_execute("truncate outbox").await?;
    client.batch_execute("vacuum analyze outbox").await?;
    client.batch_execute("checkpoint").await?;
    Ok(())
}

/// A message with all its parts, as the relay sends it.
pub(super) struct PreparedMessage {
    pub(super) key: String,
    pub(super) payload: Vec<u8>,
    /// The sequence within its key.
    pub(super) sequence: i64,
    headers: [(&'static str, String); 9],
}

impl PreparedMessage {
    /// Returns the messages of the first rows of the outbox.
    pub(super) async fn load(client: &Client, count: u32) -> anyhow::Result<Vec<Self>> {
        let rows = client
            .query(
                "select event_id::text, id, key, payload from outbox order by id limit $1",
                &[&i64::from(count)],
            )
            .await?;
        Ok(rows.iter().map(|row| Self::new(row.get(0), row.get(1), row.get(2), row.get(3))).collect())
    }

    /// Returns the message of an event that is in no outbox.
    pub(super) fn of(event: &Measured) -> anyhow::Result<Self> {
        let id = Uuid::from_u128(rand::random()).to_string();
        Ok(Self::new(id, i64::try_from(event.number)?, event.key().to_string(), serde_json::to_vec(event)?))
    }

    fn new(id: String, sequence: i64, key: String, payload: Vec<u8>) -> Self {
        let headers = [
            ("ce_specversion", "1.0".to_owned()),
            ("ce_id", id),
            ("ce_type", RELAYED.to_owned()),
            ("ce_source", "/bench".to_owned()),
            ("ce_time", "2026-01-01T00:00:00.000000Z".to_owned()),
            ("ce_subject", key.clone()),
            ("contractversion", "1".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("traceparent", format!("00-{:032x}-{:016x}-01", rand::random::<u128>(), rand::random::<u64>())),
        ];
        Self { key, payload, sequence, headers }
    }

    /// Sends the message to a topic, with the partition of its key or an explicit one.
    pub(super) async fn send(
        &self,
        producer: &FutureProducer,
        topic: &str,
        partition: Option<i32>,
    ) -> Result<DeliveryFuture, KafkaError> {
        let sequence = self.sequence.to_string();
        let headers = self.headers.iter().map(|(name, value)| (*name, value));
        let headers = headers.chain([("ce_sequence", &sequence)]);
        let headers = headers.fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        });
        let mut record = FutureRecord::to(topic).key(&self.key).payload(&self.payload).headers(headers);
        record.partition = partition;
        loop {
            match producer.send_result(record) {
                Ok(ack) => return Ok(ack),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }
}

impl Bench<'_> {
    /// Returns a producer that has sent a message, since the first acknowledgement is slow.
    pub(super) async fn warm_producer(&self, topic: &str) -> anyhow::Result<FutureProducer> {
        let producer: FutureProducer = self.producer().create()?;
        PreparedMessage::of(&Measured::new(0))?
            .send(&producer, topic, None)
            .await?
            .await?
            .map_err(|(error, _)| error)?;
        Ok(producer)
    }
}
