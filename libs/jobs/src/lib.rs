//! What a service does by itself: *due* jobs, each at its time, and *periodic* ones.
//!
//! A due job is a row that is written in the transaction of the change that asks for it ([`schedule`]), one for
//! each kind and key, so it survives whatever becomes of the process. Any number of replicas work on the rows; each
//! job is with one of them at a time, by the database's clock. A [`Jobs`] says who does what.

mod job;
mod metrics;
mod worker;

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use db::Db;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use runtime::{Phase, Process};

pub use job::{Job, cancel, schedule};

use crate::metrics::Metrics;
use crate::worker::{POLL, Worker};

/// The table of this crate, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/jobs");

/// As the context of an error: who fails has said so already, once for all jobs that meet it. So the log has the attempts at debug
/// alone; they are counted as any that fail.
#[derive(Clone, Copy, Debug)]
pub struct KnownFailure;

impl Display for KnownFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a known failure")
    }
}

/// The jobs of one service.
pub struct Jobs {
    db: Db,
    workers: Vec<Worker>,
}

impl Jobs {
    /// Of the service whose jobs are in `db`.
    pub fn new(db: Db) -> Self {
        Self { db, workers: Vec::new() }
    }

    /// Has `run` do each job of a kind once it is due, eight at a time in a replica, within a second of its time.
    /// The name is never changed, since jobs are kept under it.
    ///
    /// A job that answers an error, or panics, is tried again, after 1 s and then ever later, up to 30 s. It may
    /// run again, too, after a process was killed: what it did in the same transaction as [`Job::done`] is done once.
    /// What it asks of other services it asks between two transactions.
    #[must_use]
    pub fn due<F>(self, kind: &'static str, run: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with(kind, None, POLL, run)
    }

    /// As [`due`](Self::due), where a replica looks for jobs that others have left `every` so long, not each second.
    #[must_use]
    pub fn due_within<F>(
        self,
        kind: &'static str,
        every: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with(kind, None, every, run)
    }

    /// Has one replica at a time do `run`, again `every` so long after it has succeeded; after a failure as a due
    /// job. It is the job with an empty key: who schedules that has it run sooner.
    #[must_use]
    pub fn periodic<F>(
        self,
        kind: &'static str,
        every: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.with(kind, Some(every), every.min(POLL), run)
    }

    fn with<F>(
        mut self,
        kind: &'static str,
        every: Option<Duration>,
        poll: Duration,
        run: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.workers.push(Worker { kind, every, poll, run: Arc::new(move |job| Box::pin(run(job))) });
        self
    }

    /// Works as parts of `process`. When that ends, no more is begun, and what is in hand is finished.
    pub fn start(self, process: &Process) {
        for worker in self.workers {
            let (db, metrics) = (self.db.clone(), Metrics::register(process.metrics(), worker.kind));
            process.spawn(Phase::Work, worker.kind, |ending| worker.work(db, metrics, ending));
        }
    }
}
