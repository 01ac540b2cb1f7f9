//! What works on the jobs of one kind, in one replica.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use db::{Committed, Db, Work};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::metrics::Metrics;
use crate::{Job, KnownFailure};

/// How often it looks where nothing else is said.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// Jobs that are under way together.
const AT_ONCE: usize = 8;
/// How often a run tells that it still lives.
const RENEWAL: Duration = Duration::from_secs(1);
/// Waits between attempts grow to this.
const MAX_PAUSE: Duration = Duration::from_secs(30);

type Run = Arc<dyn Fn(Job) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// The jobs of one kind, and what does them.
pub(crate) struct Worker {
    pub kind: &'static str,
    /// `None`: each at its time, once.
    pub every: Option<Duration>,
    /// How often it looks whether something has become due.
    pub poll: Duration,
    pub run: Run,
}

impl Worker {
    /// Works until `ending`, then finishes what is in hand.
    ///
    /// # Errors
    /// None today; the signature is that of a part of a service.
    pub async fn work(self, db: Db, metrics: Metrics, ending: CancellationToken) -> anyhow::Result<()> {
        let (worker, db, metrics, ending) = (&self, &db, &metrics, &ending);
        if let Some(every) = self.every {
            tokio::select! {
                () = provide(db, self.kind, every) => {}
                () = ending.cancelled() => return Ok(()),
            }
        }
        let jobs = stream::unfold(db.committed(Work::Jobs), |mut committed| async move {
            let job = worker.next(db, &mut committed, ending).await?;
            Some((job, committed))
        });
        jobs.for_each_concurrent(AT_ONCE, |(job, late)| {
            metrics.late.observe(late);
            let span = tracing::info_span!(
                "job",
                otel.name = format!("job {}", job.kind),
                job = job.kind,
                key = job.key,
                attempts = job.attempts
            );
            worker.attempt(db, metrics, job).instrument(span)
        })
        .await;
        Ok(())
    }

    /// The next job, once there is one, and how many seconds late that is. `None`: it is time to end.
    async fn next(
        &self,
        db: &Db,
        committed: &mut Committed,
        ending: &CancellationToken,
    ) -> Option<(Job, f64)> {
        while !ending.is_cancelled() {
            match Job::take(db, self.kind, self.every).await {
                Ok(Some(job)) => return Some(job),
                Ok(None) => {}
                Err(error) => tracing::warn!(job = self.kind, %error, "jobs cannot be asked for"),
            }
            tokio::select! {
                () = committed.wait() => {}
                () = tokio::time::sleep(self.poll) => {}
                () = ending.cancelled() => {}
            }
        }
        None
    }

    /// Does the job once; a failure is logged, and it is put off.
    async fn attempt(&self, db: &Db, metrics: &Metrics, job: Job) {
        let began = Instant::now();
        let run = async { (self.run)(job.clone()).await };
        let result = tokio::select! {
            result = AssertUnwindSafe(run).catch_unwind() => result,
            () = keep(db, &job) => Ok(Err(anyhow::anyhow!("it was scheduled anew, cancelled or taken up by another"))),
        };
        metrics.seconds.observe(began.elapsed().as_secs_f64());
        let settled = match result.unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))) {
            Ok(()) => {
                metrics.done.inc();
                async { job.finish(&mut *db.conn().await?).await }.await
            }
            Err(error) => {
                metrics.failed.inc();
                let pause = Duration::from_secs(1 << (job.attempts - 1).clamp(0, 5)).min(MAX_PAUSE);
                let (is_known, error) = (error.is::<KnownFailure>(), format!("{error:#}"));
                if is_known {
                    tracing::debug!(
                        job = job.kind,
                        key = job.key,
                        error,
                        ?pause,
                        "a job will be tried again"
                    );
                } else {
                    tracing::warn!(job = job.kind, key = job.key, error, ?pause, "a job will be tried again");
                }
                async { job.postpone(&mut *db.conn().await?, pause).await }.await
            }
        };
        if let Err(error) = settled {
            tracing::warn!(job = job.kind, key = job.key, %error, "a job will be run again");
        }
    }
}

/// Sees to it that a periodic job has its row.
async fn provide(db: &Db, kind: &str, every: Duration) {
    while let Err(error) = Job::provide(db, kind, every).await {
        tracing::warn!(job = kind, %error, "a periodic job cannot begin");
        tokio::time::sleep(POLL).await;
    }
}

/// Keeps the job from others for as long as it is worked on; ends when it is no longer this run's.
async fn keep(db: &Db, job: &Job) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        match job.keep(db).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(job = job.kind, key = job.key, %error, "a job may be taken up by another");
            }
        }
    }
}
