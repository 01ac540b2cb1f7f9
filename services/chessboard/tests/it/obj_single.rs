//! One object in one request.

use serde_json::json;
use testkit::guid;

use crate::objects::{book, draft_house, flat, flats, house, put_of};
use crate::{with, without};

/// `PUT` of an object: all of its members; the building's version grows with it, a repeat changes nothing.
#[tokio::test]
async fn an_object_is_replaced_and_its_building_has_a_new_version() {
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

/// Section 6: held and taken, each after the version; and what the building must know before it.
#[tokio::test]
async fn what_stands_against_an_object_is_told_in_order() {
    let house = house().await;
    house.grid(&flats(3)).await;
    house.grid(&flats(2)).await;
    book(&house, "1").await;
    let (held, free) = (house.object("1").await, house.object("2").await);
    let (held_path, free_path) =
        (house.object_path(house.id_of("1").await), house.object_path(house.id_of("2").await));
    let put = async |path: &str, body| house.manager.put(path, body).await;

    put(&held_path, with(put_of(&held), "Status", "Sold"))
        .await
        .expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let stale = with(with(put_of(&held), "Status", "Sold"), "Version", 1);
    put(&held_path, stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let both = with(with(put_of(&held), "Status", "Sold"), "Number", "2");
    put(&held_path, both.clone()).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    put(&held_path, with(both, "Floor", 11)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Floor",
        "out_of_range",
    );

    // A held object may change in all but its status.
    let changed = put(&held_path, with(put_of(&held), "Rooms", 5)).await.expect(200);
    assert_eq!((&changed["Status"], &changed["HoldDealId"]), (&json!("Booked"), &held["HoldDealId"]));

    for taken in ["1", "3"] {
        let answer = put(&free_path, with(put_of(&free), "Number", taken)).await;
        answer.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_NUMBER_TAKEN");
    }
    let booked = with(put_of(&free), "Status", "Booked");
    put(&free_path, booked).await.expect_refusal("VALIDATION_FAILED", "/Status", "given_by_deals");
}

/// Section 6: each missing thing has its own code, as the path goes; what was removed is missing.
#[tokio::test]
async fn what_is_missing_is_told_as_the_path_goes() {
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
    // What the request alone shows comes before.
    let answer = house.manager.put(&path(guid(), guid(), guid()), with(flat("1"), "Section", 101)).await;
    answer.expect_refusal("VALIDATION_FAILED", "/Section", "out_of_range");
}
