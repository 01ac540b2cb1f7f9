//! What the parts of a running service share: its stop signal, its tasks, its readiness, its metrics.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The order in which the parts of a stopping service end: each phase when the one before it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Takes in work: requests, messages, jobs.
    Work,
    /// Sends off what the work has left behind: the relay.
    Delivery,
    /// Is watched to the end: health, metrics.
    Watch,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Work, Self::Delivery, Self::Watch];

    /// How long its parts may take to end. Kubernetes grants 45 s, of which 5 pass before that (see [`Process::drain`]).
    fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Self::Work => 25,
            Self::Delivery => 5,
            Self::Watch => 2,
        })
    }
}

/// The parts of one phase.
#[derive(Default)]
struct Stage {
    /// Cancelled when they should finish.
    ending: CancellationToken,
    parts: TaskTracker,
}

/// A readiness check: `Err` says in a few words what is missing.
pub type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// One service as it runs in a process. Cloning shares it.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    /// Cancelled when callers should take another process.
    draining: CancellationToken,
    stages: [Stage; 3],
    checks: Mutex<Vec<(&'static str, Check)>>,
    failure: Mutex<Option<anyhow::Error>>,
    metrics: Metrics,
}

/// The metrics of one service; Prometheus reads them from its admin port.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// Declares metrics, once, when the part that keeps them is made.
    pub fn register<T>(&self, declare: impl FnOnce(&mut Registry) -> T) -> T {
        declare(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// When a metric cannot be written as text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(
            &mut text,
            &self.0.lock().unwrap_or_else(PoisonError::into_inner),
        )?;
        Ok(text)
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl Process {
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            draining: CancellationToken::new(),
            stages: Default::default(),
            checks: Mutex::default(),
            failure: Mutex::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Runs a part of the service until it ends or, once the token is cancelled, has finished what it
    /// had in hand. A part that fails or panics stops the whole service: it will be started afresh.
    pub fn spawn<F>(&self, phase: Phase, name: &'static str, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let process = self.clone();
        let stage = self.stage(phase);
        let part = AssertUnwindSafe(part(stage.ending.clone())).catch_unwind();
        stage.parts.spawn(
            async move {
                let result = part.await.unwrap_or_else(|_| Err(anyhow::anyhow!("{name} panicked")));
                if let Err(error) = result {
                    tracing::error!(
                        part = name,
                        error = format!("{error:#}"),
                        "a part of the service failed"
                    );
                    process.0.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    process.stop();
                }
            }
            .in_current_span(),
        );
    }

    fn stage(&self, phase: Phase) -> &Stage {
        &self.0.stages[phase as usize]
    }

    /// Begins to drain: readiness is false from now on, so that callers take another process, and until they all do
    /// everything goes on.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    /// Cancelled when callers should take another process.
    pub fn draining(&self) -> CancellationToken {
        self.0.draining.clone()
    }

    /// Asks every part to finish; readiness is false from now on.
    pub fn stop(&self) {
        self.drain();
        self.stage(Phase::Work).ending.cancel();
    }

    /// Cancelled when the service should finish.
    pub fn stopping(&self) -> CancellationToken {
        self.stage(Phase::Work).ending.clone()
    }

    /// Cancelled when all work is done and delivered.
    pub fn stopped(&self) -> CancellationToken {
        self.stage(Phase::Watch).ending.clone()
    }

    /// Waits for the stop signal, then for the parts, phase by phase, about 30 s together.
    ///
    /// # Errors
    /// The failure that stopped the service, or that it did not stop in time.
    pub async fn finished(&self) -> anyhow::Result<()> {
        self.stopping().cancelled().await;
        let mut late = Vec::new();
        for phase in Phase::ALL {
            let stage = self.stage(phase);
            stage.ending.cancel();
            stage.parts.close();
            if tokio::time::timeout(phase.patience(), stage.parts.wait()).await.is_err() {
                late.push(phase);
            }
        }
        if let Some(failure) = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        anyhow::ensure!(late.is_empty(), "what was in hand was cut off: {late:?}");
        Ok(())
    }

    /// Adds a condition of readiness.
    pub fn require<F, Fut>(&self, name: &'static str, check: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: Check = Arc::new(move || Box::pin(check()));
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner).push((name, check));
    }

    /// Whether the service should be sent work.
    ///
    /// # Errors
    /// What stands against it, a line for each condition.
    pub async fn ready(&self) -> Result<(), Vec<String>> {
        if self.0.draining.is_cancelled() {
            return Err(vec!["stopping".to_owned()]);
        }
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut missing = Vec::new();
        for (name, check) in checks {
            match tokio::time::timeout(Duration::from_secs(2), check()).await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => missing.push(format!("{name}: {reason}")),
                Err(_) => missing.push(format!("{name}: no answer in 2 s")),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// The metrics of this service.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{Phase, Process};

    #[tokio::test]
    async fn a_part_that_fails_stops_the_service_with_its_error() {
        let process = Process::new();
        process.spawn(Phase::Work, "part", |_| async { anyhow::bail!("broken") });
        assert_eq!(process.finished().await.unwrap_err().to_string(), "broken");
    }

    #[tokio::test]
    async fn a_part_that_panics_stops_the_service() {
        let process = Process::new();
        process.spawn(Phase::Work, "part", |_| async { panic!("the test's own") });
        assert_eq!(process.finished().await.unwrap_err().to_string(), "part panicked");
    }

    #[tokio::test]
    async fn a_draining_service_is_not_ready_and_goes_on() {
        let process = Process::new();
        assert_eq!(process.ready().await, Ok(()));
        process.drain();
        assert_eq!(process.ready().await, Err(vec!["stopping".to_owned()]));
        assert!(!process.stopping().is_cancelled());
    }

    #[tokio::test]
    async fn a_stopping_service_is_not_ready_and_ends_phase_by_phase() {
        let process = Process::new();
        process.require("database", || async { Err("away".to_owned()) });
        assert_eq!(process.ready().await, Err(vec!["database: away".to_owned()]));
        let order = Arc::new(Mutex::new(Vec::new()));
        for phase in [Phase::Watch, Phase::Delivery, Phase::Work] {
            let order = Arc::clone(&order);
            process.spawn(phase, "part", move |ending| async move {
                ending.cancelled().await;
                order.lock().unwrap().push(phase);
                Ok(())
            });
        }
        process.stop();
        assert_eq!(process.ready().await, Err(vec!["stopping".to_owned()]));
        process.finished().await.unwrap();
        assert_eq!(*order.lock().unwrap(), [Phase::Work, Phase::Delivery, Phase::Watch]);
    }
}
