//! Overrides that also book the object, and the availability that a preview shows.

use serde_json::{Value, json};
use testkit::client::Response;

use crate::{
    BOOKING_CREATED, Deal, STAGE_CHANGED, contract, create_deal, create_deal_of, each, guid, in_days, object,
    platform, publish_object, topics, with,
};

fn body(target: &str, booking: &Value) -> Value {
    json!({"TargetStatus": target, "Comment": "x", "Booking": booking})
}

async fn override_status(deal: &Deal, target: &str, booking: &Value) -> Response {
    platform().post(&deal.path("/override-status"), body(target, booking)).await
}

async fn preview(deal: &Deal, target: &str, booking: &Value) -> Response {
    platform().post(&deal.path("/override-status/preview"), body(target, booking)).await
}

/// RULE-CRM-082: an override books the object in the same change, with one version.
#[tokio::test]
async fn revival_books_the_free_object() {
    for target in ["Booking", "Sale"] {
        let deal = create_deal().await;
        platform().put(&deal.path("/contract"), contract()).await.expect(200);
        deal.book().await;
        deal.bring_to("Cancelled").await;
        let (rows, events) = (deal.timeline().await.len(), deal.events().await.len());
        let shown = preview(&deal, target, &json!({})).await.expect(200);
        assert_eq!(shown["ObjectAvailability"], "Free");
        assert_eq!(shown["Events"], json!(["deal-stage-changed", "booking-created"]));
        let expires_at = in_days(9);
        let card = override_status(&deal, target, &json!({"ExpiresAt": expires_at})).await.expect(200);
        assert_eq!(card.as_object().unwrap().len(), 6, "the card has its six members alone");
        let view = deal.read().await;
        assert_eq!(view["BookingExpiresAt"], json!(expires_at));
        assert_eq!((&view["Status"], &view["RowVersion"]), (&json!(target), &card["RowVersion"]));
        let new = deal.timeline().await.split_off(rows);
        assert_eq!(each(&new, "Kind"), ["BookingCreated", "StatusChanged", "ManualNote"]);
        assert!(each(&new, "RowVersion").iter().all(|version| **version == card["RowVersion"]));
        let events = deal.events().await.split_off(events);
        assert_eq!(topics(&events), [STAGE_CHANGED, BOOKING_CREATED]);
    }
}

/// RULE-CRM-082: a preview of a revival shows that another deal took the object. Without `Booking`
/// the revival succeeds anyway. With `Booking` the rules of a booking apply.
#[tokio::test]
async fn revival_of_a_deal_with_a_taken_object_is_shown_and_refused() {
    let deal = create_deal().await;
    let other = create_deal_of(deal.developer, deal.object).await;
    let shown = preview(&deal, "Booking", &Value::Null).await.expect(200);
    assert_eq!(shown["ObjectAvailability"], Value::Null, "the deal has not ended");
    deal.bring_to("Cancelled").await;
    let booking = other.book().await;
    for (availability, code) in [
        ("Booked", "CRM_PROPERTY_OBJECT_ALREADY_BOOKED"),
        ("Sold", "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"),
        ("Unavailable", "CRM_PROPERTY_OBJECT_NOT_AVAILABLE"),
    ] {
        if availability != "Booked" {
            publish_object(&object(deal.object, deal.developer, availability)).await;
        }
        let shown = preview(&deal, "Booking", &Value::Null).await.expect(200);
        assert_eq!(shown["ObjectAvailability"], availability);
        let before = deal.read().await;
        for refused in
            [preview(&deal, "Booking", &json!({})).await, override_status(&deal, "Booking", &json!({})).await]
        {
            refused.expect_problem(409, code);
        }
        assert_eq!(deal.read().await, before, "a refusal writes nothing");
    }
    override_status(&deal, "Booking", &Value::Null).await.expect(200);
    assert_eq!(deal.read().await["BookingExpiresAt"], Value::Null);
    assert_eq!(other.read().await["BookingExpiresAt"], booking["ExpiresAt"]);
}

/// RULE-CRM-082: `Booking` is refused if the deal has an Active booking. A no-op books nothing, and
/// invalid members are refused before the deal is read.
#[tokio::test]
async fn booking_of_an_override_is_checked() {
    let deal = create_deal().await;
    deal.book().await;
    platform().put(&deal.path("/contract"), contract()).await.expect(200);
    let refused = override_status(&deal, "Sale", &json!({})).await;
    refused.expect_problem(409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE");
    let same = override_status(&deal, "Booking", &json!({})).await.expect(200);
    assert_eq!(same["RowVersion"], deal.read().await["RowVersion"]);
    let unknown = Deal { id: guid(), ..deal };
    for target in ["Application", "Cancelled"] {
        for refused in
            [override_status(&unknown, target, &json!({})).await, preview(&unknown, target, &json!({})).await]
        {
            refused.expect_refusal("VALIDATION_FAILED", "/Booking", "excluded_by_target");
        }
    }
    for (expires_at, code) in [(in_days(-1), "out_of_bounds"), (in_days(91), "out_of_bounds")] {
        let refused = override_status(&unknown, "Sale", &json!({"ExpiresAt": expires_at})).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Booking/ExpiresAt", code);
    }
    let stale = with(body("Cancelled", &Value::Null), "RowVersion", 0);
    platform().post(&deal.path("/override-status"), stale).await.expect_problem(409, "CRM_DEAL_CONFLICT");
}

/// RULE-CRM-082, RULE-CRM-037: exactly one of several concurrent revivals that book one object
/// succeeds.
#[tokio::test]
async fn one_of_concurrent_revivals_books_the_object() {
    let first = create_deal().await;
    let mut deals = vec![first];
    for _ in 0..3 {
        deals.push(create_deal_of(first.developer, first.object).await);
    }
    for deal in &deals {
        deal.bring_to("Cancelled").await;
    }
    let booking = json!({});
    let revivals = deals.iter().map(|deal| override_status(deal, "Booking", &booking));
    let responses = futures_util::future::join_all(revivals).await;
    assert_eq!(crate::count(&responses, 200), 1);
    assert_eq!(crate::count(&responses, 409), 3);
}
