//! Reads from a read replica of the database, for callers that need not see their own recent
//! writes.

use std::collections::VecDeque;
use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::RunQueryDsl;
use runtime::{Phase, Process};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::conn::Conn;
use crate::db::Db;
use crate::error::Error;
use crate::pipelined::PipelinedConn;

/// The age of the oldest state that a read replica may show.
const MAX_LAG: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The timeout of one check, after which the read replica counts as down.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Selects the id of the server, its position in the write-ahead log in bytes, and its timeline.
/// The timeline of a standby is empty, since a standby does not know it.
const SELECT_WAL_STATE: &str = "\
    select (select system_identifier from pg_control_system()) as system, pg_is_in_recovery() as is_standby, \
      coalesce(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end \
        - '0/0'::pg_lsn, 0)::bigint as position, \
      case when pg_is_in_recovery() then '' else left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline";

/// A read replica of the database, which serves reads while it is up and close to the primary.
#[derive(Clone)]
pub struct ReadReplica {
    config: Config,
    db: Db,
    is_usable: watch::Receiver<bool>,
}

/// The reads of one worker thread from a read replica.
pub struct ReplicaReads {
    replica: ReadReplica,
    lookups: PipelinedConn,
}

#[derive(diesel::QueryableByName)]
struct WalState {
    #[diesel(sql_type = BigInt)]
    system: i64,
    #[diesel(sql_type = Bool)]
    is_standby: bool,
    #[diesel(sql_type = BigInt)]
    position: i64,
    #[diesel(sql_type = Text)]
    timeline: String,
}

impl ReadReplica {
    /// Starts to compare the read replica at `config` with `primary`. The read replica serves reads
    /// after the first comparison.
    ///
    /// # Errors
    /// If the pool cannot be built.
    pub fn start(config: Config, primary: Db, process: &Process) -> anyhow::Result<Self> {
        let db = Db::new(&config)?;
        let (usable, is_usable) = watch::channel(false);
        let checks = Checks { primary, replica: db.clone(), conns: None, samples: VecDeque::new() };
        process.spawn(Phase::Work, "read replica checks", |stopping| checks.run(usable, stopping));
        let idle = db.clone();
        process.spawn(Phase::Work, "idle connections of the read replica", |stopping| {
            idle.close_idle_repeatedly(stopping)
        });
        Ok(Self { config, db, is_usable })
    }

    /// Returns the reads of one worker thread.
    pub fn reads(&self) -> ReplicaReads {
        let lookups = PipelinedConn::new(&self.config, self.db.clone());
        ReplicaReads { replica: self.clone(), lookups }
    }

    /// Runs a read. Returns `None` if the read replica cannot serve it, or becomes unusable before
    /// the result.
    async fn attempt<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Option<Result<T, Error>> {
        let mut is_usable = self.is_usable.clone();
        if !*is_usable.borrow_and_update() {
            return None;
        }
        tokio::select! {
            result = read => match result {
                // The statement would take as long on the primary.
                Err(error) if error.is_statement_timeout() => Some(Err(error)),
                Err(Error::Unavailable(_)) => None,
                result => Some(result),
            },
            _ = is_usable.wait_for(|is_usable| !is_usable) => None,
        }
    }
}

impl ReplicaReads {
    /// Runs a lookup by key, as [`PipelinedConn::run`] does. Returns `None` if the caller has to
    /// use the primary.
    pub async fn look_up<T>(
        &self,
        lookup: impl AsyncFn(&Conn) -> QueryResult<T>,
    ) -> Option<Result<T, Error>> {
        self.replica.attempt(self.lookups.run(lookup)).await
    }

    /// Runs any other read on a connection of the pool. Returns `None` if the caller has to use the
    /// primary.
    pub async fn query<T, E: Into<Error>>(
        &self,
        query: impl AsyncFn(&Conn) -> Result<T, E>,
    ) -> Option<Result<T, Error>> {
        let read = async { query(&*self.replica.db.conn().await?).await.map_err(Into::into) };
        self.replica.attempt(read).await
    }
}

/// The comparison of the read replica with the primary.
///
/// A standby that has lost its primary does not know how old its state is. The check therefore
/// samples the positions of the primary. A read replica is close enough if it has replayed one of
/// the samples.
struct Checks {
    primary: Db,
    replica: Db,
    /// The connections to the primary and to the read replica. They are outside the pools, since a
    /// pool may be exhausted.
    conns: Option<(Conn, Conn)>,
    /// The positions of the primary within the last [`MAX_LAG`], with the times of the samples.
    samples: VecDeque<(Instant, i64)>,
}

impl Checks {
    /// Never fails. [`Process::spawn`] requires the `Result`.
    async fn run(mut self, usable: watch::Sender<bool>, stopping: CancellationToken) -> anyhow::Result<()> {
        loop {
            let checked = timeout(CHECK_TIMEOUT, self.check()).await;
            let checked =
                checked.unwrap_or_else(|_| Err(Error::Unavailable("no response in time".to_owned())));
            if checked.is_err() {
                self.conns = None;
            }
            let is_usable = matches!(checked, Ok(true));
            if usable.send_replace(is_usable) != is_usable {
                match checked {
                    Ok(true) => tracing::info!("reads of guests moved to the read replica"),
                    Ok(false) => tracing::warn!("read replica lags; reads of guests moved to the primary"),
                    Err(error) => tracing::warn!(
                        %error,
                        "failed to check the read replica; reads of guests moved to the primary"
                    ),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    }

    /// Returns true if the read replica is a copy of the primary and lags by at most [`MAX_LAG`].
    async fn check(&mut self) -> Result<bool, Error> {
        let (primary, replica) = match &mut self.conns {
            Some(conns) => conns,
            None => self.conns.insert((self.primary.connect().await?, self.replica.connect().await?)),
        };
        let sampled_at = Instant::now();
        let primary_state = select_wal_state(primary).await?;
        let replica_state = select_wal_state(replica).await?;
        self.samples.retain(|(sampled_at, _)| sampled_at.elapsed() <= MAX_LAG);
        if !primary_state.is_standby {
            self.samples.push_back((sampled_at, primary_state.position));
        }
        // A standby that was promoted by mistake has another timeline, and may be ahead.
        let is_related = primary_state.system == replica_state.system
            && (replica_state.is_standby || primary_state.timeline == replica_state.timeline);
        Ok(is_related && self.samples.iter().any(|(_, position)| *position <= replica_state.position))
    }
}

async fn select_wal_state(conn: &mut Conn) -> QueryResult<WalState> {
    diesel::sql_query(SELECT_WAL_STATE).get_result(conn).await
}
