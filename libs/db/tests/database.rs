//! The pool and its transactions, against a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::time::Duration;

use db::{Config, Conn, Db, Error, PipelinedConn, Tx};
use diesel::dsl::sql;
use diesel::sql_types::{Integer, Text};
use diesel_async::RunQueryDsl;
use runtime::{Env, Process};
use testkit::database;
use tokio::sync::oneshot;

/// Creates a database with the items 1 and 2, and a pool with a statement timeout in milliseconds.
async fn setup(timeout_ms: u32) -> (Config, Db, String) {
    let url = database::create().await.unwrap();
    let database_url = url.clone();
    let mut env = Env::new(move |name| match name {
        "DATABASE_URL" => Some(database_url.clone()),
        "DATABASE_POOL_SIZE" => Some("2".to_owned()),
        "DATABASE_STATEMENT_TIMEOUT_MS" => Some(timeout_ms.to_string()),
        _ => None,
    });
    let config = Config::read(&mut env, "shop");
    let config = env.finish(config).unwrap();
    db::migrate(&config, []).await.unwrap();
    let client = database::connect(&url).await.unwrap();
    client.batch_execute("create table shop.item (id int primary key)").await.unwrap();
    client.batch_execute("insert into shop.item values (1), (2)").await.unwrap();
    let db = Db::new(&config).unwrap();
    (config, db, url)
}

async fn insert(tx: &mut Tx, id: i32) -> Result<usize, Error> {
    let insert = diesel::sql_query("insert into item values ($1)").bind::<Integer, _>(id);
    Ok(insert.execute(tx.conn()).await?)
}

async fn lock(tx: &mut Tx, id: i32) -> Result<usize, Error> {
    let lock = diesel::sql_query("select from item where id = $1 for update").bind::<Integer, _>(id);
    Ok(lock.execute(tx.conn()).await?)
}

async fn count(url: &str) -> i64 {
    let client = database::connect(url).await.unwrap();
    client.query_one("select count(*) from shop.item", &[]).await.unwrap().get(0)
}

/// RULE-ALL-033: a commit of a transaction with a failed statement is an error, although the server
/// only rolls back.
#[tokio::test]
async fn commit_of_failed_transaction_is_an_error() {
    let (_, db, url) = setup(5_000).await;
    let result: Result<(), Error> = db
        .tx(async |tx| {
            insert(tx, 3).await?;
            insert(tx, 1).await.unwrap_err();
            Ok(())
        })
        .await;
    assert!(matches!(result, Err(Error::Query(_))), "{result:?}");
    assert_eq!(count(&url).await, 2);
    // The pool's connections stay usable.
    for id in [3, 4, 5] {
        db.tx(async |tx| insert(tx, id).await).await.unwrap();
    }
    assert_eq!(count(&url).await, 5);
}

/// The next transaction on the connection has no generic plans.
#[tokio::test]
async fn generic_plans_end_with_their_transaction() {
    let (_, db, _) = setup(5_000).await;
    let mode_and_backend = async |tx: &mut Tx| {
        let query = diesel::select(sql::<Text>("current_setting('plan_cache_mode') || pg_backend_pid()"));
        Ok::<String, Error>(query.get_result(tx.conn()).await?)
    };
    let within = db.clone().with_generic_plans().tx(async |tx| mode_and_backend(tx).await).await.unwrap();
    let after = db.tx(async |tx| mode_and_backend(tx).await).await.unwrap();
    let backend = after.strip_prefix("auto").unwrap();
    assert_eq!(within, format!("force_generic_plan{backend}"));
}

/// RULE-ALL-033: a disconnected caller releases its row locks. Another replica gets the lock before
/// its statement timeout of 5 s.
#[tokio::test]
async fn disconnected_caller_releases_its_row_lock() {
    let (config, db, _) = setup(5_000).await;
    let (sender, locked) = oneshot::channel();
    let caller = db.tx(async |tx| {
        lock(tx, 1).await?;
        sender.send(()).unwrap();
        std::future::pending::<Result<(), Error>>().await
    });
    tokio::select! {
        _ = caller => {}
        _ = locked => {}
    }
    let other = Db::new(&config).unwrap();
    assert_eq!(other.tx(async |tx| lock(tx, 1).await).await.unwrap(), 1);
}

