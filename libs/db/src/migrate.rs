//! Migrations of a service's schema.

use anyhow::Context;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection, AsyncMigrationHarness, AsyncPgConnection, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness};

use crate::config::Config;
use crate::locale;

/// The advisory lock that serializes migrations of all services of a database. ASCII: "migrate".
const MIGRATION_LOCK: i64 = 0x006d_6967_7261_7465;

/// Creates the schema and applies the pending migrations of each of `sources`. Safe to run from
/// several replicas at the same time.
///
/// # Errors
/// - The database is unavailable, or its messages are not English.
/// - A migration fails; it is rolled back.
/// - A migration waits longer than 5 s for a lock. Other clients queue behind its lock request.
pub async fn migrate(
    config: &Config,
    sources: impl IntoIterator<Item = EmbeddedMigrations> + Send + 'static,
) -> anyhow::Result<()> {
    let config = config.clone();
    let handle = tokio::runtime::Handle::current();
    // The migration harness blocks, so it must not run on a thread that drives other tasks.
    tokio::task::spawn_blocking(move || {
        let conn = handle.block_on(prepare(&config))?;
        let mut harness = AsyncMigrationHarness::new(conn);
        for source in sources {
            let applied = harness
                .run_pending_migrations(source)
                .map_err(|error| anyhow::anyhow!("schema {}: {error}", config.schema))?;
            for version in applied {
                tracing::info!(schema = config.schema, %version, "migration applied");
            }
        }
        Ok(())
    })
    .await?
}

/// Connects, takes the migration lock and creates the schema if it is missing.
async fn prepare(config: &Config) -> anyhow::Result<AsyncPgConnection> {
    let mut conn = AsyncPgConnection::establish(&config.connection_url())
        .await
        .context("failed to connect to the database")?;
    // Building an index on a large table takes longer than any request may.
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await?;
    // Held until this connection closes.
    diesel::sql_query("select pg_advisory_lock($1)")
        .bind::<BigInt, _>(MIGRATION_LOCK)
        .execute(&mut conn)
        .await?;
    diesel::sql_query("set lock_timeout = '5s'").execute(&mut conn).await?;
    locale::ensure_english(&locale::message_locale(&mut conn).await?)?;
    let exists = diesel::select(diesel::dsl::sql::<diesel::sql_types::Bool>(
        "exists (select from pg_namespace where nspname = current_setting('search_path'))",
    ))
    .get_result::<bool>(&mut conn)
    .await?;
    if !exists {
        diesel::sql_query(format!("create schema {}", config.schema)).execute(&mut conn).await?;
    }
    Ok(conn)
}
