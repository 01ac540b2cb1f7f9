//! Status overrides and their previews.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    CANCELLED, CREATED, Deal, MANAGE, PLATFORM, STAGE_CHANGED, contract, create_deal, create_deal_of,
    create_developer, create_object, each, payloads, platform, service, steps, steps_of, topics, with,
};

const STATUSES: [&str; 5] = ["Application", "Booking", "Sale", "Cancelled", "Completed"];

/// Returns the id and the client of a platform manager.
fn platform_manager() -> (Uuid, Client) {
    let id = guid();
    (id, service().caller(&Claims::user(id).permission(MANAGE)))
}

async fn override_status(deal: &Deal, target: &str, row_version: Value) -> Response {
    override_by(&platform(), deal, target, row_version).await
}

async fn override_by(by: &Client, deal: &Deal, target: &str, row_version: Value) -> Response {
    let body = json!({"TargetStatus": target, "Comment": " по решению \n", "RowVersion": row_version});
    by.post(&deal.path("/override-status"), body).await
}

async fn preview(deal: &Deal, target: &str, row_version: Value) -> Response {
    // A preview ignores `Comment`, even of a wrong type.
    let body = json!({"TargetStatus": target, "Comment": 5, "RowVersion": row_version});
    platform().post(&deal.path("/override-status/preview"), body).await
}

/// Asserts that two problems are equal except for `traceId` and `instance`.
fn assert_same_problem(one: Response, other: Response, code: &str) {
    assert_eq!(one.status, other.status);
    let (one, other) = (one.expect_problem(other.status, code), other.body);
    for member in ["code", "title", "detail", "type", "errors"] {
        assert_eq!(one[member], other[member], "{member}");
    }
}

/// INV-DEAL-2, INV-DEAL-3, INV-DEAL-4, INV-DEAL-9, RULE-CRM-005, RULE-CRM-006, RULE-CRM-023: each
/// status is overridden to each target except Completed. The deal, its timeline and its events name
/// the caller. A refusal and a no-op write and publish nothing. The preview shows the same result.
#[tokio::test]
async fn override_follows_the_status_table() {
    let developer = create_developer().await;
    let (actor, by) = platform_manager();
    for from in STATUSES {
        for target in &STATUSES[..4] {
            let deal = create_deal_of(developer, create_object(developer).await).await;
            platform().put(&deal.path("/contract"), contract()).await.expect(200);
            let booking = deal.book().await;
            deal.bring_to(from).await;
            let (before, rows) = (deal.read().await, deal.timeline().await.len());
            let events_before = deal.events().await.len();
            let previewed = preview(&deal, target, Value::Null).await;
            let response = override_by(&by, &deal, target, Value::Null).await;
            let (after, timeline) = (deal.read().await, deal.timeline().await);
            let events = deal.events().await.split_off(events_before);
            if from == "Completed" {
                assert_same_problem(response, previewed, "CRM_DEAL_ALREADY_TERMINAL");
                assert_eq!((after, timeline.len()), (before, rows), "a refusal writes nothing");
                assert_eq!(topics(&events), [""; 0], "a refusal publishes nothing");
                continue;
            }
            let (card, previewed) = (response.expect(200), previewed.expect(200));
            assert_eq!(previewed["From"]["RowVersion"], before["RowVersion"]);
            for member in ["Status", "StepId", "StepGroup"] {
                assert_eq!(previewed["To"][member], card[member], "{from} to {target}");
            }
            assert_eq!(previewed["NoOp"], from == *target);
            if from == *target {
                assert_eq!((after, timeline.len()), (before, rows), "{from}: nothing is written");
                assert_eq!(topics(&events), [""; 0], "{from}: nothing is published");
                assert_eq!(previewed["Events"], json!([]));
                continue;
            }
            let group = if *target == "Sale" { "Contract" } else { target };
            assert_eq!((&card["Status"], &card["StepGroup"]), (&json!(target), &json!(group)));
            assert_eq!(card["StepId"], json!(steps_of(developer, group).await[0]));
            assert_eq!(card["RowVersion"].as_i64(), before["RowVersion"].as_i64().map(|version| version + 1));
            let new = &timeline[rows..];
            let is_cancelled = *target == "Cancelled";
            assert_eq!(previewed["CancelsBooking"], is_cancelled);
            if is_cancelled {
                assert_eq!(each(new, "Kind"), ["DealCancelled", "ManualNote"]);
                assert_eq!(new[0]["Payload"], json!({"Reason": "по решению"}));
                assert_eq!(
                    (&after["CancelReason"], &after["CancelledAt"]),
                    (&json!("по решению"), &after["UpdatedAt"])
                );
                assert_eq!(previewed["Events"], json!(["deal-stage-changed", "deal-cancelled"]));
                assert_eq!(topics(&events), [STAGE_CHANGED, CANCELLED]);
                assert_eq!(events[1].payload["CancelledByUserId"], json!(actor));
                assert_eq!(after["BookingExpiresAt"], Value::Null);
            } else {
                assert_eq!(each(new, "Kind"), ["StatusChanged", "ManualNote"]);
                let expected = json!({"FromStatus": from, "ToStatus": target, "Reason": "по решению"});
                assert_eq!(new[0]["Payload"], expected);
                assert_eq!((&after["CancelReason"], &after["CancelledAt"]), (&Value::Null, &Value::Null));
                assert_eq!(previewed["Events"], json!(["deal-stage-changed"]));
                assert_eq!(topics(&events), [STAGE_CHANGED]);
                let booked = if from == "Cancelled" { Value::Null } else { booking["ExpiresAt"].clone() };
                assert_eq!(after["BookingExpiresAt"], booked, "{from} to {target}");
            }
            assert_eq!(new[1]["Payload"], json!({"Text": "по решению"}));
            assert_eq!(after["UpdatedByUserId"], json!(actor));
            for row in new {
                assert_eq!(
                    (&row["ActorUserId"], &row["ActorRole"]),
                    (&json!(actor), &json!("PlatformManager"))
                );
                assert_eq!(row["RowVersion"], card["RowVersion"]);
            }
            assert_eq!(events[0].payload["ChangedByUserId"], json!(actor));
            assert!(events.iter().all(|event| event.payload["RowVersion"] == card["RowVersion"]));
        }
    }
}

