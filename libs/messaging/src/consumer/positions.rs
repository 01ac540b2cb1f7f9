//! The comparison of committed offsets with the receipts that the database still has.
//!
//! A database whose history has changed may have lost its last receipts, while Kafka kept the
//! offsets. Each owner of a partition moves its offset back once for each history. The inbox drops
//! the messages whose receipts the database still has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use db::{Db, Tx};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Text};
use diesel_async::RunQueryDsl;
use rdkafka::consumer::{CommitMode, Consumer, ConsumerContext, StreamConsumer};
use rdkafka::{Offset, TopicPartitionList};

const BROKER_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of the statement that reads all receipts of a group.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

/// A topic and the number of a partition.
pub(super) type PartitionId = (String, i32);

#[derive(diesel::QueryableByName)]
struct Unchecked {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
    /// True if the tables were created in an earlier history, so that receipts may be lost.
    ///
    /// In the history in which the tables were created, no receipt is lost. If a partition without
    /// receipts has a committed offset in that history, an operator has committed the offset.
    #[diesel(sql_type = Bool)]
    is_later_history: bool,
}

#[derive(diesel::QueryableByName)]
struct Received {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    partition: i32,
    #[diesel(sql_type = BigInt)]
    next: i64,
}

/// Moves back the committed offsets of `assigned` partitions whose receipts may be missing, and
/// returns the number of these partitions. The client has to join the group again to read from the
/// new offsets.
///
/// After a success, another call with the same `history` moves nothing. If a call fails after the
/// move, the next call repeats the move.
pub(super) async fn rewind<C: ConsumerContext + 'static>(
    db: &Db,
    client: &Arc<StreamConsumer<C>>,
    group: &str,
    history: &str,
    assigned: Vec<PartitionId>,
) -> anyhow::Result<usize> {
    let unchecked = find_unchecked(db, group, history, assigned).await?;
    if unchecked.is_empty() {
        return Ok(0);
    }
    let received = db.tx(async |tx| next_offsets(tx, group).await).await?;
    let is_later_history = unchecked.iter().any(|row| row.is_later_history);
    let checked: Vec<_> = unchecked.into_iter().map(|row| (row.topic, row.partition)).collect();
    let (client, partitions) = (Arc::clone(client), checked.clone());
    // librdkafka's calls block.
    let moved =
        tokio::task::spawn_blocking(move || move_offsets(&client, &partitions, &received, is_later_history));
    let moved = moved.await??;
    record_history(db, group, history, checked).await?;
    Ok(moved)
}

/// Returns those of `assigned` whose position was not checked in `history`.
///
/// The row without a consumer has the history in which the tables were created.
async fn find_unchecked(
    db: &Db,
    group: &str,
    history: &str,
    assigned: Vec<PartitionId>,
) -> Result<Vec<Unchecked>, db::Error> {
    let (topics, partitions): (Vec<_>, Vec<_>) = assigned.into_iter().unzip();
    let unchecked = diesel::sql_query(
        "select topic, partition, exists (select from inbox_partition as first \
           where first.consumer = '' and first.history <> $2) as is_later_history \
         from unnest($3, $4) as assigned (topic, partition) \
         where not exists (select from inbox_partition as checked where checked.consumer = $1 \
         and checked.topic = assigned.topic and checked.partition = assigned.partition and checked.history = $2)",
    );
    let unchecked = unchecked
        .bind::<Text, _>(group)
        .bind::<Text, _>(history)
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Integer>, _>(partitions);
    Ok(unchecked.load(&mut db.conn().await?).await?)
}

/// Returns the offset after the last received message of each partition that has receipts.
///
/// The messages of a partition are applied one after the other. The receipts of all earlier
/// messages are therefore present, too.
async fn next_offsets(tx: &mut Tx, group: &str) -> Result<HashMap<PartitionId, i64>, db::Error> {
    // The query is slow, because no index contains the offset: every message would have to update
    // the index.
    tx.extend_timeout(READ_TIMEOUT).await?;
    let received = diesel::sql_query(
        "select topic, partition, max(\"offset\") + 1 as next from inbox where consumer = $1 \
         group by topic, partition",
    );
    let received = received.bind::<Text, _>(group).load::<Received>(tx.conn()).await?;
    Ok(received.into_iter().map(|row| ((row.topic, row.partition), row.next)).collect())
}

/// Commits the offset after the last receipt of each partition whose committed offset is higher.
/// In a later history, a partition without a receipt moves to its beginning.
fn move_offsets<C: ConsumerContext>(
    client: &StreamConsumer<C>,
    partitions: &[PartitionId],
    received: &HashMap<PartitionId, i64>,
    is_later_history: bool,
) -> anyhow::Result<usize> {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in partitions {
        list.add_partition(topic, *partition);
    }
    let committed = client.committed_offsets(list, BROKER_TIMEOUT)?;
    let mut moved = TopicPartitionList::new();
    for element in committed.elements() {
        // Without a committed offset, the group starts at the beginning anyway.
        let Offset::Offset(committed) = element.offset() else { continue };
        let (topic, partition) = (element.topic(), element.partition());
        let next = match received.get(&(topic.to_owned(), partition)) {
            Some(next) => *next,
            None if !is_later_history => continue,
            None => client.fetch_watermarks(topic, partition, BROKER_TIMEOUT)?.0,
        };
        if next < committed {
            tracing::warn!(topic, partition, committed, next, "receipts lost; partition rewound");
            moved.add_partition_offset(topic, partition, Offset::Offset(next))?;
        }
    }
    if moved.count() > 0 {
        client.commit(&moved, CommitMode::Sync)?;
    }
    Ok(moved.count())
}

async fn record_history(
    db: &Db,
    group: &str,
    history: &str,
    checked: Vec<PartitionId>,
) -> Result<(), db::Error> {
    let (topics, partitions): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
    let record = diesel::sql_query(
        "insert into inbox_partition (consumer, topic, partition, history) \
         select $1, topic, partition, $2 from unnest($3, $4) as checked (topic, partition) \
         order by topic, partition \
         on conflict (consumer, topic, partition) do update set history = excluded.history",
    );
    record
        .bind::<Text, _>(group)
        .bind::<Text, _>(history)
        .bind::<Array<Text>, _>(topics)
        .bind::<Array<Integer>, _>(partitions)
        .execute(&mut db.conn().await?)
        .await?;
    Ok(())
}
