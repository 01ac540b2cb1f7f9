//! A job as a row.

use std::fmt::Display;
use std::time::Duration;

use db::{Cached, Conn, Db, Error, Tx, Work};
use diesel::OptionalExtension;
use diesel::sql_types::{Array, BigInt, Double, Integer, Text, Timestamptz};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::worker::POLL;

/// A worker that was killed or frozen for longer has lost its job.
const LEASE: &str = "interval '5 seconds'";
/// The row of a job that is still this run's.
const MINE: &str = "kind = $1 and key = $2 and run = $3";

/// Has a job of this kind done at `due_at`, or at once where that is past: one for each key. Those that are scheduled
/// already are put to the new time; what is being worked on runs again, and the run under way is never [done](Job::done).
///
/// Comes after the locks that the change needs, as [`Job::done`] does, so that the two never wait for each other.
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
    let insert = diesel::sql_query(
        "insert into job (kind, key, due_at) select $1, key, $3 from (select distinct unnest($2) as key) as keys \
         order by key \
         on conflict (kind, key) do update set due_at = excluded.due_at, attempts = 0, run = null",
    );
    let insert = insert.bind::<Text, _>(kind).bind::<Array<Text>, _>(keys).bind::<Timestamptz, _>(due_at);
    Cached(insert).execute(tx.conn()).await?;
    // What is due later is found in time by those who look each second.
    if due_at <= runtime::clock::now() + POLL {
        tx.announce(Work::Jobs);
    }
    Ok(())
}

/// Has a job not done, if it is not yet; what is being worked on is never [done](Job::done).
pub async fn cancel(tx: &mut Tx, kind: &str, key: impl Display) -> Result<(), Error> {
    let delete = diesel::sql_query("delete from job where kind = $1 and key = $2");
    let delete = delete.bind::<Text, _>(kind).bind::<Text, _>(key.to_string());
    Cached(delete).execute(tx.conn()).await?;
    Ok(())
}

/// A job that is being worked on.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) kind: &'static str,
    pub(crate) every: Option<Duration>,
    /// What it is about; empty where it is periodic.
    pub key: String,
    /// 1 at the first attempt.
    pub attempts: i32,
    run: i64,
}

#[derive(diesel::QueryableByName)]
struct Taken {
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = BigInt)]
    run: i64,
    #[diesel(sql_type = Double)]
    late: f64,
}

impl Job {
    /// Marks the job as done together with what the transaction writes: the last thing in it. Without, it is marked when
    /// its run has answered `Ok`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where it was cancelled, scheduled anew or taken up by another meanwhile: then nothing
    /// of the transaction may be kept.
    pub async fn done(&self, tx: &mut Tx) -> Result<(), Error> {
        if self.finish(tx.conn()).await? {
            return Ok(());
        }
        Err(Error::Unavailable(format!("the job {} {} is not this run's any more", self.kind, self.key)))
    }

    /// Takes the one of a kind that has been due for longest, and how many seconds that is.
    pub(crate) async fn take(
        db: &Db,
        kind: &'static str,
        every: Option<Duration>,
    ) -> Result<Option<(Self, f64)>, Error> {
        let take = diesel::sql_query(format!(
            "with next as (select kind, key, due_at from job where kind = $1 and due_at <= clock_timestamp() \
             order by due_at limit 1 for update skip locked) \
             update job set due_at = clock_timestamp() + {LEASE}, attempts = attempts + 1, run = nextval('job_run') \
             from next where job.kind = next.kind and job.key = next.key \
             returning job.key, job.attempts, job.run, \
             extract(epoch from clock_timestamp() - next.due_at)::float8 as late"
        ));
        // Planned for as many rows as there are now: most of the time that is none.
        let take = take.bind::<Text, _>(kind);
        let taken = take.get_result::<Taken>(&mut db.conn().await?).await.optional()?;
        Ok(taken.map(|Taken { key, attempts, run, late }| (Self { kind, every, key, attempts, run }, late)))
    }

    /// Sees to it that there is the row of a periodic job, due no later than it asks for now.
    pub(crate) async fn provide(db: &Db, kind: &str, every: Duration) -> Result<(), Error> {
        let insert = diesel::sql_query(
            "insert into job (kind, key, due_at) values ($1, '', clock_timestamp()) on conflict (kind, key) do update \
             set due_at = least(job.due_at, clock_timestamp() + make_interval(secs => $2)) \
             where job.run is null",
        );
        let insert = insert.bind::<Text, _>(kind).bind::<Double, _>(every.as_secs_f64());
        insert.execute(&mut db.conn().await?).await?;
        Ok(())
    }

    /// Keeps the job for this run. `false`: it is not this run's any more.
    pub(crate) async fn keep(&self, db: &Db) -> Result<bool, Error> {
        let keep = format!("update job set due_at = clock_timestamp() + {LEASE} where {MINE}");
        let keep = diesel::sql_query(keep)
            .bind::<Text, _>(self.kind)
            .bind::<Text, _>(&self.key)
            .bind::<BigInt, _>(self.run);
        Ok(keep.execute(&mut db.conn().await?).await? == 1)
    }

    /// After a success. `false`: the job is not this run's any more.
    pub(crate) async fn finish(&self, conn: &mut Conn) -> Result<bool, Error> {
        let Some(every) = self.every else {
            let delete = diesel::sql_query(format!("delete from job where {MINE}"))
                .bind::<Text, _>(self.kind)
                .bind::<Text, _>(&self.key)
                .bind::<BigInt, _>(self.run);
            return Ok(Cached(delete).execute(conn).await? == 1);
        };
        self.put_off(conn, every, 0).await
    }

    /// After a failure: another attempt.
    pub(crate) async fn postpone(&self, conn: &mut Conn, pause: Duration) -> Result<bool, Error> {
        self.put_off(conn, pause, self.attempts).await
    }

    async fn put_off(&self, conn: &mut Conn, pause: Duration, attempts: i32) -> Result<bool, Error> {
        let put_off = diesel::sql_query(format!(
            "update job set due_at = clock_timestamp() + make_interval(secs => $4), attempts = $5, run = null \
             where {MINE}"
        ));
        let put_off = put_off
            .bind::<Text, _>(self.kind)
            .bind::<Text, _>(&self.key)
            .bind::<BigInt, _>(self.run)
            .bind::<Double, _>(pause.as_secs_f64())
            .bind::<Integer, _>(attempts);
        Ok(Cached(put_off).execute(conn).await? == 1)
    }
}
