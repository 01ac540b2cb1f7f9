//! Holds of deals on objects, in every order of events.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::objects::{
    BOOKED, CANCELLED, COMPLETED, EXPIRED, book_object, deliver_deal_event, flats, object_events,
    publish_deal_event, published_house, unchanged_body,
};
use crate::{dead_letter, next_sequence, service, with};

/// An event of a deal with its time as an hour.
#[derive(Clone, Copy, Debug)]
struct DealEvent {
    topic: &'static str,
    deal: usize,
    row_version: i64,
    hour: u8,
}

/// Returns all orders of events.
fn orders(events: &[DealEvent]) -> Vec<Vec<DealEvent>> {
    if events.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..events.len() {
        let mut rest = events.to_vec();
        let first = rest.remove(at);
        all.extend(orders(&rest).into_iter().map(|order| [vec![first], order].concat()));
    }
    all
}

/// INV-OBJ-2, RULE-EVT-016, RULE-EVT-023: an object follows the newest events of its deals in every
/// order. If versions are equal, a sale wins over a cancellation or an expiry, which win over a
/// booking.
#[tokio::test]
async fn object_follows_deals_in_every_order() {
    let booked = |deal, row_version, hour| DealEvent { topic: BOOKED, deal, row_version, hour };
    let event = |topic, deal, row_version| DealEvent { topic, deal, row_version, hour: 12 };
    let histories: [(&[DealEvent], &str, Option<usize>); 6] = [
        (&[booked(0, 1, 1), event(CANCELLED, 0, 2)], "Available", None),
        (&[booked(0, 1, 1), event(EXPIRED, 0, 2), booked(0, 3, 3)], "Booked", Some(0)),
        (&[booked(0, 4, 1), event(CANCELLED, 0, 4), event(COMPLETED, 0, 4)], "Sold", Some(0)),
        (&[booked(0, 4, 1), event(EXPIRED, 0, 4)], "Available", None),
        (&[booked(0, 1, 1), booked(1, 1, 2), event(CANCELLED, 1, 2)], "Booked", Some(0)),
        (&[booked(0, 1, 2), event(COMPLETED, 1, 7), booked(2, 1, 3)], "Sold", Some(1)),
    ];
    let house = published_house().await;
    house.grid(&flats(40)).await;
    let mut number = 0;
    for (history, status, holder) in histories {
        for order in orders(history) {
            number += 1;
            let deals = [guid(), guid(), guid()];
            let object = house.id_of(&number.to_string()).await;
            for event in &order {
                let at = format!("2026-11-22T{:02}:00:00Z", event.hour);
                deliver_deal_event(event.topic, deals[event.deal], object, event.row_version, &at).await;
            }
            let object = house.object(&number.to_string()).await;
            let held_by = object["HoldDealId"].as_str().map(str::to_owned);
            assert_eq!(
                (object["Status"].as_str(), held_by),
                (Some(status), holder.map(|holder: usize| deals[holder].to_string())),
                "{order:?}"
            );
        }
    }
}

/// INV-OBJ-2: a deal releases only its own hold, and a released object returns to the status that a
/// user set last.
#[tokio::test]
async fn deal_releases_only_its_own_hold() {
    let house = published_house().await;
    house.grid(&[with(flats(1)[0].clone(), "Status", "Reserved")]).await;
    let (object, at) = (house.id_of("1").await, "2026-11-22T10:00:00Z");
    let first = book_object(&house, "1").await;
    let stranger = guid();
    deliver_deal_event(CANCELLED, stranger, object, 9, at).await;
    assert_eq!(house.object("1").await["HoldDealId"], first.to_string());
    // A later claim replaces the hold.
    let second = guid();
    deliver_deal_event(BOOKED, second, object, 1, "2026-11-22T11:00:00Z").await;
    assert_eq!(house.object("1").await["HoldDealId"], second.to_string());
    deliver_deal_event(EXPIRED, second, object, 2, at).await;
    assert_eq!(house.object("1").await["HoldDealId"], first.to_string());
    deliver_deal_event(CANCELLED, first, object, 2, at).await;
    let free = house.object("1").await;
    assert_eq!((&free["HoldDealId"], &free["Status"]), (&Value::Null, &json!("Reserved")));
    let statuses: Vec<_> =
        object_events(object, 3).await.iter().map(|event| event["Status"].clone()).collect();
    assert_eq!(statuses, ["Reserved", "Booked", "Reserved"], "a change of the holder publishes no event");
    assert_eq!(free["Version"], 5, "a change of the holder raises the version");
    assert_eq!(house.read().await["Version"], 2, "deals do not change the building's version");
}

/// INV-OBJ-2: a deal has one claim, on the object of its newest event. Its former object becomes
/// free.
#[tokio::test]
async fn deal_claims_object_of_newest_event() {
    let house = published_house().await;
    house.grid(&flats(3)).await;
    let (one, two) = (house.id_of("1").await, house.id_of("2").await);
    let (deal, at) = (book_object(&house, "1").await, "2026-11-22T10:00:00Z");
    deliver_deal_event(BOOKED, deal, two, 3, at).await;
    // An older event that arrives late changes nothing.
    deliver_deal_event(COMPLETED, deal, one, 2, at).await;
    let (left, taken) = (house.object("1").await, house.object("2").await);
    assert_eq!((&left["Status"], &left["HoldDealId"]), (&json!("Available"), &Value::Null));
    assert_eq!((&taken["Status"], &taken["HoldDealId"]), (&json!("Booked"), &json!(deal)));
    // An event that gives up the claim names an object, too.
    deliver_deal_event(EXPIRED, deal, house.id_of("3").await, 4, at).await;
    assert_eq!(house.object("2").await["HoldDealId"], Value::Null);
}

