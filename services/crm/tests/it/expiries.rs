//! Expiries of bookings, with concurrent changes and failures.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;

use crate::races::{is_conflict, versions};
use crate::{
    BOOKING_CREATED, BOOKING_EXPIRED, CREATED, DEVELOPER_UPSERTED, Deal, MANAGE, OBJECT_UPSERTED, PLATFORM,
    STAGE_CHANGED, creation_body, developer, events_of, eventually, guid, id_of, in_days, in_millis, list,
    object, parse_time, publish, start, text, topics, user_with,
};

fn start_with_interval(millis: &str) -> Running {
    start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", millis)])
}

/// RULE-CRM-040: an expiry and a concurrent change are serialized. The second one is refused, or is
/// decided on the result of the first.
#[tokio::test]
async fn expiry_and_concurrent_change_exclude_each_other() {
    let crm = start_with_interval("1");
    let by = crm.caller(&user_with(None, &[MANAGE]));
    let mut races = Vec::new();
    for number in 0..24_u64 {
        let deal = create_deal_at(&crm, &by).await;
        let by = by.clone();
        races.push(async move {
            // The change starts up to 6 ms before or 5 ms after the expiry time.
            let soon = json!({"ExpiresAt": in_millis(2_000)});
            let booked = by.post(&deal.path("/booking"), soon).await.expect(201);
            let left = parse_time(text(&booked["ExpiresAt"])) - runtime::clock::now();
            let left = Duration::try_from(left).unwrap_or_default();
            tokio::time::sleep(
                left.saturating_sub(Duration::from_millis(6)) + Duration::from_millis(number % 12),
            )
            .await;
            let later = json!({"ExpiresAt": in_days(1)});
            let change = match number % 3 {
                0 => by.put(&deal.path("/booking"), later).await,
                1 => by.post(&deal.path("/cancel"), json!({"Reason": "x"})).await,
                _ => by.put(&deal.path("/agent"), json!({"AgentUserId": guid()})).await,
            };
            (number, deal, change)
        });
    }
    for (number, deal, change) in join_all(races).await {
        let sql = crm.sql().await;
        let status = async || {
            let booking = "select status from booking where deal_id = $1::text::uuid";
            sql.query_one(booking, &[&deal.id.to_string()]).await.unwrap().get::<_, String>(0)
        };
        let has_succeeded = (200..300).contains(&change.status);
        let expected = match (number % 3, has_succeeded) {
            (0, true) => "Active",
            // The cancellation was first. A later one finds a deal without a booking.
            (1, true) if status().await == "Cancelled" => "Cancelled",
            _ => "Expired",
        };
        eventually("the end of the booking", async || (status().await == expected).then_some(())).await;
        assert!(
            has_succeeded
                || is_conflict(&change, "CRM_DEAL_CONFLICT")
                || is_conflict(&change, "CRM_DEAL_BOOKING_REQUIRED"),
            "{}",
            change.text
        );
        let page = by.get(&deal.path("/timeline?PageSize=100")).await.expect(200);
        let expiries = list(&page["Items"]).iter().filter(|row| row["Kind"] == "BookingExpired").count();
        assert_eq!(expiries, usize::from(expected == "Expired"), "{page}");
        let found = by.get(&deal.path("")).await.expect(200);
        let rows: Vec<_> = list(&page["Items"]).iter().rev().cloned().collect();
        assert_eq!(versions(&rows), (1..=found["RowVersion"].as_i64().unwrap()).collect::<Vec<_>>());
        assert_eq!(found["BookingExpiresAt"].is_null(), expected != "Active");
    }
}

