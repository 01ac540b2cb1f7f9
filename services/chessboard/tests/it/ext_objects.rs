//! External ids of property objects.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;

use crate::ext_projects::named;
use crate::objects::{
    House, PROJECTS, book_object, building, draft_house, flat, flats, object_events, project,
    published_house, unchanged_body,
};
use crate::{id_of, with, without};

const TAKEN: &str = "CHESSBOARD_EXTERNAL_ID_TAKEN";
const NUMBER_TAKEN: &str = "CHESSBOARD_PROPERTY_OBJECT_NUMBER_TAKEN";
const LIMIT_EXCEEDED: &str = "CHESSBOARD_PROPERTY_OBJECTS_LIMIT_EXCEEDED";
const CONFLICT: &str = "CHESSBOARD_CONCURRENCY_CONFLICT";

/// Upserts an object of the house by its external id.
pub async fn put_object(house: &House, id: &str, object: Value) -> Response {
    let body = with(object, "BuildingId", house.building.to_string());
    house.manager.put(&named("property-objects", id), body).await
}

/// Adds a building to the project of a house.
async fn second_house(house: &House) -> House {
    let created = house.manager.post(&house.project_path("/buildings"), building()).await.expect(201);
    House { building: id_of(&created["Id"]), ..house.clone() }
}

/// RULE-CHS-067: an upsert creates an object with one event. A changed body replaces it, also its
/// number, and an identical body changes nothing.
#[tokio::test]
async fn upsert_creates_then_replaces_object() {
    let house = published_house().await;
    let sent = flat("1");
    let response = put_object(&house, "kv-1", sent.clone()).await;
    assert_eq!(response.header("location"), named("property-objects", "kv-1"));
    let created = response.expect(201);
    assert_eq!(
        (&created["ExternalId"], &created["BuildingId"], &created["Status"], &created["Version"]),
        (&json!("kv-1"), &json!(house.building), &json!("Available"), &json!(1))
    );
    assert_eq!(put_object(&house, "kv-1", sent.clone()).await.expect(200), created);
    assert_eq!(house.read().await["Version"], 2);
    assert_eq!(house.manager.get(&named("property-objects", "kv-1")).await.expect(200), created);

    let changed = put_object(&house, "kv-1", with(sent, "Number", "1a")).await.expect(200);
    assert_eq!(
        (&changed["Id"], &changed["Number"], &changed["Version"]),
        (&created["Id"], &json!("1a"), &json!(2))
    );
    assert_eq!(house.read().await["Version"], 3);
    let events = object_events(id_of(&created["Id"]), 2).await;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.get("ExternalId").is_none()));
}

/// RULE-CHS-066: the building of an upserted object is named by its id or by its external id, and
/// exactly one of them is required.
#[tokio::test]
async fn upsert_finds_building_by_either_id() {
    let house = draft_house().await;
    house.manager.put(&house.path(""), with(building(), "ExternalId", "b")).await.expect(200);
    let path = named("property-objects", "1");
    let put = async |body: Value| house.manager.put(&path, body).await;
    let by_id = with(flat("1"), "BuildingId", house.building.to_string());
    let by_external_id = with(flat("1"), "BuildingExternalId", "b");
    let by_external_id = with(by_external_id, "LayoutFileId", by_id["LayoutFileId"].clone());
    let created = put(by_external_id).await.expect(201);
    assert_eq!(put(by_id.clone()).await.expect(200), created);
    for body in [flat("1"), with(by_id, "BuildingExternalId", "b")] {
        put(body).await.expect_refusal("VALIDATION_FAILED", "/BuildingId", "exactly_one");
    }
    for (member, id) in [("BuildingId", guid().to_string()), ("BuildingExternalId", "unknown".to_owned())] {
        put(with(flat("1"), member, id)).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    }
    let other = draft_house().await;
    put(with(flat("1"), "BuildingId", other.building.to_string()))
        .await
        .expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
}

