//! Migrations of a service's schema.
//!
//! A statement that waits for a lock makes all later readers and writers of the table wait behind
//! it. Each wait is therefore short, and a migration that waited too long runs again after a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use diesel::connection::SimpleConnection;
use diesel::migration::Migration;
use diesel::pg::Pg;
use diesel::sql_types::{Bool, Double, Integer, Text};
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness};

use crate::config::Config;
use crate::locale;

/// The class of the advisory locks that serialize the migrations of a schema. ASCII: "migr".
const LOCK_CLASS: i32 = 0x6d69_6772;
/// Timeout of the wait for another migration of the schema, which may build a large index.
const OTHER_MIGRATION_TIMEOUT: &str = "15min";
/// Timeout of a wait for a lock on a table, within a transaction.
const LOCK_TIMEOUT: &str = "200ms";
/// Time for which a migration is repeated after timeouts.
const LOCK_RETRY_TIME: Duration = Duration::from_secs(30);
/// Pause before a repetition in milliseconds. It is random, since several services may wait for the
/// same session, such as a backup.
const LOCK_RETRY_PAUSE_MS: std::ops::Range<u64> = 500..1500;
/// Number of sessions in the error of a migration that got no lock.
const NAMED_SESSIONS: usize = 3;

type Connection = AsyncConnectionWrapper<AsyncPgConnection>;

/// Creates the schema and applies the pending migrations of each of `sources`. Safe to run from
/// several replicas at the same time.
///
/// A migration without a transaction (`run_in_transaction = false` in its `metadata.toml`) has one
/// statement, `create index concurrently if not exists`. Invalid indexes of interrupted builds are
/// dropped first.
///
/// # Errors
/// - The database is unavailable, or its messages are not English.
/// - A migration fails; it is rolled back.
/// - A migration waits in vain for a lock. The error names the oldest transactions.
/// - Another migration of the schema runs for more than 15 minutes.
pub async fn migrate(
    config: &Config,
    sources: impl IntoIterator<Item = EmbeddedMigrations> + Send + 'static,
) -> anyhow::Result<()> {
    let config = config.clone();
    let handle = tokio::runtime::Handle::current();
    // The migration harness blocks, so it must not run on a thread that drives other tasks.
    tokio::task::spawn_blocking(move || {
        let mut conn = Connection::from(handle.block_on(prepare(&config))?);
        for source in sources {
            let pending = conn.pending_migrations(source).map_err(|error| anyhow!(error))?;
            for migration in &pending {
                apply(&mut conn, &**migration).with_context(|| format!("schema {}", config.schema))?;
                tracing::info!(schema = config.schema, version = %migration.name(), "migration applied");
            }
        }
        Ok(())
    })
    .await?
}

/// Connects, takes the lock of the schema and creates the schema if it is missing.
async fn prepare(config: &Config) -> anyhow::Result<AsyncPgConnection> {
    let mut conn = AsyncPgConnection::establish(&config.connection_url())
        .await
        .context("failed to connect to the database")?;
    locale::ensure_english(&locale::message_locale(&mut conn).await?)?;
    // Building an index on a large table takes longer than any request may.
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await?;
    diesel::sql_query(format!("set lock_timeout = '{OTHER_MIGRATION_TIMEOUT}'")).execute(&mut conn).await?;
    // Held until this connection closes.
    diesel::sql_query("select pg_advisory_lock($1, hashtext($2))")
        .bind::<Integer, _>(LOCK_CLASS)
        .bind::<Text, _>(&config.schema)
        .execute(&mut conn)
        .await
        .context("another migration of the schema is running")?;
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

fn apply(conn: &mut Connection, migration: &dyn Migration<Pg>) -> anyhow::Result<()> {
    if !migration.metadata().run_in_transaction() {
        // A concurrent build waits for older transactions, and no other session waits behind it.
        conn.batch_execute("set lock_timeout = 0")?;
        drop_invalid_indexes(conn)?;
        conn.run_migration(migration).map_err(|error| anyhow!(error))?;
        return Ok(());
    }
    conn.batch_execute(&format!("set lock_timeout = '{LOCK_TIMEOUT}'"))?;
    let deadline = Instant::now() + LOCK_RETRY_TIME;
    loop {
        let Err(error) = conn.run_migration(migration) else { return Ok(()) };
        if !error.to_string().contains("lock timeout") {
            bail!(error);
        }
        if Instant::now() > deadline {
            let sessions = oldest_transactions(conn)?.join(", ");
            return Err(anyhow!(error).context(format!("got no lock; the oldest transactions: {sessions}")));
        }
        let pause = Duration::from_millis(rand::random_range(LOCK_RETRY_PAUSE_MS));
        tracing::info!(version = %migration.name(), ?pause, "migration waits for a lock");
        std::thread::sleep(pause);
    }
}

#[derive(diesel::QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

/// Drops the indexes of the schema that an interrupted build has left.
fn drop_invalid_indexes(conn: &mut Connection) -> anyhow::Result<()> {
    let invalid = diesel::sql_query(
        "select format('%I.%I', nspname, relname) as name from pg_index \
         join pg_class on pg_class.oid = indexrelid join pg_namespace on pg_namespace.oid = relnamespace \
         where not indisvalid and nspname = current_setting('search_path') \
         and not exists (select from pg_stat_progress_create_index where index_relid = indexrelid)",
    );
    for Name { name } in diesel::RunQueryDsl::load(invalid, conn)? {
        tracing::warn!(index = name, "invalid index of an interrupted migration dropped");
        conn.batch_execute(&format!("drop index concurrently {name}"))?;
    }
    Ok(())
}

#[derive(diesel::QueryableByName)]
struct OpenTransaction {
    #[diesel(sql_type = Integer)]
    pid: i32,
    #[diesel(sql_type = Text)]
    application: String,
    #[diesel(sql_type = Double)]
    seconds: f64,
}

/// Returns descriptions of the transactions of the database that have been open for the longest
/// time.
fn oldest_transactions(conn: &mut Connection) -> anyhow::Result<Vec<String>> {
    let open = diesel::sql_query(
        "select pid, application_name as application, \
         extract(epoch from clock_timestamp() - xact_start)::float8 as seconds from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null \
         order by xact_start",
    );
    let open: Vec<OpenTransaction> = diesel::RunQueryDsl::load(open, conn)?;
    let open = open.into_iter().take(NAMED_SESSIONS);
    Ok(open.map(|one| format!("pid {} ({}, {:.0} s)", one.pid, one.application, one.seconds)).collect())
}
