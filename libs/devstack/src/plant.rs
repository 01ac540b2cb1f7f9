//! The demo data, planted through the interfaces that everybody has: the bus and HTTP.

pub(crate) mod people;

use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, TopicPartitionList};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::actors::ANNA;
use crate::http;
use crate::identity::Identity;
use crate::progress::Step;
use crate::stack::Stack;

const TOPIC: &str = "platform.chessboard.property-object-upserted.v1";
/// The consumer group that fills the replica of selections.
const READER: &str = "selections.chessboard";
const FLOORS: u32 = 3;
const FLATS_A_FLOOR: u32 = 4;
/// How long the platform may take to show what was planted.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a consumer may take to read: after a stack that was killed, a real Kafka first waits out the
/// session of the one that is gone (45 s).
const PATIENCE_OF_READER: Duration = Duration::from_mins(1);

/// Ids of the demo are fixed, so that planting twice changes nothing.
const fn id(kind: u16, number: u32) -> Uuid {
    Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0000 | (kind as u128) << 32 | number as u128)
}

/// The id of a flat of the seeded building, from 1.
pub(crate) const fn flat(number: u32) -> Uuid {
    id(0xf, number)
}

/// Plants what is missing and waits until it can be seen; answers what there is.
pub(crate) async fn plant(stack: &Stack, step: &Step) -> anyhow::Result<String> {
    step.note("founding companies");
    let developer = people::plant(stack).await?;
    step.note("publishing a building on the bus");
    publish_building(&stack.brokers, developer).await?;
    step.note("waiting until selections has read it");
    wait_until_read(&stack.brokers).await?;
    step.note("creating a selection");
    let code = plant_selection(stack).await?;
    let page = format!("{}/api/v1/selections/{code}", stack.base_url);
    wait_until_shown(&page).await?;
    Ok(format!(
        "four companies with their people; a building of {} flats; anna's selection: {page}",
        FLOORS * FLATS_A_FLOOR
    ))
}

async fn publish_building(brokers: &str, developer: Uuid) -> anyhow::Result<()> {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "15000")
        .create()?;
    let time = runtime::clock::now().format(&Rfc3339)?;
    let sends = (1..=FLOORS * FLATS_A_FLOOR).map(|number| {
        let (producer, time) = (producer.clone(), time.clone());
        async move {
            let (key, payload) = (flat(number).to_string(), property_object(number, developer).to_string());
            let headers = [
                ("ce_id", id(0xe, number).to_string()),
                ("ce_type", TOPIC.to_owned()),
                ("ce_source", "/chessboard".to_owned()),
                ("ce_time", time),
                ("ce_specversion", "1.0".to_owned()),
                ("ce_subject", key.clone()),
                ("ce_sequence", "1".to_owned()),
                ("contractversion", "1".to_owned()),
                ("content-type", "application/json".to_owned()),
            ];
            let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
            let record = FutureRecord::to(TOPIC).key(&key).payload(&payload).headers(headers);
            producer.send(record, PATIENCE).await.map_err(|(error, _)| error)
        }
    });
    futures_util::future::try_join_all(sends)
        .await
        .with_context(|| format!("{TOPIC} does not take messages"))?;
    Ok(())
}

/// Waits until the replica of selections is filled: until its group has committed all that there is.
async fn wait_until_read(brokers: &str) -> anyhow::Result<()> {
    let group: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", READER).create()?;
    let deadline = tokio::time::Instant::now() + PATIENCE_OF_READER;
    while !tokio::task::block_in_place(|| is_read(&group))? {
        ensure!(tokio::time::Instant::now() < deadline, "{READER} does not read {TOPIC}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn is_read(group: &BaseConsumer) -> anyhow::Result<bool> {
    let metadata = group.fetch_metadata(Some(TOPIC), PATIENCE)?;
    let mut partitions = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        partitions.add_partition(TOPIC, partition.id());
    }
    for partition in group.committed_offsets(partitions, PATIENCE)?.elements() {
        let (first, end) = group.fetch_watermarks(TOPIC, partition.partition(), PATIENCE)?;
        if partition.offset().to_raw().unwrap_or(first).max(first) < end {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Flats of one to three rooms; higher floors cost more, two are taken already.
fn property_object(number: u32, developer: Uuid) -> Value {
    let (floor, position) = ((number - 1) / FLATS_A_FLOOR + 1, (number - 1) % FLATS_A_FLOOR);
    let (rooms, area) = [(1, 38.40), (2, 54.30), (3, 77.15), (1, 27.90)][position as usize];
    let status = match number {
        3 => "Reserved",
        8 => "Sold",
        _ => "Available",
    };
    json!({
        "Id": flat(number),
        "BuildingId": id(0xb, 1),
        "BuildingName": "Building 1",
        "ProjectId": id(0xd, 1),
        "ProjectName": "Riverside",
        "TenantId": developer,
        "Number": number.to_string(),
        "Kind": "Flat",
        "Section": 1,
        "Floor": floor,
        "Rooms": rooms,
        "IsStudio": position == 3,
        "AreaTotal": area,
        "Price": { "AmountMinor": 700_000_000 + 350_000_000 * rooms + 10_000_000 * floor, "Currency": "RUB" },
        "LayoutFileId": id(0x1, position + 1),
        "Status": status,
        "Version": 1,
    })
}

/// Anna's first selection, made once; answers its code.
async fn plant_selection(stack: &Stack) -> anyhow::Result<String> {
    let (client, url) = (http::client()?, format!("{}/api/v1/selections", stack.base_url));
    let token = Identity::of(stack)?.token(&ANNA).await?;
    let own: Value = client
        .get(format!("{url}?Sort=CreatedAt"))
        .bearer_auth(&token)
        .send()
        .await?
        .error_for_status()?
        .json()
        .await?;
    let mut selection = own["Items"][0].clone();
    if selection.is_null() {
        let items = [2, 6, 10].map(|number| json!({ "PropertyObjectId": flat(number) }));
        let body = json!({ "Title": "Two rooms by the river", "Description": "To look at together", "Items": items });
        let answer = client.post(&url).bearer_auth(&token).json(&body).send().await?;
        ensure!(answer.status().is_success(), "creating it: {} {}", answer.status(), answer.text().await?);
        selection = answer.json().await?;
    }
    Ok(selection["PublicCode"].as_str().context("a selection without a code")?.to_owned())
}

async fn wait_until_shown(page: &str) -> anyhow::Result<()> {
    let client = http::client()?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let status = client.get(page).send().await?.status();
        if status.is_success() {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < deadline, "{page} answers {status}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
