//! The command `restored --since`, which publishes the state of a restored database to consumers.

use std::process::Stdio;

use chessboard::Service;
use serde_json::{Value, json};
use testkit::bus::payloads;
use testkit::dedicated::DedicatedService;
use testkit::service::issuer;
use testkit::{eventually, guid, text};
use tokio::process::Command;
use uuid::Uuid;

use crate::objects::{OBJECT_UPSERTED, PROJECTS, building, flats, project};
use crate::{
    COMPANY_UPSERTED, DEVELOPER_UPSERTED, MANAGE, ME, company_event, id_of, next_sequence, user_claims, with,
};

/// Runs `restored --since` with a time before every event.
pub async fn restore(own: &DedicatedService) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chessboard"));
    command.args(["restored", "--since", "2020-01-01T00:00:00Z"]).env("DATABASE_URL", &own.database_url);
    command.env("KAFKA_BROKERS", own.broker().servers()).env("AUTH_ISSUER", issuer().url()).env("LOG", "off");
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// RULE-EVT-048, RULE-CHS-029: an object whose version went back is published above the lost
/// versions. A lost object is published like a removed one. A profile that has lost nothing is
/// published above its version, too.
#[tokio::test]
async fn restored_objects_and_developers_get_higher_versions() {
    let own = DedicatedService::start::<Service>(&[]);
    let developer = guid();
    let event = company_event(developer, "Active", 1);
    own.bus().publish(COMPANY_UPSERTED, developer, next_sequence(), &event).await;
    let by = own.caller(&user_claims(Some(developer), &[MANAGE]));
    eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    let created = by.post(PROJECTS, project()).await.expect(201);
    let buildings = format!("{PROJECTS}/{}/buildings", text(&created["Id"]));
    let created = by.post(&buildings, building()).await.expect(201);
    let grid = format!("{buildings}/{}/property-objects", text(&created["Id"]));
    let flats = flats(2);
    by.put(&grid, json!({"Objects": [flats[0]]})).await.expect(200);
    let sql = own.sql().await;
    sql.batch_execute("create table backup as table property_object").await.unwrap();

    let dearer = with(flats[0].clone(), "Price", json!({"AmountMinor": 5, "Currency": "RUB"}));
    by.put(&grid, json!({"Objects": [dearer, flats[1]]})).await.expect(200);
    let ids = sql.query("select id::text from property_object order by number", &[]).await.unwrap();
    let [kept, gone] = [0, 1].map(|at: usize| id_of(&json!(ids[at].get::<_, String>(0))));
    let events = async |key: Uuid, topic: &str| -> Vec<Value> { payloads(own.published(key).await, topic) };
    let (known_kept, known_gone) = (events(kept, OBJECT_UPSERTED).await, events(gone, OBJECT_UPSERTED).await);
    // Sets the rows back without triggers and checks of foreign keys, as a restore does.
    let back = "set session_replication_role = replica; \
                update property_object as object set price = backup.price, version = backup.version \
                from backup where object.id = backup.id; \
                delete from property_object where id not in (select id from backup)";
    sql.batch_execute(back).await.unwrap();

    restore(&own).await;

    let raised = with(known_kept[0].clone(), "Version", known_kept[1]["Version"].as_i64().unwrap() + 1);
    assert_eq!(
        events(kept, OBJECT_UPSERTED).await.pop().unwrap(),
        raised,
        "the price before the lost change"
    );
    let removed = with(with(known_gone[0].clone(), "Status", "Unavailable"), "IsPublic", false);
    let removed = with(with(removed, "UpdatedByUserId", Value::Null), "Version", 2);
    assert_eq!(events(gone, OBJECT_UPSERTED).await.pop().unwrap(), removed);
    let profile = events(developer, DEVELOPER_UPSERTED).await.pop().unwrap();
    assert_eq!(profile["Version"], 2, "a profile whose version is the published one is raised, too");
}

/// RULE-EVT-048: a lost profile is published as Hidden. When the consumer creates it again, its
/// version exceeds that of the Hidden one.
#[tokio::test]
async fn recreated_lost_developer_gets_higher_version() {
    let own = DedicatedService::start::<Service>(&[]);
    let developer = guid();
    let by = own.caller(&user_claims(Some(developer), &[MANAGE]));
    let create = async || {
        let event = company_event(developer, "Active", 1);
        own.bus().publish(COMPANY_UPSERTED, developer, next_sequence(), &event).await;
        eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    };
    let newest = async || payloads(own.published(developer).await, DEVELOPER_UPSERTED).pop().unwrap();
    create().await;
    let known = newest().await;
    let lose = format!(
        "set session_replication_role = replica; delete from developer_log where developer_id = '{developer}'; \
         delete from developer where id = '{developer}'; delete from company where id = '{developer}'; \
         delete from inbox where key = '{developer}'"
    );
    own.sql().await.batch_execute(&lose).await.unwrap();

    restore(&own).await;
    assert_eq!(newest().await, with(with(known, "Status", "Hidden"), "Version", 2));
    create().await;

    let again = newest().await;
    assert_eq!((&again["Status"], &again["Version"]), (&json!("Draft"), &json!(3)));
    assert_eq!(by.get(ME).await.expect(200)["Version"], 3);
}
