//! The propagation of changes of ancestors to objects.

use std::process::Stdio;

use chessboard::Service;
use serde_json::json;
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use testkit::service::issuer;
use testkit::{eventually, guid, text};
use tokio::process::Command;

use crate::objects::{
    PROJECTS, building, create_house, draft_house, flats, object_events, object_events_on, project,
    published_house, unchanged_body, wait_for_object_event,
};
use crate::{
    COMPANY_UPSERTED, MANAGE, ME, administrator, company_event, id_of, next_sequence, path, publish_company,
    publish_profile, publish_suspension, service, user_claims, with,
};

/// RULE-CHS-029, RULE-EVT-009: names and statuses of the ancestors are published for each object,
/// once and with a higher version.
#[tokio::test]
async fn ancestor_change_is_published_for_each_object() {
    let house = draft_house().await;
    house.grid(&flats(2)).await;
    let object = house.id_of("1").await;
    let first = object_events(object, 1).await[0].clone();
    assert_eq!(
        (&first["IsPublic"], &first["ProjectName"], &first["BuildingName"], &first["Status"]),
        (&json!(false), &json!("Сосны"), &json!("Корпус 1"), &json!("Available"))
    );
    publish_profile(house.developer).await;
    house.manager.post(&house.project_path("/publish"), json!({})).await.expect(200);
    wait_for_object_event(object, "the publication", |event| event["IsPublic"] == true).await;
    house.manager.put(&house.project_path(""), with(project(), "Name", "Ели")).await.expect(200);
    wait_for_object_event(object, "the project's name", |event| event["ProjectName"] == "Ели").await;
    house.manager.put(&house.path(""), with(building(), "Name", "Б")).await.expect(200);
    wait_for_object_event(object, "the building's name", |event| event["BuildingName"] == "Б").await;
    administrator().post(&path(house.developer, "/hide"), json!({})).await.expect(200);
    wait_for_object_event(object, "the hiding", |event| event["IsPublic"] == false).await;
    administrator().post(&path(house.developer, "/publish"), json!({})).await.expect(200);
    wait_for_object_event(object, "the second publication", |event| event["IsPublic"] == true).await;
    house.manager.delete(&house.project_path("")).await.expect(204);
    wait_for_object_event(object, "the deletion", |event| event["Status"] == "Unavailable").await;
    let versions: Vec<_> =
        object_events(object, 7).await.iter().map(|event| event["Version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7]);
}

/// RULE-CHS-029: a suspension and a reactivation publish each public object once, and no other
/// object.
#[tokio::test]
async fn suspension_is_published_for_each_public_object() {
    let house = published_house().await;
    house.grid(&flats(3)).await;
    let mut objects = Vec::new();
    for number in ["1", "2", "3"] {
        objects.push(house.id_of(number).await);
    }
    let draft = create_house(house.developer, house.manager.clone()).await;
    draft.grid(&flats(1)).await;
    let never_public = draft.id_of("1").await;

    let suspended = company_event(house.developer, "Suspended", 2);
    publish_company(&suspended).await;
    publish_suspension(&suspended).await;
    for object in &objects {
        wait_for_object_event(*object, "the suspension", |event| event["IsPublic"] == false).await;
    }
    publish_company(&company_event(house.developer, "Active", 3)).await;
    for object in &objects {
        wait_for_object_event(*object, "the reactivation", |event| event["Version"] == 3).await;
    }
    let sql = service().sql().await;
    let pending = format!("select 1 from propagation where tenant_id = '{}' limit 1", house.developer);
    eventually("the end of the job", async || {
        sql.query_opt(&pending, &[]).await.unwrap().is_none().then_some(())
    })
    .await;
    let expected = [(1, true), (2, false), (3, true)]
        .map(|(version, is_public)| (json!(version), json!(is_public), json!("Available")));
    for object in objects {
        let events = object_events(object, 3).await;
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event["Version"].clone(), event["IsPublic"].clone(), event["Status"].clone()))
            .collect();
        assert_eq!(seen, expected);
    }
    assert_eq!(object_events(never_public, 1).await.len(), 1);
}

