//! Cancellations and completions.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;

use crate::{
    CANCELLED, COMPLETED, Deal, OWN, PLATFORM, STAGE_CHANGED, company, contract, create_deal, create_deal_of,
    create_object, creation_body, each, in_days, manager, payloads, platform, publish_company, steps,
    steps_of, with,
};

const STATUSES: [&str; 5] = ["Application", "Booking", "Sale", "Cancelled", "Completed"];

fn completion() -> Value {
    json!({"RegistryRecordNumber": " 77:01-5/2026 "})
}

async fn complete(deal: &Deal, body: Value) -> Response {
    manager(deal.developer).post(&deal.own("/complete"), body).await
}

async fn cancel(deal: &Deal, body: Value) -> Response {
    platform().post(&deal.path("/cancel"), body).await
}

/// Removes all steps of a group from the pipeline of a deal's developer.
async fn remove_group(deal: &Deal, group: &str) {
    let live = steps(deal.developer).await;
    let kept: Vec<_> = live
        .iter()
        .filter(|step| step["Group"] != group)
        .map(|step| json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"]}))
        .collect();
    let pipeline = format!("{PLATFORM}/pipeline-steps?TenantId={}", deal.developer);
    platform().put(&pipeline, json!({"Steps": kept})).await.expect(200);
}

/// INV-DEAL-2, INV-DEAL-3, INV-DEAL-4, RULE-CRM-012, RULE-EVT-013, RULE-EVT-014, RULE-EVT-015: a
/// cancellation ends the Active booking. A Cancelled deal keeps its reason, and a Completed deal
/// cannot be cancelled.
#[tokio::test]
async fn cancellation_ends_the_active_booking() {
    for status in STATUSES {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        if matches!(status, "Application" | "Booking" | "Sale") {
            deal.book().await;
        }
        let (before, rows) = (deal.read().await, deal.timeline().await.len());
        let response = cancel(&deal, json!({"Reason": "\u{2003}раздумал "})).await;
        match status {
            "Completed" => drop(response.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL")),
            "Cancelled" => {
                assert_eq!(response.expect(200)["RowVersion"], before["RowVersion"]);
                assert_eq!((deal.read().await, deal.timeline().await.len()), (before, rows));
            }
            _ => {
                let (card, after) = (response.expect(200), deal.read().await);
                assert_eq!(card["StepId"], json!(steps_of(deal.developer, "Cancelled").await[0]));
                assert_eq!(
                    (&after["Status"], &after["CancelReason"]),
                    (&json!("Cancelled"), &json!("раздумал"))
                );
                assert_eq!(
                    (&after["CancelledAt"], &after["BookingExpiresAt"]),
                    (&after["UpdatedAt"], &Value::Null)
                );
                let new = &deal.timeline().await[rows..];
                assert_eq!(each(new, "Kind"), ["DealCancelled"]);
                assert_eq!(new[0]["Payload"], json!({"Reason": "раздумал"}));
                let events = deal.events().await;
                let [.., stage, cancelled] = &events[..] else { panic!("expected two events") };
                assert_eq!((stage.topic.as_str(), cancelled.topic.as_str()), (STAGE_CHANGED, CANCELLED));
                assert_eq!(cancelled.payload["RowVersion"], card["RowVersion"]);
                assert_eq!(payloads(&events, CANCELLED).len(), 1);
                // Another deal can book the object.
                create_deal_of(deal.developer, deal.object).await.book().await;
            }
        }
    }
}

/// RULE-CRM-012: terminal, no-op, step and version are checked in this order.
#[tokio::test]
async fn cancellation_with_several_faults_reports_the_first() {
    let deal = create_deal().await;
    let stale = json!({"Reason": "x", "RowVersion": 7});
    cancel(&deal, stale.clone()).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    cancel(&deal, with(stale.clone(), "RowVersion", 1)).await.expect(200);
    cancel(&deal, stale.clone()).await.expect(200);
    remove_group(&deal, "Cancelled").await;
    cancel(&deal, stale.clone()).await.expect(200);
    let other = create_deal().await;
    remove_group(&other, "Cancelled").await;
    cancel(&other, stale.clone()).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    let unknown = Deal { id: guid(), ..deal };
    cancel(&unknown, stale).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    for (reason, code) in [
        (json!("\u{a0}"), "too_short"),
        (json!("x".repeat(2001)), "too_long"),
        (json!("\0x"), "forbidden_character"),
    ] {
        let response = cancel(&deal, json!({"Reason": reason})).await;
        response.expect_refusal("VALIDATION_FAILED", "/Reason", code);
    }
}

/// INV-DEAL-7, INV-DEAL-8, RULE-CRM-013, RULE-CRM-025, RULE-EVT-013, RULE-EVT-016: the developer
/// completes a deal in Sale only. A repeat is a no-op.
#[tokio::test]
async fn deal_is_completed_from_sale_only() {
    for status in STATUSES {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        if status == "Sale" {
            deal.book().await;
        }
        let (before, rows) = (deal.read().await, deal.timeline().await.len());
        let response = complete(&deal, with(completion(), "RowVersion", before["RowVersion"].clone())).await;
        match status {
            "Application" | "Booking" => drop(response.expect_problem(409, "CRM_DEAL_MOVE_FORBIDDEN")),
            "Cancelled" => drop(response.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL")),
            "Completed" => assert_eq!(response.expect(200)["RowVersion"], before["RowVersion"]),
            _ => {
                let (card, after) = (response.expect(200), deal.read().await);
                assert_eq!(card["StepId"], json!(steps_of(deal.developer, "Completed").await[0]));
                assert_eq!(
                    (&after["Status"], &after["CompletedAt"]),
                    (&json!("Completed"), &after["UpdatedAt"])
                );
                assert_eq!(after["BookingExpiresAt"], Value::Null);
                let new = &deal.timeline().await[rows..];
                assert_eq!(each(new, "Kind"), ["DealCompleted"]);
                assert_eq!(new[0]["Payload"], json!({"RegistryRecordNumber": "77:01-5/2026"}));
                assert_eq!(new[0]["ActorRole"], "DeveloperManager");
                let events = deal.events().await;
                let [.., stage, completed] = &events[..] else { panic!("expected two events") };
                assert_eq!((stage.topic.as_str(), completed.topic.as_str()), (STAGE_CHANGED, COMPLETED));
                assert_eq!(payloads(&events, COMPLETED).len(), 1);
                assert_eq!(completed.payload["CompletedAt"], after["CompletedAt"]);
                assert_eq!(completed.payload["RowVersion"], card["RowVersion"]);
                assert_eq!(completed.payload["AgentUserId"], after["AgentUserId"]);
            }
        }
    }
}

/// INV-DEAL-7, RULE-CRM-013: the platform completes a deal only while the developer has a status
/// other than Active in identity.
#[tokio::test]
async fn platform_completes_only_for_an_inactive_developer() {
    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    let send = async || platform().post(&deal.path("/complete"), completion()).await;
    send().await.expect_problem(409, "CRM_DEAL_MOVE_FORBIDDEN");
    publish_company(&company(deal.developer, "Active")).await;
    send().await.expect_problem(409, "CRM_DEAL_MOVE_FORBIDDEN");
    publish_company(&company(deal.developer, "Suspended")).await;
    send().await.expect(200);
    assert_eq!(deal.timeline().await.last().unwrap()["ActorRole"], "PlatformManager");
    publish_company(&company(deal.developer, "Active")).await;
    send().await.expect(200);
}

/// RULE-CRM-031: a developer that is not Active gets no new deal. Its existing deals can still be
/// completed or cancelled.
#[tokio::test]
async fn existing_deals_of_an_inactive_developer_continue() {
    for status in ["Suspended", "Archived"] {
        let sold = create_deal().await;
        let lost = create_deal_of(sold.developer, create_object(sold.developer).await).await;
        publish_company(&company(sold.developer, status)).await;
        let by = manager(sold.developer);
        let refused = by.post(&format!("{OWN}/deals"), creation_body(sold.object).await).await;
        refused.expect_problem(409, "CRM_DEVELOPER_NOT_ACTIVE");
        by.post(&sold.own("/booking"), json!({})).await.expect(201);
        by.put(&sold.own("/contract"), contract()).await.expect(200);
        let step = steps_of(sold.developer, "Contract").await[0];
        by.post(&sold.own("/move-step"), json!({"StepId": step})).await.expect(200);
        assert_eq!(complete(&sold, completion()).await.expect(200)["Status"], "Completed");
        assert_eq!(cancel(&lost, json!({"Reason": "x"})).await.expect(200)["Status"], "Cancelled");
    }
}

/// RULE-CRM-012, RULE-CRM-013, RULE-ALL-006: a reason has up to 2000 characters and a registry
/// number up to 64 after trimming. `RowVersion` has 32 bits.
#[tokio::test]
async fn longest_reason_and_registry_number_are_accepted() {
    let deal = create_deal().await;
    let reason = "😀".repeat(2000);
    let body = json!({"Reason": format!("\u{2003}{reason}\n"), "RowVersion": 4_294_967_295_i64});
    cancel(&deal, body.clone()).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    cancel(&deal, with(body, "RowVersion", Value::Null)).await.expect(200);
    assert_eq!(deal.read().await["CancelReason"], reason);
    assert_eq!(payloads(&deal.events().await, CANCELLED)[0]["CancelReason"], reason);

    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    let number = "7".repeat(64);
    let body = json!({"RegistryRecordNumber": format!(" {number}\t")});
    complete(&deal, body).await.expect(200);
    assert_eq!(deal.timeline().await.last().unwrap()["Payload"], json!({"RegistryRecordNumber": number}));
}

/// INV-DEAL-10, RULE-CRM-013, RULE-CRM-030: status, another deal's booking, another completion,
/// step and version are checked in this order.
#[tokio::test]
async fn completion_with_several_faults_reports_the_first() {
    let deal = create_deal().await;
    let stale = with(completion(), "RowVersion", 0);
    deal.bring_to("Sale").await;
    complete(&deal, stale.clone()).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    let in_application = create_deal_of(deal.developer, deal.object).await;
    let seller = create_deal_of(deal.developer, deal.object).await;
    seller.bring_to("Completed").await;
    complete(&deal, stale.clone()).await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    remove_group(&deal, "Completed").await;
    complete(&deal, stale.clone()).await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    remove_group(&deal, "Completed").await;
    complete(&deal, stale.clone()).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    let other = create_deal_of(deal.developer, deal.object).await;
    other.book().await;
    complete(&deal, stale.clone()).await.expect_problem(409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED");
    complete(&in_application, stale.clone()).await.expect_problem(409, "CRM_DEAL_MOVE_FORBIDDEN");
    for (number, code) in [
        (json!(" "), "too_short"),
        (json!("7".repeat(65)), "too_long"),
        (json!("7\0"), "forbidden_character"),
    ] {
        let response = complete(&deal, json!({"RegistryRecordNumber": number})).await;
        response.expect_refusal("VALIDATION_FAILED", "/RegistryRecordNumber", code);
    }
}

/// RULE-CRM-015, RULE-CRM-019: on company routes every operation on a deal of another company
/// is refused like one on an unknown deal.
#[tokio::test]
async fn deal_of_another_company_is_refused_like_an_unknown_one() {
    let (deal, stranger) = (create_deal().await, manager(guid()));
    let unknown = Deal { id: guid(), ..deal };
    let changes = [
        ("POST", "/move-step", json!({"StepId": guid()})),
        ("PUT", "/contract", json!({})),
        ("GET", "/contract", Value::Null),
        ("PUT", "/agent", json!({})),
        ("POST", "/booking", json!({})),
        ("PUT", "/booking", json!({"ExpiresAt": in_days(1)})),
        ("POST", "/cancel", json!({"Reason": "x"})),
        ("POST", "/complete", completion()),
        ("POST", "/notes", json!({"Text": "x"})),
    ];
    for (method, below, body) in changes {
        let send = async |deal: &Deal| match method {
            "GET" => stranger.get(&deal.own(below)).await,
            "PUT" => stranger.put(&deal.own(below), body.clone()).await,
            _ => stranger.post(&deal.own(below), body.clone()).await,
        };
        let (foreign, unknown) = (send(&deal).await, send(&unknown).await);
        assert_eq!(foreign.status, 404, "{method} {below}");
        for member in ["code", "title", "detail", "errors", "type"] {
            assert_eq!(foreign.body[member], unknown.body[member], "{below}");
        }
    }
    assert_eq!(deal.timeline().await.len(), 1);
}
