//! A separate database for each service under test.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use tokio_postgres::{Client, NoTls};

use crate::child;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Connects to the database at `url`, for data that no edge of a service returns.
///
/// # Errors
/// If the database cannot be reached.
pub async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // The task ends with the client.
    tokio::task::spawn(connection);
    Ok(client)
}

/// Creates an empty database on the server of `DATABASE_URL` and returns its URL.
///
/// The first call of a process also removes the databases of test processes that have ended.
///
/// # Errors
/// If `DATABASE_URL` is not set, or the server rejects a statement.
pub async fn create() -> anyhow::Result<String> {
    create_from("template1").await
}

/// Creates a copy of the database at this URL, which no connection may use, and returns its URL.
///
/// # Errors
/// If a connection uses the database, or as [`create`].
pub async fn copy(url: &str) -> anyhow::Result<String> {
    let path = url.split('?').next().and_then(|url| url.rsplit('/').next());
    create_from(path.context("a name of a database")?).await
}

async fn create_from(template: &str) -> anyhow::Result<String> {
    let server = crate::required("DATABASE_URL")?;
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.context("DATABASE_URL")?;
    let driver = tokio::task::spawn(connection);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if number == 0 {
        for row in
            client.query("select datname::text from pg_database where datname like 'test\\_%'", &[]).await?
        {
            let name: String = row.get(0);
            let process = name.split('_').nth(1).unwrap_or_default();
            if !child::is_alive(process) {
                // Another test process may remove the database at the same time.
                let _ = client.batch_execute(&format!("drop database if exists {name} with (force)")).await;
            }
        }
    }
    let name = format!("test_{}_{number}", std::process::id());
    client.batch_execute(&format!("drop database if exists {name}")).await?;
    client.batch_execute(&format!("create database {name} template {template}")).await?;
    drop(client);
    driver.await??;
    let (base, query) =
        server.split_once('?').map_or((server.as_str(), None), |(base, query)| (base, Some(query)));
    let base = base.rsplit_once('/').map_or(base, |(base, _)| base);
    Ok(query.map_or_else(|| format!("{base}/{name}"), |query| format!("{base}/{name}?{query}")))
}
