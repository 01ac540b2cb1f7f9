//! Buildings: what managers do with them.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::{guid, text};

use crate::objects::{book, building, draft_house, flat, flats, house, object_event_when};
use crate::{count, each, with, without};

/// Building: what was sent is answered as it is kept; a project shows its buildings by name.
#[tokio::test]
async fn buildings_are_made_and_shown_by_name() {
    let house = draft_house().await;
    let sent = with(building(), "Name", "А");
    let made = house.manager.post(&house.project_path("/buildings"), sent.clone()).await.expect(201);
    for (member, value) in sent.as_object().unwrap() {
        assert_eq!(&made[member], value, "{member}");
    }
    assert_eq!(
        (&made["Version"], &made["ProjectId"], &made["TenantId"]),
        (&json!(1), &json!(house.project), &json!(house.developer))
    );
    let read = house.manager.get(&house.project_path("")).await.expect(200);
    assert_eq!(each(&read["Buildings"], "Name"), ["А", "Корпус 1"]);
    assert_eq!(read["Buildings"][0], made);
    let path = house.project_path(&format!("/buildings/{}", text(&made["Id"])));
    assert_eq!(house.manager.get(&path).await.expect(200), with(made, "Grid", json!([])));
}

/// `PUT` of a building: compare and swap, no-ops, and no object is cut off.
#[tokio::test]
async fn a_building_never_cuts_off_its_objects() {
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
    // What was removed is cut off by nothing.
    house.grid(&[flat("1")]).await;
    put(with(with(building(), "SectionsCount", 1), "FloorsTotal", 1)).await.expect(200);
}

/// Fields: each bound of a building's; a quarter only with a year.
#[tokio::test]
async fn what_breaks_a_buildings_bounds_is_named() {
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
        let answer = house.manager.post(&path, with(building(), member, value)).await;
        answer.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    let answer = house.manager.post(&path, without(building(), "ReadyYear")).await;
    answer.expect_refusal("VALIDATION_FAILED", "/ReadyYear", "required");
    house.manager.post(&path, without(building(), "ReadyQuarter")).await.expect(201);
    let nowhere = format!("{}/{}/buildings", crate::objects::PROJECTS, guid());
    house.manager.post(&nowhere, building()).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
}

/// Fields: bounds of a building's are inclusive; what may be left out is null.
#[tokio::test]
async fn the_least_and_the_most_of_a_building_are_kept() {
    let house = draft_house().await;
    let path = house.project_path("/buildings");
    let bare = json!({"Name": "x", "SectionsCount": 1, "FloorsTotal": 1, "State": "Planned"});
    let least = with(with(bare.clone(), "ReadyYear", 1900), "ReadyQuarter", 1);
    let most = json!({
        "Name": "🏠".repeat(128), "SectionsCount": 100, "FloorsTotal": 200, "State": "Commissioned", "ReadyYear": 2100,
        "ReadyQuarter": 4,
    });
    for sent in [with(with(bare.clone(), "ReadyYear", Value::Null), "ReadyQuarter", Value::Null), least, most]
    {
        let made = house.manager.post(&path, sent.clone()).await.expect(201);
        for (member, value) in sent.as_object().unwrap() {
            assert_eq!(&made[member], value, "{member}");
        }
    }
    let made = house.manager.post(&path, bare).await.expect(201);
    assert_eq!((&made["ReadyYear"], &made["ReadyQuarter"]), (&Value::Null, &Value::Null));
}

/// Deleting a building takes its objects along, and no object that a deal holds.
#[tokio::test]
async fn a_building_goes_with_its_objects_unless_a_deal_holds_some() {
    let held = house().await;
    held.grid(&flats(1)).await;
    book(&held, "1").await;
    held.manager.delete(&held.path("")).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let free = house().await;
    free.grid(&flats(1)).await;
    let object = free.id_of("1").await;
    free.manager.delete(&free.path("")).await.expect(204);
    free.manager.delete(&free.path("")).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    free.manager.get(&free.path("")).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    let told = object_event_when(object, "that it is gone", |told| told["Status"] == "Unavailable").await;
    assert_eq!(told["IsPublic"], false);
}

/// `POST B`: at most 200 in a project, also when they race; one that is deleted makes room.
#[tokio::test]
async fn a_project_has_two_hundred_buildings_at_most() {
    let house = draft_house().await;
    let path = house.project_path("/buildings");
    for _ in 0..19 {
        let made = join_all((0..10).map(|_| house.manager.post(&path, building()))).await;
        assert_eq!(count(&made, 201), 10);
    }
    let made = join_all((0..15).map(|_| house.manager.post(&path, building()))).await;
    assert_eq!((count(&made, 201), count(&made, 409)), (9, 6));
    house.manager.post(&path, building()).await.expect_problem(409, "CHESSBOARD_BUILDINGS_LIMIT_EXCEEDED");
    house.manager.delete(&house.path("")).await.expect(204);
    house.manager.post(&path, building()).await.expect(201);
}
