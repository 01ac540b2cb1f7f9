//! Wake-ups between replicas. After a commit each replica receives the ids of the users with new
//! events.
//!
//! PostgreSQL delivers them by NOTIFY. A lost wake-up costs time only, because every replica also
//! polls.

use std::convert::Infallible;
use std::time::Duration;

use ::db::{CommitListener, Db};
use diesel_async::SimpleAsyncConnection;
use tokio_util::sync::CancellationToken;

use super::Hub;
use crate::db::stream::{STREAM_APPENDED, WAKE_CHANNEL, parse_wake, process_id, wake};

/// Pause before a notification, in which the users of further commits accumulate.
const PAUSE: Duration = Duration::from_millis(1);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Sends the wake-ups of this process until it ends, and receives those of others if it has
/// streams.
pub async fn exchange_wake_ups(db: &Db, streams: Option<&Hub>, stopping: CancellationToken) {
    let mut committed = db.listen(STREAM_APPENDED);
    let exchange = async {
        loop {
            let Err(error) = exchange_on_connection(db, streams, &mut committed).await;
            tracing::warn!(%error, "failed to exchange wake-ups of streams");
            tokio::time::sleep(RECONNECT_INTERVAL).await;
        }
    };
    tokio::select! {
        () = exchange => {}
        () = stopping.cancelled() => {}
    }
}

async fn exchange_on_connection(
    db: &Db,
    streams: Option<&Hub>,
    committed: &mut CommitListener,
) -> Result<Infallible, ::db::Error> {
    let mut conn = db.connect().await?;
    let own_process_id = process_id(&conn).await?;
    if streams.is_some() {
        conn.batch_execute(&format!("listen {WAKE_CHANNEL}")).await?;
    }
    loop {
        tokio::select! {
            users = committed.keys() => {
                // The streams of this replica need no round trip.
                streams.inspect(|streams| streams.wake(users.iter().copied().map(Into::into)));
                let users: Vec<_> = users.into_iter().collect();
                wake(&conn, &users).await?;
                tokio::time::sleep(PAUSE).await;
            }
            notification = conn.notification() => {
                let notification = notification?;
                if notification.process_id != own_process_id {
                    streams.inspect(|streams| streams.wake(parse_wake(&notification.payload)));
                }
            }
        }
    }
}
