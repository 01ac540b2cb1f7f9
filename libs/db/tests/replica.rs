//! Reads from a read replica of a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use db::{Config, Conn, Db, ReadReplica, ReplicaReads};
use diesel::QueryResult;
use diesel::dsl::sql;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;
use runtime::{Env, Process};
use testkit::postgres::{Postgres, ShutdownMode};
use testkit::{database, eventually};

/// Starts reads from `replica`, which is compared with `primary`.
fn start(primary: &Postgres, replica: &Postgres, process: &Process) -> ReplicaReads {
    let (primary, replica) = (primary.url(), replica.url());
    let mut env = Env::new(move |name| match name {
        "DATABASE_URL" => Some(primary.clone()),
        "DATABASE_READ_URL" => Some(replica.clone()),
        "DATABASE_POOL_SIZE" => Some("2".to_owned()),
        _ => None,
    });
    let primary = Config::read(&mut env, "public");
    let replica = Config::read_replica(&mut env, primary.as_ref());
    let (primary, replica) = env.finish(primary.zip(replica)).unwrap();
    ReadReplica::start(replica.unwrap(), Db::new(&primary).unwrap(), process).unwrap().reads()
}

async fn is_standby(mut conn: &Conn) -> QueryResult<bool> {
    diesel::select(sql::<Bool>("pg_is_in_recovery()")).get_result(&mut conn).await
}

/// Waits until the read replica serves both kinds of reads (`true`) or none (`false`).
async fn wait_until_serving_is(reads: &ReplicaReads, serves: bool) {
    let expected = serves.then_some(true);
    eventually("the state of the read replica", async || {
        let found = reads.look_up(is_standby).await.map(Result::unwrap);
        let queried = reads.query(is_standby).await.map(Result::unwrap);
        (found == expected && queried == expected).then_some(())
    })
    .await;
}

/// RULE-ALL-120: a read replica serves reads while it is up and close to the primary.
#[tokio::test]
async fn replica_that_is_down_or_lags_serves_no_reads() {
    let primary = Postgres::start().await.unwrap();
    let mut standby = primary.start_standby().await.unwrap();
    let process = Process::new();
    let reads = start(&primary, &standby, &process);
    wait_until_serving_is(&reads, true).await;

    let (writer, control) =
        (database::connect(&primary.url()).await.unwrap(), database::connect(&standby.url()).await.unwrap());
    control.batch_execute("select pg_wal_replay_pause()").await.unwrap();
    writer.batch_execute("create table written (id integer)").await.unwrap();
    wait_until_serving_is(&reads, false).await;
    control.batch_execute("select pg_wal_replay_resume()").await.unwrap();
    wait_until_serving_is(&reads, true).await;

    standby.stop(ShutdownMode::Immediate).await.unwrap();
    wait_until_serving_is(&reads, false).await;
    standby.restart().await.unwrap();
    wait_until_serving_is(&reads, true).await;

    promote(&standby).await;
    wait_until_serving_is(&reads, false).await;
}

/// Promotes the standby, which begins another timeline.
async fn promote(standby: &Postgres) {
    let control = database::connect(&standby.url()).await.unwrap();
    control.batch_execute("select pg_promote()").await.unwrap();
}

/// RULE-ALL-120: a server that is no copy of the primary serves no reads.
#[tokio::test]
async fn server_of_another_database_serves_no_reads() {
    let (primary, other) = (Postgres::start().await.unwrap(), Postgres::start().await.unwrap());
    let process = Process::new();
    let reads = start(&primary, &other, &process);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(reads.look_up(is_standby).await.is_none());
}
