//! What the parts of a running service share: its stop signal, its tasks, its readiness, its metrics.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// How long a stop may take before it is cut: Kubernetes grants 45 s, of which 5 pass in `preStop`.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A readiness check: `Err` says in a few words what is missing.
pub type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// One service as it runs in a process. Cloning shares it.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    /// Cancelled when the service should finish its work.
    stopping: CancellationToken,
    /// Cancelled when that work is done; what is still needed to watch it (health, metrics) goes last.
    stopped: CancellationToken,
    work: TaskTracker,
    last: TaskTracker,
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
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            work: TaskTracker::new(),
            last: TaskTracker::new(),
            checks: Mutex::default(),
            failure: Mutex::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Runs a part of the service until it ends or, once [`Process::stopping`], has finished what it
    /// had in hand. A part that fails stops the whole service: it will be started afresh.
    pub fn spawn<F>(&self, name: &'static str, part: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.track(&self.0.work, name, part);
    }

    /// Like [`Process::spawn`], for what outlives the work: health and metrics.
    pub fn spawn_last<F>(&self, name: &'static str, part: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.track(&self.0.last, name, part);
    }

    fn track<F>(&self, tracker: &TaskTracker, name: &'static str, part: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let process = self.clone();
        tracker.spawn(
            async move {
                if let Err(error) = part.await {
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

    /// Asks every part to finish; readiness is false from now on.
    pub fn stop(&self) {
        self.0.stopping.cancel();
    }

    /// Resolves (or answers) when the service should finish.
    pub fn stopping(&self) -> CancellationToken {
        self.0.stopping.clone()
    }

    /// Resolves when all work is done, for what was started by [`Process::spawn_last`].
    pub fn stopped(&self) -> CancellationToken {
        self.0.stopped.clone()
    }

    /// Waits for the stop signal, then for the parts, at most 30 s.
    ///
    /// # Errors
    /// The failure that stopped the service, or that it did not stop in time.
    pub async fn finished(&self) -> anyhow::Result<()> {
        self.0.stopping.cancelled().await;
        self.0.work.close();
        let in_time = tokio::time::timeout(STOP_DEADLINE, self.0.work.wait()).await.is_ok();
        self.0.stopped.cancel();
        self.0.last.close();
        let in_time =
            tokio::time::timeout(Duration::from_secs(2), self.0.last.wait()).await.is_ok() && in_time;
        if let Some(failure) = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        anyhow::ensure!(in_time, "work in hand was cut off after {} s", STOP_DEADLINE.as_secs());
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
        if self.0.stopping.is_cancelled() {
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
    use super::Process;

    #[tokio::test]
    async fn a_part_that_fails_stops_the_service_with_its_error() {
        let process = Process::new();
        process.spawn("part", async { anyhow::bail!("broken") });
        assert_eq!(process.finished().await.unwrap_err().to_string(), "broken");
    }

    #[tokio::test]
    async fn a_stopping_service_is_not_ready_and_finishes_its_work() {
        let process = Process::new();
        process.require("database", || async { Err("away".to_owned()) });
        assert_eq!(process.ready().await, Err(vec!["database: away".to_owned()]));
        let stopping = process.stopping();
        process.spawn("part", async move {
            stopping.cancelled().await;
            Ok(())
        });
        process.stop();
        assert_eq!(process.ready().await, Err(vec!["stopping".to_owned()]));
        process.finished().await.unwrap();
    }
}
