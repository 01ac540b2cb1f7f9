//! Bookings: creation, change of the expiry time, expiry.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::{eventually, guid};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::rows::{LONG_AGO, deal_row, insert, insert_deals, seconds_later};
use crate::{
    BOOKING_CREATED, BOOKING_EXPIRED, CANCELLED, CREATED, Deal, STAGE_CHANGED, contract, create_deal,
    create_deal_of, create_developer, each, manager, object, platform, publish_object, service, steps,
    steps_of, topics, with,
};

/// Returns the time `ahead` of now, as requests write it.
fn ahead(ahead: Duration) -> String {
    #[expect(clippy::disallowed_methods, reason = "a test may read the clock")]
    let now = OffsetDateTime::now_utc();
    (now + ahead).format(&Rfc3339).unwrap()
}

async fn book(deal: &Deal, body: Value) -> Response {
    platform().post(&deal.path("/booking"), body).await
}

async fn prolong(deal: &Deal, expires_at: &str) -> Response {
    platform().put(&deal.path("/booking"), json!({"ExpiresAt": expires_at})).await
}

/// Waits until the booking of a deal has ended.
async fn wait_for_expiry(deal: &Deal) {
    eventually("the expiry", async || deal.read().await["BookingExpiresAt"].is_null().then_some(())).await;
}

/// RULE-CRM-009, RULE-EVT-013, RULE-EVT-015: a booking moves a deal from Application to Booking and
/// leaves any other deal in its step.
#[tokio::test]
async fn booking_moves_an_application_to_booking() {
    for status in ["Application", "Booking", "Sale"] {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        let before = deal.read().await;
        let booking = deal.book().await;
        let (card, after) = (&booking["Deal"], deal.read().await);
        assert_eq!(booking["Status"], "Active");
        assert_eq!(
            (&booking["DealId"], &booking["PropertyObjectId"]),
            (&json!(deal.id), &json!(deal.object))
        );
        assert_eq!((&booking["CreatedAt"], &booking["EndedAt"]), (&card["UpdatedAt"], &Value::Null));
        assert_eq!(after["BookingExpiresAt"], booking["ExpiresAt"]);
        assert_eq!(card["RowVersion"].as_i64(), before["RowVersion"].as_i64().map(|version| version + 1));
        let timeline = deal.timeline().await;
        let last = timeline.last().unwrap();
        if status == "Application" {
            assert_eq!(card["StepId"], json!(steps_of(deal.developer, "Booking").await[0]));
            assert_eq!(each(&timeline, "Kind"), ["DealCreated", "BookingCreated", "StatusChanged"]);
            let payload = json!({"FromStatus": "Application", "ToStatus": "Booking", "Reason": null});
            assert_eq!(last["Payload"], payload);
            let events = deal.events().await;
            assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, BOOKING_CREATED]);
            let (stage, booked) = (&events[1].payload, &events[2].payload);
            assert_eq!(stage["RowVersion"], booked["RowVersion"]);
            for member in ["ExpiresAt", "CreatedAt", "PropertyObjectId", "DealId"] {
                assert_eq!(booked[member], booking[member], "{member}");
            }
            assert_eq!(booked["BookingId"], booking["Id"]);
        } else {
            assert_eq!((&card["StepId"], &card["Status"]), (&before["StepId"], &json!(status)));
            assert_eq!(last["Kind"], "BookingCreated");
            assert_eq!(
                last["Payload"],
                json!({"BookingId": booking["Id"], "ExpiresAt": booking["ExpiresAt"]})
            );
            assert_eq!(after["StepEnteredAt"], before["StepEnteredAt"]);
        }
    }
}

/// RULE-CRM-009: the expiry time is after now and at most 90 days ahead, by default three days.
#[tokio::test]
async fn booking_expiry_is_within_ninety_days() {
    let deal = create_deal().await;
    for (expires_at, code) in [
        (json!(ahead(Duration::seconds(-1))), "out_of_bounds"),
        (json!(ahead(Duration::days(90) + Duration::seconds(5))), "out_of_bounds"),
        (json!("0000-01-01T00:00:00Z"), "out_of_bounds"),
        (json!("0000-01-01T00:00:00+23:59"), "invalid_type"),
        (json!("9999-12-31T23:59:59-23:59"), "invalid_type"),
        (json!("9999-12-31T23:59:59Z"), "out_of_bounds"),
        (json!("tomorrow"), "invalid_type"),
        (json!(5), "invalid_type"),
    ] {
        let response = book(&deal, json!({"ExpiresAt": expires_at})).await;
        response.expect_refusal("VALIDATION_FAILED", "/ExpiresAt", code);
        let response = platform().put(&deal.path("/booking"), json!({"ExpiresAt": expires_at})).await;
        response.expect_refusal("VALIDATION_FAILED", "/ExpiresAt", code);
    }
    let response = platform().put(&deal.path("/booking"), json!({})).await;
    response.expect_refusal("VALIDATION_FAILED", "/ExpiresAt", "required");
    let booking = book(&deal, json!({"ExpiresAt": null})).await.expect(201);
    let time = |member: &str| OffsetDateTime::parse(booking[member].as_str().unwrap(), &Rfc3339).unwrap();
    assert_eq!(time("ExpiresAt") - time("CreatedAt"), Duration::days(3));
    let longest = ahead(Duration::days(90) - Duration::seconds(5));
    prolong(&deal, &longest).await.expect(200);
    let too_late = "2100-01-01T00:00:00Z";
    prolong(&deal, too_late).await.expect_refusal("VALIDATION_FAILED", "/ExpiresAt", "out_of_bounds");
    // The service truncates times to microseconds and writes UTC as `Z`.
    let booking = prolong(&deal, &longest.replace('Z', "999+00:00")).await.expect(200);
    let expires_at = booking["ExpiresAt"].as_str().unwrap();
    assert!(
        expires_at.ends_with('Z') && expires_at.len() <= "2026-11-22T00:00:00.000000Z".len(),
        "{expires_at}"
    );
}

