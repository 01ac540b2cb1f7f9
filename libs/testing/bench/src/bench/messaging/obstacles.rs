//! The drain of events behind rows that the relay has to skip, against an empty outbox.
//!
//! The rows to skip are deleted rows that an open snapshot keeps, or waiting rows of a topic that
//! does not exist.

use tokio_postgres::Client;

use super::relay::{ACKED, drain};
use super::{Bench, MISSING_TOPIC, RELAYED, SCHEMA, events, rate};
use crate::bench::Effort;
use crate::bench::environment::stop;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

const DELETED: u32 = 700_000;
const WAITING: u32 = 400_000;

pub(super) async fn run(bench: &Bench<'_>, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let rows = effort.choose(100_000, 50_000);
    let step = Step::start("obstacles");
    let connection = bench.environment.connect(SCHEMA).await?;
    let (mut empty, mut deleted, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: an empty outbox"));
        events::clear(&connection.client).await?;
        empty.push(drain(bench, &connection.client, rows).await?);
        step.note(format!("round {round}: behind {DELETED} deleted rows"));
        events::clear(&connection.client).await?;
        deleted.push(behind_deleted_rows(bench, &connection.client, rows).await?);
        step.note(format!("round {round}: behind {WAITING} rows of another topic"));
        events::clear(&connection.client).await?;
        fill(&connection.client, MISSING_TOPIC, WAITING).await?;
        connection.client.batch_execute("vacuum analyze outbox").await?;
        waiting.push(drain(bench, &connection.client, rows).await?);
    }
    events::clear(&connection.client).await?;
    step.done(format!("{rows} events, {} rounds", effort.rounds()));
    Ok(vec![
        Row::new(
            "Empty outbox / 700,000 deleted rows under a snapshot, events/s",
            Unit::Ratio,
            Rounds::ratios(&empty, &deleted),
        )
        .goal(Goal::Below(1.5)),
        Row::new(
            "Empty outbox / 400,000 waiting rows of another topic, events/s",
            Unit::Ratio,
            Rounds::ratios(&empty, &waiting),
        )
        .goal(Goal::Below(1.5)),
    ])
}

/// Returns the events a second while an open snapshot keeps the deleted rows of earlier events.
async fn behind_deleted_rows(bench: &Bench<'_>, client: &Client, rows: u32) -> anyhow::Result<f64> {
    let other = bench.environment.connect(SCHEMA).await?;
    other.client.batch_execute("begin isolation level repeatable read; select from measured").await?;
    fill(client, RELAYED, DELETED).await?;
    let process = bench.environment.process();
    bench.bus(&[]).start(&process, vec![RELAYED.to_owned()])?;
    rate(&process, ACKED, 0, DELETED).await?;
    stop(&process).await?;
    let rate = drain(bench, client, rows).await;
    other.client.batch_execute("rollback").await?;
    rate
}

/// Fills the outbox with rows without a payload.
async fn fill(client: &Client, topic: &str, rows: u32) -> anyhow::Result<()> {
    client
        .execute(
            "insert into outbox (event_id, topic, key, type, headers) \
             select gen_random_uuid(), $1, (n % 1000)::text, $1, '{}' from generate_series(1, $2) n",
            &[&topic, &i32::try_from(rows)?],
        )
        .await?;
    Ok(())
}
