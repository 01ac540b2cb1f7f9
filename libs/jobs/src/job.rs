//! A job as a row of the table `job`.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use db::{CommitSignal, Conn, Db, Error, Prepared, Tx};
use diesel::OptionalExtension;
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, Text, Timestamptz};
use diesel_async::RunQueryDsl;
use opentelemetry::{Context, global};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

/// Wakes the workers of this process after a commit that scheduled a job.
pub(crate) const JOBS_SCHEDULED: CommitSignal = CommitSignal("jobs");

/// The default interval at which a worker polls for due jobs.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The duration of a lease. A worker that is killed, or frozen for longer, loses its job.
const LEASE: &str = "interval '5 seconds'";
/// The header of the W3C Trace Context.
const TRACEPARENT: &str = "traceparent";
/// The condition that the row of the job still has the number of this run.
const IS_THIS_RUN: &str = "kind = $1 and key = $2 and run = $3";

/// Schedules a job for each of `keys` at `due_at`, or immediately if that time has passed.
///
/// An already scheduled job gets the new time. A running job runs again, and its current run cannot
/// be [completed](Job::complete).
///
/// A job that is due at once runs in the trace of the change that schedules it. A later job has a
/// trace of its own, since a trace that spans days is hard to read.
///
/// Call this function after the change has taken its locks. [`Job::complete`] also locks the job
/// last, so the two never deadlock.
pub async fn schedule<K: Display>(
    tx: &mut Tx,
    kind: &str,
    keys: impl IntoIterator<Item = K>,
    due_at: OffsetDateTime,
) -> Result<(), Error> {
    let keys: Vec<String> = keys.into_iter().map(|key| key.to_string()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    // A job that is due within the poll interval counts as due at once. Polling finds later jobs.
    let is_due = due_at <= runtime::clock::now() + POLL_INTERVAL;
    let insert = diesel::sql_query(
        "insert into job (kind, key, due_at, traceparent) \
         select $1, key, $3, $4 from (select distinct unnest($2) as key) as keys order by key \
         on conflict (kind, key) do update \
         set due_at = excluded.due_at, attempts = 0, run = null, traceparent = excluded.traceparent",
    );
    let insert = insert
        .bind::<Text, _>(kind)
        .bind::<Array<Text>, _>(keys)
        .bind::<Timestamptz, _>(due_at)
        .bind::<Nullable<Text>, _>(is_due.then(current_traceparent).flatten());
    Prepared(insert).execute(tx.conn()).await?;
    if is_due {
        tx.notify_on_commit(JOBS_SCHEDULED);
    }
    Ok(())
}

/// Returns the current trace and span in the format of `traceparent`.
fn current_traceparent() -> Option<String> {
    let mut trace = HashMap::new();
    let current = Context::current();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&current, &mut trace));
    trace.remove(TRACEPARENT)
}

/// Cancels a job, if it exists. Its current run cannot be [completed](Job::complete).
pub async fn cancel(tx: &mut Tx, kind: &str, key: impl Display) -> Result<(), Error> {
    let delete = diesel::sql_query("delete from job where kind = $1 and key = $2");
    let delete = delete.bind::<Text, _>(kind).bind::<Text, _>(key.to_string());
    Prepared(delete).execute(tx.conn()).await?;
    Ok(())
}

/// A job that a worker of this process has claimed.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) kind: &'static str,
    /// The period of a periodic job.
    pub(crate) period: Option<Duration>,
    /// The subject of the job. Empty for a periodic job. Logs have its hash, because a key may
    /// contain the id of a user.
    pub key: String,
    /// The number of this attempt, from 1.
    pub attempts: i32,
    /// The number of this run. The row has another number after a later claim, and none after a new
    /// schedule or the end of the run.
    run: i64,
    traceparent: Option<String>,
    /// Cancelled when the process ends.
    stopping: CancellationToken,
}

/// The process ends before the job has finished.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the process ends")]
pub struct Interrupted;

#[derive(diesel::QueryableByName)]
struct ClaimedRow {
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = BigInt)]
    run: i64,
    #[diesel(sql_type = Nullable<Text>)]
    traceparent: Option<String>,
    #[diesel(sql_type = Double)]
    delay_seconds: f64,
}

impl Job {
    /// Returns an error if the process ends. A job with several steps calls this method between
    /// them and returns the error. Another replica then continues the job at once.
    ///
    /// # Errors
    /// [`Interrupted`] if the process ends.
    pub fn check_stopping(&self) -> Result<(), Interrupted> {
        if self.stopping.is_cancelled() { Err(Interrupted) } else { Ok(()) }
    }

    /// Completes the job together with the writes of `tx`. The call must be the last statement of
    /// `tx`.
    ///
    /// A job that never calls this method is completed after its run has returned `Ok`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the job was cancelled, scheduled again or claimed by another
    /// worker during this run. The caller must then roll back `tx`.
    pub async fn complete(&self, tx: &mut Tx) -> Result<(), Error> {
        if self.try_complete(tx.conn()).await? {
            return Ok(());
        }
        let Self { kind, .. } = self;
        Err(Error::Unavailable(format!(
            "the job {kind} with the key hash {} belongs to another run",
            self.key_hash()
        )))
    }

