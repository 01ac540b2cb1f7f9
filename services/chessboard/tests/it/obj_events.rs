//! Events of objects.

use serde_json::{Value, json};
use testkit::guid;

use crate::objects::{
    BOOKED, book_object, deliver_deal_event, flat, flats, object_events, published_house, unchanged_body,
};
use crate::{id_of, list, service, with};

/// RULE-CHS-029, RULE-EVT-009: the event has the whole payload and never names the deal that holds
/// the object.
#[tokio::test]
async fn object_event_has_payload_without_holder() {
    let house = published_house().await;
    let sent = flat("12а");
    house.grid(std::slice::from_ref(&sent)).await;
    let object = house.id_of("12а").await;
    let deal = book_object(&house, "12а").await;
    let events = object_events(object, 2).await;
    let whole = json!({
        "Id": object, "BuildingId": house.building, "ProjectId": house.project, "TenantId": house.developer,
        "ProjectName": "Сосны", "BuildingName": "Корпус 1", "Number": "12а", "Kind": "Flat", "Rooms": 2,
        "IsStudio": false, "Floor": 1, "AreaTotal": 54.25, "Finishing": "PreFinish", "Price": sent["Price"],
        "Status": "Available", "LayoutFileId": sent["LayoutFileId"], "IsPublic": true, "UpdatedByUserId": events[0]["UpdatedByUserId"],
        "Version": 1,
    });
    assert_eq!(events[0], whole);
    assert!(events[0]["UpdatedByUserId"].is_string());
    let booked = with(with(whole, "Status", "Booked"), "Version", 2);
    assert_eq!(events[1], with(booked, "UpdatedByUserId", Value::Null));
    assert!(!events[1].to_string().contains(&deal.to_string()));
    let headers = service().bus().events(&object)[0].headers.clone();
    assert_eq!((&*headers["aggregatetype"], &*headers["contractversion"]), ("PropertyObject", "1"));
}

/// RULE-CHS-029, RULE-EVT-009: a change of a field that is not in the payload raises the version.
/// The next event has the raised version.
#[tokio::test]
async fn change_outside_payload_is_in_next_event() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    let object = house.object("1").await;
    let path = house.object_path(id_of(&object["Id"]));
    for (member, value) in [
        ("Section", json!(2)),
        ("PositionOnFloor", json!(7)),
        ("AreaLiving", json!(null)),
        ("AreaKitchen", json!(9.99)),
    ] {
        let now = house.object("1").await;
        house.manager.put(&path, with(unchanged_body(&now), member, value)).await.expect(200);
    }
    let now = house.object("1").await;
    assert_eq!(now["Version"], 5);
    house.manager.put(&path, with(unchanged_body(&now), "Finishing", "Finished")).await.expect(200);
    let versions: Vec<_> =
        object_events(id_of(&object["Id"]), 2).await.iter().map(|event| event["Version"].clone()).collect();
    assert_eq!(versions, [1, 6]);
}

/// RULE-CHS-029, RULE-EVT-009: a removed object is published once as Unavailable and not public. A
/// returned object is published with its status.
#[tokio::test]
async fn removal_and_return_are_published() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    let object = house.id_of("1").await;
    house.grid(&[]).await;
    house.grid(&[]).await;
    house.grid(&flats(1)).await;
    let events = object_events(object, 3).await;
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event["Version"].clone(), event["Status"].clone(), event["IsPublic"].clone()))
        .collect();
    assert_eq!(
        seen,
        [
            (json!(1), json!("Available"), json!(true)),
            (json!(2), json!("Unavailable"), json!(false)),
            (json!(3), json!("Available"), json!(true)),
        ]
    );
}

/// RULE-CHS-029: a change of the holder only raises the version and publishes no event. A claim on
/// a removed object changes nothing.
#[tokio::test]
async fn change_of_holder_publishes_no_event() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let (object, removed) = (house.id_of("1").await, house.id_of("2").await);
    book_object(&house, "1").await;
    house.grid(&flats(1)).await;
    deliver_deal_event(BOOKED, guid(), object, 1, "2026-11-23T10:00:00Z").await;
    deliver_deal_event(BOOKED, guid(), removed, 1, "2026-11-23T10:00:00Z").await;
    assert_eq!(house.object("1").await["Version"], 3);
    for object in [object, removed] {
        assert_eq!(object_events(object, 2).await.len(), 2);
    }
    let grid = house.read().await["Grid"].clone();
    assert_eq!(list(&grid).len(), 1);
    assert_ne!(house.object("1").await["HoldDealId"], Value::Null);
}