/// RULE-CHS-067: an upsert gives its external id to the object with its number, if that object has
/// no external id. The object may be removed. The number of any other object is refused.
#[tokio::test]
async fn upsert_adopts_object_with_number() {
    let house = published_house().await;
    house.grid(&flats(3)).await;
    let removed = house.object("3").await;
    house.grid(&flats(2)).await;
    let first = house.object("1").await;
    let adopted = put_object(&house, "a", unchanged_body(&first)).await.expect(200);
    assert_eq!(
        (&adopted["Id"], &adopted["ExternalId"], &adopted["Version"]),
        (&first["Id"], &json!("a"), &json!(3))
    );
    let restored = put_object(&house, "c", flat("3")).await.expect(201);
    assert_eq!((&restored["Id"], &restored["Version"]), (&removed["Id"], &json!(3)));

    put_object(&house, "b", flat("1")).await.expect_problem(409, NUMBER_TAKEN);
    put_object(&house, "a", flat("2")).await.expect_problem(409, NUMBER_TAKEN);
    assert_eq!(house.object("1").await, adopted);
}

/// INV-EXT-1, RULE-CHS-064, RULE-CHS-067: an object stays in its building. A deleted building and a
/// removal free the external ids of objects.
#[tokio::test]
async fn external_id_of_object_is_unique_until_removal() {
    let house = draft_house().await;
    let other = second_house(&house).await;
    let first = put_object(&house, "a", flat("1")).await.expect(201);
    put_object(&other, "a", flat("1")).await.expect_problem(409, TAKEN);
    other.grid(&flats(1)).await;
    let plain = other.object("1").await;
    let path = other.object_path(id_of(&plain["Id"]));
    other
        .manager
        .put(&path, with(unchanged_body(&plain), "ExternalId", "a"))
        .await
        .expect_problem(409, TAKEN);
    other.send_grid(&[with(flat("2"), "ExternalId", "a")], None).await.expect_problem(409, TAKEN);

    house.manager.delete(&house.path("")).await.expect(204);
    house
        .manager
        .get(&named("property-objects", "a"))
        .await
        .expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    let second = put_object(&other, "a", flat("2")).await.expect(201);
    assert_ne!(second["Id"], first["Id"]);
    other.grid(&flats(1)).await;
    other
        .manager
        .get(&named("property-objects", "a"))
        .await
        .expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    // A restored object has no external id unless the request has one.
    other.grid(&flats(2)).await;
    let restored = other.object("2").await;
    assert_eq!((&restored["Id"], &restored["ExternalId"]), (&second["Id"], &Value::Null));
    put_object(&other, "a", flat("3")).await.expect(201);
}

/// RULE-CHS-064: the objects of a deleted project free their external ids.
#[tokio::test]
async fn deleted_project_frees_external_ids_of_objects() {
    let house = draft_house().await;
    put_object(&house, "a", flat("1")).await.expect(201);
    house.manager.delete(&house.project_path("")).await.expect(204);
    let project = house.manager.post(PROJECTS, project()).await.expect(201);
    let other = second_house(&House { project: id_of(&project["Id"]), ..house.clone() }).await;
    other.grid(&[with(flat("1"), "ExternalId", "a")]).await;
    assert_eq!(other.object("1").await["ExternalId"], "a");
}

/// RULE-CHS-067: the order is 404 of the building, the object of another building, 400 of the
/// stored building, no change, `Version`, the hold, then the number.
#[tokio::test]
async fn object_upsert_rejections_follow_order() {
    let house = published_house().await;
    let other = second_house(&house).await;
    house.grid(&[with(flat("1"), "ExternalId", "a"), flat("2")]).await;
    book_object(&house, "1").await;
    let held = house.object("1").await;
    let high = with(with(flat("2"), "Floor", 11), "Version", 99);
    let elsewhere = with(high.clone(), "BuildingId", guid().to_string());
    let put = async |body: Value| house.manager.put(&named("property-objects", "a"), body).await;
    put(elsewhere).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    put_object(&other, "a", high.clone()).await.expect_problem(409, TAKEN);
    put_object(&house, "a", high).await.expect_refusal("VALIDATION_FAILED", "/Floor", "out_of_range");
    let response = put_object(&house, "b", with(flat("9"), "Status", "Booked")).await;
    response.expect_refusal("VALIDATION_FAILED", "/Status", "given_by_deals");
    let unchanged = put_object(&house, "a", with(held.clone(), "Version", 99)).await.expect(200);
    assert_eq!(unchanged, held);
    let sold = with(with(unchanged_body(&held), "Status", "Sold"), "Number", "2");
    put_object(&house, "a", with(sold.clone(), "Version", 99)).await.expect_problem(409, CONFLICT);
    put_object(&house, "a", sold).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let renumbered = with(unchanged_body(&held), "Number", "2");
    put_object(&house, "a", renumbered).await.expect_problem(409, NUMBER_TAKEN);
    // An absent status keeps that of the deal.
    let repriced = with(without(unchanged_body(&held), "Status"), "Rooms", 5);
    let changed = put_object(&house, "a", repriced).await.expect(200);
    assert_eq!((&changed["Status"], &changed["HoldDealId"]), (&json!("Booked"), &held["HoldDealId"]));
    put_object(&house, "new", with(flat("8"), "Version", 1)).await.expect_problem(409, CONFLICT);
    put_object(&house, "new", with(flat("8"), "Version", 0)).await.expect(201);
}