/// RULE-ALL-033: a caller that disconnects while it waits for a row releases its other locks.
#[tokio::test]
async fn disconnected_caller_that_waits_for_a_row_releases_its_other_locks() {
    let (config, db, url) = setup(5_000).await;
    let holder = database::connect(&url).await.unwrap();
    holder.batch_execute("begin; select from shop.item where id = 2 for update").await.unwrap();
    let waits = "select count(*) from pg_stat_activity where datname = current_database() \
        and application_name = 'shop' and wait_event_type = 'Lock'";
    let caller = db.tx(async |tx| {
        lock(tx, 1).await?;
        diesel::sql_query("set local statement_timeout = 0").execute(tx.conn()).await?;
        lock(tx, 2).await
    });
    let waiting = async {
        while holder.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = caller => {}
        () = waiting => {}
    }
    let other = Db::new(&config).unwrap();
    assert_eq!(other.tx(async |tx| lock(tx, 1).await).await.unwrap(), 1);
}

/// RULE-ALL-033: a connection with a pending response is closed. A later statement on the
/// connection would receive the pending response. The statement of this test runs outside a
/// transaction.
#[tokio::test]
async fn connection_with_pending_response_is_closed() {
    let (_, db, url) = setup(60_000).await;
    let server = database::connect(&url).await.unwrap();
    let sleeping = "select count(*) from pg_stat_activity where datname = current_database() \
        and application_name = 'shop' and query = 'select pg_sleep(60)'";
    let count = async || server.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0);
    let caller = async {
        let mut conn = db.conn().await.unwrap();
        diesel::sql_query("select pg_sleep(60)").execute(&mut conn).await
    };
    let running = async {
        while count().await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = caller => {}
        () = running => {}
    }
    for _ in 0..3 {
        let mut conn = db.conn().await.unwrap();
        assert_eq!(diesel::sql_query("select from item").execute(&mut conn).await.unwrap(), 2);
    }
    let closed = async {
        while count().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
}

/// RULE-ALL-033: the client abandons a statement that the server does not end. Simulates a pooler
/// that ignores the timeout or has no free server connection.
#[tokio::test]
async fn statement_that_the_server_does_not_cancel_times_out() {
    let (_, db, url) = setup(100).await;
    for _ in 0..2 {
        let result: Result<(), Error> = db
            .tx(async |tx| {
                insert(tx, 3).await?;
                diesel::sql_query("set local statement_timeout = 0").execute(tx.conn()).await?;
                diesel::sql_query("select pg_sleep(600)").execute(tx.conn()).await?;
                Ok(())
            })
            .await;
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    }
    let mut conn = db.conn().await.unwrap();
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await.unwrap();
    diesel::sql_query("select pg_sleep(600)").execute(&mut conn).await.unwrap_err();
    drop(conn);
    db.tx(async |tx| insert(tx, 3).await).await.unwrap();
    assert_eq!(count(&url).await, 3);
}

/// RULE-ALL-033: an extended timeout ends with its transaction.
#[tokio::test]
async fn extended_timeout_applies_to_client_and_server_until_the_transaction_ends() {
    let (_, db, _) = setup(200).await;
    // The sleep exceeds both default timeouts: 200 ms in the server and 2.2 s in the client.
    db.tx(async |tx| {
        tx.extend_timeout(Duration::from_mins(1)).await?;
        Ok::<_, Error>(diesel::sql_query("select pg_sleep(3)").execute(tx.conn()).await?)
    })
    .await
    .unwrap();
    // The pool has opened one connection, so this transaction uses it again.
    let sleep = async |tx: &mut Tx| Ok(diesel::sql_query("select pg_sleep(3)").execute(tx.conn()).await?);
    let result: Result<usize, Error> = db.tx(sleep).await;
    result.unwrap_err();
}

