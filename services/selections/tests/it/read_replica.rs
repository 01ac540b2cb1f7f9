//! Reads of guests from a standby of the database.

use std::time::Duration;

use selections::Service;
use serde_json::Value;
use testkit::postgres::Postgres;
use testkit::service::Running;
use testkit::{database, eventually, ports};

use crate::{create_selection, open_path};

async fn create(service: &Running) -> Value {
    let (_, owner) = service.user();
    create_selection(&owner).await
}

/// RULE-ALL-120: a guest opens a selection of the standby, and a user one of the primary.
/// RULE-SEL-004: a guest also opens a selection that the standby does not have yet.
#[tokio::test]
async fn guest_reads_from_the_replica_and_a_user_from_the_primary() {
    let primary = Postgres::start().await.unwrap();
    let standby = primary.start_standby().await.unwrap();
    let urls = [("DATABASE_URL", primary.url()), ("DATABASE_READ_URL", standby.url())];
    let service = Running::start::<Service>(&urls.each_ref().map(|(name, url)| (*name, url.as_str())));
    let selection = create(&service).await;
    let (guest, (_, user)) = (service.guest(), service.user());

    // The last query of a connection shows which server the service has asked.
    let sql = database::connect(&standby.url()).await.unwrap();
    let is_asked = async || {
        let query = "select count(*) from pg_stat_activity \
            where pid <> pg_backend_pid() and query like '%public_code%'";
        let asked: i64 = sql.query_one(query, &[]).await.unwrap().get(0);
        (asked > 0).then_some(())
    };
    // The checks of the standby need less time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    user.get(&open_path(&selection)).await.expect(200);
    assert!(is_asked().await.is_none());
    eventually("a read from the standby", async || {
        guest.get(&open_path(&selection)).await.expect(200);
        is_asked().await
    })
    .await;

    sql.batch_execute("select pg_wal_replay_pause()").await.unwrap();
    let new = create(&service).await;
    guest.get(&open_path(&new)).await.expect(200);
    user.get(&open_path(&new)).await.expect(200);
}

/// RULE-ALL-120: without a replica that responds, guests read from the primary.
#[tokio::test]
async fn guest_reads_from_the_primary_while_the_replica_is_down() {
    let replica = format!("postgres://guest@127.0.0.1:{}/none", ports::free().unwrap());
    let service = Running::start::<Service>(&[("DATABASE_READ_URL", &replica)]);
    let selection = create(&service).await;
    service.guest().get(&open_path(&selection)).await.expect(200);
}
