//! The history of an object's prices and statuses, with the authors of the changes.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::objects::{
    CANCELLED, House, book_object, deliver_deal_event, flat, flats, object_events, published_house,
    unchanged_body,
};
use crate::{administrator, id_of, list, manager, path, service, text, with};

/// Returns the id and the client of a manager of the developer.
fn named_manager(developer: Uuid) -> (Uuid, Client) {
    let id = guid();
    let claims = Claims { company_id: Some(developer), ..Claims::user(id) };
    (id, service().caller(&claims.permission(crate::MANAGE)))
}

/// Returns the building with another manager, and the id of the manager.
fn managed_by_another(house: &House) -> (Uuid, House) {
    let (id, manager) = named_manager(house.developer);
    (id, House { manager, ..house.clone() })
}

fn priced(object: Value, amount: i64) -> Value {
    with(object, "Price", json!({"AmountMinor": amount, "Currency": "RUB"}))
}

/// Returns version, price, statuses and author of each entry, newest first.
async fn history(house: &House, object: Uuid) -> Vec<(i64, Option<i64>, Value, Value, Value)> {
    let page = house.manager.get(&format!("{}/events", house.object_path(object))).await.expect(200);
    let entries = list(&page["Items"]).iter().map(|entry| {
        let amount = entry["Price"]["AmountMinor"].as_i64();
        let [from, to, actor] = ["From", "To", "ActorUserId"].map(|field| entry[field].clone());
        (entry["Version"].as_i64().unwrap(), amount, from, to, actor)
    });
    entries.collect()
}

/// INV-OBJ-3, INV-OBJ-4, RULE-CHS-057: each change of a price or a status has its author in the
/// history, the object and the event. The change is a single edit, a grid, a removal or a deal.
#[tokio::test]
async fn each_change_names_its_author() {
    let house = published_house().await;
    let (anna, by_anna) = managed_by_another(&house);
    let (boris, by_boris) = managed_by_another(&house);
    let first = priced(flat("1"), 100);
    by_anna.grid(&[first.clone(), flat("2")]).await;
    let object = house.id_of("1").await;
    let path = house.object_path(object);
    let priced_by_boris = by_boris.manager.put(&path, priced(first.clone(), 90)).await.expect(200);
    assert_eq!(priced_by_boris["UpdatedByUserId"], json!(boris));
    by_anna.manager.put(&path, with(priced(first.clone(), 90), "Status", "Reserved")).await.expect(200);
    by_boris.grid(&[with(priced(first.clone(), 80), "Status", "Available"), flat("2")]).await;
    let deal = book_object(&house, "1").await;
    assert_eq!(house.object("1").await["UpdatedByUserId"], Value::Null);
    deliver_deal_event(CANCELLED, deal, object, 2, "2026-11-22T11:00:00Z").await;
    by_anna.grid(&[flat("2")]).await;
    by_boris.grid(&[with(priced(first, 70), "Status", "Sold"), flat("2")]).await;

    let (nothing, anna, boris) = (Value::Null, json!(anna), json!(boris));
    let expected = vec![
        (8, Some(70), nothing.clone(), json!("Sold"), boris.clone()),
        (7, None, json!("Available"), nothing.clone(), anna.clone()),
        (6, None, json!("Booked"), json!("Available"), nothing.clone()),
        (5, None, json!("Available"), json!("Booked"), nothing.clone()),
        (4, Some(80), json!("Reserved"), json!("Available"), boris.clone()),
        (3, None, json!("Available"), json!("Reserved"), anna.clone()),
        (2, Some(90), nothing.clone(), nothing.clone(), boris.clone()),
        (1, Some(100), nothing.clone(), json!("Available"), anna.clone()),
    ];
    assert_eq!(history(&house, object).await, expected);
    let events = object_events(object, 8).await;
    let authors: Vec<_> = events.iter().map(|event| event["UpdatedByUserId"].clone()).collect();
    let in_order: Vec<_> = expected.iter().rev().map(|(_, _, _, _, actor)| actor.clone()).collect();
    assert_eq!(authors, in_order);
    assert!(events.iter().all(|event| !event.to_string().contains(&deal.to_string())));

    let administered = format!("/property-objects/{object}/events");
    let administered = administrator().get(&crate::path(house.developer, &administered)).await.expect(200);
    let own = house.manager.get(&format!("{path}/events")).await.expect(200);
    assert_eq!(administered, own, "the platform reads the same history");
    assert!(!own.to_string().contains(&deal.to_string()));
}

