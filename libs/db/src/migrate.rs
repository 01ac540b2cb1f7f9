//! Migrations of a service's schema.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use diesel::connection::SimpleConnection;
use diesel::migration::Migration;
use diesel::pg::Pg;
use diesel::sql_types::{Bool, Integer, Text};
use diesel_async::AsyncPgConnection;
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness};
use tokio::runtime::Handle;

use crate::config::Config;
use crate::{conn, locale};

/// The first key of the advisory lock of a schema's migrations. ASCII: "migr".
const LOCK_CLASS: i32 = 0x6d69_6772;

/// The maximum wait for other migrations of the schema, and for the locks of a migration.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Limits one wait for a lock. Readers queue behind a waiting `alter table`.
const SHORT_LOCK_TIMEOUT: &str = "set lock_timeout = '200ms'";

/// Limits the last wait for a lock. PostgreSQL cancels an autovacuum only for a session that has
/// waited for `deadlock_timeout`, which is 1 s.
const LAST_LOCK_TIMEOUT: &str = "set lock_timeout = '1200ms'";

/// Limits the wait of a concurrent index build for old transactions. The limit is long, because no
/// session queues behind the build, and a failed build has to start again.
const BUILD_LOCK_TIMEOUT: &str = "set lock_timeout = '1h'";

/// The message of PostgreSQL for a wait that exceeded `lock_timeout`.
const LOCK_TIMEOUT: &str = "canceling statement due to lock timeout";

/// Pauses between two attempts, in milliseconds. The queue behind the lock empties in a pause.
const PAUSE_MS: std::ops::Range<u64> = 300..1_000;

/// The indexes that an interrupted concurrent build has left. An index of a build that is running
/// is invalid, too, and is excluded.
const SELECT_INVALID_INDEXES: &str = "\
    select format('%I.%I', nspname, relname) as text from pg_index \
    join pg_class on pg_class.oid = indexrelid join pg_namespace on pg_namespace.oid = relnamespace \
    where not indisvalid and relkind = 'i' and nspname = current_schema() \
        and indexrelid not in (select index_relid from pg_stat_progress_create_index \
            where index_relid is not null)";

/// The lock that a session waits for, and the sessions that hold it.
const SELECT_BLOCKERS: &str = "\
    select format('%s on %s, held by %s', waiting.mode, \
            coalesce(waiting.relation::regclass::text, waiting.locktype), \
            string_agg(format('session %s (%s, %s, transaction of %s)', blocker, \
                coalesce(nullif(application_name, ''), 'no application name'), \
                coalesce(state, backend_type, 'state unknown'), \
                coalesce(date_trunc('second', clock_timestamp() - xact_start)::text, 'unknown age')), \
                ', ')) as text \
    from pg_locks as waiting cross join unnest(pg_blocking_pids(waiting.pid)) as blocker \
    left join pg_stat_activity as activity on activity.pid = blocker \
    where waiting.pid = $1 and not waiting.granted \
    group by waiting.mode, waiting.relation, waiting.locktype";

/// The sessions that hold the lock of the schema's migrations.
const SELECT_LOCK_HOLDERS: &str = "\
    select coalesce(string_agg(format('session %s (%s)', pid, application_name), ', '), 'no session') as text \
    from pg_locks left join pg_stat_activity using (pid) \
    where locktype = 'advisory' and granted and objsubid = 2 and classid = $1::oid \
        and objid = (hashtext(current_setting('search_path'))::bigint & 4294967295)::oid \
        and database = (select oid from pg_database where datname = current_database())";

/// A connection for code that blocks, such as diesel's migrations.
type BlockingConn = AsyncConnectionWrapper<AsyncPgConnection>;

#[derive(diesel::QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    text: String,
}

/// Creates the schema and applies the pending migrations of each of `sources`. Safe to run from
/// several replicas at the same time.
///
/// # Errors
/// - The database is unavailable, or its messages are not English.
/// - A migration fails. It is rolled back unless it runs without a transaction.
/// - Another migration of the schema, or a lock on a table, blocks for longer than 60 s.
pub async fn migrate(
    config: &Config,
    sources: impl IntoIterator<Item = EmbeddedMigrations> + Send + 'static,
) -> anyhow::Result<()> {
    migrate_within(config, sources, MAX_WAIT).await
}

/// Migrates like [`migrate`], and waits for each lock for at most `max_wait`.
///
/// # Errors
/// Returns the errors of [`migrate`].
pub async fn migrate_within(
    config: &Config,
    sources: impl IntoIterator<Item = EmbeddedMigrations> + Send + 'static,
    max_wait: Duration,
) -> anyhow::Result<()> {
    let config = config.clone();
    let handle = Handle::current();
    // Diesel's migrations block, so they must not run on a thread that drives other tasks.
    tokio::task::spawn_blocking(move || {
        let mut conn = BlockingConn::from(handle.block_on(prepare(&config, max_wait))?);
        for source in sources {
            let pending = conn.pending_migrations(source).map_err(|error| anyhow!(error))?;
            for migration in &pending {
                apply(&mut conn, &config, &**migration, max_wait)
                    .with_context(|| format!("schema {}", config.schema))?;
                let version = migration.name().version();
                tracing::info!(schema = config.schema, %version, "migration applied");
            }
        }
        Ok(())
    })
    .await?
}

