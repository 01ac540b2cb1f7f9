//! What becomes of payouts: section 6.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::guid;
use time::Duration;
use uuid::Uuid;

use crate::owed::{Owed, accrual, ago, balances, now, pay_one, payer, run_of, to, written};
use crate::{ACCRUAL_CHANGED, PAYOUT_STATUS_CHANGED, PLATFORM, id_of, money, service, with};

/// A payout of 100 roubles, in this status.
async fn payout_in(status: &str) -> Value {
    let (service, agent) = (service(), guid());
    Owed::to(agent, 100).write(service).await;
    let made = pay_one(service, agent).await;
    let operations: &[&str] = match status {
        "Scheduled" => &[],
        "InTransit" => &["send"],
        "Paid" => &["confirm"],
        "Failed" => &["fail"],
        _ => &["cancel"],
    };
    let mut shown = made.clone();
    for operation in operations {
        shown = payer(service).post(&to(&made, operation), body_of(operation)).await.expect(200);
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

/// Each status and each operation: a move, a repeat that changes nothing, or a refusal.
#[tokio::test]
async fn payouts_move_as_the_table_says() {
    let payer = payer(service());
    for from in STATUSES {
        for (operation, target) in OPERATIONS {
            let before = payout_in(from).await;
            let answer = payer.post(&to(&before, operation), body_of(operation)).await;
            let moves = matches!((from, target), ("Scheduled", _) | ("InTransit", "Paid" | "Failed"));
            if from == target {
                assert_eq!(answer.expect(200), before, "{from} {operation} again");
            } else if moves {
                let after = answer.expect(200);
                assert_eq!(
                    (&after["Status"], &after["Version"]),
                    (&json!(target), &json!(before["Version"].as_i64().unwrap() + 1))
                );
                for member in ["Gross", "Withheld", "Net", "AccrualsCount", "RunId", "CreatedAt", "PeriodTo"]
                {
                    assert_eq!(after[member], before[member], "{member}");
                }
            } else {
                answer.expect_problem(409, "AGENT_PAYOUT_INVALID_TRANSITION");
                let repeated = payer.get(&to(&before, "statement")).await.expect(200);
                assert_eq!(repeated["Payout"], before);
            }
        }
    }
}

/// Sent, then paid: its accruals are Paid when it is, and each of these is told of.
#[tokio::test]
async fn a_confirmed_payout_has_paid_its_accruals() {
    let (service, agent) = (service(), guid());
    let one = Owed::to(agent, 60).write(service).await;
    let two = Owed { kind: "Correction", ..Owed::to(agent, -10) }.write(service).await;
    let made = pay_one(service, agent).await;
    let payer = payer(service);
    let sent = payer.post(&to(&made, "send"), json!({"Reference": " П-1 "})).await.expect(200);
    assert_eq!((&sent["Reference"], &sent["SentAt"]), (&json!(" П-1 "), &sent["UpdatedAt"]));
    assert_eq!(balances(service, agent, "RUB").await["InPayout"], 50);
    let again = payer.post(&to(&made, "send"), json!({"Reference": "another"})).await.expect(200);
    assert_eq!(again, sent, "nothing changes");

    let paid_at = ago(Duration::days(2));
    let body = json!({"PaidAt": written(paid_at)});
    let paid = payer.post(&to(&made, "confirm"), body).await.expect(200);
    assert_eq!(
        (&paid["Status"], &paid["Reference"], &paid["PaidAt"]),
        (&json!("Paid"), &json!(" П-1 "), &json!(written(paid_at)))
    );
    let again = payer.post(&to(&made, "confirm"), json!({"Reference": "later"})).await.expect(200);
    assert_eq!(again, paid);
    for written_before in [one, two] {
        let shown = accrual(service, agent, written_before.id).await;
        assert_eq!((&shown["Status"], &shown["PayoutId"]), (&json!("Paid"), &made["Id"]));
        assert_eq!((&shown["PaidAt"], &shown["Version"]), (&json!(written(paid_at)), &json!(3)));
        let events = service.published(written_before.id).await;
        let [event] = &events[..] else { panic!("one event: {events:?}") };
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        assert_eq!(
            event.payload,
            json!({
                "AccrualId": written_before.id, "AgentUserId": agent, "DealId": written_before.deal, "Kind": shown["Kind"],
                "From": "Approved", "To": "Paid", "Amount": shown["Amount"], "Version": 3, "ChangedAt": shown["UpdatedAt"],
            })
        );
    }
    let sums = balances(service, agent, "RUB").await;
    assert_eq!(
        sums,
        json!({"Currency": "RUB", "Pending": 0, "Approved": 0, "InPayout": 0, "Paid": 50, "Total": 50, "Outstanding": 0})
    );
    let events = service.published(id_of(&made["Id"])).await;
    let moves: Vec<_> = events
        .iter()
        .map(|event| {
            assert_eq!(event.topic, PAYOUT_STATUS_CHANGED);
            (event.payload["From"].clone(), event.payload["To"].clone(), event.payload["Version"].clone())
        })
        .collect();
    assert_eq!(
        moves,
        [
            (Value::Null, json!("Scheduled"), json!(1)),
            (json!("Scheduled"), json!("InTransit"), json!(2)),
            (json!("InTransit"), json!("Paid"), json!(3)),
        ]
    );
}

/// An accrual of a payout that failed or was cancelled waits for another run. It publishes nothing.
#[tokio::test]
async fn what_failed_waits_for_another_run() {
    let service = service();
    for (operation, is_sent) in [("fail", false), ("fail", true), ("cancel", false)] {
        let agent = guid();
        let owed = Owed::to(agent, 60).write(service).await;
        let made = pay_one(service, agent).await;
        if is_sent {
            payer(service).post(&to(&made, "send"), json!({})).await.expect(200);
        }
        let body =
            if operation == "fail" { json!({"Reason": " \n счёт закрыт "}) } else { json!({}) };
        let moved = payer(service).post(&to(&made, operation), body).await.expect(200);
        let reason = if operation == "fail" { json!("счёт закрыт") } else { Value::Null };
        assert_eq!(moved["FailureReason"], reason);
        let waits = accrual(service, agent, owed.id).await;
        assert_eq!((&waits["Status"], &waits["PayoutId"]), (&json!("Approved"), &Value::Null));
        assert_eq!(waits["Version"], 3);
        assert!(service.published(owed.id).await.is_empty());
        let again = pay_one(service, agent).await;
        assert_eq!(again["Gross"], money(60, "RUB"));
        assert_ne!(again["Id"], made["Id"]);
    }
}

/// Bounds of what is said about a payout.
#[tokio::test]
async fn what_is_said_about_a_payout_is_checked() {
    let payer = payer(service());
    let made = payout_in("Scheduled").await;
    let late = written(now() + Duration::minutes(1));
    for (operation, body, field, code) in [
        ("send", json!({"Reference": ""}), "/Reference", "too_short"),
        ("send", json!({"Reference": "я".repeat(129)}), "/Reference", "too_long"),
        ("send", json!({"Reference": "a\0"}), "/Reference", "forbidden_character"),
        ("send", json!({"Reference": 1}), "/Reference", "invalid_type"),
        ("confirm", json!({"PaidAt": late}), "/PaidAt", "out_of_bounds"),
        ("confirm", json!({"PaidAt": "yesterday"}), "/PaidAt", "invalid_type"),
        ("confirm", json!({"Reference": "x".repeat(129)}), "/Reference", "too_long"),
        ("fail", json!({}), "/Reason", "required"),
        ("fail", json!({"Reason": " \n "}), "/Reason", "too_short"),
        ("fail", json!({"Reason": "я".repeat(501)}), "/Reason", "too_long"),
        ("fail", json!({"Reason": "a\0b"}), "/Reason", "forbidden_character"),
    ] {
        payer.post(&to(&made, operation), body).await.expect_refusal("VALIDATION_FAILED", field, code);
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
    assert_eq!(payer.post(&to(&made, "fail"), wide).await.expect(200)["Version"], 2);
    let sent = payout_in("Scheduled").await;
    let shown = payer.post(&to(&sent, "send"), json!({"Reference": "я".repeat(128)})).await.expect(200);
    assert_eq!(shown["Reference"], "я".repeat(128));
    let shown = payer.post(&to(&sent, "confirm"), json!({"Reference": "б"})).await.expect(200);
    assert_eq!((&shown["Reference"], &shown["PaidAt"]), (&json!("б"), &shown["UpdatedAt"]));
}

/// Of `confirm` and `fail` that race one is refused, whoever was first; the accruals are as the payout is.
#[tokio::test]
async fn of_confirm_and_fail_one_is_refused() {
    let service = service();
    for _ in 0..8 {
        let agent = guid();
        let owed = Owed::to(agent, 100).write_all(service, 5).await;
        let made = pay_one(service, agent).await;
        let (one, other) = (payer(service), payer(service));
        let (confirm, fail) = (to(&made, "confirm"), to(&made, "fail"));
        let answers = join(one.post(&confirm, json!({})), other.post(&fail, body_of("fail"))).await;
        let answers = [answers.0, answers.1];
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
        let is_paid = answers[0].status == 200;
        for answer in answers {
            if answer.status != 200 {
                answer.expect_problem(409, "AGENT_PAYOUT_INVALID_TRANSITION");
            }
        }
        for accrual_of in owed {
            let status = accrual(service, agent, accrual_of.id).await["Status"].clone();
            assert_eq!(status, if is_paid { "Paid" } else { "Approved" });
        }
    }
}

/// The same move by many at once is made once.
#[tokio::test]
async fn one_move_by_many_is_made_once() {
    let service = service();
    let made = payout_in("Scheduled").await;
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(10).collect();
    let path = to(&made, "confirm");
    let answers = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
    let first = answers[0].body.clone();
    for answer in answers {
        assert_eq!(answer.expect(200), first);
    }
    assert_eq!(first["Version"], 2);
}

/// Of a run the payouts that are left after a failure are paid by another run, under another key.
#[tokio::test]
async fn a_failed_payout_is_not_made_again_by_its_run() {
    let (service, agent) = (service(), guid());
    Owed::to(agent, 100).write(service).await;
    let body = run_of(&[agent]);
    let begun = payer(service).post(&format!("{PLATFORM}/payouts"), body.clone()).await.expect(201);
    let run = crate::owed::complete(service, &begun["Id"]).await;
    let made = crate::owed::payouts_of(service, &run).await;
    payer(service).post(&to(&made[0], "fail"), body_of("fail")).await.expect(200);
    let again = payer(service).post(&format!("{PLATFORM}/payouts"), body.clone()).await.expect(200);
    assert_eq!(again, run);
    let next = with(body, "RunKey", guid().to_string());
    let (_, made) = crate::owed::pay(service, next).await;
    assert_eq!(made[0]["Gross"], money(100, "RUB"));
}
