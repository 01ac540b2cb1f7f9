//! External ids of buildings.

use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::{guid, text};

use crate::ext_projects::{named, put_project};
use crate::objects::{PROJECTS, building, draft_house, flat, flats, project};
use crate::{create_developer, id_of, manager, with, without};

const TAKEN: &str = "CHESSBOARD_EXTERNAL_ID_TAKEN";

pub async fn put_building(by: &Client, id: &str, body: Value) -> Response {
    by.put(&named("buildings", id), body).await
}

/// RULE-CHS-066: the project of an upserted building is named by its id or by its external id, and
/// exactly one of them is required.
#[tokio::test]
async fn upsert_creates_building_in_project_of_either_id() {
    let by = manager(create_developer().await);
    let project = put_project(&by, "p", project()).await.expect(201);
    let first = with(building(), "ProjectExternalId", "p");
    let response = put_building(&by, "1", first.clone()).await;
    assert_eq!(response.header("location"), named("buildings", "1"));
    let created = response.expect(201);
    assert_eq!(
        (&created["ExternalId"], &created["ProjectId"], &created["Version"]),
        (&json!("1"), &project["Id"], &json!(1))
    );
    assert_eq!(put_building(&by, "1", first.clone()).await.expect(200), created);
    assert_eq!(by.get(&named("buildings", "1")).await.expect(200), created);
    let by_id = with(building(), "ProjectId", project["Id"].clone());
    assert_eq!(put_building(&by, "1", by_id.clone()).await.expect(200), created);
    put_building(&by, "2", by_id.clone()).await.expect(201);
    let renamed = with(with(first.clone(), "Name", "Корпус 2"), "Version", 1);
    let changed = put_building(&by, "1", renamed.clone()).await.expect(200);
    assert_eq!((&changed["Id"], &changed["Version"]), (&created["Id"], &json!(2)));
    put_building(&by, "1", first).await.expect(200);
    put_building(&by, "1", renamed).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");

    for body in [building(), with(by_id, "ProjectExternalId", "p")] {
        let response = put_building(&by, "3", body).await;
        response.expect_refusal("VALIDATION_FAILED", "/ProjectId", "exactly_one");
    }
}

/// RULE-CHS-066: the order is 400 of the request, 404 of the project, the building of another
/// project, 400 of the stored objects, then `Version`.
#[tokio::test]
async fn building_upsert_rejections_follow_order() {
    let house = draft_house().await;
    let by = &house.manager;
    by.put(&house.path(""), with(building(), "ExternalId", "a")).await.expect(200);
    house.grid(&[with(flat("1"), "Floor", 10)]).await;
    let other = by.post(PROJECTS, project()).await.expect(201);
    let here = with(with(building(), "ProjectId", house.project.to_string()), "Version", 99);
    let low = with(here.clone(), "FloorsTotal", 9);
    let nowhere = with(low.clone(), "ProjectId", guid().to_string());
    let response = put_building(by, "a", without(nowhere.clone(), "ReadyYear")).await;
    response.expect_refusal("VALIDATION_FAILED", "/ReadyYear", "required");
    put_building(by, "a", nowhere).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let unknown = with(without(low.clone(), "ProjectId"), "ProjectExternalId", "unknown");
    put_building(by, "a", unknown).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    put_building(by, "a", with(low.clone(), "ProjectId", other["Id"].clone()))
        .await
        .expect_problem(409, TAKEN);
    put_building(by, "a", low).await.expect_refusal("VALIDATION_FAILED", "/FloorsTotal", "cuts_off");
    let same = put_building(by, "a", here.clone()).await.expect(200);
    assert_eq!(same["Id"], house.building.to_string());
    put_building(by, "a", with(here.clone(), "Name", "x"))
        .await
        .expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    put_building(by, "b", here).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
}

/// INV-EXT-1, RULE-CHS-062, RULE-CHS-064: the external id of a building is unique in the company,
/// also in another project. A deleted building frees it, and so does a deleted project.
#[tokio::test]
async fn external_id_of_building_is_unique_until_deletion() {
    let by = manager(create_developer().await);
    let (one, two) = (
        put_project(&by, "1", project()).await.expect(201),
        put_project(&by, "2", project()).await.expect(201),
    );
    let buildings = |project: &Value| format!("{PROJECTS}/{}/buildings", text(&project["Id"]));
    let first = by.post(&buildings(&one), with(building(), "ExternalId", "a")).await.expect(201);
    let path = format!("{}/{}", buildings(&one), text(&first["Id"]));
    let plain = by.post(&buildings(&two), building()).await.expect(201);
    let plain_path = format!("{}/{}", buildings(&two), text(&plain["Id"]));
    by.post(&buildings(&two), with(building(), "ExternalId", "a")).await.expect_problem(409, TAKEN);
    by.put(&plain_path, with(building(), "ExternalId", "a")).await.expect_problem(409, TAKEN);
    let kept = by.put(&path, with(building(), "Name", "x")).await.expect(200);
    assert_eq!(kept["ExternalId"], "a");
    let removed = by.put(&path, with(building(), "ExternalId", Value::Null)).await.expect(200);
    assert_eq!((&removed["ExternalId"], &removed["Version"]), (&Value::Null, &json!(3)));

    let in_one = with(building(), "ProjectExternalId", "1");
    let in_two = with(building(), "ProjectExternalId", "2");
    let before = put_building(&by, "b", in_one.clone()).await.expect(201);
    by.delete(&format!("{}/{}", buildings(&one), text(&before["Id"]))).await.expect(204);
    by.get(&named("buildings", "b")).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    put_building(&by, "b", in_one).await.expect(201);
    by.delete(&format!("{PROJECTS}/{}", text(&one["Id"]))).await.expect(204);
    let after = put_building(&by, "b", in_two).await.expect(201);
    assert_ne!(id_of(&after["Id"]), id_of(&before["Id"]));
}

/// RULE-CHS-036, RULE-CHS-066: an upsert creates no 201st building, and still replaces one.
#[tokio::test]
async fn upsert_creates_at_most_200_buildings() {
    let by = manager(create_developer().await);
    put_project(&by, "p", project()).await.expect(201);
    let sent = with(building(), "ProjectExternalId", "p");
    for number in 0..200 {
        put_building(&by, &number.to_string(), sent.clone()).await.expect(201);
    }
    put_building(&by, "200", sent.clone()).await.expect_problem(409, "CHESSBOARD_BUILDINGS_LIMIT_EXCEEDED");
    put_building(&by, "199", with(sent, "Name", "x")).await.expect(200);
}

/// RULE-CHS-062: the read of a building and of its project have the external ids.
#[tokio::test]
async fn reads_of_managers_have_external_ids() {
    let house = draft_house().await;
    house.grid(&flats(1)).await;
    let read = house.read().await;
    assert_eq!((&read["ExternalId"], &house.object("1").await["ExternalId"]), (&Value::Null, &Value::Null));
    house.manager.put(&house.path(""), with(building(), "ExternalId", "b")).await.expect(200);
    house.grid(&[with(flat("1"), "ExternalId", "o")]).await;
    assert_eq!(house.read().await["ExternalId"], "b");
    assert_eq!(house.object("1").await["ExternalId"], "o");
    let project = house.manager.get(&house.project_path("")).await.expect(200);
    assert_eq!(project["Buildings"][0]["ExternalId"], "b");
}
