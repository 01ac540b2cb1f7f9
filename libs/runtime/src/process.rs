//! The state that the parts of a running service share: stop signal, tasks, readiness and metrics.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The interval at which [`Process::report_readiness`] checks the conditions.
const READINESS_INTERVAL: Duration = Duration::from_secs(10);

/// The phases in which the parts of a service stop, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Parts that accept work: requests, messages and jobs.
    Work,
    /// Parts that deliver the results of the work: the relay.
    Delivery,
    /// Parts that observe the process until its end: health and metrics.
    Monitoring,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Work, Self::Delivery, Self::Monitoring];

    /// Returns the time limit within which the parts of the phase must end.
    ///
    /// Kubernetes grants 40 s after the drain (see [`Process::drain`]), more than all phases need.
    fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            Self::Work => 25,
            Self::Delivery => 5,
            Self::Monitoring => 2,
        })
    }
}

/// The running parts of one phase.
#[derive(Default)]
struct PhaseParts {
    /// Cancelled when the parts must finish.
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// A condition of readiness. `Err` has a short reason why it is not met.
pub type ReadinessCheck =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// A running service. Clones share it.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    /// Cancelled when callers should use another replica.
    draining: CancellationToken,
    phases: [PhaseParts; 3],
    checks: Mutex<Vec<(&'static str, ReadinessCheck)>>,
    failure: Mutex<Option<anyhow::Error>>,
    metrics: Metrics,
}

/// The metrics of one service, which Prometheus reads from the admin port.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// Declares metrics. Each part does so once, when it is created.
    pub fn register<T>(&self, declare: impl FnOnce(&mut Registry) -> T) -> T {
        declare(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Encodes all metrics in the OpenMetrics text format.
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
            phases: Default::default(),
            checks: Mutex::default(),
            failure: Mutex::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Starts a part of the service. When its token is cancelled, the part finishes its work and
    /// ends. A part that fails or panics stops the whole service, which is then restarted.
    pub fn spawn<F>(&self, phase: Phase, name: &'static str, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let process = self.clone();
        let parts = self.parts(phase);
        let part = AssertUnwindSafe(part(parts.stopping.clone())).catch_unwind();
        parts.tasks.spawn(
            async move {
                let result = part.await.unwrap_or_else(|_| Err(anyhow::anyhow!("{name} panicked")));
                if let Err(error) = result {
                    tracing::error!(part = name, error = format!("{error:#}"), "part of the service failed");
                    process.0.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    process.stop();
                }
            }
            .in_current_span(),
        );
    }

    fn parts(&self, phase: Phase) -> &PhaseParts {
        &self.0.phases[phase as usize]
    }

    /// Makes readiness false, so that callers move to another replica. All parts continue.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    /// Returns the token that is cancelled when callers should use another replica.
    pub fn draining(&self) -> CancellationToken {
        self.0.draining.clone()
    }

    /// Makes readiness false and begins the first phase of the stop.
    pub fn stop(&self) {
        self.drain();
        self.parts(Phase::Work).stopping.cancel();
    }

    /// Returns the token that is cancelled when the service must stop.
    pub fn stopping(&self) -> CancellationToken {
        self.parts(Phase::Work).stopping.clone()
    }

    /// Returns the token that is cancelled when all work is finished and delivered.
    pub fn stopped(&self) -> CancellationToken {
        self.parts(Phase::Monitoring).stopping.clone()
    }

    /// Waits for the stop signal, then for the parts of each phase, at most 32 s in total.
    ///
    /// # Errors
    /// If a part failed, or if the parts of a phase did not end in time.
    pub async fn finished(&self) -> anyhow::Result<()> {
        self.stopping().cancelled().await;
        let mut late = Vec::new();
        for phase in Phase::ALL {
            let parts = self.parts(phase);
            parts.stopping.cancel();
            parts.tasks.close();
            if tokio::time::timeout(phase.timeout(), parts.tasks.wait()).await.is_err() {
                late.push(phase);
            }
        }
        if let Some(failure) = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failure);
        }
        anyhow::ensure!(late.is_empty(), "phases did not end in time: {late:?}");
        Ok(())
    }

