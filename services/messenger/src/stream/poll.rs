//! Polls the database for events that any replica has committed.

use std::time::Duration;

use ::db::Db;
use auth::UserId;
use futures_util::{StreamExt, stream};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::frame::EventBatch;
use super::{Hub, load_batches};

/// Pause after a query, in which wake-ups for the next one accumulate.
const PAUSE: Duration = Duration::from_millis(2);
/// Pause before a user's remaining events, so that readers can empty their queues.
const UNFINISHED_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of users in one query.
const MAX_USERS_PER_QUERY: usize = 256;
/// Maximum number of concurrent queries of one poll, a quarter of the default pool.
const MAX_CONCURRENT_QUERIES: usize = 4;
/// Maximum number of events of one user in one query.
const MAX_EVENTS_PER_USER: i64 = 16;

/// Sends new events to the streams until the process ends, and then ends all streams.
///
/// Reads the events of users that were woken, and those of all users at `poll_interval`, because
/// wake-ups may be lost.
pub async fn run(db: &Db, streams: &Hub, poll_interval: Duration, stopping: CancellationToken) {
    let mut polls = tokio::time::interval(poll_interval);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let polling = async {
        loop {
            let positions = tokio::select! {
                woken = streams.woken_positions() => woken,
                _ = polls.tick() => streams.positions(),
            };
            let unfinished = send_new_events(db, streams, &positions).await;
            tokio::time::sleep(if unfinished.is_empty() { PAUSE } else { UNFINISHED_PAUSE }).await;
            streams.wake(unfinished);
        }
    };
    tokio::select! {
        () = polling => {}
        () = stopping.cancelled() => {}
    }
    streams.close();
}

/// Sends the events after these positions. Returns the users with further events.
async fn send_new_events(db: &Db, streams: &Hub, positions: &[(UserId, i64)]) -> Vec<UserId> {
    let chunks: Vec<_> = positions.chunks(MAX_USERS_PER_QUERY).map(<[_]>::to_vec).collect();
    let mut queries = stream::iter(chunks)
        .map(|positions| send_batches(db, streams, positions))
        .buffer_unordered(MAX_CONCURRENT_QUERIES);
    let mut unfinished = Vec::new();
    while let Some(sent) = queries.next().await {
        match sent {
            Ok(users) => unfinished.extend(users),
            Err(error) => tracing::warn!(%error, "failed to read new events for streams"),
        }
    }
    unfinished
}

/// Sends a batch of events to each user. Returns the users with further events.
async fn send_batches(
    db: &Db,
    streams: &Hub,
    positions: Vec<(UserId, i64)>,
) -> Result<Vec<UserId>, ::db::Error> {
    let (users, last_sent): (Vec<_>, Vec<_>) = positions.into_iter().unzip();
    let conn = db.conn().await?;
    let batches = load_batches(&conn, &users, &last_sent, MAX_EVENTS_PER_USER).await?;
    let is_unfinished = |batch: &EventBatch| !streams.send(batch) || batch.found == MAX_EVENTS_PER_USER;
    Ok(batches.iter().filter(|batch| is_unfinished(batch)).map(|batch| batch.user_id).collect())
}
