//! Transitions of payouts.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::guid;
use time::Duration;
use uuid::Uuid;

use crate::fixtures::{
    AccrualFixture, accrual, ago, balance, now, pay_one, payer, payout_path, rfc3339, run_body,
};
use crate::{
    ACCRUAL_CHANGED, PAYOUT_STATUS_CHANGED, PAYOUTS, PLATFORM, claims_of, id_of, money, service, with,
};

/// Creates a payout of 100 and brings it into a status.
async fn payout_in(status: &str) -> Value {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 100).write(service).await;
    let created = pay_one(service, agent).await;
    let operations: &[&str] = match status {
        "Scheduled" => &[],
        "InTransit" => &["send"],
        "Paid" => &["confirm"],
        "Failed" => &["fail"],
        _ => &["cancel"],
    };
    let mut shown = created.clone();
    for operation in operations {
        shown = payer(service).post(&payout_path(&created, operation), body_of(operation)).await.expect(200);
    }
    assert_eq!(shown["Status"], status);
    shown
}

fn body_of(operation: &str) -> Value {
    if operation == "fail" { json!({"Reason": "no such account"}) } else { json!({}) }
}

const STATUSES: [&str; 5] = ["Scheduled", "InTransit", "Paid", "Failed", "Cancelled"];
const OPERATIONS: [(&str, &str); 4] =
    [("send", "InTransit"), ("confirm", "Paid"), ("fail", "Failed"), ("cancel", "Cancelled")];

/// RULE-AGT-023, RULE-AGT-041: each operation is a transition, an unchanged repeat, or a refusal.
#[tokio::test]
async fn payout_transitions_follow_the_table() {
    let payer = payer(service());
    for from in STATUSES {
        for (operation, target) in OPERATIONS {
            let before = payout_in(from).await;
            let response = payer.post(&payout_path(&before, operation), body_of(operation)).await;
            let is_legal = matches!((from, target), ("Scheduled", _) | ("InTransit", "Paid" | "Failed"));
            if from == target {
                assert_eq!(response.expect(200), before, "{from} {operation} again");
            } else if is_legal {
                let after = response.expect(200);
                assert_eq!(
                    (&after["Status"], &after["Version"]),
                    (&json!(target), &json!(before["Version"].as_i64().unwrap() + 1))
                );
                for member in ["Gross", "Withheld", "Net", "AccrualsCount", "RunId", "CreatedAt", "PeriodTo"]
                {
                    assert_eq!(after[member], before[member], "{member}");
                }
            } else {
                response.expect_problem(409, "AGENT_PAYOUT_INVALID_TRANSITION");
                let statement = payer.get(&payout_path(&before, "statement")).await.expect(200);
                assert_eq!(statement["Payout"], before);
            }
        }
    }
}

