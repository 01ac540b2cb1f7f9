//! The replacement of a grid.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::objects::{book_object, draft_house, flat, flats, object_events, published_house};
use crate::{each, list, service, with, without};

/// RULE-CHS-026, INV-OBJ-1: a grid is an upsert by number. A removed object returns with its id,
/// and an identical grid changes nothing.
#[tokio::test]
async fn grid_replacement_upserts_by_number() {
    let house = published_house().await;
    let (one, two, three) = (flat("1"), flat("2"), flat("3"));
    assert_eq!(house.grid(&[one.clone(), two.clone()]).await, (2, 0, 0, 0, vec![]));
    assert_eq!(house.read().await["Version"], 2);
    let created = house.object("1").await;
    for (member, value) in one.as_object().unwrap() {
        assert_eq!(&created[member], value, "{member}");
    }
    assert_eq!(
        (
            &created["Status"],
            &created["Version"],
            &created["HoldDealId"],
            &created["BuildingId"],
            &created["TenantId"]
        ),
        (&json!("Available"), &json!(1), &Value::Null, &json!(house.building), &json!(house.developer))
    );

    assert_eq!(house.grid(&[one.clone(), two.clone()]).await, (0, 0, 2, 0, vec![]));
    assert_eq!((house.read().await["Version"].clone(), house.object("1").await), (json!(2), created.clone()));

    let repriced = with(one.clone(), "Price", json!({"AmountMinor": 2, "Currency": "RUB"}));
    let changed = house.grid(&[with(repriced.clone(), "Status", "Reserved"), three.clone()]).await;
    assert_eq!(changed, (1, 1, 0, 1, vec![]));
    let object = house.object("1").await;
    assert_eq!(
        (&object["Id"], &object["Version"], &object["Status"]),
        (&created["Id"], &json!(2), &json!("Reserved"))
    );
    assert_eq!(house.objects().await.len(), 2);
    // An absent status leaves the stored one unchanged.
    assert_eq!(house.grid(&[repriced, three.clone()]).await, (0, 0, 2, 0, vec![]));

    house.grid(std::slice::from_ref(&three)).await;
    assert_eq!(house.grid(&[one, three]).await, (1, 0, 1, 0, vec![]));
    let back = house.object("1").await;
    assert_eq!(
        (&back["Id"], &back["Version"], &back["Status"]),
        (&created["Id"], &json!(4), &json!("Available"))
    );
    assert_eq!((&back["CreatedAt"], &back["Price"]), (&created["CreatedAt"], &created["Price"]));

    assert_eq!(house.grid(&[]).await, (0, 0, 0, 2, vec![]));
    assert_eq!(house.read().await["Grid"], json!([]));
}

/// INV-OBJ-1: numbers that differ in letter case or spaces are different.
#[tokio::test]
async fn object_numbers_are_compared_exactly() {
    let house = draft_house().await;
    let all = ["1a", "1A", "1a ", "1\u{430}"].map(flat);
    assert_eq!(house.grid(&all).await, (4, 0, 0, 0, vec![]));
    assert_eq!(house.grid(&all).await, (0, 0, 4, 0, vec![]));
}

/// RULE-CHS-026: a held object stays as it is, listed or not, and `Kept` has its number.
#[tokio::test]
async fn held_object_stays_unchanged_by_grid() {
    let house = published_house().await;
    house.grid(&flats(3)).await;
    let deal = book_object(&house, "2").await;
    let held = house.object("2").await;
    assert_eq!((&held["Status"], &held["HoldDealId"]), (&json!("Booked"), &json!(deal)));
    let available = with(flat("2"), "Status", "Available");
    assert_eq!(house.grid(&[available, flat("1")]).await, (0, 1, 0, 1, vec!["2".to_owned()]));
    assert_eq!(house.object("2").await, held);
    assert_eq!(house.grid(&[]).await, (0, 0, 0, 1, vec!["2".to_owned()]));
    assert_eq!(house.object("2").await, held);
    // Booked is accepted for a Booked object.
    assert_eq!(house.grid(&[with(flat("2"), "Status", "Booked")]).await, (0, 0, 0, 0, vec!["2".to_owned()]));
}

