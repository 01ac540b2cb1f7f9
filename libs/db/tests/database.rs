//! What the pool and its transactions promise, against a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::time::Duration;

use db::{Config, Db, Error, Tx};
use diesel::dsl::sql;
use diesel::sql_types::{Integer, Text};
use diesel_async::RunQueryDsl;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use runtime::Env;
use testkit::database;
use tokio::sync::oneshot;

/// A database with two things, 1 and 2, and a pool that cuts statements off after `timeout` ms.
async fn things(timeout: u32) -> (Config, Db, String) {
    let url = database::create().await.unwrap();
    let of_pool = url.clone();
    let mut env = Env::new(move |name| match name {
        "DATABASE_URL" => Some(of_pool.clone()),
        "DATABASE_POOL_SIZE" => Some("2".to_owned()),
        "DATABASE_STATEMENT_TIMEOUT_MS" => Some(timeout.to_string()),
        _ => None,
    });
    let config = Config::read(&mut env, "shop");
    let config = env.finish(config).unwrap();
    db::migrate(&config, []).await.unwrap();
    let client = database::connect(&url).await.unwrap();
    client.batch_execute("create table shop.thing (id int primary key)").await.unwrap();
    client.batch_execute("insert into shop.thing values (1), (2)").await.unwrap();
    let db = Db::new(&config).unwrap();
    (config, db, url)
}

async fn insert(tx: &mut Tx, id: i32) -> Result<usize, Error> {
    let insert = diesel::sql_query("insert into thing values ($1)").bind::<Integer, _>(id);
    Ok(insert.execute(tx.conn()).await?)
}

async fn lock(tx: &mut Tx, id: i32) -> Result<usize, Error> {
    let lock = diesel::sql_query("select from thing where id = $1 for update").bind::<Integer, _>(id);
    Ok(lock.execute(tx.conn()).await?)
}