/// INV-OBJ-4: a change of other fields and an unchanged grid add no entry. A publication by the job
/// keeps the author.
#[tokio::test]
async fn change_without_new_price_or_status_has_no_history_entry() {
    let house = published_house().await;
    let (anna, by_anna) = managed_by_another(&house);
    by_anna.grid(&flats(1)).await;
    let object = house.object("1").await;
    let (id, same) = (id_of(&object["Id"]), unchanged_body(&object));
    house.grid(std::slice::from_ref(&same)).await;
    assert_eq!(house.object("1").await["UpdatedByUserId"], json!(anna));
    let renamed = with(crate::objects::project(), "Name", "Ели");
    house.manager.put(&house.project_path(""), renamed).await.expect(200);
    let renamed =
        crate::objects::wait_for_object_event(id, "the new name", |event| event["ProjectName"] == "Ели");
    assert_eq!(renamed.await["UpdatedByUserId"], json!(anna));
    let (boris, by_boris) = managed_by_another(&house);
    by_boris.grid(&[with(same, "Section", 2)]).await;
    assert_eq!(house.object("1").await["UpdatedByUserId"], json!(boris));
    assert_eq!(history(&house, id).await.len(), 1);
}

/// RULE-CHS-057: the history is paged by version, even for removed objects.
#[tokio::test]
async fn history_of_removed_object_is_paged() {
    let house = published_house().await;
    for amount in 1..=5 {
        house.grid(&[priced(flat("1"), amount)]).await;
    }
    let object = house.id_of("1").await;
    house.grid(&[]).await;
    let events = format!("{}/events", house.object_path(object));
    let (mut path, mut versions) = (format!("{events}?PageSize=4"), Vec::new());
    loop {
        let page = house.manager.get(&path).await.expect(200);
        versions.extend(list(&page["Items"]).iter().map(|entry| entry["Version"].as_i64().unwrap()));
        if page["NextCursor"].is_null() {
            break;
        }
        path = format!("{events}?PageSize=4&Cursor={}", text(&page["NextCursor"]));
    }
    assert_eq!(versions, [6, 5, 4, 3, 2, 1]);
    let broken = house.manager.get(&format!("{events}?Cursor=x")).await;
    broken.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
}

/// RULE-CHS-031, RULE-CHS-032, RULE-CHS-033, RULE-CHS-057: the history is found only on the path of
/// its object. Guests and other companies never read it.
#[tokio::test]
async fn history_on_another_path_returns_404() {
    let (house, other) = (published_house().await, published_house().await);
    house.grid(&flats(1)).await;
    let object = house.id_of("1").await;
    let events = format!("{}/events", house.object_path(object));
    service().guest().get(&events).await.expect_problem(401, "UNAUTHORIZED");
    let foreign = manager(other.developer).get(&events).await;
    foreign.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    for (below, code) in [
        (
            format!("/buildings/{}/property-objects/{object}/events", other.building),
            "CHESSBOARD_BUILDING_NOT_FOUND",
        ),
        (
            format!("/buildings/{}/property-objects/{}/events", house.building, guid()),
            "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND",
        ),
    ] {
        house.manager.get(&house.project_path(&below)).await.expect_problem(404, code);
    }
    let elsewhere = other.object_path(object);
    let elsewhere = other.manager.get(&format!("{elsewhere}/events")).await;
    elsewhere.expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    let administered = format!("/property-objects/{object}/events");
    let wrong = administrator().get(&path(other.developer, &administered)).await;
    wrong.expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    let unknown = administrator().get(&path(guid(), &administered)).await;
    unknown.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// INV-OBJ-3, INV-OBJ-4: the database rejects changes of the history.
#[tokio::test]
async fn history_is_append_only() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    let sql = service().sql().await;
    for table in ["price_history", "status_history"] {
        for statement in [
            format!("update {table} set changed_by_user_id = null"),
            format!("delete from {table}"),
            format!("truncate {table}"),
        ] {
            let refused = sql.batch_execute(&statement).await.unwrap_err();
            let message = refused.as_db_error().unwrap().message().to_owned();
            assert_eq!(message, format!("{table} is append-only"), "{statement}");
        }
    }
}