/// RULE-CHS-026: the grid has sections ascending and floors descending, with objects by position
/// and number.
#[tokio::test]
async fn grid_is_returned_by_section_floor_and_position() {
    let house = draft_house().await;
    let at = |number: &str, section: i64, floor: i64, position: i64| {
        with(with(with(flat(number), "Section", section), "Floor", floor), "PositionOnFloor", position)
    };
    let listed = [
        at("b", 1, 2, 1),
        at("a", 1, 2, 1),
        at("Z", 1, 2, 2),
        at("p", 3, -2, 1),
        at("q", 3, 10, 1000),
        at("c", 1, 1, 1),
    ];
    house.grid(&listed).await;
    let read = house.read().await;
    let rows: Vec<_> = list(&read["Grid"])
        .iter()
        .flat_map(|section| list(&section["Floors"]).iter().map(|floor| (section["Section"].clone(), floor)))
        .map(|(section, floor)| {
            let numbers: Vec<_> =
                each(&floor["Objects"], "Number").iter().map(|number| text(number)).collect();
            format!("{section} {} {}", floor["Floor"], numbers.join(","))
        })
        .collect();
    assert_eq!(rows, ["1 2 a,b,Z", "1 1 c", "3 10 q", "3 -2 p"]);
}

/// RULE-CHS-026: an invalid object returns 400 with its index, and nothing of the grid is stored.
#[tokio::test]
async fn invalid_grid_changes_nothing() {
    let house = draft_house().await;
    house.grid(&flats(2)).await;
    let before = house.read().await;
    for (member, value, field, code) in [
        ("Number", json!(""), "Number", "too_short"),
        ("Number", json!("x".repeat(33)), "Number", "too_long"),
        ("Number", json!("1"), "Number", "duplicate"),
        ("Kind", json!("House"), "Kind", "unknown_value"),
        ("Section", json!(101), "Section", "out_of_range"),
        ("Section", json!(4), "Section", "out_of_range"),
        ("Floor", json!(11), "Floor", "out_of_range"),
        ("Floor", json!(-11), "Floor", "out_of_range"),
        ("PositionOnFloor", json!(1001), "PositionOnFloor", "out_of_range"),
        ("Rooms", json!(0), "Rooms", "out_of_range"),
        ("Rooms", json!(21), "Rooms", "out_of_range"),
        ("AreaTotal", json!(0), "AreaTotal", "out_of_bounds"),
        ("AreaTotal", json!(54.255), "AreaTotal", "too_precise"),
        ("AreaTotal", json!(1_000_000.01), "AreaTotal", "out_of_bounds"),
        ("AreaLiving", json!(54.26), "AreaLiving", "out_of_bounds"),
        ("AreaKitchen", json!(54.26), "AreaKitchen", "out_of_bounds"),
        ("Finishing", json!(null), "Finishing", "invalid_type"),
        ("Price", json!({"AmountMinor": 0, "Currency": "RUB"}), "Price/AmountMinor", "out_of_range"),
        (
            "Price",
            json!({"AmountMinor": 1_000_000_000_000_001_i64, "Currency": "RUB"}),
            "Price/AmountMinor",
            "out_of_range",
        ),
        ("Price", json!({"AmountMinor": 1, "Currency": "USD"}), "Price/Currency", "unknown_value"),
        ("LayoutFileId", json!("00000000-0000-0000-0000-000000000000"), "LayoutFileId", "empty_id"),
        ("Status", json!("Booked"), "Status", "given_by_deals"),
        ("Status", json!("booked"), "Status", "unknown_value"),
        ("IsStudio", json!(null), "IsStudio", "invalid_type"),
    ] {
        let response = house.send_grid(&[flat("1"), with(flat("9"), member, value)], None).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/Objects/1/{field}"), code);
    }
    let parking = with(with(flat("9"), "Kind", "Parking"), "IsStudio", true);
    let response = house.send_grid(&[parking], None).await;
    response.expect_refusal("VALIDATION_FAILED", "/Objects/0/IsStudio", "not_a_home");
    for missing in
        ["Number", "Kind", "Section", "Floor", "PositionOnFloor", "AreaTotal", "Finishing", "Price"]
    {
        let response = house.send_grid(&[without(flat("9"), missing)], None).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/Objects/0/{missing}"), "required");
    }
    assert_eq!(house.read().await, before);
}