async fn count(url: &str) -> i64 {
    let client = database::connect(url).await.unwrap();
    client.query_one("select count(*) from shop.thing", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_commit_that_did_not_commit_is_an_error() {
    let (_, db, url) = things(5_000).await;
    let swallowed: Result<(), Error> = db
        .tx(async |tx| {
            insert(tx, 3).await?;
            insert(tx, 1).await.unwrap_err();
            Ok(())
        })
        .await;
    assert!(matches!(swallowed, Err(Error::Query(_))), "{swallowed:?}");
    assert_eq!(count(&url).await, 2);
    // Its connection is as good as new.
    for id in [3, 4, 5] {
        db.tx(async |tx| insert(tx, id).await).await.unwrap();
    }
    assert_eq!(count(&url).await, 5);
}

/// The pool is shared: whoever has the connection next has it as it was.
#[tokio::test]
async fn plans_are_kept_within_the_transaction_alone() {
    let (_, db, _) = things(5_000).await;
    let planned = async |tx: &mut Tx| {
        let mode = diesel::select(sql::<Text>("current_setting('plan_cache_mode') || pg_backend_pid()"));
        Ok::<String, Error>(mode.get_result(tx.conn()).await?)
    };
    let kept = db.clone().keeping_plans().tx(async |tx| planned(tx).await).await.unwrap();
    let after = db.tx(async |tx| planned(tx).await).await.unwrap();
    let backend = after.strip_prefix("auto").unwrap();
    assert_eq!(kept, format!("force_generic_plan{backend}"));
}

/// Another replica, which would be told after 5 s that its statement took too long.
#[tokio::test]
async fn a_caller_that_hangs_up_lets_go_of_its_row() {
    let (config, db, _) = things(5_000).await;
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

#[tokio::test]
async fn a_caller_that_hangs_up_while_it_waits_for_a_row_lets_go_of_the_others() {
    let (config, db, url) = things(5_000).await;
    let holder = database::connect(&url).await.unwrap();
    holder.batch_execute("begin; select from shop.thing where id = 2 for update").await.unwrap();
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

/// Outside a transaction, too: its answer would be taken for that of the next statement.
#[tokio::test]
async fn a_connection_that_owes_an_answer_is_closed() {
    let (_, db, url) = things(60_000).await;
    let server = database::connect(&url).await.unwrap();
    let asleep = "select count(*) from pg_stat_activity where datname = current_database() \
        and application_name = 'shop' and query = 'select pg_sleep(60)'";
    let count = async || server.query_one(asleep, &[]).await.unwrap().get::<_, i64>(0);
    let caller = async {
        let mut conn = db.conn().await.unwrap();
        diesel::sql_query("select pg_sleep(60)").execute(&mut conn).await
    };
    let asked = async {
        while count().await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = caller => {}
        () = asked => {}
    }
    for _ in 0..3 {
        let mut conn = db.conn().await.unwrap();
        assert_eq!(diesel::sql_query("select from thing").execute(&mut conn).await.unwrap(), 2);
    }
    let closed = async {
        while count().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
}

/// As behind a pooler that ignores the limit, or whose own connections are all taken.
#[tokio::test]
async fn a_statement_that_the_server_does_not_cut_off_is_given_up() {
    let (_, db, url) = things(100).await;
    for _ in 0..2 {
        let given_up: Result<(), Error> = db
            .tx(async |tx| {
                insert(tx, 3).await?;
                diesel::sql_query("set local statement_timeout = 0").execute(tx.conn()).await?;
                diesel::sql_query("select pg_sleep(600)").execute(tx.conn()).await?;
                Ok(())
            })
            .await;
        assert!(matches!(given_up, Err(Error::Unavailable(_))), "{given_up:?}");
    }
    let mut conn = db.conn().await.unwrap();
    diesel::sql_query("set statement_timeout = 0").execute(&mut conn).await.unwrap();
    diesel::sql_query("select pg_sleep(600)").execute(&mut conn).await.unwrap_err();
    drop(conn);
    db.tx(async |tx| insert(tx, 3).await).await.unwrap();
    assert_eq!(count(&url).await, 3);
}

#[tokio::test]
async fn what_is_allowed_longer_is_cut_off_neither_here_nor_there_and_no_other_after_it() {
    let (_, db, _) = things(200).await;
    db.tx(async |tx| {
        tx.allow(Duration::from_mins(1)).await?;
        Ok::<_, Error>(diesel::sql_query("select pg_sleep(3)").execute(tx.conn()).await?)
    })
    .await
    .unwrap();
    // The only connection that was ever used.
    let longer = async |tx: &mut Tx| Ok(diesel::sql_query("select pg_sleep(3)").execute(tx.conn()).await?);
    let cut_off: Result<usize, Error> = db.tx(longer).await;
    cut_off.unwrap_err();
}

#[tokio::test]
async fn a_migration_that_waits_for_a_lock_gives_up_before_all_wait_behind_it() {
    const MIGRATIONS: EmbeddedMigrations = embed_migrations!("tests/migrations");
    let (config, _, url) = things(5_000).await;
    let holder = database::connect(&url).await.unwrap();
    holder.batch_execute("begin; select from shop.thing").await.unwrap();
    let refused = format!("{:#}", db::migrate(&config, [MIGRATIONS]).await.unwrap_err());
    assert!(refused.contains("lock timeout"), "{refused}");
    holder.batch_execute("commit").await.unwrap();
    db::migrate(&config, [MIGRATIONS]).await.unwrap();
}

/// The kernel has a timer for the silence of each connection, of some seconds instead of two hours.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_vanished_is_noticed_by_its_silence() {
    let (_, db, _) = things(5_000).await;
    let _conn = db.conn().await.unwrap();
    let server: tokio_postgres::Config = testkit::required("DATABASE_URL").unwrap().parse().unwrap();
    let port = format!(":{:04X}", server.get_ports()[0]);
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    // Local and remote address, state, queues, and the timer: 02 is the one for silence, in hundredths of a second.
    let timers = sockets.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (kind, left) = fields[5].split_once(':')?;
        let of_server = fields[2].ends_with(&port) && kind == "02";
        of_server.then(|| u64::from_str_radix(left, 16).unwrap())
    });
    assert!(timers.min().is_some_and(|left| left <= 500));
}
