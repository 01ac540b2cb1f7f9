//! The worker of the jobs of one kind, in one replica.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use db::{CommitListener, Db};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::job::{Interrupted, JOBS_SCHEDULED, Job, POLL_INTERVAL};
use crate::metrics::Metrics;

/// The number of jobs of a kind that a replica runs at the same time.
const CONCURRENCY: usize = 8;
/// The interval at which a run renews its lease.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The maximum random deviation of a retry delay, as a fraction of the delay.
const RETRY_JITTER: f64 = 0.25;

/// An error that the service has logged once for all affected jobs. Displays the wrapped error.
///
/// The worker logs each such attempt at debug level. The metrics count the attempt as a failure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AlreadyLogged(anyhow::Error);

impl AlreadyLogged {
    /// Wraps an error, so that the worker logs it at debug level.
    pub fn wrap(error: anyhow::Error) -> anyhow::Error {
        Self(error).into()
    }
}

type Run = Arc<dyn Fn(Job) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// The jobs of one kind, with the code that runs them.
pub(crate) struct Worker {
    pub kind: &'static str,
    /// The period of periodic jobs. `None` for due jobs.
    pub period: Option<Duration>,
    pub poll_interval: Duration,
    pub run: Run,
}

impl Worker {
    /// Runs jobs until `stopping`, then finishes the running ones.
    ///
    /// Never fails. [`Process::spawn`](runtime::Process::spawn) requires the `Result`.
    pub async fn work(self, db: Db, metrics: Metrics, stopping: CancellationToken) -> anyhow::Result<()> {
        let (worker, db, metrics, stopping) = (&self, &db, &metrics, &stopping);
        if let Some(period) = self.period {
            tokio::select! {
                () = ensure_scheduled(db, self.kind, period) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
        let jobs = stream::unfold(db.listen(JOBS_SCHEDULED), |mut commits| async move {
            let job = worker.next(db, &mut commits, stopping).await?;
            Some((job, commits))
        });
        jobs.for_each_concurrent(CONCURRENCY, |(job, delay_seconds)| {
            metrics.delay_seconds.observe(delay_seconds);
            let span = tracing::info_span!(
                "job",
                otel.name = format!("job {}", job.kind),
                job = job.kind,
                key_hash = job.key_hash(),
                attempts = job.attempts
            );
            if let Some(trace) = job.trace() {
                // Setting the parent fails for a span that is filtered out.
                let _ = span.set_parent(trace);
            }
            worker.attempt(db, metrics, job).instrument(span)
        })
        .await;
        Ok(())
    }

    /// Waits for the next due job. Returns it with its delay in seconds, or `None` after
    /// `stopping`.
    async fn next(
        &self,
        db: &Db,
        commits: &mut CommitListener,
        stopping: &CancellationToken,
    ) -> Option<(Job, f64)> {
        while !stopping.is_cancelled() {
            match Job::claim(db, self.kind, self.period, stopping).await {
                Ok(Some(job)) => return Some(job),
                Ok(None) => {}
                Err(error) => tracing::warn!(job = self.kind, %error, "failed to poll jobs"),
            }
            tokio::select! {
                () = commits.wait() => {}
                () = tokio::time::sleep(self.poll_interval) => {}
                () = stopping.cancelled() => {}
            }
        }
        None
    }

    /// Runs the job once. After a failure it logs the error and schedules the retry.
    async fn attempt(&self, db: &Db, metrics: &Metrics, job: Job) {
        let started_at = Instant::now();
        let run = async { (self.run)(job.clone()).await };
        let result = tokio::select! {
            result = AssertUnwindSafe(run).catch_unwind() => result,
            () = renew_until_lost(db, &job) => {
                Ok(Err(anyhow::anyhow!("the job was scheduled again, cancelled or claimed by another worker")))
            }
        };
        metrics.duration_seconds.observe(started_at.elapsed().as_secs_f64());
        let settled = match result.unwrap_or_else(|_| Err(anyhow::anyhow!("the job panicked"))) {
            Ok(()) => {
                metrics.done.inc();
                async { job.try_complete(&mut *db.conn().await?).await }.await
            }
            Err(error) if error.is::<Interrupted>() => {
                tracing::info!(
                    job = job.kind,
                    key_hash = job.key_hash(),
                    "job interrupted by the end of the process"
                );
                async { job.resume_elsewhere(&mut *db.conn().await?).await }.await
            }
            Err(error) => {
                metrics.failed.inc();
                let delay = retry_delay(job.attempts);
                let (is_logged, error) = (error.is::<AlreadyLogged>(), format!("{error:#}"));
                if is_logged {
                    tracing::debug!(job = job.kind, key_hash = job.key_hash(), error, pause = ?delay, "job failed, retrying");
                } else {
                    tracing::warn!(job = job.kind, key_hash = job.key_hash(), error, pause = ?delay, "job failed, retrying");
                }
                async { job.retry_after(&mut *db.conn().await?, delay).await }.await
            }
        };
        if let Err(error) = settled {
            tracing::warn!(job = job.kind, key_hash = job.key_hash(), %error, "failed to complete or reschedule a job; it will run again");
        }
    }
}

/// Returns the pause after a failed attempt. Jobs that failed together are retried at different
/// times.
fn retry_delay(attempts: i32) -> Duration {
    let delay = Duration::from_secs(1 << (attempts - 1).clamp(0, 5)).min(MAX_RETRY_DELAY);
    delay.mul_f64(rand::random_range(1.0 - RETRY_JITTER..1.0 + RETRY_JITTER))
}

/// Ensures that a periodic job has its row. Retries until the database is available.
async fn ensure_scheduled(db: &Db, kind: &str, period: Duration) {
    while let Err(error) = Job::ensure_scheduled(db, kind, period).await {
        tracing::warn!(job = kind, %error, "failed to schedule a periodic job");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Renews the lease until the job belongs to another run.
async fn renew_until_lost(db: &Db, job: &Job) {
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        match job.renew(db).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(job = job.kind, key_hash = job.key_hash(), %error, "failed to renew the lease of a job");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::{Context, anyhow};

    use super::{AlreadyLogged, retry_delay};

    #[test]
    fn retry_delay_of_a_failing_job_doubles_up_to_thirty_seconds() {
        for (attempts, seconds) in [(1, 1), (2, 2), (5, 16), (6, 30), (1_000, 30)] {
            let delays: Vec<_> = (0..200).map(|_| retry_delay(attempts)).collect();
            let delay = Duration::from_secs(seconds);
            let range = delay.mul_f64(0.75)..delay.mul_f64(1.25);
            assert!(delays.iter().all(|delay| range.contains(delay)), "{attempts}: {delays:?}");
            assert!(delays.iter().any(|other| *other != delays[0]), "{attempts}: all delays are equal");
        }
    }

    #[test]
    fn wrapped_error_keeps_its_text_and_is_found_behind_a_context() {
        let error = AlreadyLogged::wrap(anyhow!("connection refused").context("failed to call"));
        assert_eq!(format!("{error:#}"), "failed to call: connection refused");
        let error = Err::<(), _>(error).context("failed to list").unwrap_err();
        assert!(error.is::<AlreadyLogged>());
    }
}
