//! Operations on buildings.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::{guid, text};

use crate::objects::{
    book_object, building, draft_house, flat, flats, published_house, wait_for_object_event,
};
use crate::{count, each, with, without};

/// RULE-CHS-025: a created building is returned as stored, and a project lists its buildings by
/// name.
#[tokio::test]
async fn created_buildings_are_listed_by_name() {
    let house = draft_house().await;
    let sent = with(building(), "Name", "А");
    let created = house.manager.post(&house.project_path("/buildings"), sent.clone()).await.expect(201);
    for (member, value) in sent.as_object().unwrap() {
        assert_eq!(&created[member], value, "{member}");
    }
    assert_eq!(
        (&created["Version"], &created["ProjectId"], &created["TenantId"]),
        (&json!(1), &json!(house.project), &json!(house.developer))
    );
    let read = house.manager.get(&house.project_path("")).await.expect(200);
    assert_eq!(each(&read["Buildings"], "Name"), ["А", "Корпус 1"]);
    assert_eq!(read["Buildings"][0], created);
    let path = house.project_path(&format!("/buildings/{}", text(&created["Id"])));
    assert_eq!(house.manager.get(&path).await.expect(200), with(created, "Grid", json!([])));
}

/// RULE-CHS-025: an update never cuts off a live object, and an identical body changes nothing.
#[tokio::test]
async fn building_update_never_cuts_off_objects() {
    let house = draft_house().await;
    let far = with(with(flat("9"), "Section", 3), "Floor", 9);
    house.grid(&[flat("1"), far]).await;
    let put = async |body: Value| house.manager.put(&house.path(""), body).await;
    put(with(building(), "SectionsCount", 2)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/SectionsCount",
        "cuts_off",
    );
    put(with(building(), "FloorsTotal", 8)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/FloorsTotal",
        "cuts_off",
    );
    let smaller = with(building(), "FloorsTotal", 9);
    let changed = put(smaller.clone()).await.expect(200);
    assert_eq!((&changed["Version"], &changed["FloorsTotal"]), (&json!(3), &json!(9)));
    assert_eq!(put(with(smaller, "Version", 1)).await.expect(200), changed);
    put(with(building(), "Version", 2)).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    // A removed object does not limit the size.
    house.grid(&[flat("1")]).await;
    put(with(with(building(), "SectionsCount", 1), "FloorsTotal", 1)).await.expect(200);
}

/// RULE-CHS-025: an invalid member of a building, and a quarter without a year, return 400.
#[tokio::test]
async fn invalid_building_member_is_rejected() {
    let house = draft_house().await;
    let path = house.project_path("/buildings");
    for (member, value, code) in [
        ("Name", json!(""), "too_short"),
        ("Name", json!("x".repeat(129)), "too_long"),
        ("SectionsCount", json!(0), "out_of_range"),
        ("SectionsCount", json!(101), "out_of_range"),
        ("FloorsTotal", json!(0), "out_of_range"),
        ("FloorsTotal", json!(201), "out_of_range"),
        ("FloorsTotal", json!(1.5), "invalid_type"),
        ("State", json!("Ready"), "unknown_value"),
        ("ReadyYear", json!(1899), "out_of_range"),
        ("ReadyYear", json!(2101), "out_of_range"),
        ("ReadyQuarter", json!(0), "out_of_range"),
        ("ReadyQuarter", json!(5), "out_of_range"),
    ] {
        let response = house.manager.post(&path, with(building(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    let response = house.manager.post(&path, without(building(), "ReadyYear")).await;
    response.expect_refusal("VALIDATION_FAILED", "/ReadyYear", "required");
    house.manager.post(&path, without(building(), "ReadyQuarter")).await.expect(201);
    let nowhere = format!("{}/{}/buildings", crate::objects::PROJECTS, guid());
    house.manager.post(&nowhere, building()).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
}

/// RULE-CHS-025: limits of a building are inclusive, and an absent optional member is null.
#[tokio::test]
async fn building_limits_are_inclusive() {
    let house = draft_house().await;
    let path = house.project_path("/buildings");
    let bare = json!({"Name": "x", "SectionsCount": 1, "FloorsTotal": 1, "State": "Planned"});
    let min = with(with(bare.clone(), "ReadyYear", 1900), "ReadyQuarter", 1);
    let max = json!({
        "Name": "🏠".repeat(128), "SectionsCount": 100, "FloorsTotal": 200, "State": "Commissioned", "ReadyYear": 2100,
        "ReadyQuarter": 4,
    });
    for sent in [with(with(bare.clone(), "ReadyYear", Value::Null), "ReadyQuarter", Value::Null), min, max] {
        let created = house.manager.post(&path, sent.clone()).await.expect(201);
        for (member, value) in sent.as_object().unwrap() {
            assert_eq!(&created[member], value, "{member}");
        }
    }
    let created = house.manager.post(&path, bare).await.expect(201);
    assert_eq!((&created["ReadyYear"], &created["ReadyQuarter"]), (&Value::Null, &Value::Null));
}

/// RULE-CHS-024: the deletion of a building includes its objects, unless a deal holds one of them.
#[tokio::test]
async fn building_deletion_includes_objects_unless_held() {
    let held = published_house().await;
    held.grid(&flats(1)).await;
    book_object(&held, "1").await;
    held.manager.delete(&held.path("")).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let free = published_house().await;
    free.grid(&flats(1)).await;
    let object = free.id_of("1").await;
    free.manager.delete(&free.path("")).await.expect(204);
    free.manager.delete(&free.path("")).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    free.manager.get(&free.path("")).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    let event = wait_for_object_event(object, "the deletion", |event| event["Status"] == "Unavailable").await;
    assert_eq!(event["IsPublic"], false);
}

/// RULE-CHS-025, RULE-CHS-036: a project has at most 200 live buildings, also under parallel
/// requests.
#[tokio::test]
async fn project_has_at_most_200_buildings() {
    let house = draft_house().await;
    let path = house.project_path("/buildings");
    for _ in 0..19 {
        let created = join_all((0..10).map(|_| house.manager.post(&path, building()))).await;
        assert_eq!(count(&created, 201), 10);
    }
    let created = join_all((0..15).map(|_| house.manager.post(&path, building()))).await;
    assert_eq!((count(&created, 201), count(&created, 409)), (9, 6));
    house.manager.post(&path, building()).await.expect_problem(409, "CHESSBOARD_BUILDINGS_LIMIT_EXCEEDED");
    house.manager.delete(&house.path("")).await.expect(204);
    house.manager.post(&path, building()).await.expect(201);
}