/// Creates a deal at a service that one test has started.
async fn create_deal_at(crm: &Running, by: &Client) -> Deal {
    let (tenant, flat) = (guid(), guid());
    publish(crm, DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
    publish(crm, OBJECT_UPSERTED, "Id", &object(flat, tenant, "Available")).await;
    let created = by.post(&format!("{PLATFORM}/deals"), creation_body(flat).await).await.expect(201);
    Deal { id: id_of(&created["DealId"]), object: flat, developer: tenant }
}

/// RULE-CRM-040: two replicas of the job end each booking once.
#[tokio::test]
async fn replicas_of_the_job_end_each_booking_once() {
    let first = start_with_interval("30");
    let second = start(&[("CRM_BOOKING_EXPIRY_INTERVAL_MS", "30"), ("DATABASE_URL", &first.database_url)]);
    let by = first.caller(&user_with(None, &[MANAGE]));
    let mut deals = Vec::new();
    for _ in 0..30 {
        deals.push(create_deal_at(&first, &by).await);
    }
    for deal in &deals {
        by.post(&deal.path("/booking"), json!({"ExpiresAt": in_days(1)})).await.expect(201);
    }
    // All bookings become overdue at once, however long their creation took.
    first.sql().await.batch_execute("update booking set expires_at = created_at").await.unwrap();
    for deal in &deals {
        eventually("the expiry", async || {
            let found = by.get(&deal.path("")).await.expect(200);
            found["BookingExpiresAt"].is_null().then_some(())
        })
        .await;
        let events = events_of(&second, deal.id).await;
        assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, BOOKING_CREATED, BOOKING_EXPIRED]);
        let found = by.get(&deal.path("")).await.expect(200);
        assert_eq!((&found["RowVersion"], &found["Status"]), (&json!(3), &json!("Booking")));
        assert_eq!((&found["UpdatedByUserId"], &found["BookingExpiresAt"]), (&Value::Null, &Value::Null));
    }
}

/// RULE-CRM-041: a deal that is being changed and a booking that cannot end delay no other expiry.
/// Their own bookings end once nothing prevents it.
#[tokio::test]
async fn booking_that_cannot_end_delays_no_other() {
    let crm = start_with_interval("100");
    let by = crm.caller(&user_with(None, &[MANAGE]));
    let (busy, broken) = (create_deal_at(&crm, &by).await, create_deal_at(&crm, &by).await);
    let mut others = Vec::new();
    for _ in 0..12 {
        others.push(create_deal_at(&crm, &by).await);
    }
    let book = async |deal: &Deal, millis: i64| {
        let body = json!({"ExpiresAt": in_millis(millis)});
        by.post(&deal.path("/booking"), body).await.expect(201);
    };
    let (sql, mut locker) = (crm.sql().await, crm.sql().await);
    let refuse =
        "alter table timeline add constraint refused check (deal_id <> '{}' or kind <> 'BookingExpired')";
    sql.batch_execute(&refuse.replace("{}", &broken.id.to_string())).await.unwrap();
    // These bookings are due before the others, so they could delay them.
    book(&busy, 3_000).await;
    book(&broken, 3_000).await;
    let change = locker.transaction().await.unwrap();
    let lock = "select from deal where id = $1::text::uuid for update";
    change.execute(lock, &[&busy.id.to_string()]).await.unwrap();
    for (deal, number) in std::iter::zip(&others, 0..) {
        book(deal, 4_000 + 50 * number).await;
    }
    let delay = "select extract(epoch from ended_at - expires_at)::float8 from booking \
        where deal_id = $1::text::uuid and status = 'Expired'";
    let ended = async |deal: &Deal| sql.query_opt(delay, &[&deal.id.to_string()]).await.unwrap();
    for deal in &others {
        let row = eventually("the expiry", async || ended(deal).await).await;
        let late: f64 = row.get(0);
        // The limit is the interval and 1 s. The rest is tolerance for a busy machine.
        assert!(late < 5.0, "the booking ended {late} s after its expiry time");
    }
    for deal in [busy, broken] {
        assert!(ended(&deal).await.is_none(), "{deal:?}");
    }
    change.rollback().await.unwrap();
    sql.batch_execute("alter table timeline drop constraint refused").await.unwrap();
    for deal in [busy, broken] {
        eventually("the expiry", async || ended(&deal).await).await;
        let page = by.get(&deal.path("/timeline")).await.expect(200);
        let rows: Vec<_> = list(&page["Items"]).iter().rev().cloned().collect();
        assert_eq!(versions(&rows), [1, 2, 3]);
    }
}
