//! The register of overrides.

use serde_json::{Value, json};
use testkit::guid;
use testkit::issuer::Claims;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::rows::seconds_later;
use crate::{
    Deal, MANAGE, PLATFORM, create_deal, create_deal_of, create_developer, create_object, each, id_of, list,
    manager, parse_time, platform, service, with,
};

async fn registered(query: &str) -> Vec<Value> {
    let page = platform().get(&format!("{PLATFORM}/status-overrides?PageSize=100&{query}")).await.expect(200);
    list(&page["Items"]).to_vec()
}

/// RULE-CRM-075: an override is registered with its actor, time, statuses and comment. A no-op, a
/// refusal, a cancellation and a move are not.
#[tokio::test]
async fn override_is_registered_once() {
    let deal = create_deal().await;
    let id = guid();
    let by = service().caller(&Claims::user(id).permission(MANAGE));
    let path = deal.path("/override-status");
    let booked = json!({"TargetStatus": "Booking", "Comment": " спор сторон "});
    let card = by.post(&path, booked.clone()).await.expect(200);
    by.post(&path, booked).await.expect(200);
    by.post(&path, json!({"TargetStatus": "Sale", "Comment": "x"}))
        .await
        .expect_problem(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    by.post(&deal.path("/cancel"), json!({"Reason": "x"})).await.expect(200);
    let revived = by.post(&path, json!({"TargetStatus": "Application", "Comment": "y"})).await.expect(200);
    let found = registered(&format!("DealId={}", deal.id)).await;
    let expected = |record: &Value, card: &Value, from: &str, to: &str, comment: &str| {
        json!({
            "Id": record["Id"], "DealId": deal.id, "TenantId": deal.developer, "DeveloperName": "Ромашка",
            "ProjectName": "Лесной", "BuildingName": "1", "Number": "12", "ActorUserId": id, "FromStatus": from,
            "ToStatus": to, "Comment": comment, "CreatedAt": card["UpdatedAt"], "RowVersion": card["RowVersion"],
        })
    };
    let [second, first] = &found[..] else { panic!("expected two overrides: {found:?}") };
    assert_eq!(*first, expected(first, &card, "Application", "Booking", "спор сторон"));
    assert_eq!(*second, expected(second, &revived, "Cancelled", "Application", "y"));
}

/// RULE-CRM-075: all filters are optional, and an override must match all of them. A walk returns
/// each override once, newest first.
#[tokio::test]
async fn register_is_filtered_and_paged() {
    let developer = create_developer().await;
    let deals: [Deal; 2] = [
        create_deal_of(developer, create_object(developer).await).await,
        create_deal_of(developer, create_object(developer).await).await,
    ];
    let (one, other) = (guid(), guid());
    let mut made = Vec::new();
    for (deal, actor, target) in [
        (&deals[0], one, "Booking"),
        (&deals[1], one, "Cancelled"),
        (&deals[0], other, "Application"),
        (&deals[0], one, "Cancelled"),
    ] {
        let by = service().caller(&Claims::user(actor).permission(MANAGE));
        let body = json!({"TargetStatus": target, "Comment": "x"});
        made.push(by.post(&deal.path("/override-status"), body).await.expect(200));
    }
    let time = |at: usize| made[at]["UpdatedAt"].as_str().unwrap().to_owned();
    for (query, found) in [
        (String::new(), &[3, 2, 1, 0][..]),
        (format!("&DealId={}", deals[1].id), &[1]),
        (format!("&ActorUserId={one}"), &[3, 1, 0]),
        (format!("&ActorUserId={one}&DealId={}", deals[0].id), &[3, 0]),
        (format!("&CreatedFrom={}", time(2)), &[3, 2]),
        (format!("&CreatedTo={}", time(2)), &[1, 0]),
        (format!("&CreatedFrom={}&CreatedTo={}", time(1), time(3)), &[2, 1]),
        (format!("&ActorUserId={}", guid()), &[]),
    ] {
        let listed = registered(&format!("TenantId={developer}{query}")).await;
        let expected: Vec<_> = found.iter().map(|at| &made[*at]["UpdatedAt"]).collect();
        assert_eq!(each(&listed, "CreatedAt"), expected, "{query}");
    }
    let mut cursor = String::new();
    let mut walked: Vec<Uuid> = Vec::new();
    loop {
        let path = format!("{PLATFORM}/status-overrides?TenantId={developer}&PageSize=3{cursor}");
        let page = platform().get(&path).await.expect(200);
        walked.extend(list(&page["Items"]).iter().map(|record| id_of(&record["Id"])));
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    let all = registered(&format!("TenantId={developer}")).await;
    assert_eq!(walked, all.iter().map(|record| id_of(&record["Id"])).collect::<Vec<_>>());
    let times: Vec<_> = all.iter().map(|record| parse_time(record["CreatedAt"].as_str().unwrap())).collect();
    assert!(times.is_sorted_by(|one, next| one >= next));
}

/// RULE-CRM-075, RULE-ALL-019: an invalid parameter is reported by its name.
#[tokio::test]
async fn invalid_query_of_the_register_is_refused() {
    let range = format!("CreatedFrom={0}&CreatedTo={0}", seconds_later(5));
    for (query, field, code) in [
        (range.as_str(), "/CreatedTo", "empty_range"),
        ("ActorUserId=x", "/ActorUserId", "invalid_type"),
        ("TenantId=00000000-0000-0000-0000-000000000000", "/TenantId", "empty_id"),
        ("Cursor=x", "/Cursor", "unknown_value"),
        ("PageSize=101", "/PageSize", "out_of_range"),
    ] {
        let refused = platform().get(&format!("{PLATFORM}/status-overrides?{query}")).await;
        refused.expect_refusal("VALIDATION_FAILED", field, code);
    }
}

/// INV-OVR-1: the database refuses update, delete and truncate of the register.
#[tokio::test]
async fn register_cannot_be_changed() {
    let deal = create_deal().await;
    deal.bring_to("Booking").await;
    let sql = service().sql().await;
    for statement in [
        format!("update status_override set comment = 'y' where deal_id = '{}'", deal.id),
        format!("delete from status_override where deal_id = '{}'", deal.id),
        "truncate status_override".to_owned(),
    ] {
        let refused = sql.batch_execute(&statement).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::RESTRICT_VIOLATION), "{statement}: {refused:?}");
    }
}