/// RULE-CHS-044, RULE-CHS-067: an upsert adds no 5,001st object, and still replaces one.
#[tokio::test]
async fn upsert_adds_at_most_5000_objects() {
    let house = draft_house().await;
    house.grid(&flats(5000)).await;
    put_object(&house, "new", flat("5001")).await.expect_problem(409, LIMIT_EXCEEDED);
    put_object(&house, "one", with(flat("1"), "Rooms", 5)).await.expect(200);
    house.grid(&flats(4999)).await;
    put_object(&house, "new", flat("5001")).await.expect(201);
    put_object(&house, "returned", flat("5000")).await.expect_problem(409, LIMIT_EXCEEDED);
    assert_eq!(house.objects().await.len(), 5000);
}

/// RULE-CHS-068: a grid sets, keeps, exchanges and removes external ids, and rejects a repeated
/// one.
#[tokio::test]
async fn grid_sets_keeps_and_exchanges_external_ids() {
    let house = draft_house().await;
    let flat_with = |number: &str, id: Value| with(flat(number), "ExternalId", id);
    let ids = async || {
        let (one, two) = (house.object("1").await, house.object("2").await);
        (one["ExternalId"].clone(), two["ExternalId"].clone())
    };
    house.grid(&[flat_with("1", json!("a")), flat_with("2", json!("b"))]).await;
    assert_eq!(ids().await, (json!("a"), json!("b")));
    house.grid(&flats(2)).await;
    assert_eq!(ids().await, (json!("a"), json!("b")));
    house.grid(&[flat_with("1", json!("b")), flat_with("2", json!("a"))]).await;
    assert_eq!(ids().await, (json!("b"), json!("a")));
    house.grid(&[flat_with("1", Value::Null), flat_with("2", json!("b"))]).await;
    assert_eq!(ids().await, (Value::Null, json!("b")));
    // The removed object gives its external id to another one.
    house.grid(&[flat_with("1", json!("b"))]).await;
    assert_eq!(house.object("1").await["ExternalId"], "b");
    let response = house.send_grid(&[flat_with("1", json!("b")), flat_with("2", json!("b"))], None).await;
    response.expect_refusal("VALIDATION_FAILED", "/Objects/1/ExternalId", "duplicate");
    let response = house.send_grid(&[flat_with("1", json!("a/b"))], None).await;
    response.expect_refusal("VALIDATION_FAILED", "/Objects/0/ExternalId", "forbidden_character");
}

/// RULE-CHS-062: the replacement of one object keeps an absent external id, and null removes it.
#[tokio::test]
async fn put_of_object_keeps_absent_external_id() {
    let house = draft_house().await;
    let created = put_object(&house, "a", flat("1")).await.expect(201);
    let path = house.object_path(id_of(&created["Id"]));
    let kept = house.manager.put(&path, flat("1")).await.expect(200);
    assert_eq!((&kept["ExternalId"], &kept["Version"]), (&json!("a"), &json!(2)));
    let removed = house.manager.put(&path, with(unchanged_body(&kept), "ExternalId", Value::Null)).await;
    let removed = removed.expect(200);
    assert_eq!((&removed["ExternalId"], &removed["Version"]), (&Value::Null, &json!(3)));
}