/// RULE-ALL-034: a connection detects a vanished server by keepalive probes. The test reads the
/// timer of the probes in the kernel: 5 s instead of two hours.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn idle_connection_sends_keepalive_probes_after_five_seconds() {
    let (_, db, _) = setup(5_000).await;
    let _conn = db.conn().await.unwrap();
    let server: tokio_postgres::Config = testkit::required("DATABASE_URL").unwrap().parse().unwrap();
    let port = format!(":{:04X}", server.get_ports()[0]);
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    // Fields: addresses, state, queues, timer. Timer 02 is keepalive, in hundredths of a second.
    let timers = sockets.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (timer, remaining) = fields[5].split_once(':')?;
        let is_keepalive = fields[2].ends_with(&port) && timer == "02";
        is_keepalive.then(|| u64::from_str_radix(remaining, 16).unwrap())
    });
    assert!(timers.min().is_some_and(|remaining| remaining <= 500));
}

/// RULE-ALL-033: a wait for a lock and a slow statement have different errors. Both are transient.
#[tokio::test]
async fn wait_for_a_lock_and_slow_statement_have_different_errors() {
    let (_, db, url) = setup(500).await;
    let holder = database::connect(&url).await.unwrap();
    holder.batch_execute("begin; select from shop.item where id = 2 for update").await.unwrap();
    let waiting = db.tx(async |tx| lock(tx, 2).await).await.unwrap_err();
    assert!(matches!(waiting, Error::Unavailable(_)), "{waiting}");
    assert!(!waiting.is_statement_timeout(), "{waiting}");
    let slow: Result<usize, Error> =
        db.tx(async |tx| Ok(diesel::sql_query("select pg_sleep(60)").execute(tx.conn()).await?)).await;
    let slow = slow.unwrap_err();
    assert!(matches!(slow, Error::Unavailable(_)), "{slow}");
    assert!(slow.is_statement_timeout(), "{slow}");
}

/// RULE-ALL-032: a lookup does not wait for a stalled one.
#[tokio::test]
async fn lookup_behind_a_stalled_one_uses_the_pool() {
    let (config, db, url) = setup(60_000).await;
    let lookups = PipelinedConn::new(&config, db);
    let client = database::connect(&url).await.unwrap();
    client.batch_execute("begin; lock table shop.item in access exclusive mode").await.unwrap();
    let read = async |conn: &Conn| diesel::sql_query("select from item").execute(&mut &*conn).await;
    let mut stalled = std::pin::pin!(lookups.run(read));
    tokio::select! {
        _ = &mut stalled => panic!("the lookup did not wait for the lock"),
        () = tokio::time::sleep(Duration::from_millis(200)) => {}
    }
    let one = async |conn: &Conn| diesel::sql_query("select").execute(&mut &*conn).await;
    assert_eq!(lookups.run(one).await.unwrap(), 1);
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(stalled.await.unwrap(), 2);
}

/// RULE-ALL-034: a replica stays ready while all connections of its pool are in use.
#[tokio::test]
async fn readiness_does_not_wait_for_the_pool() {
    let (_, db, url) = setup(60_000).await;
    let process = Process::new();
    db.register_checks(&process);
    let _all = [db.conn().await.unwrap(), db.conn().await.unwrap()];
    process.check_readiness().await.unwrap();
    let client = database::connect(&url).await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'shop' \
        and datname = current_database()";
    client.batch_execute(end).await.unwrap();
    process.check_readiness().await.unwrap();
}

/// RULE-ALL-034: connections that a burst has opened are closed when they are idle.
#[tokio::test]
async fn idle_connection_is_closed_after_its_timeout() {
    let (_, db, url) = setup(60_000).await;
    let client = database::connect(&url).await.unwrap();
    let open = "select count(*) from pg_stat_activity where application_name = 'shop' \
        and datname = current_database()";
    let open = async || client.query_one(open, &[]).await.unwrap().get::<_, i64>(0);
    drop([db.conn().await.unwrap(), db.conn().await.unwrap()]);
    db.close_idle(Duration::from_mins(1));
    assert_eq!(open().await, 2);
    db.close_idle(Duration::ZERO);
    let closed = async {
        while open().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
}
