//! What is told of an object, and what is not.

use serde_json::{Value, json};
use testkit::guid;

use crate::objects::{BOOKED, book, flat, flats, have_taken, house, object_events, put_of};
use crate::{id_of, list, service, with};

/// Events: the payload whole; who holds the object is in none.
#[tokio::test]
async fn an_object_is_told_whole_and_never_who_holds_it() {
    let house = house().await;
    let sent = flat("12а");
    house.grid(std::slice::from_ref(&sent)).await;
    let object = house.id_of("12а").await;
    let deal = book(&house, "12а").await;
    let events = object_events(object, 2).await;
    let whole = json!({
        "Id": object, "BuildingId": house.building, "ProjectId": house.project, "TenantId": house.developer,
        "ProjectName": "Сосны", "BuildingName": "Корпус 1", "Number": "12а", "Kind": "Flat", "Rooms": 2,
        "IsStudio": false, "Floor": 1, "AreaTotal": 54.25, "Finishing": "PreFinish", "Price": sent["Price"],
        "Status": "Available", "LayoutFileId": sent["LayoutFileId"], "IsPublic": true, "Version": 1,
    });
    assert_eq!(events[0], whole);
    assert_eq!(events[1], with(with(whole, "Status", "Booked"), "Version", 2));
    assert!(!events[1].to_string().contains(&deal.to_string()));
    let headers = service().bus().events(&object)[0].headers.clone();
    assert_eq!((&*headers["aggregatetype"], &*headers["contractversion"]), ("PropertyObject", "1"));
}

/// Events: what is not in the payload raises the version and is told with the next.
#[tokio::test]
async fn what_is_not_in_the_payload_is_told_with_the_next() {
    let house = house().await;
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
        house.manager.put(&path, with(put_of(&now), member, value)).await.expect(200);
    }
    let now = house.object("1").await;
    assert_eq!(now["Version"], 5);
    house.manager.put(&path, with(put_of(&now), "Finishing", "Finished")).await.expect(200);
    let versions: Vec<_> =
        object_events(id_of(&object["Id"]), 2).await.iter().map(|told| told["Version"].clone()).collect();
    assert_eq!(versions, [1, 6]);
}

/// Events: what was removed is told once, as Unavailable and not public; what comes back is told as it is.
#[tokio::test]
async fn removal_and_return_are_told() {
    let house = house().await;
    house.grid(&flats(1)).await;
    let object = house.id_of("1").await;
    house.grid(&[]).await;
    house.grid(&[]).await;
    house.grid(&flats(1)).await;
    let events = object_events(object, 3).await;
    let seen: Vec<_> = events
        .iter()
        .map(|told| (told["Version"].clone(), told["Status"].clone(), told["IsPublic"].clone()))
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

/// A change of the holder alone raises the version and publishes no event; a claim on a removed object changes nothing.
#[tokio::test]
async fn a_change_of_the_holder_alone_publishes_no_event() {
    let house = house().await;
    house.grid(&flats(2)).await;
    let (object, removed) = (house.id_of("1").await, house.id_of("2").await);
    book(&house, "1").await;
    house.grid(&flats(1)).await;
    have_taken(BOOKED, guid(), object, 1, "2026-11-23T10:00:00Z").await;
    have_taken(BOOKED, guid(), removed, 1, "2026-11-23T10:00:00Z").await;
    assert_eq!(house.object("1").await["Version"], 3);
    for object in [object, removed] {
        assert_eq!(object_events(object, 2).await.len(), 2);
    }
    let grid = house.read().await["Grid"].clone();
    assert_eq!(list(&grid).len(), 1);
    assert_ne!(house.object("1").await["HoldDealId"], Value::Null);
}
