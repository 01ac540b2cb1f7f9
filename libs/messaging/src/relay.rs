//! The relay: one replica of a service, the one that holds the lease, carries its outbox to Kafka.

use std::time::Duration;

use db::Db;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::Metrics;
use tokio_util::sync::CancellationToken;

use crate::config::Quiet;
use crate::lease::{Acquired, Lease};
use crate::outbox::EventId;
use crate::tenure::{Tenure, TenureError};
use crate::{Bus, Config};

/// Between two attempts to relay.
const PAUSE: Duration = Duration::from_secs(1);
const PROMPT: Duration = Duration::from_millis(25);
/// How long a stopping relay goes on sending what its process has written: less than the phase is given.
const LAST_BATCHES: Duration = Duration::from_secs(4);

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
            registry.register("outbox_fenced", "Tenures that found their lease gone", kept.fenced.clone());
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
    /// Settings that librdkafka does not know.
    pub(crate) async fn run(self, ending: CancellationToken) -> anyhow::Result<()> {
        let owner = EventId::generate().into();
        while !ending.is_cancelled() {
            let pause = match Lease::acquire(&self.db, owner).await {
                Ok(Acquired::Lease(lease)) => {
                    self.serve(lease, &ending).await?;
                    PAUSE
                }
                // Not much later than its lease runs out.
                Ok(Acquired::HeldFor(remaining)) => remaining.clamp(PROMPT, PAUSE),
                Err(error) => {
                    tracing::warn!(%error, "the outbox lease cannot be asked for");
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

    async fn serve(&self, lease: Lease, ending: &CancellationToken) -> anyhow::Result<()> {
        self.metrics.takeovers.inc();
        tracing::info!(epoch = lease.epoch, "relaying");
        let producer = self.config.producer().create_with_context(Quiet)?;
        let Self { db, source, metrics, .. } = self;
        let tenure = Tenure { db, source, metrics, lease, producer };
        let cut_off = async {
            ending.cancelled().await;
            tokio::time::sleep(LAST_BATCHES).await;
        };
        let result = tokio::select! {
            result = tenure.relay(ending) => result,
            result = lease.keep(&self.db) => result.map_err(TenureError::from).and(Err(TenureError::Fenced)),
            () = cut_off => {
                tracing::warn!("what is left to send is left to the next relay");
                Ok(())
            }
        };
        if let Err(error) = result {
            self.metrics.fenced.inc_by(u64::from(matches!(error, TenureError::Fenced)));
            tracing::warn!(
                epoch = lease.epoch,
                error = format!("{:#}", anyhow::Error::from(error)),
                "relaying was interrupted"
            );
        }
        if let Err(error) = lease.release(&self.db).await {
            tracing::warn!(%error, "the outbox lease will run out by itself");
        }
        Ok(())
    }
}
