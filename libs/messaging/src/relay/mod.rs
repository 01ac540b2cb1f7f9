//! The relay, which publishes a service's outbox to Kafka. Only the replica that holds the lease
//! relays.

mod batch;
mod destinations;
mod error;
mod lease;
mod metrics;
mod rows;
mod session;
mod upkeep;

use std::time::Duration;

use db::{Conn, Db};
use runtime::Metrics;
use tokio_util::sync::CancellationToken;

use self::error::{RepeatedRejection, SESSION_RETRY_INTERVAL, SessionError};
use self::lease::Acquisition;
use self::metrics::RelayMetrics;
use self::session::RelaySession;
use crate::config::{Config, QuietContext};
use crate::history::{self, Renumbering};
use crate::lanes;

pub(crate) use self::lease::Lease;

/// The shortest pause between two attempts to acquire the lease.
const MIN_ACQUIRE_INTERVAL: Duration = Duration::from_millis(25);
/// The time for which a stopping relay still sends events. The shutdown phase lasts longer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Publishes one service's outbox to Kafka.
pub(crate) struct Relay {
    db: Db,
    config: Config,
    source: String,
    metrics: RelayMetrics,
}

impl Relay {
    pub(crate) fn new(service: &str, db: Db, config: Config, metrics: &Metrics) -> Self {
        Self { db, config, source: format!("/{service}"), metrics: RelayMetrics::register(metrics) }
    }

    /// Relays until `stopping`. A running session then sends the remaining events, for up to
    /// [`DRAIN_TIMEOUT`]. Failures are logged and retried.
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub(crate) async fn run(self, stopping: CancellationToken) -> anyhow::Result<()> {
        let mut conn = None;
        let mut rejection = None;
        while !stopping.is_cancelled() {
            let pause = match self.try_relay(&mut conn, &mut rejection, &stopping).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "failed to acquire the outbox lease");
                    conn = None;
                    SESSION_RETRY_INTERVAL
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stopping.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Runs a session if the lease is free. Returns the pause before the next attempt.
    async fn try_relay(
        &self,
        conn: &mut Option<Conn>,
        rejection: &mut Option<RepeatedRejection>,
        stopping: &CancellationToken,
    ) -> anyhow::Result<Duration> {
        let conn = match conn {
            Some(conn) => conn,
            None => conn.insert(self.db.connect().await?),
        };
        match Lease::acquire(conn).await? {
            // The next attempt follows soon after the lease expires.
            Acquisition::HeldFor(remaining) => {
                Ok(remaining.clamp(MIN_ACQUIRE_INTERVAL, SESSION_RETRY_INTERVAL))
            }
            Acquisition::Acquired { lease, is_history_known } => {
                if !is_history_known {
                    self.renumber_events().await?;
                }
                self.run_session(lease, conn, rejection, stopping).await?;
                Ok(rejection.as_ref().map_or(SESSION_RETRY_INTERVAL, RepeatedRejection::backoff))
            }
        }
    }

    /// Renumbers the events that were appended since the history of the database has changed. Other
    /// events may have had their ids, and consumers would drop them as duplicates.
    async fn renumber_events(&self) -> Result<(), db::Error> {
        let Renumbering { events, last_id, previous, current } =
            self.db.tx(async |tx| history::renumber_events(tx).await).await?;
        self.metrics.history_changed.inc();
        tracing::warn!(
            previous,
            current,
            events,
            last_id,
            "history of the database changed; new events renumbered"
        );
        Ok(())
    }

    /// Runs a session until it ends or loses its lease, and then releases the lease. While messages
    /// are unacknowledged, the lease is left to expire.
    async fn run_session(
        &self,
        lease: Lease,
        conn: &mut Conn,
        rejection: &mut Option<RepeatedRejection>,
        stopping: &CancellationToken,
    ) -> anyhow::Result<()> {
        self.metrics.takeovers.inc();
        lanes::lower_floors_above_ids(conn).await?;
        tracing::info!(epoch = lease.epoch, "relay session started");
        let producer = self.config.producer().create_with_context(QuietContext)?;
        let Self { db, source, metrics, .. } = self;
        let session = RelaySession { db, source, metrics, lease, producer, repeated_rejection: *rejection };
        let result = tokio::select! {
            result = session.relay(stopping) => result,
            result = lease.keep_renewed(conn) => {
                result.map_err(SessionError::from).and(Err(SessionError::Fenced))
            }
            () = drain_timeout(stopping) => {
                tracing::warn!("relay stopped at its shutdown timeout; the next relay sends the pending events");
                Ok(())
            }
        };
        metrics.held_topics.set(0);
        *rejection = result.as_ref().err().and_then(|error| RepeatedRejection::after(error, *rejection));
        let mut is_fenced = false;
        if let Err(error) = result {
            is_fenced = matches!(error, SessionError::Fenced);
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(epoch = lease.epoch, error, "relay session interrupted");
        }
        let mut released = Ok(());
        if session.close().await {
            released = lease.release(conn).await;
        } else {
            tracing::warn!("unacknowledged messages remained; outbox lease left to expire");
            is_fenced = true;
        }
        self.metrics.fenced.inc_by(u64::from(is_fenced));
        Ok(released?)
    }
}

/// Resolves [`DRAIN_TIMEOUT`] after `stopping`.
async fn drain_timeout(stopping: &CancellationToken) {
    stopping.cancelled().await;
    tokio::time::sleep(DRAIN_TIMEOUT).await;
}