    pub fn add_readiness_check<F, Fut>(&self, name: &'static str, check: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: ReadinessCheck = Arc::new(move || Box::pin(check()));
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner).push((name, check));
    }

    /// Returns `Ok` if the service accepts work.
    ///
    /// # Errors
    /// One line for each condition that is not met.
    pub async fn check_readiness(&self) -> Result<(), Vec<String>> {
        if self.0.draining.is_cancelled() {
            return Err(vec!["stopping".to_owned()]);
        }
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut missing = Vec::new();
        for (name, check) in checks {
            match tokio::time::timeout(Duration::from_secs(2), check()).await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => missing.push(format!("{name}: {reason}")),
                Err(_) => missing.push(format!("{name}: no result in 2 s")),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Starts to report readiness as the metric `service_ready` of `role`.
    ///
    /// A replica that is not ready receives no requests, so no request fails in it. Without this
    /// metric, no alert could fire when every replica is not ready.
    pub fn report_readiness(&self, role: &'static str) {
        let ready = Gauge::<i64>::default();
        self.metrics().register(|registry| {
            let registry = registry.sub_registry_with_label(("role".into(), role.into()));
            registry.register("service_ready", "1 while the process accepts work, else 0", ready.clone());
        });
        let process = self.clone();
        self.spawn(Phase::Monitoring, "readiness metric", |stopping| async move {
            while !stopping.is_cancelled() {
                let update = async {
                    ready.set(process.check_readiness().await.is_ok().into());
                    tokio::time::sleep(READINESS_INTERVAL).await;
                };
                tokio::select! {
                    () = update => {}
                    () = stopping.cancelled() => {}
                }
            }
            Ok(())
        });
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::Notify;

    use super::{Phase, Process};

    /// RULE-ALL-061: a part that fails stops the process.
    #[tokio::test]
    async fn failed_part_stops_the_service_with_its_error() {
        let process = Process::new();
        process.spawn(Phase::Work, "part", |_| async { anyhow::bail!("broken") });
        assert_eq!(process.finished().await.unwrap_err().to_string(), "broken");
    }

    /// RULE-ALL-061: a part that panics stops the process.
    #[tokio::test]
    async fn panicked_part_stops_the_service() {
        let process = Process::new();
        process.spawn(Phase::Work, "part", |_| async { panic!("panic of the test") });
        assert_eq!(process.finished().await.unwrap_err().to_string(), "part panicked");
    }

    /// RULE-ALL-060: a draining process still serves.
    #[tokio::test]
    async fn draining_service_is_not_ready_and_continues() {
        let process = Process::new();
        assert_eq!(process.check_readiness().await, Ok(()));
        process.drain();
        assert_eq!(process.check_readiness().await, Err(vec!["stopping".to_owned()]));
        assert!(!process.stopping().is_cancelled());
    }

    /// RULE-ALL-052: the metric of a process says whether the process is ready, and ends with it.
    #[tokio::test]
    async fn readiness_is_a_metric_of_the_role() {
        for (result, value) in [(Ok(()), 1), (Err("unavailable".to_owned()), 0)] {
            let (process, checked) = (Process::new(), Arc::new(Notify::new()));
            let of_check = Arc::clone(&checked);
            process.add_readiness_check("database", move || {
                of_check.notify_one();
                std::future::ready(result.clone())
            });
            process.report_readiness("work");
            checked.notified().await;
            let metrics = process.metrics().encode().unwrap();
            let expected = format!("service_ready{{role=\"work\"}} {value}");
            assert!(metrics.lines().any(|line| line == expected), "{metrics}");
            process.stop();
            process.finished().await.unwrap();
        }
    }

    /// RULE-ALL-061: a stopping process is not ready and ends phase by phase.
    #[tokio::test]
    async fn stopping_service_is_not_ready_and_ends_phase_by_phase() {
        let process = Process::new();
        process.add_readiness_check("database", || async { Err("unavailable".to_owned()) });
        assert_eq!(process.check_readiness().await, Err(vec!["database: unavailable".to_owned()]));
        let order = Arc::new(Mutex::new(Vec::new()));
        for phase in [Phase::Monitoring, Phase::Delivery, Phase::Work] {
            let order = Arc::clone(&order);
            process.spawn(phase, "part", move |stopping| async move {
                stopping.cancelled().await;
                order.lock().unwrap().push(phase);
                Ok(())
            });
        }
        process.stop();
        assert_eq!(process.check_readiness().await, Err(vec!["stopping".to_owned()]));
        process.finished().await.unwrap();
        assert_eq!(*order.lock().unwrap(), [Phase::Work, Phase::Delivery, Phase::Monitoring]);
    }
}