/// RULE-AGT-023, RULE-EVT-021: a confirmation marks the accruals as Paid, and every change is
/// published.
#[tokio::test]
async fn confirmed_payout_marks_its_accruals_as_paid() {
    let (service, agent) = (service(), guid());
    let one = AccrualFixture::approved(agent, 60).write(service).await;
    let two =
        AccrualFixture { kind: "Correction", ..AccrualFixture::approved(agent, -10) }.write(service).await;
    let created = pay_one(service, agent).await;
    let by = guid();
    let payer = service.caller(&claims_of(by, &[PAYOUTS]));
    let sent = payer.post(&payout_path(&created, "send"), json!({"Reference": " П-1 "})).await.expect(200);
    assert_eq!((&sent["Reference"], &sent["SentAt"]), (&json!(" П-1 "), &sent["UpdatedAt"]));
    assert_eq!(balance(service, agent, "RUB").await["InPayout"], 50);
    let again = payer.post(&payout_path(&created, "send"), json!({"Reference": "another"})).await.expect(200);
    assert_eq!(again, sent, "nothing changes");

    let paid_at = ago(Duration::days(2));
    let body = json!({"PaidAt": rfc3339(paid_at)});
    let paid = payer.post(&payout_path(&created, "confirm"), body).await.expect(200);
    assert_eq!(
        (&paid["Status"], &paid["Reference"], &paid["PaidAt"]),
        (&json!("Paid"), &json!(" П-1 "), &json!(rfc3339(paid_at)))
    );
    let again =
        payer.post(&payout_path(&created, "confirm"), json!({"Reference": "later"})).await.expect(200);
    assert_eq!(again, paid);
    for stored in [one, two] {
        let shown = accrual(service, agent, stored.id).await;
        assert_eq!((&shown["Status"], &shown["PayoutId"]), (&json!("Paid"), &created["Id"]));
        assert_eq!((&shown["PaidAt"], &shown["Version"]), (&json!(rfc3339(paid_at)), &json!(3)));
        let events = service.published(stored.id).await;
        let [event] = &events[..] else { panic!("one event: {events:?}") };
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        assert_eq!(
            event.payload,
            json!({
                "AccrualId": stored.id, "AgentUserId": agent, "DealId": stored.deal, "Kind": shown["Kind"],
                "From": "Approved", "To": "Paid", "Amount": shown["Amount"], "Version": 3,
                "ChangedByUserId": by, "ChangedAt": shown["UpdatedAt"],
            })
        );
    }
    let sums = balance(service, agent, "RUB").await;
    assert_eq!(
        sums,
        json!({"Currency": "RUB", "Pending": 0, "Approved": 0, "InPayout": 0, "Paid": 50, "Total": 50, "Outstanding": 0})
    );
    let events = service.published(id_of(&created["Id"])).await;
    let changes: Vec<_> = events
        .iter()
        .map(|event| {
            assert_eq!(event.topic, PAYOUT_STATUS_CHANGED);
            (event.payload["From"].clone(), event.payload["To"].clone(), event.payload["Version"].clone())
        })
        .collect();
    assert_eq!(
        changes,
        [
            (Value::Null, json!("Scheduled"), json!(1)),
            (json!("Scheduled"), json!("InTransit"), json!(2)),
            (json!("InTransit"), json!("Paid"), json!(3)),
        ]
    );
}

/// RULE-AGT-023: a failed or cancelled payout releases its accruals for another run, without an
/// event.
#[tokio::test]
async fn accruals_of_failed_payout_wait_for_another_run() {
    let service = service();
    for (operation, is_sent) in [("fail", false), ("fail", true), ("cancel", false)] {
        let agent = guid();
        let stored = AccrualFixture::approved(agent, 60).write(service).await;
        let created = pay_one(service, agent).await;
        if is_sent {
            payer(service).post(&payout_path(&created, "send"), json!({})).await.expect(200);
        }
        let body =
            if operation == "fail" { json!({"Reason": " \n счёт закрыт "}) } else { json!({}) };
        let moved = payer(service).post(&payout_path(&created, operation), body).await.expect(200);
        let reason = if operation == "fail" { json!("счёт закрыт") } else { Value::Null };
        assert_eq!(moved["FailureReason"], reason);
        let released = accrual(service, agent, stored.id).await;
        assert_eq!((&released["Status"], &released["PayoutId"]), (&json!("Approved"), &Value::Null));
        assert_eq!(released["Version"], 3);
        assert!(service.published(stored.id).await.is_empty());
        let again = pay_one(service, agent).await;
        assert_eq!(again["Gross"], money(60, "RUB"));
        assert_ne!(again["Id"], created["Id"]);
    }
}