    /// Returns the trace of the change that scheduled the job, or `None` for a trace of its own.
    pub(crate) fn trace(&self) -> Option<Context> {
        let trace = HashMap::from([(TRACEPARENT.to_owned(), self.traceparent.clone()?)]);
        Some(global::get_text_map_propagator(|propagator| propagator.extract(&trace)))
    }

    /// Returns the beginning of the SHA-256 of the key, which identifies the job in the log.
    pub(crate) fn key_hash(&self) -> String {
        let hash = Sha256::digest(&self.key).0;
        format!("{:016x}", hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first)))
    }

    /// Claims the job of `kind` that has been due for the longest time. Returns it with its delay
    /// in seconds.
    pub(crate) async fn claim(
        db: &Db,
        kind: &'static str,
        period: Option<Duration>,
        stopping: &CancellationToken,
    ) -> Result<Option<(Self, f64)>, Error> {
        let claim = diesel::sql_query(format!(
            "with next as (select kind, key, due_at from job where kind = $1 and due_at <= clock_timestamp() \
             order by due_at limit 1 for update skip locked) \
             update job set due_at = clock_timestamp() + {LEASE}, attempts = attempts + 1, run = nextval('job_run') \
             from next where job.kind = next.kind and job.key = next.key \
             returning job.key, job.attempts, job.run, job.traceparent, \
             extract(epoch from clock_timestamp() - next.due_at)::float8 as delay_seconds"
        ));
        // Not `Prepared`: the plan must fit the current number of rows, which is usually zero.
        let claim = claim.bind::<Text, _>(kind);
        let row = claim.get_result::<ClaimedRow>(&mut db.conn().await?).await.optional()?;
        Ok(row.map(|ClaimedRow { key, attempts, run, traceparent, delay_seconds }| {
            (
                Self { kind, period, key, attempts, run, traceparent, stopping: stopping.clone() },
                delay_seconds,
            )
        }))
    }

    /// Ensures that a periodic job has a row, which is due within one period. A running job keeps
    /// its lease.
    pub(crate) async fn ensure_scheduled(db: &Db, kind: &str, period: Duration) -> Result<(), Error> {
        let insert = diesel::sql_query(
            "insert into job (kind, key, due_at) values ($1, '', clock_timestamp()) on conflict (kind, key) do update \
             set due_at = least(job.due_at, clock_timestamp() + make_interval(secs => $2)) \
             where job.run is null",
        );
        let insert = insert.bind::<Text, _>(kind).bind::<Double, _>(period.as_secs_f64());
        insert.execute(&mut db.conn().await?).await?;
        Ok(())
    }

    /// Renews the lease. Returns false if the job belongs to another run.
    pub(crate) async fn renew(&self, db: &Db) -> Result<bool, Error> {
        let renew = format!("update job set due_at = clock_timestamp() + {LEASE} where {IS_THIS_RUN}");
        let renew = diesel::sql_query(renew)
            .bind::<Text, _>(self.kind)
            .bind::<Text, _>(&self.key)
            .bind::<BigInt, _>(self.run);
        Ok(renew.execute(&mut db.conn().await?).await? == 1)
    }

    /// Deletes the job after a success, or reschedules it if it is periodic. Returns false if the
    /// job belongs to another run.
    pub(crate) async fn try_complete(&self, conn: &mut Conn) -> Result<bool, Error> {
        let Some(period) = self.period else {
            let delete = diesel::sql_query(format!("delete from job where {IS_THIS_RUN}"))
                .bind::<Text, _>(self.kind)
                .bind::<Text, _>(&self.key)
                .bind::<BigInt, _>(self.run);
            return Ok(Prepared(delete).execute(conn).await? == 1);
        };
        self.reschedule(conn, period, 0).await
    }

    /// Schedules another attempt after a failure. Returns false if the job belongs to another run.
    pub(crate) async fn retry_after(&self, conn: &mut Conn, delay: Duration) -> Result<bool, Error> {
        self.reschedule(conn, delay, self.attempts).await
    }

    /// Makes the job due at once after its run was interrupted. The attempt does not count. Returns
    /// false if the job belongs to another run.
    pub(crate) async fn resume_elsewhere(&self, conn: &mut Conn) -> Result<bool, Error> {
        self.reschedule(conn, Duration::ZERO, self.attempts - 1).await
    }

    async fn reschedule(&self, conn: &mut Conn, delay: Duration, attempts: i32) -> Result<bool, Error> {
        let update = diesel::sql_query(format!(
            "update job set due_at = clock_timestamp() + make_interval(secs => $4), attempts = $5, run = null \
             where {IS_THIS_RUN}"
        ));
        let update = update
            .bind::<Text, _>(self.kind)
            .bind::<Text, _>(&self.key)
            .bind::<BigInt, _>(self.run)
            .bind::<Double, _>(delay.as_secs_f64())
            .bind::<Integer, _>(attempts);
        Ok(Prepared(update).execute(conn).await? == 1)
    }
}
