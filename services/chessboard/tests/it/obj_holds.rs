//! Deals hold objects and let them go, in whatever order Kafka delivers what CRM tells.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::objects::{
    BOOKED, CANCELLED, COMPLETED, EXPIRED, book, flats, have_taken, house, object_events, put_of, tell_deal,
};
use crate::{dead_letter, next, service, with};

/// What a deal may tell, by row version: `created_at` of hour `h` where it books.
#[derive(Clone, Copy, Debug)]
struct Told {
    topic: &'static str,
    deal: usize,
    row_version: i64,
    hour: u8,
}

/// All orders of these.
fn orders(told: &[Told]) -> Vec<Vec<Told>> {
    if told.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..told.len() {
        let mut rest = told.to_vec();
        let first = rest.remove(at);
        all.extend(orders(&rest).into_iter().map(|order| [vec![first], order].concat()));
    }
    all
}

/// Deals: whatever comes first, the object is what the deals say last; of equal versions selling goes before giving up,
/// that before claiming.
#[tokio::test]
async fn an_object_follows_its_deals_in_every_order() {
    let b = |deal, row_version, hour| Told { topic: BOOKED, deal, row_version, hour };
    let of = |topic, deal, row_version| Told { topic, deal, row_version, hour: 12 };
    let histories: [(&[Told], &str, Option<usize>); 6] = [
        (&[b(0, 1, 1), of(CANCELLED, 0, 2)], "Available", None),
        (&[b(0, 1, 1), of(EXPIRED, 0, 2), b(0, 3, 3)], "Booked", Some(0)),
        (&[b(0, 4, 1), of(CANCELLED, 0, 4), of(COMPLETED, 0, 4)], "Sold", Some(0)),
        (&[b(0, 4, 1), of(EXPIRED, 0, 4)], "Available", None),
        (&[b(0, 1, 1), b(1, 1, 2), of(CANCELLED, 1, 2)], "Booked", Some(0)),
        (&[b(0, 1, 2), of(COMPLETED, 1, 7), b(2, 1, 3)], "Sold", Some(1)),
    ];
    let house = house().await;
    house.grid(&flats(40)).await;
    let mut number = 0;
    for (history, status, holder) in histories {
        for order in orders(history) {
            number += 1;
            let deals = [guid(), guid(), guid()];
            let object = house.id_of(&number.to_string()).await;
            for told in &order {
                let at = format!("2026-11-22T{:02}:00:00Z", told.hour);
                have_taken(told.topic, deals[told.deal], object, told.row_version, &at).await;
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

/// INV-OBJ-2: what a deal does not hold it does not release; what it releases returns to what a person gave last.
#[tokio::test]
async fn a_deal_releases_what_it_holds_and_no_more() {
    let house = house().await;
    house.grid(&[with(flats(1)[0].clone(), "Status", "Reserved")]).await;
    let (object, at) = (house.id_of("1").await, "2026-11-22T10:00:00Z");
    let first = book(&house, "1").await;
    let stranger = guid();
    have_taken(CANCELLED, stranger, object, 9, at).await;
    assert_eq!(house.object("1").await["HoldDealId"], first.to_string());
    // A later claim takes over.
    let second = guid();
    have_taken(BOOKED, second, object, 1, "2026-11-22T11:00:00Z").await;
    assert_eq!(house.object("1").await["HoldDealId"], second.to_string());
    have_taken(EXPIRED, second, object, 2, at).await;
    assert_eq!(house.object("1").await["HoldDealId"], first.to_string());
    have_taken(CANCELLED, first, object, 2, at).await;
    let free = house.object("1").await;
    assert_eq!((&free["HoldDealId"], &free["Status"]), (&Value::Null, &json!("Reserved")));
    let statuses: Vec<_> = object_events(object, 3).await.iter().map(|told| told["Status"].clone()).collect();
    assert_eq!(statuses, ["Reserved", "Booked", "Reserved"], "a change of holder is told of nobody");
    assert_eq!(free["Version"], 5, "and raises the version");
    assert_eq!(house.read().await["Version"], 2, "deals leave the building's version alone");
}

/// Deals: each has one claim, on the object that its newest event names: what it named before is free, whichever comes first.
#[tokio::test]
async fn a_deal_claims_what_its_newest_event_names() {
    let house = house().await;
    house.grid(&flats(3)).await;
    let (one, two) = (house.id_of("1").await, house.id_of("2").await);
    let (deal, at) = (book(&house, "1").await, "2026-11-22T10:00:00Z");
    have_taken(BOOKED, deal, two, 3, at).await;
    // Late, and older.
    have_taken(COMPLETED, deal, one, 2, at).await;
    let (left, taken) = (house.object("1").await, house.object("2").await);
    assert_eq!((&left["Status"], &left["HoldDealId"]), (&json!("Available"), &Value::Null));
    assert_eq!((&taken["Status"], &taken["HoldDealId"]), (&json!("Booked"), &json!(deal)));
    // What gives up names an object, too.
    have_taken(EXPIRED, deal, house.id_of("3").await, 4, at).await;
    assert_eq!(house.object("2").await["HoldDealId"], Value::Null);
}

/// Deals: what was removed comes back held; a sale needs no booking.
#[tokio::test]
async fn what_comes_back_comes_back_held() {
    let house = house().await;
    house.grid(&flats(2)).await;
    let (object, deal) = (house.id_of("1").await, guid());
    house.grid(&flats(2)[1..]).await;
    have_taken(COMPLETED, deal, object, 3, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.objects().await.len(), 1);
    house.grid(&flats(2)).await;
    let back = house.object("1").await;
    assert_eq!(
        (&back["Status"], &back["HoldDealId"], &back["Id"]),
        (&json!("Sold"), &json!(deal), &json!(object))
    );
    // Booked is sent for what is Booked alone, and never for what is sold.
    let booked = with(flats(1)[0].clone(), "Status", "Booked");
    let path = house.object_path(object);
    for (answer, field) in [
        (house.send_grid(std::slice::from_ref(&booked), None).await, "/Objects/0/Status"),
        (house.manager.put(&path, booked.clone()).await, "/Status"),
    ] {
        answer.expect_refusal("VALIDATION_FAILED", field, "given_by_deals");
    }
    have_taken(CANCELLED, deal, object, 4, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.object("1").await["Status"], "Available");
}

/// Consumers: what cannot be read, or breaks a bound, is put aside; what names an unknown object is kept and harms nobody.
#[tokio::test]
async fn what_cannot_be_read_is_put_aside() {
    let deal = guid();
    let told = json!({"DealId": deal, "PropertyObjectId": guid(), "RowVersion": -1});
    service().bus().publish(CANCELLED, deal, next(), &told).await;
    assert!(dead_letter(deal).await.contains("decode"));
    // A moment that UTC has no name for.
    for topic in [BOOKED, COMPLETED] {
        let deal = guid();
        tell_deal(topic, deal, guid(), 1, "9999-12-31T23:59:59-00:01").await;
        assert!(dead_letter(deal).await.contains("decode"), "{topic}");
    }
    let unknown = guid();
    have_taken(BOOKED, unknown, guid(), 1, "2026-11-22T10:00:00Z").await;
}

/// A held object keeps what a person gave it before, through a `PUT` of its other members.
#[tokio::test]
async fn a_put_of_a_held_object_gives_it_no_status() {
    let house = house().await;
    house.grid(&[with(flats(1)[0].clone(), "Status", "Unavailable")]).await;
    let deal = book(&house, "1").await;
    let held = house.object("1").await;
    let path = house.object_path(house.id_of("1").await);
    house.manager.put(&path, with(put_of(&held), "Rooms", 4)).await.expect(200);
    have_taken(CANCELLED, deal, house.id_of("1").await, 2, "2026-11-22T10:00:00Z").await;
    assert_eq!(house.object("1").await["Status"], "Unavailable");
}

/// Deals, of any history that Kafka may deliver side by side: each deal has the claim of its newest event, and the object
/// follows from the claims.
#[tokio::test]
async fn an_object_is_what_the_newest_events_of_its_deals_say() {
    const TOPICS: [(&str, u8); 4] = [(BOOKED, 0), (EXPIRED, 1), (CANCELLED, 1), (COMPLETED, 2)];
    let histories = prop::collection::vec((0_usize..3, 0_usize..4, 1_i64..5, 0_u8..24), 1..9);
    let mut runner = TestRunner::default();
    let house = house().await;
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
            // Of one deal and version an event of a kind is there once.
            if newest.contains_key(&(deal, row_version, rank)) {
                continue;
            }
            newest.insert((deal, row_version, rank), hour);
            let at = format!("2026-11-22T{hour:02}:00:00Z");
            let sequence = tell_deal(topic, deals[deal], object, row_version, &at).await;
            sent.push((topic, deals[deal].to_string(), sequence));
        }
        eventually("all that was told", async || {
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