/// RULE-CRM-076, INV-TLE-5: a note whose audience is the platform is hidden on company routes. By
/// default everyone reads a note.
#[tokio::test]
async fn note_of_the_platform_is_hidden_from_the_company() {
    let deal = create_deal().await;
    let path = deal.path("/notes");
    let open = platform().post(&path, json!({"Text": "всем"})).await.expect(201);
    assert_eq!(open["Audience"], "Everyone");
    let same = json!({"Text": "и это", "Audience": "Everyone"});
    platform().post(&path, same).await.expect(201);
    let hidden = platform().post(&path, json!({"Text": "своим", "Audience": "Platform"})).await.expect(201);
    assert_eq!(hidden["Audience"], "Platform");
    let company = manager(deal.developer);
    // Company routes have no such member, and the note is for everyone.
    company.post(&deal.own("/notes"), json!({"Text": "a", "Audience": "Platform"})).await.expect(201);
    let texts = |rows: &[Value]| {
        let notes = rows.iter().filter_map(|row| row["Payload"]["Text"].as_str().map(str::to_owned));
        notes.collect::<Vec<_>>()
    };
    assert_eq!(texts(&deal.timeline().await), ["всем", "и это", "своим", "a"]);
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = company.get(&deal.own(&format!("/timeline?PageSize=1{cursor}"))).await.expect(200);
        rows.extend(list(&page["Items"]).iter().cloned());
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    assert_eq!(texts(&rows), ["a", "и это", "всем"]);
    assert!(rows.iter().all(|row| row["Audience"] == "Everyone"));
    platform().post(&path, json!({"Text": "x", "Audience": "Company"})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Audience",
        "unknown_value",
    );
}

/// RULE-CRM-076, RULE-CRM-005: everyone reads the two rows of an override by default. With the
/// audience `Platform` the company reads the change of status without reason and note.
#[tokio::test]
async fn comment_of_an_override_is_hidden_on_request() {
    let deal = create_deal().await;
    let company = manager(deal.developer);
    let own = async || {
        let page = company.get(&deal.own("/timeline?PageSize=100")).await.expect(200);
        list(&page["Items"]).iter().rev().cloned().collect::<Vec<_>>()
    };
    deal.bring_to("Booking").await;
    assert_eq!(own().await, deal.timeline().await, "both families read the same by default");
    let body = json!({"TargetStatus": "Application", "Comment": "тайна", "Audience": "Platform"});
    platform().post(&deal.path("/override-status"), body.clone()).await.expect(200);
    let (whole, shown) = (deal.timeline().await, own().await);
    let kinds = ["DealCreated", "StatusChanged", "ManualNote", "StatusChanged", "ManualNote"];
    assert_eq!(each(&whole, "Kind"), kinds);
    assert_eq!(whole[3]["Payload"]["Reason"], "тайна");
    assert_eq!(each(&shown, "Kind"), kinds[..4]);
    let payload = json!({"FromStatus": "Booking", "ToStatus": "Application", "Reason": null});
    assert_eq!(shown[3]["Payload"], payload);
    assert_eq!(shown[3]["Id"], whole[3]["Id"]);
    // The reason of a cancellation is in the deal and its event, so nothing could hide it.
    let cancelled = with(body, "TargetStatus", "Cancelled");
    let refused = platform().post(&deal.path("/override-status"), cancelled).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Audience", "excluded_by_target");
}