/// RULE-CHS-029: the event of an object's own change has the current state of the ancestors, so the
/// job does not repeat it.
#[tokio::test]
async fn object_published_by_itself_is_not_repeated_by_job() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let (one, two) = (house.object("1").await, house.id_of("2").await);
    let object = house.id_of("1").await;
    let sql = service().sql().await;
    house.manager.put(&house.project_path(""), with(project(), "Name", "Ели")).await.expect(200);
    let path = house.object_path(object);
    let rooms = with(unchanged_body(&one), "Rooms", 7);
    // The job may publish the rename between this request's first read and its lock, which then
    // causes a conflict.
    eventually("the rooms", async || {
        (house.manager.put(&path, rooms.clone()).await.status == 200).then_some(())
    })
    .await;
    wait_for_object_event(two, "the project's name", |event| event["ProjectName"] == "Ели").await;
    let pending = format!("select 1 from propagation where tenant_id = '{}'", house.developer);
    eventually("the end of the job", async || {
        sql.query_opt(&pending, &[]).await.unwrap().is_none().then_some(())
    })
    .await;
    let events = object_events(object, 2).await;
    let last = events.last().unwrap();
    assert_eq!((&last["ProjectName"], &last["Rooms"]), (&json!("Ели"), &json!(7)));
    assert!(events.len() <= 3, "the rename and the rooms, together or apart: {events:?}");
}

