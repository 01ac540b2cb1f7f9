//! Migrations of tables in use, against a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]
#![expect(clippy::disallowed_methods, reason = "the tests have no process that tracks tasks")]

use std::time::{Duration, Instant};

use db::Config;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use runtime::Env;
use testkit::database;
use tokio_postgres::Client;

/// Adds a column to `item`.
const ALTER: EmbeddedMigrations = embed_migrations!("tests/migrations/column");
/// Builds an index of `item` concurrently.
const BUILD_INDEX: EmbeddedMigrations = embed_migrations!("tests/migrations/index");

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_secs(1);

/// Creates a database with a table of 1,000 items.
async fn setup() -> (String, Config) {
    let url = database::create().await.unwrap();
    let shop = config(&url, "shop");
    db::migrate(&shop, []).await.unwrap();
    let client = database::connect(&url).await.unwrap();
    let items = "create table shop.item (id int primary key, stock int not null default 1); \
        insert into shop.item select generate_series(1, 1000)";
    client.batch_execute(items).await.unwrap();
    (url, shop)
}

fn config(url: &str, schema: &'static str) -> Config {
    let url = url.to_owned();
    let mut env = Env::new(move |name| (name == "DATABASE_URL").then(|| url.clone()));
    let config = Config::read(&mut env, schema);
    env.finish(config).unwrap()
}

/// Opens a transaction that has read `item` and keeps its snapshot.
async fn open_reader(url: &str) -> (Client, i32) {
    let reader = database::connect(url).await.unwrap();
    let read = "begin isolation level repeatable read; select count(*) from shop.item";
    reader.batch_execute(read).await.unwrap();
    let pid = reader.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    (reader, pid)
}

/// Waits until `condition` is true.
async fn wait_until(client: &Client, condition: &str) {
    let query = format!("select {condition}");
    let waiting = async {
        while !client.query_one(&query, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
}

/// The condition that a concurrent build waits for the snapshots that are older than its index.
const BUILD_WAITS: &str = "exists (select from pg_stat_progress_create_index \
    where datname = current_database() and phase = 'waiting for old snapshots')";

async fn is_index_valid(client: &Client) -> Option<bool> {
    let query = "select indisvalid from pg_index where indexrelid = to_regclass('shop.item_stock')";
    client.query_opt(query, &[]).await.unwrap().map(|row| row.get(0))
}

/// RULE-ALL-034: writers do not wait while a migration builds an index concurrently.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_index_build_blocks_no_writer() {
    let (url, shop) = setup().await;
    let (reader, _) = open_reader(&url).await;
    let migration = tokio::task::spawn(async move { db::migrate(&shop, [BUILD_INDEX]).await });
    let writer = database::connect(&url).await.unwrap();
    wait_until(&writer, BUILD_WAITS).await;
    writer.batch_execute("set lock_timeout = '200ms'").await.unwrap();
    let write = "insert into shop.item values (1001, 5); update shop.item set stock = 2 where id = 1; \
        delete from shop.item where id = 2";
    writer.batch_execute(write).await.unwrap();
    assert!(!migration.is_finished());
    reader.batch_execute("commit").await.unwrap();
    migration.await.unwrap().unwrap();
    assert_eq!(is_index_valid(&writer).await, Some(true));
}

/// RULE-ALL-034: the next migration drops the invalid index of an interrupted build and builds it
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_index_build_is_repeated() {
    let (url, shop) = setup().await;
    let (reader, _) = open_reader(&url).await;
    let first = shop.clone();
    let migration = tokio::task::spawn(async move { db::migrate(&first, [BUILD_INDEX]).await });
    let client = database::connect(&url).await.unwrap();
    wait_until(&client, BUILD_WAITS).await;
    let terminate = "select pg_terminate_backend(pid) from pg_stat_progress_create_index \
        where datname = current_database()";
    client.query_one(terminate, &[]).await.unwrap();
    migration.await.unwrap().unwrap_err();
    assert_eq!(is_index_valid(&client).await, Some(false));
    reader.batch_execute("commit").await.unwrap();
    db::migrate(&shop, [BUILD_INDEX]).await.unwrap();
    assert_eq!(is_index_valid(&client).await, Some(true));
}

/// RULE-ALL-034: a concurrent index build waits for older snapshots. A migration that waits for the
/// lock of the schema has none, so the build continues.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_index_build_does_not_wait_for_a_migration_that_waits() {
    let (url, shop) = setup().await;
    let (reader, _) = open_reader(&url).await;
    let migrations: Vec<_> = (0..3)
        .map(|_| {
            let shop = shop.clone();
            tokio::task::spawn(async move { db::migrate(&shop, [BUILD_INDEX]).await })
        })
        .collect();
    let client = database::connect(&url).await.unwrap();
    wait_until(&client, BUILD_WAITS).await;
    let all = "(select count(*) from pg_stat_activity where datname = current_database() \
        and application_name = 'shop') = 3";
    wait_until(&client, all).await;
    // Longer than deadlock_timeout.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    reader.batch_execute("commit").await.unwrap();
    for migration in migrations {
        migration.await.unwrap().unwrap();
    }
    assert_eq!(is_index_valid(&client).await, Some(true));
}

