//! The jobs of one service and their workers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use db::Db;
use runtime::{Phase, Process};

use crate::job::{Job, POLL_INTERVAL};
use crate::metrics::{Metrics, WaitingJobs};
use crate::worker::Worker;

/// The jobs of one service, with the code that runs them.
pub struct Jobs {
    db: Db,
    workers: Vec<Worker>,
}

impl Jobs {
    pub fn new(db: Db) -> Self {
        Self { db, workers: Vec::new() }
    }

    /// Runs `run` for each job of `kind` within a second after it is due, in up to eight tasks per
    /// replica. Do not rename a kind, since rows are stored under it.
    ///
    /// A job that returns an error or panics is retried after 1, 2, 4, 8, 16 and then every 30 s.
    /// The number of attempts is not limited. Each pause varies at random by up to a quarter. The
    /// job also runs again if its process is killed. Only the transaction that calls
    /// [`Job::complete`] takes effect exactly once. Call other services between two transactions.
    #[must_use]
    pub fn due<F>(self, kind: &'static str, run: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with_worker(kind, None, POLL_INTERVAL, run)
    }

    /// Declares jobs like [`due`](Self::due). Jobs that other replicas scheduled start within
    /// `poll_interval` instead of a second.
    #[must_use]
    pub fn due_with_poll_interval<F>(
        self,
        kind: &'static str,
        poll_interval: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with_worker(kind, None, poll_interval, run)
    }

    /// Runs `run` in one replica at a time, and again one `period` after each success. A failure is
    /// retried as in [`due`](Self::due).
    ///
    /// The key of the job is empty. Call [`schedule`](crate::schedule) with that key to run it
    /// earlier.
    #[must_use]
    pub fn periodic<F>(
        self,
        kind: &'static str,
        period: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with_worker(kind, Some(period), period.min(POLL_INTERVAL), run)
    }

    fn with_worker<F>(
        mut self,
        kind: &'static str,
        period: Option<Duration>,
        poll_interval: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.workers.push(Worker {
            kind,
            period,
            poll_interval,
            run: Arc::new(move |job| Box::pin(run(job))),
        });
        self
    }

    /// Starts the workers as parts of `process`. When the process ends, the workers claim no more
    /// jobs and finish the running ones.
    pub fn start(self, process: &Process) {
        let kinds: Vec<_> = self.workers.iter().map(|worker| worker.kind).collect();
        let waiting = WaitingJobs::register(process.metrics(), self.db.clone(), kinds);
        process.spawn(Phase::Work, "job metrics", |stopping| waiting.run(stopping));
        for worker in self.workers {
            let (db, metrics) = (self.db.clone(), Metrics::register(process.metrics(), worker.kind));
            process.spawn(Phase::Work, worker.kind, |stopping| worker.work(db, metrics, stopping));
        }
    }
}
