//! The jobs of one service and their workers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use db::Db;
use runtime::{Phase, Process};

use crate::job::{Job, POLL_INTERVAL};
use crate::metrics::Metrics;
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

    /// Runs `run` for each job of a kind within a second after it is due, in up to eight tasks per
    /// replica. The kind never changes, since rows are stored under it.
    ///
    /// A job that returns an error or panics is retried after 1, 2, 4 … 30 s, without end. It also
    /// runs again after its process was killed. Only the writes of the transaction that calls
    /// [`Job::complete`] happen once. Calls to other services belong between two transactions.
    #[must_use]
    pub fn due<F>(self, kind: &'static str, run: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with(kind, None, POLL_INTERVAL, run)
    }

    /// Works as [`due`](Self::due), but polls for jobs of other replicas at `poll_interval`.
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
        self.with(kind, None, poll_interval, run)
    }

    /// Runs `run` in one replica at a time, again one `period` after each success. A failure is
    /// retried as in [`due`](Self::due).
    ///
    /// The job has the empty key. Scheduling that key makes it run earlier.
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
        self.with(kind, Some(period), period.min(POLL_INTERVAL), run)
    }

    fn with<F>(
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

    /// Starts the workers as parts of `process`. When it ends, they claim no more jobs and finish
    /// the running ones.
    pub fn start(self, process: &Process) {
        for worker in self.workers {
            let (db, metrics) = (self.db.clone(), Metrics::register(process.metrics(), worker.kind));
            process.spawn(Phase::Work, worker.kind, |ending| worker.work(db, metrics, ending));
        }
    }
}