/// RULE-ALL-034: readers wait less than a second for a migration that cannot get its lock, and the
/// migration succeeds when the lock is free.
#[tokio::test(flavor = "multi_thread")]
async fn readers_do_not_queue_behind_a_migration_that_waits() {
    let (url, shop) = setup().await;
    let (holder, _) = open_reader(&url).await;
    let migration = tokio::task::spawn(async move { db::migrate_within(&shop, [ALTER], LONG).await });
    let reader = database::connect(&url).await.unwrap();
    let alter_waits = "exists (select from pg_locks where mode = 'AccessExclusiveLock' and not granted \
        and relation = 'shop.item'::regclass)";
    wait_until(&reader, alter_waits).await;
    let started_at = Instant::now();
    let mut slowest = Duration::ZERO;
    while started_at.elapsed() < Duration::from_secs(3) {
        let read = Instant::now();
        reader.query_one("select count(*) from shop.item", &[]).await.unwrap();
        slowest = slowest.max(read.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(!migration.is_finished());
    holder.batch_execute("commit").await.unwrap();
    migration.await.unwrap().unwrap();
    reader.query_one("select count(colour) from shop.item", &[]).await.unwrap();
}

/// RULE-ALL-034: a migration that gets no lock in time fails, and names the lock and the session
/// that holds it.
#[tokio::test(flavor = "multi_thread")]
async fn migration_without_its_lock_names_the_blocking_session() {
    let (url, shop) = setup().await;
    let (holder, pid) = open_reader(&url).await;
    let error = format!("{:#}", db::migrate_within(&shop, [ALTER], SHORT).await.unwrap_err());
    for part in ["schema shop", "AccessExclusiveLock on item", &format!("session {pid} "), "_items"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    holder.batch_execute("commit").await.unwrap();
    db::migrate_within(&shop, [ALTER], SHORT).await.unwrap();
}

/// RULE-ALL-034: migrations of one schema run one after the other, and the second does not wait
/// for ever. Other schemas do not wait.
#[tokio::test(flavor = "multi_thread")]
async fn migrations_of_one_schema_run_one_after_the_other() {
    let (url, shop) = setup().await;
    let (holder, _) = open_reader(&url).await;
    let first = shop.clone();
    let migration = tokio::task::spawn(async move { db::migrate_within(&first, [ALTER], LONG).await });
    let client = database::connect(&url).await.unwrap();
    let locked = "exists (select from pg_locks where locktype = 'advisory' and database = \
        (select oid from pg_database where datname = current_database()))";
    wait_until(&client, locked).await;
    db::migrate_within(&config(&url, "library"), [], Duration::ZERO).await.unwrap();
    let error = format!("{:#}", db::migrate_within(&shop, [ALTER], SHORT).await.unwrap_err());
    assert!(error.contains("another migration of schema shop"), "{error}");
    assert!(error.contains("session ") && error.contains(" (shop)"), "{error}");
    holder.batch_execute("commit").await.unwrap();
    migration.await.unwrap().unwrap();
    db::migrate_within(&shop, [ALTER], SHORT).await.unwrap();
}