/// INV-BKG-1, RULE-CRM-010, RULE-CRM-019, RULE-CRM-021, RULE-CRM-027, RULE-CRM-029, RULE-CRM-030:
/// terminal, own Active booking, availability, another deal's booking, step and version are checked
/// in this order.
#[tokio::test]
async fn booking_with_several_faults_reports_the_first() {
    let deal = create_deal().await;
    let stale = json!({"RowVersion": 0});
    let first = create_deal_of(deal.developer, deal.object).await;
    first.book().await;
    book(&deal, stale.clone()).await.expect_problem(409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED");
    for status in ["Sold", "Unavailable"] {
        publish_object(&object(deal.object, deal.developer, status)).await;
        book(&deal, stale.clone()).await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
        book(&first, stale.clone()).await.expect_problem(409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE");
    }
    // The status Booked in chessboard blocks no booking.
    publish_object(&object(deal.object, deal.developer, "Booked")).await;
    first.bring_to("Cancelled").await;
    book(&first, stale.clone()).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
    let live = steps(deal.developer).await;
    let kept: Vec<_> = live
        .iter()
        .filter(|step| step["Group"] != "Booking")
        .map(|step| json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"]}))
        .collect();
    let pipeline = format!("{}/pipeline-steps?TenantId={}", crate::PLATFORM, deal.developer);
    platform().put(&pipeline, json!({"Steps": kept})).await.expect(200);
    book(&deal, stale.clone()).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    deal.bring_to("Sale").await;
    book(&deal, stale).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    let version = deal.row_version().await;
    book(&deal, json!({"RowVersion": version})).await.expect(201);
    let unknown = Deal { id: guid(), ..deal };
    book(&unknown, json!({})).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    let other = create_deal_of(deal.developer, deal.object).await;
    deal.bring_to("Completed").await;
    book(&other, json!({})).await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
}

/// RULE-CRM-011, RULE-EVT-017: terminal, missing booking, same time and version are checked in this
/// order. A new time adds a timeline row and publishes nothing.
#[tokio::test]
async fn booking_gets_a_new_expiry_time() {
    let deal = create_deal().await;
    let (later, sooner) = (ahead(Duration::days(40)), ahead(Duration::days(1)));
    prolong(&deal, &later).await.expect_problem(409, "CRM_DEAL_BOOKING_REQUIRED");
    let created = deal.book().await;
    let stale = json!({"ExpiresAt": later, "RowVersion": 1});
    let own = manager(deal.developer);
    own.put(&deal.own("/booking"), stale.clone()).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    let booking = own.put(&deal.own("/booking"), with(stale.clone(), "RowVersion", 2)).await.expect(200);
    assert_eq!((&booking["Id"], &booking["Deal"]["RowVersion"]), (&created["Id"], &json!(3)));
    let again = own.put(&deal.own("/booking"), stale).await.expect(200);
    assert_eq!(again, booking, "the same time changes nothing and compares no version");
    let booking = prolong(&deal, &sooner).await.expect(200);
    let timeline = deal.timeline().await;
    assert_eq!(each(&timeline[3..], "Kind"), ["BookingProlonged", "BookingProlonged"]);
    let payload = json!({"BookingId": created["Id"], "ExpiresAt": booking["ExpiresAt"]});
    assert_eq!(timeline[4]["Payload"], payload);
    deal.bring_to("Cancelled").await;
    prolong(&deal, &later).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
    let events = deal.events().await;
    assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, BOOKING_CREATED, STAGE_CHANGED, CANCELLED]);
}

/// INV-BKG-3, INV-BKG-4, RULE-CRM-016, RULE-EVT-015: the job ends an overdue booking as System. The
/// deal keeps step and status, and the object is free.
#[tokio::test]
async fn overdue_booking_expires_and_its_deal_stays() {
    let deal = create_deal().await;
    let booking = book(&deal, json!({"ExpiresAt": ahead(Duration::milliseconds(300))})).await.expect(201);
    wait_for_expiry(&deal).await;
    let after = deal.read().await;
    assert_eq!((&after["Status"], &after["RowVersion"]), (&json!("Booking"), &json!(3)));
    assert_eq!(after["UpdatedByUserId"], Value::Null);
    let timeline = deal.timeline().await;
    let row = timeline.last().unwrap();
    assert_eq!(
        (&row["Kind"], &row["Payload"]),
        (&json!("BookingExpired"), &json!({"BookingId": booking["Id"]}))
    );
    assert_eq!((&row["ActorUserId"], &row["ActorRole"]), (&Value::Null, &json!("System")));
    let events = deal.events().await;
    assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, BOOKING_CREATED, BOOKING_EXPIRED]);
    let expired = &events[3].payload;
    assert_eq!((&expired["BookingId"], &expired["RowVersion"]), (&booking["Id"], &json!(3)));
    let object = json!(deal.object);
    assert_eq!((&expired["ExpiredAt"], &expired["PropertyObjectId"]), (&after["UpdatedAt"], &object));
    create_deal_of(deal.developer, deal.object).await.book().await;
    prolong(&deal, &ahead(Duration::days(1))).await.expect_problem(409, "CRM_DEAL_BOOKING_REQUIRED");
}

