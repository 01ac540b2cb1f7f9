//! Polls the database for events that any replica has committed.

use std::time::Duration;

use ::db::Db;
use auth::UserId;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{Hub, load_batches};

/// Minimum time between two polls, however often this replica commits.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of users in one query.
const MAX_USERS_PER_QUERY: usize = 256;
/// Maximum number of concurrent queries of one poll, a quarter of the default pool.
const MAX_CONCURRENT_QUERIES: usize = 4;
/// Maximum number of events of one user in one query.
const MAX_EVENTS_PER_USER: i64 = 16;

/// Sends new events to the streams until the process ends, and then ends all streams.
///
/// Polls at `poll_interval`, and right after each commit of this replica.
pub async fn run(db: &Db, streams: &Hub, poll_interval: Duration, ending: CancellationToken) {
    let mut committed = db.listen(crate::db::stream::STREAM_APPENDED);
    let polling = async {
        loop {
            tokio::select! {
                () = committed.wait() => {}
                () = tokio::time::sleep(poll_interval) => {}
            }
            while poll_once(db, streams).await {
                tokio::time::sleep(MIN_POLL_INTERVAL).await;
            }
            tokio::time::sleep(MIN_POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        () = polling => {}
        () = ending.cancelled() => {}
    }
    streams.close();
}

/// Sends new events. Returns true if further events may be stored already.
async fn poll_once(db: &Db, streams: &Hub) -> bool {
    let positions = streams.positions();
    let chunks: Vec<_> = positions.chunks(MAX_USERS_PER_QUERY).map(<[_]>::to_vec).collect();
    let queries = stream::iter(chunks)
        .map(|positions| send_new_events(db, streams, positions))
        .buffer_unordered(MAX_CONCURRENT_QUERIES);
    let has_more = queries.try_fold(false, async |has_more, is_full| Ok(has_more | is_full)).await;
    has_more.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read new events for streams");
        false
    })
}

async fn send_new_events(db: &Db, streams: &Hub, positions: Vec<(UserId, i64)>) -> Result<bool, ::db::Error> {
    let (users, last_sent): (Vec<_>, Vec<_>) = positions.into_iter().unzip();
    let conn = db.conn().await?;
    let mut is_full = false;
    for batch in load_batches(&conn, &users, &last_sent, MAX_EVENTS_PER_USER).await? {
        streams.send(&batch);
        is_full |= batch.found == MAX_EVENTS_PER_USER;
    }
    Ok(is_full)
}