/// RULE-AGT-023, RULE-AGT-040: invalid bodies and unknown payouts are refused.
#[tokio::test]
async fn invalid_transition_request_is_refused() {
    let payer = payer(service());
    let created = payout_in("Scheduled").await;
    let in_future = rfc3339(now() + Duration::minutes(1));
    for (operation, body, field, code) in [
        ("send", json!({"Reference": ""}), "/Reference", "too_short"),
        ("send", json!({"Reference": "я".repeat(129)}), "/Reference", "too_long"),
        ("send", json!({"Reference": "a\0"}), "/Reference", "forbidden_character"),
        ("send", json!({"Reference": 1}), "/Reference", "invalid_type"),
        ("confirm", json!({"PaidAt": in_future}), "/PaidAt", "out_of_bounds"),
        ("confirm", json!({"PaidAt": "yesterday"}), "/PaidAt", "invalid_type"),
        ("confirm", json!({"Reference": "x".repeat(129)}), "/Reference", "too_long"),
        ("fail", json!({}), "/Reason", "required"),
        ("fail", json!({"Reason": " \n "}), "/Reason", "too_short"),
        ("fail", json!({"Reason": "я".repeat(501)}), "/Reason", "too_long"),
        ("fail", json!({"Reason": "a\0b"}), "/Reason", "forbidden_character"),
    ] {
        payer.post(&payout_path(&created, operation), body).await.expect_refusal(
            "VALIDATION_FAILED",
            field,
            code,
        );
    }
    for operation in ["send", "confirm", "fail", "cancel"] {
        let path = |id: &str| format!("{PLATFORM}/payouts/{id}/{operation}");
        let body = body_of(operation);
        let unknown = [guid(), Uuid::nil()].map(|id| id.to_string());
        for id in unknown {
            payer.post(&path(&id), body.clone()).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
        }
        payer.post(&path("x"), body).await.expect_problem(404, "NOT_FOUND");
    }
    let wide = json!({"Reason": format!(" {} ", "я".repeat(500))});
    assert_eq!(payer.post(&payout_path(&created, "fail"), wide).await.expect(200)["Version"], 2);
    let sent = payout_in("Scheduled").await;
    let shown =
        payer.post(&payout_path(&sent, "send"), json!({"Reference": "я".repeat(128)})).await.expect(200);
    assert_eq!(shown["Reference"], "я".repeat(128));
    let shown = payer.post(&payout_path(&sent, "confirm"), json!({"Reference": "б"})).await.expect(200);
    assert_eq!((&shown["Reference"], &shown["PaidAt"]), (&json!("б"), &shown["UpdatedAt"]));
}

/// RULE-AGT-030: if `confirm` and `fail` race, one of them succeeds and decides the status of the
/// accruals.
#[tokio::test]
async fn only_one_of_concurrent_confirm_and_fail_succeeds() {
    let service = service();
    for _ in 0..8 {
        let agent = guid();
        let stored = AccrualFixture::approved(agent, 100).write_all(service, 5).await;
        let created = pay_one(service, agent).await;
        let (one, other) = (payer(service), payer(service));
        let (confirm, fail) = (payout_path(&created, "confirm"), payout_path(&created, "fail"));
        let responses = join(one.post(&confirm, json!({})), other.post(&fail, body_of("fail"))).await;
        let responses = [responses.0, responses.1];
        assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1, "{responses:?}");
        let is_paid = responses[0].status == 200;
        for response in responses {
            if response.status != 200 {
                response.expect_problem(409, "AGENT_PAYOUT_INVALID_TRANSITION");
            }
        }
        for line in stored {
            let status = accrual(service, agent, line.id).await["Status"].clone();
            assert_eq!(status, if is_paid { "Paid" } else { "Approved" });
        }
    }
}

/// RULE-AGT-030: concurrent equal transitions happen once, and all return the same payout.
#[tokio::test]
async fn concurrent_equal_transitions_happen_once() {
    let service = service();
    let created = payout_in("Scheduled").await;
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(10).collect();
    let path = payout_path(&created, "confirm");
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
    let first = responses[0].body.clone();
    for response in responses {
        assert_eq!(response.expect(200), first);
    }
    assert_eq!(first["Version"], 2);
}

/// RULE-AGT-023: a failed payout is paid by another run with another key, not by its own run.
#[tokio::test]
async fn failed_payout_is_not_recreated_by_its_run() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 100).write(service).await;
    let body = run_body(&[agent]);
    let started = payer(service).post(&format!("{PLATFORM}/payouts"), body.clone()).await.expect(201);
    let run = crate::fixtures::await_completion(service, &started["Id"]).await;
    let created = crate::fixtures::list_payouts(service, &run).await;
    payer(service).post(&payout_path(&created[0], "fail"), body_of("fail")).await.expect(200);
    let again = payer(service).post(&format!("{PLATFORM}/payouts"), body.clone()).await.expect(200);
    assert_eq!(again, run);
    let next = with(body, "RunKey", guid().to_string());
    let (_, created) = crate::fixtures::pay(service, next).await;
    assert_eq!(created[0]["Gross"], money(100, "RUB"));
}
