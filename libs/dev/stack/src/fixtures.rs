//! The demo data, created through the public API.

pub mod building;
mod deals;
pub mod people;

use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{ClientConfig, TopicPartitionList};
use serde_json::{Value, json};

use self::building::Flats;
use devkit::actors::ANNA;
use devkit::http;
use devkit::identity::Identity;
use devkit::progress::Step;
use devkit::stack::Stack;

/// The topic of the flats.
const TOPIC: &str = "platform.chessboard.property-object-upserted.v1";
/// The consumer group that fills the copy of objects in selections.
const READER_GROUP: &str = "selections.chessboard";
/// Timeout until the created data is visible, and of each request to the broker.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout until the consumer has applied the flats. After a killed stack, Apache Kafka first waits
/// for the session of the lost consumer to expire (45 s).
const READER_TIMEOUT: Duration = Duration::from_mins(1);

/// Creates the missing demo data, waits until it is visible, and returns a description.
pub async fn create(stack: &Stack, step: &Step) -> anyhow::Result<String> {
    step.note("creating companies");
    people::create(stack).await?;
    step.note("creating a building");
    if building::create(stack).await? {
        step.note("waiting until selections has replicated it");
        wait_until_read(&stack.brokers).await?;
    }
    step.note("creating a selection");
    let flats = Flats::of(stack).await?;
    let code = create_selection(stack, &flats).await?;
    let page = format!("{}/api/v1/selections/{code}", stack.base_url);
    wait_until_shown(&page).await?;
    step.note("selling flats");
    deals::create(stack, &flats).await.context("deals")?;
    Ok(format!(
        "four companies with their people; a building of {} flats; deals in each status except Cancelled; anna's selection: {page}",
        building::FLATS
    ))
}

/// Waits until the copy in selections is complete: each flat is published, and the consumer
/// group has committed all messages.
async fn wait_until_read(brokers: &str) -> anyhow::Result<()> {
    let group: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", READER_GROUP).create()?;
    let deadline = tokio::time::Instant::now() + READER_TIMEOUT;
    while !tokio::task::block_in_place(|| is_read(&group))? {
        ensure!(tokio::time::Instant::now() < deadline, "{READER_GROUP} does not consume {TOPIC}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn is_read(group: &BaseConsumer) -> anyhow::Result<bool> {
    let metadata = group.fetch_metadata(Some(TOPIC), VISIBILITY_TIMEOUT)?;
    let mut partitions = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(MetadataTopic::partitions) {
        partitions.add_partition(TOPIC, partition.id());
    }
    let mut published = 0;
    for partition in group.committed_offsets(partitions, VISIBILITY_TIMEOUT)?.elements() {
        let (first, end) = group.fetch_watermarks(TOPIC, partition.partition(), VISIBILITY_TIMEOUT)?;
        published += end;
        if partition.offset().to_raw().unwrap_or(first).max(first) < end {
            return Ok(false);
        }
    }
    Ok(published >= i64::from(building::FLATS))
}

/// Creates Anna's first selection if it is missing and returns its public code.
async fn create_selection(stack: &Stack, flats: &Flats) -> anyhow::Result<String> {
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
        let items = [2, 6, 10].map(|number| json!({ "PropertyObjectId": flats.id(number) }));
        let body = json!({ "Title": "Two rooms by the river", "Description": "To look at together", "Items": items });
        let response = client.post(&url).bearer_auth(&token).json(&body).send().await?;
        ensure!(
            response.status().is_success(),
            "failed to create the selection: {} {}",
            response.status(),
            response.text().await?
        );
        selection = response.json().await?;
    }
    Ok(selection["PublicCode"].as_str().context("a selection without a code")?.to_owned())
}

async fn wait_until_shown(page: &str) -> anyhow::Result<()> {
    let client = http::client()?;
    let deadline = tokio::time::Instant::now() + VISIBILITY_TIMEOUT;
    loop {
        let status = client.get(page).send().await?.status();
        if status.is_success() {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < deadline, "{page} returns {status}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