/// INV-DEAL-6, RULE-CRM-006, RULE-CRM-019, RULE-CRM-020, RULE-CRM-021, RULE-CRM-022, RULE-CRM-023,
/// RULE-CRM-024: 422 for Completed, 404, terminal, no-op, step, contract data and version are
/// checked in this order, also in the preview.
#[tokio::test]
async fn override_or_preview_with_several_faults_reports_the_first() {
    let unknown = Deal { id: guid(), object: guid(), developer: guid() };
    let expect_both = async |deal: &Deal, target: &str, status: u16, code: &str| {
        let (one, other) =
            (override_status(deal, target, json!(0)).await, preview(deal, target, json!(0)).await);
        assert_eq!(one.status, status, "{}", one.text);
        assert_same_problem(one, other, code);
    };
    expect_both(&unknown, "Completed", 422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN").await;
    expect_both(&unknown, "Sale", 404, "CRM_DEAL_NOT_FOUND").await;
    let deal = create_deal().await;
    let no_op = override_status(&deal, "Application", json!(0)).await.expect(200);
    assert_eq!(no_op["RowVersion"], 1);
    assert_eq!(preview(&deal, "Application", json!(0)).await.expect(200)["NoOp"], true);
    expect_both(&deal, "Sale", 409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED").await;
    expect_both(&deal, "Cancelled", 409, "CRM_DEAL_CONFLICT").await;
    // Removes all steps of Contract from the pipeline.
    let live = steps(deal.developer).await;
    let kept: Vec<_> = live
        .iter()
        .filter(|step| step["Group"] != "Contract")
        .map(|step| json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"]}))
        .collect();
    let pipeline = format!("{PLATFORM}/pipeline-steps?TenantId={}", deal.developer);
    platform().put(&pipeline, json!({"Steps": kept})).await.expect(200);
    expect_both(&deal, "Sale", 422, "CRM_DEAL_STEP_NOT_FOUND").await;
    assert_eq!(deal.timeline().await.len(), 1, "a refusal writes nothing");
    assert_eq!(topics(&deal.events().await), [CREATED], "a refusal publishes nothing");
    let done = create_deal().await;
    done.bring_to("Completed").await;
    expect_both(&done, "Sale", 409, "CRM_DEAL_ALREADY_TERMINAL").await;
    expect_both(&done, "Completed", 422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN").await;
}

/// RULE-CRM-005, RULE-CRM-055: the receiving step is the default of the group, otherwise the first
/// live one.
#[tokio::test]
async fn override_leads_to_the_default_or_the_first_step() {
    let deal = create_deal().await;
    let pipeline = format!("{PLATFORM}/pipeline-steps?TenantId={}", deal.developer);
    let live = steps(deal.developer).await;
    let [first, second] = steps_of(deal.developer, "Contract").await[..] else {
        panic!("expected two steps")
    };
    platform().put(&deal.path("/contract"), contract()).await.expect(200);
    for (default, expected) in [(Some(second), second), (None, first)] {
        let body: Vec<_> = live
            .iter()
            .map(|step| {
                let is_default = default.is_some_and(|default| step["Id"] == json!(default));
                json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"], "IsDefault": is_default})
            })
            .collect();
        platform().put(&pipeline, json!({"Steps": body})).await.expect(200);
        let card = override_status(&deal, "Sale", Value::Null).await.expect(200);
        assert_eq!(card["StepId"], json!(expected));
        override_status(&deal, "Application", Value::Null).await.expect(200);
    }
}

/// RULE-CRM-005, RULE-EVT-013, RULE-EVT-014: an override publishes one stage change. An override to
/// Cancelled also publishes a cancellation with the same version. Stage changes arrive in order.
#[tokio::test]
async fn override_publishes_its_stage_change_and_cancellation() {
    let deal = create_deal().await;
    deal.bring_to("Cancelled").await;
    deal.bring_to("Booking").await;
    let arrived = service().published(deal.id).await;
    let [cancelling, reviving] = payloads(&arrived, STAGE_CHANGED)[..] else {
        panic!("expected two stage changes")
    };
    assert_eq!((&cancelling["RowVersion"], &reviving["RowVersion"]), (&json!(2), &json!(3)));
    let events = deal.events().await;
    assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, CANCELLED, STAGE_CHANGED]);
    let (stage, cancelled) = (&events[1].payload, &events[2].payload);
    assert_eq!((&stage["RowVersion"], &cancelled["RowVersion"]), (&json!(2), &json!(2)));
    assert_eq!(cancelled["CancelReason"], "x");
    assert_eq!(cancelled["CancelledByUserId"], stage["ChangedByUserId"]);
    assert_eq!(cancelled["CancelledAt"], stage["ChangedAt"]);
    assert_eq!(
        (&events[3].payload["FromStatus"], &events[3].payload["ToStatus"]),
        (&json!("Cancelled"), &json!("Booking"))
    );
}

/// RULE-CRM-005, RULE-ALL-003: a comment has 1 to 2000 characters after trimming. The target is a
/// status. The empty id in the path is 400.
#[tokio::test]
async fn invalid_override_is_refused() {
    let deal = create_deal().await;
    let body = json!({"TargetStatus": "Sale", "Comment": "x"});
    for (member, value, code) in [
        ("TargetStatus", json!("sale"), "unknown_value"),
        ("TargetStatus", json!("Contract"), "unknown_value"),
        ("TargetStatus", Value::Null, "invalid_type"),
        ("Comment", json!(" \u{3000}\n"), "too_short"),
        ("Comment", json!("\u{200b}"), "too_short"),
        ("Comment", json!("\u{feff} \u{2060}\t"), "too_short"),
        ("Comment", json!("ё".repeat(2001)), "too_long"),
        ("Comment", json!("\0"), "forbidden_character"),
        ("Comment", json!(["x"]), "invalid_type"),
        ("RowVersion", json!(1.5), "invalid_type"),
        ("RowVersion", json!("1"), "invalid_type"),
        ("RowVersion", json!(-1), "out_of_range"),
        ("RowVersion", json!(4_294_967_296_i64), "out_of_range"),
    ] {
        let response =
            platform().post(&deal.path("/override-status"), with(body.clone(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    let empty = Deal { id: Uuid::nil(), ..deal };
    override_status(&empty, "Completed", Value::Null).await.expect_refusal(
        "VALIDATION_FAILED",
        "/DealId",
        "empty_id",
    );
    let response = platform().post(&deal.path("/override-status"), json!({})).await;
    response.expect_refusal("VALIDATION_FAILED", "/Comment", "required");
    let surrogate = platform().request(Method::POST, &deal.path("/override-status"));
    let surrogate = surrogate.header("content-type", "application/json");
    let broken = r#"{"TargetStatus": "Sale", "Comment": "\ud800"}"#;
    send(surrogate.body(broken)).await.expect_refusal("VALIDATION_FAILED", "", "malformed");
    let long = format!(" {}\t", "ё".repeat(2000));
    let body = json!({"TargetStatus": "Booking", "Comment": long});
    platform().post(&deal.path("/override-status"), body).await.expect(200);
    // Inner white space and invisible characters stay as they were sent.
    let body = json!({"TargetStatus": "Application", "Comment": "\u{200b}а\tб\n\u{7}в"});
    platform().post(&deal.path("/override-status"), body.clone()).await.expect(200);
    let timeline = deal.timeline().await;
    assert_eq!(timeline.last().unwrap()["Payload"], json!({"Text": body["Comment"]}));
}

/// RULE-CRM-074: if one row of an override cannot be written, nothing of it is written or
/// published.
#[tokio::test]
async fn failed_override_writes_nothing() {
    let deal = create_deal().await;
    let (before, rows) = (deal.read().await, deal.timeline().await);
    let sql = service().sql().await;
    let constraint = format!("refused_note_{}", deal.id.simple());
    let id = deal.id;
    let refuse = format!(
        "alter table timeline add constraint {constraint} \
             check (deal_id <> '{id}' or kind <> 'ManualNote') not valid"
    );
    for target in ["Booking", "Cancelled"] {
        sql.batch_execute(&refuse).await.unwrap();
        override_status(&deal, target, Value::Null).await.expect_problem(500, "INTERNAL_ERROR");
        assert_eq!((deal.read().await, deal.timeline().await), (before.clone(), rows.clone()));
        assert_eq!(topics(&deal.events().await), [CREATED]);
        let accept = format!("alter table timeline drop constraint {constraint}");
        sql.batch_execute(&accept).await.unwrap();
    }
    let card = override_status(&deal, "Cancelled", Value::Null).await.expect(200);
    assert_eq!(card["RowVersion"], 2);
    assert_eq!(topics(&deal.events().await), [CREATED, STAGE_CHANGED, CANCELLED]);
}