/// Connects, takes the lock of the schema's migrations and creates the schema if it is missing.
async fn prepare(config: &Config, max_wait: Duration) -> anyhow::Result<AsyncPgConnection> {
    use diesel_async::RunQueryDsl;

    let mut conn = connect(config).await?;
    // Building an index on a large table takes longer than any request may.
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await?;
    locale::ensure_english(&locale::message_locale(&mut conn).await?)?;
    acquire_lock(&mut conn, config.schema, max_wait).await?;
    let exists = diesel::select(diesel::dsl::sql::<Bool>(
        "exists (select from pg_namespace where nspname = current_setting('search_path'))",
    ))
    .get_result::<bool>(&mut conn)
    .await?;
    if !exists {
        diesel::sql_query(format!("create schema {}", config.schema)).execute(&mut conn).await?;
    }
    Ok(conn)
}

async fn connect(config: &Config) -> anyhow::Result<AsyncPgConnection> {
    conn::connect(config).await.context("failed to connect to the database")
}

/// Takes the lock of the schema's migrations, which is held until the connection closes.
///
/// The session polls for the lock. A statement that waits for it would keep a snapshot, and a
/// concurrent index build waits for all snapshots. The holder of the lock would then deadlock with
/// the waiting session.
async fn acquire_lock(conn: &mut AsyncPgConnection, schema: &str, max_wait: Duration) -> anyhow::Result<()> {
    use diesel_async::RunQueryDsl;

    let started_at = Instant::now();
    let try_lock = format!("pg_try_advisory_lock({LOCK_CLASS}, hashtext(current_setting('search_path')))");
    while !diesel::select(diesel::dsl::sql::<Bool>(&try_lock)).get_result::<bool>(conn).await? {
        if started_at.elapsed() >= max_wait {
            let holders = diesel::sql_query(SELECT_LOCK_HOLDERS).bind::<Integer, _>(LOCK_CLASS);
            let Line { text } = holders.get_result(conn).await?;
            anyhow::bail!(
                "another migration of schema {schema} has been running for more than {max_wait:?}: {text}"
            );
        }
        tokio::time::sleep(pause()).await;
    }
    Ok(())
}

fn pause() -> Duration {
    Duration::from_millis(rand::random_range(PAUSE_MS))
}

/// Applies a migration. A transactional migration is repeated until it gets its locks or `max_wait`
/// is over. Any other migration runs once.
fn apply(
    conn: &mut BlockingConn,
    config: &Config,
    migration: &dyn Migration<Pg>,
    max_wait: Duration,
) -> anyhow::Result<()> {
    if !migration.metadata().run_in_transaction() {
        conn.batch_execute(BUILD_LOCK_TIMEOUT)?;
        drop_invalid_indexes(conn)?;
        conn.run_migration(migration).map_err(|error| anyhow!(error))?;
        return Ok(());
    }
    conn.batch_execute(SHORT_LOCK_TIMEOUT)?;
    let started_at = Instant::now();
    while started_at.elapsed() < max_wait {
        match conn.run_migration(migration) {
            Ok(_) => return Ok(()),
            Err(error) if error.to_string().contains(LOCK_TIMEOUT) => std::thread::sleep(pause()),
            Err(error) => return Err(anyhow!(error)),
        }
    }
    apply_or_name_blockers(conn, config, migration)
}

/// Makes the last attempt to apply a migration, and adds the blocking sessions to its error.
fn apply_or_name_blockers(
    conn: &mut BlockingConn,
    config: &Config,
    migration: &dyn Migration<Pg>,
) -> anyhow::Result<()> {
    use diesel::RunQueryDsl;

    let Line { text: pid } = diesel::sql_query("select pg_backend_pid()::text as text").get_result(conn)?;
    let pid: i32 = pid.parse()?;
    conn.batch_execute(LAST_LOCK_TIMEOUT)?;
    let handle = Handle::current();
    let mut watcher = tokio::task::JoinSet::new();
    watcher.spawn_on(find_blockers(config.clone(), pid), &handle);
    let Err(error) = conn.run_migration(migration) else { return Ok(()) };
    let error = anyhow!(error);
    if !error.to_string().contains(LOCK_TIMEOUT) {
        return Err(error);
    }
    // The attempt is over, so the watcher can no longer find a blocking session.
    let found = handle.block_on(async {
        tokio::time::timeout(Duration::from_millis(100), watcher.join_next()).await.ok().flatten()
    });
    match found {
        Some(Ok(Ok(blockers))) => Err(error.context(format!("a migration waits for {blockers}"))),
        _ => Err(error.context("a migration waits for a lock of an unknown session")),
    }
}

/// Describes the lock that a session waits for, as soon as it waits.
async fn find_blockers(config: Config, pid: i32) -> anyhow::Result<String> {
    use diesel::OptionalExtension;
    use diesel_async::RunQueryDsl;

    let mut conn = connect(&config).await?;
    loop {
        let blockers = diesel::sql_query(SELECT_BLOCKERS).bind::<Integer, _>(pid);
        if let Some(Line { text }) = blockers.get_result(&mut conn).await.optional()? {
            return Ok(text);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Drops the invalid indexes of interrupted builds, so that the migration can build them again.
fn drop_invalid_indexes(conn: &mut BlockingConn) -> anyhow::Result<()> {
    use diesel::RunQueryDsl;

    let indexes: Vec<Line> = diesel::sql_query(SELECT_INVALID_INDEXES).load(conn)?;
    for Line { text: index } in indexes {
        conn.batch_execute(&format!("drop index concurrently if exists {index}"))?;
        tracing::warn!(index, "index of an interrupted build dropped");
    }
    Ok(())
}