/// INV-OBJ-2: a restored object is held if a claim exists for it. A sale requires no booking.
#[tokio::test]
async fn returned_object_is_held_by_its_claim() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let (object, deal) = (house.id_of("1").await, guid());
    house.grid(&flats(2)[1..]).await;
    deliver_deal_event(COMPLETED, deal, object, 3, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.objects().await.len(), 1);
    house.grid(&flats(2)).await;
    let back = house.object("1").await;
    assert_eq!(
        (&back["Status"], &back["HoldDealId"], &back["Id"]),
        (&json!("Sold"), &json!(deal), &json!(object))
    );
    // Booked is accepted for a Booked object only, and not for a Sold one.
    let booked = with(flats(1)[0].clone(), "Status", "Booked");
    let path = house.object_path(object);
    for (response, field) in [
        (house.send_grid(std::slice::from_ref(&booked), None).await, "/Objects/0/Status"),
        (house.manager.put(&path, booked.clone()).await, "/Status"),
    ] {
        response.expect_refusal("VALIDATION_FAILED", field, "given_by_deals");
    }
    deliver_deal_event(CANCELLED, deal, object, 4, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.object("1").await["Status"], "Available");
}

/// INV-OBJ-2: an event that does not decode or breaks a limit becomes a dead letter. A claim on an
/// unknown object is stored.
#[tokio::test]
async fn invalid_deal_event_is_dead_lettered() {
    let deal = guid();
    let event = json!({"DealId": deal, "PropertyObjectId": guid(), "RowVersion": -1});
    service().bus().publish(CANCELLED, deal, next_sequence(), &event).await;
    assert!(dead_letter(deal).await.contains("decode"));
    // In UTC this time is in the year 10000, which the service cannot store.
    for topic in [BOOKED, COMPLETED] {
        let deal = guid();
        publish_deal_event(topic, deal, guid(), 1, "9999-12-31T23:59:59-00:01").await;
        assert!(dead_letter(deal).await.contains("decode"), "{topic}");
    }
    let deal = guid();
    deliver_deal_event(BOOKED, deal, guid(), 1, "2026-11-22T10:00:00Z").await;
    let claims = "select count(*) from deal_claim where deal_id::text = $1";
    let claims: i64 = service().sql().await.query_one(claims, &[&deal.to_string()]).await.unwrap().get(0);
    assert_eq!(claims, 1, "the claim on an unknown object");
}

/// INV-OBJ-2: a `PUT` of a held object does not change the status that a user set before.
#[tokio::test]
async fn put_of_held_object_keeps_user_status() {
    let house = published_house().await;
    house.grid(&[with(flats(1)[0].clone(), "Status", "Unavailable")]).await;
    let deal = book_object(&house, "1").await;
    let held = house.object("1").await;
    let path = house.object_path(house.id_of("1").await);
    house.manager.put(&path, with(unchanged_body(&held), "Rooms", 4)).await.expect(200);
    deliver_deal_event(CANCELLED, deal, house.id_of("1").await, 2, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.object("1").await["Status"], "Unavailable");
}

/// INV-OBJ-2: after random histories each deal has the claim of its newest event, and the claims
/// decide the state of the object.
#[tokio::test]
async fn object_matches_claims_of_random_history() {
    const TOPICS: [(&str, u8); 4] = [(BOOKED, 0), (EXPIRED, 1), (CANCELLED, 1), (COMPLETED, 2)];
    let histories = prop::collection::vec((0_usize..3, 0_usize..4, 1_i64..5, 0_u8..24), 1..9);
    let mut runner = TestRunner::default();
    let house = published_house().await;
    house.grid(&flats(20)).await;
    let sql = service().sql().await;
    for number in 1..=20 {
        let history = histories.new_tree(&mut runner).unwrap().current();
        let (number, deals) = (number.to_string(), [guid(), guid(), guid()]);
        let object = house.id_of(&number).await;
        let mut newest = BTreeMap::new();
        let mut sent = Vec::new();
        for &(deal, topic, row_version, hour) in &history {
            let (topic, rank) = TOPICS[topic];
            // A deal has at most one event of a kind for a version.
            if newest.contains_key(&(deal, row_version, rank)) {
                continue;
            }
            newest.insert((deal, row_version, rank), hour);
            let at = format!("2026-11-22T{hour:02}:00:00Z");
            let sequence = publish_deal_event(topic, deals[deal], object, row_version, &at).await;
            sent.push((topic, deals[deal].to_string(), sequence));
        }
        eventually("all events", async || {
            for (topic, key, sequence) in &sent {
                let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
                sql.query_opt(seen, &[topic, key, sequence]).await.unwrap()?;
            }
            Some(())
        })
        .await;
        let of_deal = |deal| newest.range((deal, 0, 0)..(deal + 1, 0, 0)).next_back();
        let claims = (0..3).filter_map(of_deal).filter(|((.., rank), _)| *rank != 1);
        let holder = claims.max_by_key(|((deal, _, rank), hour)| (*rank, **hour, deals[*deal]));
        let expected = holder.map_or((json!("Available"), Value::Null), |((deal, _, rank), _)| {
            (json!(if *rank == 2 { "Sold" } else { "Booked" }), json!(deals[*deal]))
        });
        let object = house.object(&number).await;
        assert_eq!((object["Status"].clone(), object["HoldDealId"].clone()), expected, "{history:?}");
    }
}