/// INV-BKG-3, INV-BKG-4: a booking does not expire while its deal is in Contract. After the deal
/// leaves Contract, an overdue booking expires at once.
#[tokio::test]
async fn booking_does_not_expire_in_sale() {
    let (moved_to_sale, booked_in_sale) = (create_deal().await, create_deal().await);
    let soon = || json!({"ExpiresAt": ahead(Duration::milliseconds(700))});
    book(&moved_to_sale, soon()).await.expect(201);
    platform().put(&moved_to_sale.path("/contract"), contract()).await.expect(200);
    let step = steps_of(moved_to_sale.developer, "Contract").await[0];
    platform().post(&moved_to_sale.path("/move-step"), json!({"StepId": step})).await.expect(200);
    booked_in_sale.bring_to("Sale").await;
    book(&booked_in_sale, soon()).await.expect(201);
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    for deal in [moved_to_sale, booked_in_sale] {
        assert_ne!(deal.read().await["BookingExpiresAt"], Value::Null);
    }
    let step = steps_of(moved_to_sale.developer, "Booking").await[0];
    platform().post(&moved_to_sale.path("/move-step"), json!({"StepId": step})).await.expect(200);
    wait_for_expiry(&moved_to_sale).await;
    booked_in_sale.bring_to("Application").await;
    wait_for_expiry(&booked_in_sale).await;
}

/// RULE-CRM-016: the job continues batch after batch and ends each booking once. Bookings in
/// Contract and bookings that are not overdue stay.
#[tokio::test]
async fn overdue_bookings_beyond_one_batch_all_expire() {
    // The job reads 500 bookings in a batch.
    const OVERDUE: usize = 1_100;
    let developer = create_developer().await;
    let live = steps(developer).await;
    let step = |group: &str| live.iter().find(|step| step["Group"] == group).unwrap();
    // The deal at the index `OVERDUE` has a booking that is not overdue.
    let mut deals: Vec<_> = (0..=OVERDUE).map(|_| deal_row(step("Booking"))).collect();
    deals.extend((0..20).map(|_| deal_row(step("Contract"))));
    insert_deals(&deals).await;
    let bookings: Vec<_> = deals
        .iter()
        .enumerate()
        .map(|(at, deal)| {
            json!({
                "id": guid(), "deal_id": deal["id"], "property_object_id": deal["property_object_id"],
                "status": "Active", "expires_at": if at == OVERDUE { ahead(Duration::days(1)) } else { seconds_later(at) },
                "created_at": LONG_AGO, "ended_at": null, "row_version": 1, "is_expiry_suspended": at > OVERDUE,
            })
        })
        .collect();
    insert("booking", &bookings).await;
    let sql = service().sql().await;
    let count = async |query: &str| -> i64 { sql.query_one(query, &[]).await.unwrap().get(0) };
    let of_developer = format!("join deal on deal.id = deal_id where tenant_id = '{developer}'");
    let expired = format!("select count(*) from booking {of_developer} and booking.status = 'Expired'");
    let all = i64::try_from(OVERDUE).unwrap();
    eventually("the expiries", async || (count(&expired).await == all).then_some(())).await;
    let rows = format!("select count(*) from timeline {of_developer} and kind = 'BookingExpired'");
    assert_eq!(count(&rows).await, all);
    let active = format!("select count(*) from booking {of_developer} and booking.status = 'Active'");
    assert_eq!(count(&active).await, 21);
}
