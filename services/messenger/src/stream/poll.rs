//! Polls the database for events that any replica has committed.

use std::time::Duration;

use ::db::Db;
use auth::UserId;
use tokio_util::sync::CancellationToken;

use super::{Hub, load_batches};

/// Minimum time between two polls, however often this replica commits.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of users in one query.
const MAX_USERS_PER_QUERY: usize = 256;
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
    let mut has_more = false;
    for positions in streams.positions().chunks(MAX_USERS_PER_QUERY) {
        match send_new_events(db, streams, positions).await {
            Ok(is_full) => has_more |= is_full,
            Err(error) => {
                tracing::warn!(%error, "failed to read new events for streams");
                return false;
            }
        }
    }
    has_more
}

async fn send_new_events(db: &Db, streams: &Hub, positions: &[(UserId, i64)]) -> Result<bool, ::db::Error> {
    let (users, last_sent): (Vec<_>, Vec<_>) = positions.iter().copied().unzip();
    let conn = db.conn().await?;
    let mut is_full = false;
    for batch in load_batches(&conn, &users, &last_sent, MAX_EVENTS_PER_USER).await? {
        streams.send(&batch);
        is_full |= batch.found == MAX_EVENTS_PER_USER;
    }
    Ok(is_full)
}
