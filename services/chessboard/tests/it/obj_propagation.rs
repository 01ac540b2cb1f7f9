//! What changes above objects is told of each of them.

use std::process::Stdio;

use serde_json::json;
use testkit::client::Client;
use testkit::service::issuer;
use testkit::{eventually, guid, text};
use tokio::process::Command;

use crate::objects::{
    PROJECTS, building, draft_house, flats, house, house_of, object_event_when, object_events,
    object_events_on, project, put_of,
};
use crate::own::Own;
use crate::{
    COMPANY_UPSERTED, MANAGE, ME, company, holder, id_of, next, operator, path, publish, service,
    tell_company, tell_suspension, with,
};

/// Events: names and statuses above an object are told of it, each with a higher version, and once.
#[tokio::test]
async fn what_changed_above_is_told_of_each_object() {
    let house = draft_house().await;
    house.grid(&flats(2)).await;
    let object = house.id_of("1").await;
    let first = object_events(object, 1).await[0].clone();
    assert_eq!(
        (&first["IsPublic"], &first["ProjectName"], &first["BuildingName"], &first["Status"]),
        (&json!(false), &json!("Сосны"), &json!("Корпус 1"), &json!("Available"))
    );
    publish(house.developer).await;
    house.manager.post(&house.project_path("/publish"), json!({})).await.expect(200);
    object_event_when(object, "that it is public", |told| told["IsPublic"] == true).await;
    house.manager.put(&house.project_path(""), with(project(), "Name", "Ели")).await.expect(200);
    object_event_when(object, "the project's name", |told| told["ProjectName"] == "Ели").await;
    house.manager.put(&house.path(""), with(building(), "Name", "Б")).await.expect(200);
    object_event_when(object, "the building's name", |told| told["BuildingName"] == "Б").await;
    operator().post(&path(house.developer, "/hide"), json!({})).await.expect(200);
    object_event_when(object, "that it is not public", |told| told["IsPublic"] == false).await;
    operator().post(&path(house.developer, "/publish"), json!({})).await.expect(200);
    object_event_when(object, "that it is public again", |told| told["IsPublic"] == true).await;
    house.manager.delete(&house.project_path("")).await.expect(204);
    object_event_when(object, "that it is gone", |told| told["Status"] == "Unavailable").await;
    let versions: Vec<_> =
        object_events(object, 7).await.iter().map(|told| told["Version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7]);
}

/// Section 4, events: what identity hides, and publishes again, is told of each object that was public, once each time, and of no other.
#[tokio::test]
async fn a_suspension_is_told_of_each_public_object() {
    let house = house().await;
    house.grid(&flats(3)).await;
    let mut objects = Vec::new();
    for number in ["1", "2", "3"] {
        objects.push(house.id_of(number).await);
    }
    let draft = house_of(house.developer, house.manager.clone()).await;
    draft.grid(&flats(1)).await;
    let never_public = draft.id_of("1").await;

    let suspended = company(house.developer, "Suspended", 2);
    tell_company(&suspended).await;
    tell_suspension(&suspended).await;
    for object in &objects {
        object_event_when(*object, "that it is not public", |told| told["IsPublic"] == false).await;
    }
    tell_company(&company(house.developer, "Active", 3)).await;
    for object in &objects {
        object_event_when(*object, "that it is public again", |told| told["Version"] == 3).await;
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
            .map(|told| (told["Version"].clone(), told["IsPublic"].clone(), told["Status"].clone()))
            .collect();
        assert_eq!(seen, expected);
    }
    assert_eq!(object_events(never_public, 1).await.len(), 1);
}

/// Events: what an object tells itself has what is above it by then, and the job adds nothing.
#[tokio::test]
async fn what_an_object_told_itself_is_not_told_again() {
    let house = house().await;
    house.grid(&flats(2)).await;
    let (one, two) = (house.object("1").await, house.id_of("2").await);
    let object = house.id_of("1").await;
    let sql = service().sql().await;
    house.manager.put(&house.project_path(""), with(project(), "Name", "Ели")).await.expect(200);
    let path = house.object_path(object);
    let rooms = with(put_of(&one), "Rooms", 7);
    // Where the job tells of the rename between this request's first look and its lock, it is a conflict.
    eventually("the rooms", async || {
        (house.manager.put(&path, rooms.clone()).await.status == 200).then_some(())
    })
    .await;
    object_event_when(two, "the project's name", |told| told["ProjectName"] == "Ели").await;
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

/// Propagation: more objects than a batch has, and more than a run of the job has time for, of several buildings.
#[tokio::test]
async fn more_than_a_batch_is_told_and_nothing_twice() {
    let own = Own::start(&[("OBJECT_PROPAGATION_BATCH", "2"), ("OBJECT_PROPAGATION_INTERVAL_MS", "100")]);
    let sql = own.sql().await;
    let (by, base) = project_of(&own).await;
    for _ in 0..3 {
        let made = by.post(&format!("{base}/buildings"), building()).await.expect(201);
        let path = format!("{base}/buildings/{}/property-objects", text(&made["Id"]));
        by.put(&path, json!({"Objects": flats(200)})).await.expect(200);
    }
    by.put(&base, with(project(), "Name", "Ели")).await.expect(200);
    let count = async |condition: &str| {
        let asked = format!("select count(*) from property_object where {condition}");
        sql.query_one(&asked, &[]).await.unwrap().get::<_, i64>(0)
    };
    eventually("all objects", async || {
        (count("told_project_name = 'Ели' and version = 2").await == 600).then_some(())
    })
    .await;
    eventually("the end of the job", async || {
        let left = sql.query_one("select count(*) from propagation", &[]).await.unwrap();
        (left.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    assert_eq!(count("version = 2").await, 600);
}

/// Propagation: what hides is told before names, and developers take turns, batch by batch.
#[tokio::test]
async fn what_hides_goes_first_and_developers_take_turns() {
    let own = Own::start(&[("OBJECT_PROPAGATION_BATCH", "2"), ("OBJECT_PROPAGATION_INTERVAL_MS", "100")]);
    let (mut holder, sql) = (own.sql().await, own.sql().await);
    let mut developers = Vec::new();
    for _ in 0..3 {
        let (by, base) = project_of(&own).await;
        let made = by.post(&format!("{base}/buildings"), building()).await.expect(201);
        let made = format!("{base}/buildings/{}", text(&made["Id"]));
        by.put(&format!("{made}/property-objects"), json!({"Objects": flats(6)})).await.expect(200);
        developers.push((by, base, made));
    }
    let tenants: Vec<String> = {
        let select = "select tenant_id::text from project order by created_at";
        sql.query(select, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    // Nobody takes up a job whose row is locked.
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
    // Who was written last by which transaction: one for each batch.
    let batches = "select tenant_id::text from property_object group by tenant_id, xmin::text::bigint \
        order by xmin::text::bigint";
    let batches: Vec<String> = sql.query(batches, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let turns = [2, 2, 2, 0, 1, 0, 1, 0, 1].map(|developer| tenants[developer].clone());
    assert_eq!(batches, turns);
}

/// Propagation: a batch moves what it tells of and nothing else, however much else the developer has changed; and who comes later
/// does not wait for all of that.
#[tokio::test]
async fn many_changes_of_one_developer_neither_cost_nor_wait_for_each_other() {
    let own = Own::start(&[("OBJECT_PROPAGATION_INTERVAL_MS", "100")]);
    let (mut holder, mut barrier, sql) = (own.sql().await, own.sql().await, own.sql().await);
    let mut buildings = Vec::new();
    for count in [6, 1] {
        let (by, base) = project_of(&own).await;
        for _ in 0..count {
            let made = by.post(&format!("{base}/buildings"), building()).await.expect(201);
            let path = format!("{base}/buildings/{}", text(&made["Id"]));
            by.put(&format!("{path}/property-objects"), json!({"Objects": flats(1)})).await.expect(200);
            buildings.push((by.clone(), path));
        }
    }
    // Nobody takes up a job whose row is locked.
    let held = holder.transaction().await.unwrap();
    let job = "select 1 from job where kind = 'object-propagation' and run is null for update";
    eventually("the job", async || held.query_opt(job, &[]).await.unwrap()).await;
    for (by, path) in &buildings {
        by.put(path, with(building(), "Name", "Б")).await.expect(200);
    }
    let rows = "select scope_id::text, xmin::text, ctid::text from propagation order by turn";
    let read = async || {
        let rows = sql.query(rows, &[]).await.unwrap();
        rows.iter().map(|row| [0, 1, 2].map(|at| row.get::<_, String>(at))).collect::<Vec<_>>()
    };
    let asked = read().await;
    assert_eq!(asked.len(), 7);
    // The developer who came last has the second batch, which stops there.
    let stopped = barrier.transaction().await.unwrap();
    let last = "select from property_object where building_id::text = $1 for update";
    stopped.query(last, &[&asked[6][0]]).await.unwrap();
    held.commit().await.unwrap();
    eventually("the first batch", async || (read().await.len() == 6).then_some(())).await;
    assert_eq!(read().await, asked[1..]);
    let told = "select count(*) from property_object where told_building_name = 'Б'";
    assert_eq!(sql.query_one(told, &[]).await.unwrap().get::<_, i64>(0), 1);
    stopped.commit().await.unwrap();
    eventually("the end of the job", async || read().await.is_empty().then_some(())).await;
    assert_eq!(sql.query_one(told, &[]).await.unwrap().get::<_, i64>(0), 7);
}

/// A project of a developer's in a service of a test's own: its manager, and its path.
async fn project_of(own: &Own) -> (Client, String) {
    let developer = guid();
    let told = company(developer, "Active", 1);
    own.bus().publish(COMPANY_UPSERTED, developer, next(), &told).await;
    let by = own.caller(&holder(Some(developer), &[MANAGE]));
    eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    let made = by.post(PROJECTS, project()).await.expect(201);
    (by, format!("{PROJECTS}/{}", text(&made["Id"])))
}

/// `republish PropertyObject` publishes each object again as it was published last, under its version, whatever has changed above it since.
#[tokio::test]
async fn republish_publishes_each_object_again_as_it_was_published_last() {
    let own = Own::start(&[("OBJECT_PROPAGATION_INTERVAL_MS", "3600000")]);
    let (by, base) = project_of(&own).await;
    let made = by.post(&format!("{base}/buildings"), building()).await.expect(201);
    let building = format!("{base}/buildings/{}", text(&made["Id"]));
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