/// RULE-CHS-029: several batches, and several runs of the job, publish each object once.
#[tokio::test]
async fn several_batches_publish_each_object_once() {
    let own = DedicatedService::start::<Service>(&[
        ("OBJECT_PROPAGATION_BATCH", "2"),
        ("OBJECT_PROPAGATION_INTERVAL_MS", "100"),
    ]);
    let sql = own.sql().await;
    let (by, base) = create_project(&own).await;
    for _ in 0..3 {
        let created = by.post(&format!("{base}/buildings"), building()).await.expect(201);
        let path = format!("{base}/buildings/{}/property-objects", text(&created["Id"]));
        by.put(&path, json!({"Objects": flats(200)})).await.expect(200);
    }
    by.put(&base, with(project(), "Name", "Ели")).await.expect(200);
    let count = async |condition: &str| {
        let query = format!("select count(*) from property_object where {condition}");
        sql.query_one(&query, &[]).await.unwrap().get::<_, i64>(0)
    };
    eventually("all objects", async || {
        (count("published_project_name = 'Ели' and version = 2").await == 600).then_some(())
    })
    .await;
    eventually("the end of the job", async || {
        let left = sql.query_one("select count(*) from propagation", &[]).await.unwrap();
        (left.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    assert_eq!(count("version = 2").await, 600);
}

/// RULE-CHS-029: hiding precedes renaming, and the job serves developers round-robin, one batch
/// each.
#[tokio::test]
async fn hiding_precedes_names_and_developers_alternate() {
    let own = DedicatedService::start::<Service>(&[
        ("OBJECT_PROPAGATION_BATCH", "2"),
        ("OBJECT_PROPAGATION_INTERVAL_MS", "100"),
    ]);
    let (mut holder, sql) = (own.sql().await, own.sql().await);
    let mut developers = Vec::new();
    for _ in 0..3 {
        let (by, base) = create_project(&own).await;
        let created = by.post(&format!("{base}/buildings"), building()).await.expect(201);
        let building_path = format!("{base}/buildings/{}", text(&created["Id"]));
        by.put(&format!("{building_path}/property-objects"), json!({"Objects": flats(6)})).await.expect(200);
        developers.push((by, base, building_path));
    }
    let tenants: Vec<String> = {
        let select = "select tenant_id::text from project order by created_at";
        sql.query(select, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    // The lock prevents the worker from starting the job.
    let held = holder.transaction().await.unwrap();
    let job = "select from job where kind = 'object-propagation' for update";
    held.query_one(job, &[]).await.unwrap();
    for (by, base, _) in &developers[..2] {
        by.put(base, with(project(), "Name", "Ели")).await.expect(200);
    }
    let (by, _, building) = &developers[2];
    by.delete(building).await.expect(204);
    held.commit().await.unwrap();
    eventually("the end of the job", async || {
        let left = sql.query_one("select count(*) from propagation", &[]).await.unwrap();
        (left.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    // `xmin` is the transaction that wrote a row last. Each batch is one transaction, and writes
    // objects of one developer.
    let batches = "select tenant_id::text from property_object group by tenant_id, xmin::text::bigint \
        order by xmin::text::bigint";
    let batches: Vec<String> = sql.query(batches, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let turns = [2, 2, 2, 0, 1, 0, 1, 0, 1].map(|developer| tenants[developer].clone());
    assert_eq!(batches, turns);
}

/// RULE-CHS-029: a batch updates only its own row of the queue. A developer does not wait until all
/// changes of an earlier one are published.
#[tokio::test]
async fn changes_of_one_developer_do_not_delay_others() {
    let own = DedicatedService::start::<Service>(&[("OBJECT_PROPAGATION_INTERVAL_MS", "100")]);
    let (mut holder, mut barrier, sql) = (own.sql().await, own.sql().await, own.sql().await);
    let mut buildings = Vec::new();
    for count in [6, 1] {
        let (by, base) = create_project(&own).await;
        for _ in 0..count {
            let created = by.post(&format!("{base}/buildings"), building()).await.expect(201);
            let path = format!("{base}/buildings/{}", text(&created["Id"]));
            by.put(&format!("{path}/property-objects"), json!({"Objects": flats(1)})).await.expect(200);
            buildings.push((by.clone(), path));
        }
    }
    // The lock prevents the worker from starting the job.
    let held = holder.transaction().await.unwrap();
    let job = "select 1 from job where kind = 'object-propagation' and run is null for update";
    eventually("the job", async || held.query_opt(job, &[]).await.unwrap()).await;
    for (by, path) in &buildings {
        by.put(path, with(building(), "Name", "Б")).await.expect(200);
    }
    let rows = "select scope_id::text, xmin::text, ctid::text from propagation order by turn";
    let read_queue = async || {
        let rows = sql.query(rows, &[]).await.unwrap();
        rows.iter().map(|row| [0, 1, 2].map(|at| row.get::<_, String>(at))).collect::<Vec<_>>()
    };
    let requested = read_queue().await;
    assert_eq!(requested.len(), 7);
    // The second batch belongs to the last developer and waits for this lock.
    let blocker = barrier.transaction().await.unwrap();
    let last = "select from property_object where building_id::text = $1 for update";
    blocker.query(last, &[&requested[6][0]]).await.unwrap();
    held.commit().await.unwrap();
    eventually("the first batch", async || (read_queue().await.len() == 6).then_some(())).await;
    assert_eq!(read_queue().await, requested[1..]);
    let count = "select count(*) from property_object where published_building_name = 'Б'";
    assert_eq!(sql.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
    blocker.commit().await.unwrap();
    eventually("the end of the job", async || read_queue().await.is_empty().then_some(())).await;
    assert_eq!(sql.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 7);
}

/// Creates a project of a new developer. Returns the manager's client and the project's path.
async fn create_project(own: &DedicatedService) -> (Client, String) {
    let developer = guid();
    let event = company_event(developer, "Active", 1);
    own.bus().publish(COMPANY_UPSERTED, developer, next_sequence(), &event).await;
    let by = own.caller(&user_claims(Some(developer), &[MANAGE]));
    eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    let created = by.post(PROJECTS, project()).await.expect(201);
    (by, format!("{PROJECTS}/{}", text(&created["Id"])))
}

/// RULE-CHS-029, RULE-EVT-009, RULE-EVT-027: `republish PropertyObject` repeats the last published
/// content under its version, regardless of later changes of the ancestors.
#[tokio::test]
async fn republish_repeats_last_published_object() {
    // The pause of an hour keeps the job from publishing the rename.
    let own = DedicatedService::start::<Service>(&[("OBJECT_PROPAGATION_INTERVAL_MS", "3600000")]);
    let (by, base) = create_project(&own).await;
    let created = by.post(&format!("{base}/buildings"), building()).await.expect(201);
    let building = format!("{base}/buildings/{}", text(&created["Id"]));
    by.put(&format!("{building}/property-objects"), json!({"Objects": flats(1)})).await.expect(200);
    let read = by.get(&building).await.expect(200);
    let object = id_of(&read["Grid"][0]["Floors"][0]["Objects"][0]["Id"]);
    let first = object_events_on(own.bus(), object, 1).await;
    by.put(&base, with(project(), "Name", "Ели")).await.expect(200);
    let mut republish = Command::new(env!("CARGO_BIN_EXE_chessboard"));
    republish.args(["republish", "PropertyObject"]).env("DATABASE_URL", &own.database_url).env("LOG", "off");
    republish.env("KAFKA_BROKERS", own.broker().servers());
    republish.env("AUTH_ISSUER", issuer().url());
    let output = republish.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(object_events_on(own.bus(), object, 2).await[1], first[0]);
}
