//! The replacement of one object.

use serde_json::json;
use testkit::guid;

use crate::objects::{book_object, draft_house, flat, flats, published_house, unchanged_body};
use crate::{with, without};

/// RULE-CHS-027: `PUT` replaces all fields of an object and raises the building's version. An
/// identical body changes nothing.
#[tokio::test]
async fn put_of_object_raises_building_version() {
    let house = draft_house().await;
    house.grid(&flats(2)).await;
    let object = house.object("1").await;
    let path = house.object_path(house.id_of("1").await);
    let bare = without(without(flat("1-bis"), "Rooms"), "LayoutFileId");
    let changed = house.manager.put(&path, with(bare.clone(), "Version", 1)).await.expect(200);
    assert_eq!(
        (&changed["Id"], &changed["Number"], &changed["Rooms"], &changed["Version"], &changed["Status"]),
        (&object["Id"], &json!("1-bis"), &json!(null), &json!(2), &json!("Available"))
    );
    assert_eq!(house.read().await["Version"], 3);
    assert_eq!(house.manager.put(&path, with(bare.clone(), "Version", 1)).await.expect(200), changed);
    assert_eq!(house.read().await["Version"], 3);
    let sold = with(bare, "Status", "Sold");
    house
        .manager
        .put(&path, with(sold.clone(), "Version", 1))
        .await
        .expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let sold = house.manager.put(&path, sold).await.expect(200);
    assert_eq!(
        (&sold["Status"], &sold["Version"], &sold["HoldDealId"]),
        (&json!("Sold"), &json!(3), &json!(null))
    );
}

/// RULE-CHS-027, INV-OBJ-1, RULE-CHS-037, RULE-CHS-038: the order is 400 of the stored building,
/// `Version`, the hold, then the number.
#[tokio::test]
async fn object_rejections_follow_order() {
    let house = published_house().await;
    house.grid(&flats(3)).await;
    house.grid(&flats(2)).await;
    book_object(&house, "1").await;
    let (held, free) = (house.object("1").await, house.object("2").await);
    let (held_path, free_path) =
        (house.object_path(house.id_of("1").await), house.object_path(house.id_of("2").await));
    let put = async |path: &str, body| house.manager.put(path, body).await;

    put(&held_path, with(unchanged_body(&held), "Status", "Sold"))
        .await
        .expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let stale = with(with(unchanged_body(&held), "Status", "Sold"), "Version", 1);
    put(&held_path, stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let both = with(with(unchanged_body(&held), "Status", "Sold"), "Number", "2");
    put(&held_path, both.clone()).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    put(&held_path, with(both, "Floor", 11)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Floor",
        "out_of_range",
    );

    // All fields of a held object can change except its status.
    let changed = put(&held_path, with(unchanged_body(&held), "Rooms", 5)).await.expect(200);
    assert_eq!((&changed["Status"], &changed["HoldDealId"]), (&json!("Booked"), &held["HoldDealId"]));

    for taken in ["1", "3"] {
        let response = put(&free_path, with(unchanged_body(&free), "Number", taken)).await;
        response.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_NUMBER_TAKEN");
    }
    let booked = with(unchanged_body(&free), "Status", "Booked");
    put(&free_path, booked).await.expect_refusal("VALIDATION_FAILED", "/Status", "given_by_deals");
}

/// RULE-CHS-027, RULE-CHS-032, RULE-CHS-033: each missing resource has its own code, in the order
/// of the path. A removed object is missing.
#[tokio::test]
async fn missing_resource_is_reported_along_path() {
    let house = draft_house().await;
    house.grid(&flats(1)).await;
    let object = house.id_of("1").await;
    let put = async |path: &str| house.manager.put(path, flat("1")).await;
    let path = |project, building, object| {
        format!("{}/{project}/buildings/{building}/property-objects/{object}", crate::objects::PROJECTS)
    };
    put(&path(guid(), house.building, object)).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    put(&path(house.project, guid(), object)).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    put(&path(house.project, house.building, guid()))
        .await
        .expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    house.grid(&[]).await;
    put(&house.object_path(object)).await.expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    // Errors of the request itself precede 404.
    let response = house.manager.put(&path(guid(), guid(), guid()), with(flat("1"), "Section", 101)).await;
    response.expect_refusal("VALIDATION_FAILED", "/Section", "out_of_range");
}