/// RULE-CHS-026: limits of an object are inclusive, and an absent optional member is null or its
/// default.
#[tokio::test]
async fn object_limits_are_inclusive() {
    let house = draft_house().await;
    let min = json!({
        "Number": " a ", "Kind": "Parking", "Section": 3, "Floor": -10, "PositionOnFloor": 1000, "AreaTotal": 0.01,
        "Finishing": "None", "Price": {"AmountMinor": 1_000_000_000_000_000_i64, "Currency": "RUB"},
    });
    let max =
        with(with(with(flat("x"), "AreaTotal", 1_000_000), "AreaLiving", 1_000_000.0), "IsStudio", true);
    house.grid(&[min, with(max, "Status", "Sold")]).await;
    let min = house.object(" a ").await;
    for member in ["Rooms", "AreaLiving", "AreaKitchen", "LayoutFileId", "HoldDealId"] {
        assert_eq!(min[member], Value::Null, "{member}");
    }
    assert_eq!((&min["IsStudio"], &min["AreaTotal"]), (&json!(false), &json!(0.01)));
    let max = house.object("x").await;
    assert_eq!((max["AreaLiving"].as_f64(), &max["Status"]), (Some(1_000_000.0), &json!("Sold")));
}

/// RULE-CHS-026: a grid accepts up to 5,000 objects. A body above 8 MiB returns 413.
#[tokio::test]
async fn grid_takes_5000_objects_and_8_mib() {
    let house = published_house().await;
    let all = flats(5000);
    assert_eq!(house.grid(&all).await, (5000, 0, 0, 0, vec![]));
    assert_eq!(house.grid(&all).await, (0, 0, 5000, 0, vec![]));
    let reprice =
        |object: &Value| with(object.clone(), "Price", json!({"AmountMinor": 7, "Currency": "RUB"}));
    let changed: Vec<_> = all.iter().map(reprice).collect();
    assert_eq!(house.grid(&changed).await, (0, 5000, 0, 0, vec![]));
    assert_eq!(house.objects().await.len(), 5000);
    let response = house.send_grid(&flats(5001), None).await;
    response.expect_refusal("VALIDATION_FAILED", "/Objects", "too_many");
    let long = json!({"Objects": [], "x": "x".repeat(8 * 1024 * 1024)});
    house.manager.put(&house.path("/property-objects"), long).await.expect_problem(413, "PAYLOAD_TOO_LARGE");
    let some = house.id_of("4321").await;
    let events = object_events(some, 2).await;
    assert_eq!(events.iter().map(|event| event["Version"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2]);
}

/// INV-OBJ-3: each price has one row of the history in the same write, and the database rejects
/// changes of rows.
#[tokio::test]
async fn each_price_has_one_history_row() {
    let house = published_house().await;
    let sql = service().sql().await;
    let prices = format!(
        "select count(*) from price_history join property_object on id = property_object_id \
         where building_id = '{}'",
        house.building
    );
    let count = async || sql.query_one(&prices, &[]).await.unwrap().get::<_, i64>(0);
    house.grid(&flats(300)).await;
    assert_eq!(count().await, 300);
    let mut changed = flats(300);
    changed[7]["Price"]["AmountMinor"] = json!(3);
    house.grid(&changed).await;
    assert_eq!(count().await, 301, "a price that did not change has no row");
    house.grid(&[]).await;
    house.grid(&changed).await;
    assert_eq!(count().await, 301, "a restored object with its old price has no row");
    let refused = sql.batch_execute("update price_history set price = 1").await;
    assert!(refused.is_err(), "rows are never changed");
}

/// RULE-CHS-026: `Version` of a grid is the version of the building, and an outdated one returns
/// 409.
#[tokio::test]
async fn grid_with_outdated_version_conflicts() {
    let house = draft_house().await;
    let done = house.send_grid(&flats(1), Some(1)).await.expect(200);
    assert_eq!((&done["Version"], &done["BuildingId"]), (&json!(2), &json!(house.building)));
    // A change with an outdated version conflicts, and an identical grid does not.
    house.send_grid(&flats(0), Some(1)).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let same: Vec<_> = house.objects().await.iter().map(crate::objects::unchanged_body).collect();
    let done = house.send_grid(&same, Some(1)).await.expect(200);
    assert_eq!((&done["Unchanged"], &done["Version"]), (&json!(1), &json!(2)));
    let nowhere = house.project_path(&format!("/buildings/{}/property-objects", guid()));
    let response = house.manager.put(&nowhere, json!({"Objects": []})).await;
    response.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
}
