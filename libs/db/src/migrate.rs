//! Bringing a service's schema up to date.

use anyhow::Context;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection, AsyncMigrationHarness, AsyncPgConnection, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness};

use crate::{Config, language};

/// One lock for all services of a database, so that replicas that start together take turns.
const MIGRATION_LOCK: i64 = 0x006d_6967_7261_7465;

/// Creates the schema and applies what each of `sources` has that the database has not. Safe to run
/// from several replicas at once.
///
/// # Errors
/// A database that is away or does not speak English, or a migration that fails (it is rolled back); one that waits
/// for a lock longer than 5 s fails, since everybody else waits behind it.
pub async fn migrate(
    config: &Config,
    sources: impl IntoIterator<Item = EmbeddedMigrations> + Send + 'static,
) -> anyhow::Result<()> {
    let config = config.clone();
    let handle = tokio::runtime::Handle::current();
    // The migration harness is synchronous; it may not block a thread that drives other tasks.
    tokio::task::spawn_blocking(move || {
        let conn = handle.block_on(prepare(&config))?;
        let mut harness = AsyncMigrationHarness::new(conn);
        for source in sources {
            let applied = harness
                .run_pending_migrations(source)
                .map_err(|error| anyhow::anyhow!("schema {}: {error}", config.schema))?;
            for version in applied {
                tracing::info!(schema = config.schema, %version, "migrated");
            }
        }
        Ok(())
    })
    .await?
}

async fn prepare(config: &Config) -> anyhow::Result<AsyncPgConnection> {
    let mut conn = AsyncPgConnection::establish(&config.connection_url())
        .await
        .context("the database cannot be reached")?;
    // Building an index on a large table takes longer than any request may.
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await?;
    // Held until this connection closes.
    diesel::sql_query("select pg_advisory_lock($1)")
        .bind::<BigInt, _>(MIGRATION_LOCK)
        .execute(&mut conn)
        .await?;
    diesel::sql_query("set lock_timeout = '5s'").execute(&mut conn).await?;
    language::refuse_others(&language::spoken(&mut conn).await?)?;
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
