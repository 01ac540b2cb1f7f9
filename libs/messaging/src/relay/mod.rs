//! The relay: one replica of a service, the one that holds the lease, carries its outbox to Kafka.

mod destinations;
mod lease;
mod session;

use std::time::Duration;

use db::{Conn, Db};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::Metrics;
use tokio_util::sync::CancellationToken;

use crate::config::Quiet;
use crate::relay::lease::{Acquired, Lease};
use crate::relay::session::{Tenure, TenureError};
use crate::{Bus, Config};

/// Between two attempts to relay.
const PAUSE: Duration = Duration::from_secs(1);
const PROMPT: Duration = Duration::from_millis(25);
/// How long a stopping relay goes on sending what its process has written: less than the phase is given.
const LAST_BATCHES: Duration = Duration::from_secs(3);
/// An event that is refused so often, in tenure after tenure, and nobody knows why, is parked.
const HOPELESS: u32 = 5;

/// Carries one service's outbox to Kafka.
pub(crate) struct Relay {
    db: Db,
    config: Config,
    source: String,
    metrics: RelayMetrics,
}

pub(crate) struct RelayMetrics {
    takeovers: Counter,
    fenced: Counter,
    pub refused: Counter,
    pub commit_to_ack: Histogram,
}

impl RelayMetrics {
    fn register(metrics: &Metrics) -> Self {
        let kept = Self {
            takeovers: Counter::default(),
            fenced: Counter::default(),
            refused: Counter::default(),
            commit_to_ack: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        metrics.register(|registry| {
            registry.register("outbox_takeovers", "Leases taken", kept.takeovers.clone());
            registry.register(
                "outbox_fenced",
                "Tenures that lost their lease, or left something with the broker",
                kept.fenced.clone(),
            );
            registry.register(
                "outbox_refused",
                "Events parked, since they cannot be sent",
                kept.refused.clone(),
            );
            registry.register(
                "outbox_commit_to_ack_seconds",
                "From an event's insertion to its acknowledgement",
                kept.commit_to_ack.clone(),
            );
        });
        kept
    }
}

impl Relay {
    pub(crate) fn new(bus: &Bus, metrics: &Metrics, config: Config) -> Self {
        let metrics = RelayMetrics::register(metrics);
        Self { db: bus.db.clone(), config, source: format!("/{}", bus.service), metrics }
    }

    /// Relays until `ending` and until nothing is left to send; failures are logged and tried again.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub(crate) async fn run(self, ending: CancellationToken) -> anyhow::Result<()> {
        let mut conn = None;
        let mut setback = None;
        while !ending.is_cancelled() {
            let pause = match self.compete(&mut conn, &mut setback, &ending).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the outbox lease cannot be asked for");
                    conn = None;
                    PAUSE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ending.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Asks for the lease, and relays if that is answered with it. Answers when to ask again.
    async fn compete(
        &self,
        conn: &mut Option<Conn>,
        setback: &mut Option<Setback>,
        ending: &CancellationToken,
    ) -> anyhow::Result<Duration> {
        let conn = match conn {
            Some(conn) => conn,
            None => conn.insert(self.db.connect().await?),
        };
        match Lease::acquire(conn).await? {
            // Not much later than its lease runs out.
            Acquired::HeldFor(remaining) => Ok(remaining.clamp(PROMPT, PAUSE)),
            Acquired::Lease(lease) => {
                self.serve(lease, conn, setback, ending).await?;
                Ok(setback.as_ref().map_or(PAUSE, Setback::pause))
            }
        }
    }

    async fn serve(
        &self,
        lease: Lease,
        conn: &mut Conn,
        setback: &mut Option<Setback>,
        ending: &CancellationToken,
    ) -> anyhow::Result<()> {
        self.metrics.takeovers.inc();
        tracing::info!(epoch = lease.epoch, "relaying");
        let producer = self.config.producer().create_with_context(Quiet)?;
        let Self { db, source, metrics, .. } = self;
        let tenure = Tenure { db, source, metrics, lease, producer, setback: *setback };
        let cut_off = async {
            ending.cancelled().await;
            tokio::time::sleep(LAST_BATCHES).await;
        };
        let result = tokio::select! {
            result = tenure.relay(ending) => result,
            result = lease.keep(conn) => result.map_err(TenureError::from).and(Err(TenureError::Fenced)),
            () = cut_off => {
                tracing::warn!("what is left to send is left to the next relay");
                Ok(())
            }
        };
        *setback = result.as_ref().err().and_then(|error| Setback::of(error, *setback));
        let (mut was_fenced, mut released) = (false, Ok(()));
        if let Err(error) = result {
            was_fenced = matches!(error, TenureError::Fenced);
            tracing::warn!(
                epoch = lease.epoch,
                error = format!("{:#}", anyhow::Error::from(error)),
                "relaying was interrupted"
            );
        }
        if tenure.end().await {
            released = lease.release(conn).await;
        } else {
            tracing::warn!("the broker owes answers; the outbox lease will run out by itself");
            was_fenced = true;
        }
        self.metrics.fenced.inc_by(u64::from(was_fenced));
        Ok(released?)
    }
}

/// The event whose refusal has ended the last tenures.
#[derive(Clone, Copy)]
pub(crate) struct Setback {
    id: i64,
    tenures: u32,
}

impl Setback {
    fn of(error: &TenureError, before: Option<Self>) -> Option<Self> {
        let TenureError::Refused { id, .. } = *error else { return None };
        let tenures = before.filter(|before| before.id == id).map_or(0, |before| before.tenures);
        Some(Self { id, tenures: tenures + 1 })
    }

    /// Twice as long after each tenure: 1 s, 2 s, 4 s and 8 s.
    fn pause(&self) -> Duration {
        PAUSE * (1 << (self.tenures - 1).min(HOPELESS))
    }

    /// Whether this event has ended so many tenures that one more refusal is its last.
    pub(crate) fn is_of(self, id: i64) -> bool {
        self.id == id && self.tenures + 1 >= HOPELESS
    }
}
