//! The lock that lets only one run of a command change a schema at a time.

use anyhow::bail;
use db::{Conn, Db};
use diesel::OptionalExtension;
use diesel::sql_types::{Bool, Integer, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};

/// Begins the transaction that holds the lock. Behind a pooler, a session lock could outlive this
/// command on a server connection. The idle transaction has no snapshot, so it delays no vacuum.
const BEGIN: &str = "begin; set local idle_in_transaction_session_timeout = 0";

/// Acquires the lock unless another session holds it.
const TRY_LOCK: &str = "select pg_try_advisory_xact_lock($1, hashtext(current_schema())) as is_acquired";

/// Selects the session that holds the lock. The session acquired the lock at the start of its
/// transaction, and has been idle since then.
const SELECT_HOLDER: &str = "\
    select format('session %s of %s, running since %s', pid, coalesce(host(client_addr), 'a local socket'), \
        date_trunc('second', xact_start)) as text \
    from pg_locks join pg_stat_activity using (pid) \
    where locktype = 'advisory' and granted and objsubid = 2 and classid = $1::oid \
        and objid = (hashtext(current_schema())::bigint & 4294967295)::oid \
        and database = (select oid from pg_database where datname = current_database())";

/// A command of which one run at a time is possible. The value is the first key of the lock: four
/// letters of the name in ASCII.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// "rest"
    Restored = 1_919_251_316,
    /// "grow"
    Grow = 1_735_552_887,
}

#[derive(diesel::QueryableByName)]
struct Lock {
    #[diesel(sql_type = Bool)]
    is_acquired: bool,
}

#[derive(diesel::QueryableByName)]
struct Holder {
    #[diesel(sql_type = Text)]
    text: String,
}

/// The lock of a run. The server releases it when the connection closes.
pub(super) struct RunLock {
    _conn: Conn,
}

impl RunLock {
    /// Acquires the lock. Fails at once if another run holds it.
    pub(super) async fn acquire(db: &Db, run: Run) -> anyhow::Result<Self> {
        let mut conn = db.connect().await?;
        conn.batch_execute(BEGIN).await?;
        let key = run as i32;
        let lock: Lock = diesel::sql_query(TRY_LOCK).bind::<Integer, _>(key).get_result(&mut conn).await?;
        if !lock.is_acquired {
            let holder = diesel::sql_query(SELECT_HOLDER).bind::<Integer, _>(key);
            let holder: Option<Holder> = holder.get_result(&mut conn).await.optional()?;
            let holder = holder.map_or_else(|| "a session that has just ended".to_owned(), |row| row.text);
            bail!("another run of this command has the lock: {holder}");
        }
        Ok(Self { _conn: conn })
    }
}
