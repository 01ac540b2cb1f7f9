//! Requests to adjust accruals: sections 3 and 5.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::owed::{Owed, Written, accrual, balances, cabinet, decider, pay_one, payer, to};
use crate::{ACCRUAL_CHANGED, PLATFORM, each, id_of, list, money, service, with, without};

fn ask_at(id: Uuid) -> String {
    format!("/api/v1/my/commission-accruals/{id}/adjustment-requests")
}

fn decide_at(request: &Value, what: &str) -> String {
    format!("{PLATFORM}/adjustment-requests/{}/{what}", id_of(&request["Id"]))
}

fn request() -> Value {
    json!({"Reason": "WrongAmount", "RequestedAmount": money(150, "RUB"), "Comment": "  мало \n"})
}

/// A Base of 100 of a deal of 1,000, and a request about it.
async fn asked(body: Value) -> (Uuid, Written, Value) {
    let agent = guid();
    let base = Owed::to(agent, 100).write(service()).await;
    let asked = cabinet(service(), agent).post(&ask_at(base.id), body).await.expect(201);
    (agent, base, asked)
}

/// What an agent asks for is kept as it was asked, trimmed.
#[tokio::test]
async fn an_agent_asks_for_another_amount() {
    let (agent, base, asked) = asked(request()).await;
    assert_eq!(
        without(without(asked.clone(), "Id"), "CreatedAt"),
        json!({
            "AccrualId": base.id, "AgentUserId": agent, "Reason": "WrongAmount", "RequestedAmount": money(150, "RUB"),
            "Comment": "мало", "Status": "Open", "GrantedAmount": null, "DecisionComment": null, "ResultAccrualId": null,
            "DecidedAt": null, "Version": 1,
        })
    );
    assert_eq!(accrual(service(), agent, base.id).await["AdjustmentRequest"], asked);
    let (_, _, open) = self::asked(json!({"Reason": "Other", "Comment": "x".repeat(2000)})).await;
    assert_eq!(open["RequestedAmount"], Value::Null);
}

/// Bounds of what is asked for, before anything is looked for.
#[tokio::test]
async fn what_is_asked_for_is_checked() {
    let caller = cabinet(service(), guid());
    for (member, value, field, code) in [
        ("Reason", json!("wrongAmount"), "/Reason", "unknown_value"),
        ("Reason", json!(1), "/Reason", "invalid_type"),
        ("Comment", json!(" \n"), "/Comment", "too_short"),
        ("Comment", json!("я".repeat(2001)), "/Comment", "too_long"),
        ("Comment", json!("a\0b"), "/Comment", "forbidden_character"),
        ("RequestedAmount", money(-1, "RUB"), "/RequestedAmount/AmountMinor", "out_of_range"),
        ("RequestedAmount", money(1, "rub"), "/RequestedAmount/Currency", "unknown_value"),
        (
            "RequestedAmount",
            json!({"AmountMinor": 1.5, "Currency": "RUB"}),
            "/RequestedAmount/AmountMinor",
            "invalid_type",
        ),
        ("RequestedAmount", json!(1), "/RequestedAmount", "invalid_type"),
    ] {
        let answer = caller.post(&ask_at(guid()), with(request(), member, value)).await;
        answer.expect_refusal("VALIDATION_FAILED", field, code);
    }
    for member in ["Reason", "Comment"] {
        let answer = caller.post(&ask_at(guid()), without(request(), member)).await;
        answer.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "required");
    }
    caller.post(&ask_at(guid()), request()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    caller.post(&ask_at(Uuid::nil()), request()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    let path = "/api/v1/my/commission-accruals/x/adjustment-requests";
    caller.post(path, request()).await.expect_problem(404, "NOT_FOUND");
}

/// Refusals in their order: foreign, not adjustable, open already, an amount that does not fit.
#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_in_order() {
    let service = service();
    let (agent, base, _) = asked(request()).await;
    let (own, other) = (cabinet(service, agent), cabinet(service, guid()));
    let foreign_amount = with(request(), "RequestedAmount", money(1, "USD"));
    other.post(&ask_at(base.id), foreign_amount.clone()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    own.post(&ask_at(base.id), foreign_amount.clone())
        .await
        .expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
    let correction = Owed::to(agent, 5).adjusting(base).write(service).await;
    own.post(&ask_at(correction.id), foreign_amount.clone())
        .await
        .expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
    let fresh = Owed::to(agent, 100).write(service).await;
    for amount in [money(1, "USD"), money(1_001, "RUB"), money(i64::MAX, "RUB")] {
        let answer = own.post(&ask_at(fresh.id), with(request(), "RequestedAmount", amount)).await;
        answer.expect_problem(422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");
    }
    let whole = with(request(), "RequestedAmount", money(1_000, "RUB"));
    own.post(&ask_at(fresh.id), whole).await.expect(201);
    let nothing = Owed::to(agent, 100).pending().write(service).await;
    own.post(&ask_at(nothing.id), with(request(), "RequestedAmount", money(0, "RUB"))).await.expect(201);
}

/// Asks for an adjustment of an accrual, which is refused and leaves no request.
async fn not_adjustable(agent: Uuid, id: Uuid) {
    let answer = cabinet(service(), agent).post(&ask_at(id), request()).await;
    answer.expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
    let path = format!("{PLATFORM}/adjustment-requests?AccrualId={id}");
    assert_eq!(decider(service()).get(&path).await.expect(200)["TotalCount"], 0);
}

/// Section 4: an accrual that is in a payout takes a request until the payout is paid. One that is Paid takes none, whoever
/// finds a mistake later. One that was asked about before it was paid takes no other.
#[tokio::test]
async fn a_paid_accrual_takes_no_request() {
    let (service, agent) = (service(), guid());
    let own = cabinet(service, agent);
    let (paid, asked) = (Owed::to(agent, 100), Owed::to(agent, 100));
    let (paid, asked) = (paid.write(service).await, asked.write(service).await);
    let made = pay_one(service, agent).await;
    assert_eq!(accrual(service, agent, asked.id).await["PayoutId"], made["Id"]);
    own.post(&ask_at(asked.id), request()).await.expect(201);
    own.post(&ask_at(asked.id), request()).await.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
    payer(service).post(&to(&made, "confirm"), json!({})).await.expect(200);
    assert_eq!(accrual(service, agent, paid.id).await["Status"], "Paid");
    not_adjustable(agent, paid.id).await;
    own.post(&ask_at(asked.id), request()).await.expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
}

/// Section 4: an accrual that was rejected, one that ended with its sale, one that a Reversal undoes, and that Reversal take no
/// request.
#[tokio::test]
async fn an_accrual_that_does_not_stand_takes_no_request() {
    let (service, agent) = (service(), guid());
    let rejected = Owed::to(agent, 100).write(service).await;
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", rejected.id);
    decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    assert_eq!(accrual(service, agent, rejected.id).await["Status"], "Rejected");
    not_adjustable(agent, rejected.id).await;

    let mut deal = crate::deals::deal().await;
    deal.bring_to("Sale", crate::deals::SOLD).await;
    deal.bring_to("Cancelled", crate::deals::SOLD).await;
    let ended = crate::accruals_of(deal.id).await.remove(0);
    assert_eq!(ended["Status"], "Reversed");
    not_adjustable(deal.agent.unwrap(), id_of(&ended["Id"])).await;

    let undone = Owed::to(agent, 100).write(service).await;
    pay_one(service, agent).await;
    let path = format!("{PLATFORM}/commission-accruals/{}/reverse", undone.id);
    let reversal = decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    assert_eq!(accrual(service, agent, undone.id).await["Status"], "Approved");
    assert_eq!((&reversal["Kind"], &reversal["Status"]), (&json!("Reversal"), &json!("Approved")));
    for id in [undone.id, id_of(&reversal["Id"])] {
        not_adjustable(agent, id).await;
    }
}

/// INV-AGT-3: of requests that race one is kept.
#[tokio::test]
async fn of_requests_that_race_one_is_open() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    let callers: Vec<_> = std::iter::repeat_with(|| cabinet(service, agent)).take(12).collect();
    let path = ask_at(base.id);
    let answers = join_all(callers.iter().map(|caller| caller.post(&path, request()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    for answer in answers {
        if answer.status != 201 {
            answer.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
        }
    }
}

/// Granting writes one accrual that makes the whole what was granted: a Bonus for what is missing, else a Correction.
#[tokio::test]
async fn what_is_granted_makes_the_whole() {
    let service = service();
    for (reason, kind) in
        [("MissingBonus", "Bonus"), ("WrongRate", "Correction"), ("WrongDeal", "Correction")]
    {
        let (agent, base, asked) = asked(with(request(), "Reason", reason)).await;
        let body = json!({"Comment": " да "});
        let decided = decider(service).post(&decide_at(&asked, "approve"), body).await.expect(200);
        for (member, value) in [
            ("Status", json!("Approved")),
            ("GrantedAmount", money(150, "RUB")),
            ("RequestedAmount", money(150, "RUB")),
            ("DecisionComment", json!("да")),
            ("Version", json!(2)),
        ] {
            assert_eq!(decided[member], value, "{member}");
        }
        let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
        let shown = accrual(service, agent, base.id).await;
        assert_eq!(shown["AdjustmentRequest"], decided);
        for (member, value) in [
            ("Kind", json!(kind)),
            ("Amount", money(50, "RUB")),
            ("Status", json!("Approved")),
            ("AdjustsAccrualId", json!(base.id)),
            ("ReversesAccrualId", Value::Null),
            ("DealId", shown["DealId"].clone()),
            ("BaseAmount", shown["BaseAmount"].clone()),
            ("RateBps", shown["RateBps"].clone()),
            ("EarnedAt", decided["DecidedAt"].clone()),
            ("ApprovedAt", decided["DecidedAt"].clone()),
            ("PayoutId", Value::Null),
            ("Version", json!(1)),
        ] {
            assert_eq!(result[member], value, "{member}");
        }
        assert_eq!(balances(service, agent, "RUB").await["Total"], 150);
        let events = service.published(id_of(&result["Id"])).await;
        let [event] = &events[..] else { panic!("one event: {events:?}") };
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        assert_eq!((&event.payload["From"], &event.payload["To"]), (&Value::Null, &json!("Approved")));
    }
}

/// A further grant counts what was granted before; less than before is a negative Correction.
#[tokio::test]
async fn what_was_granted_before_counts() {
    let service = service();
    let (agent, base, asked) = asked(request()).await;
    decider(service).post(&decide_at(&asked, "approve"), json!({})).await.expect(200);
    let again = with(request(), "RequestedAmount", money(20, "RUB"));
    let again = cabinet(service, agent).post(&ask_at(base.id), again).await.expect(201);
    let decided =
        decider(service).post(&decide_at(&again, "approve"), json!({"Comment": ""})).await.expect(200);
    assert_eq!(decided["DecisionComment"], Value::Null);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!(result["Amount"], money(-130, "RUB"));
    assert_eq!(balances(service, agent, "RUB").await["Total"], 20);
}

/// A whole of 0 is granted as any other, and after a decision one may ask again.
#[tokio::test]
async fn a_whole_of_0_is_granted_as_any_other() {
    let service = service();
    let (agent, base, open) = asked(with(request(), "RequestedAmount", money(0, "RUB"))).await;
    let comment = "я".repeat(2000);
    let body = json!({"Comment": format!(" {comment}\n")});
    let decided = decider(service).post(&decide_at(&open, "approve"), body).await.expect(200);
    assert_eq!((&decided["GrantedAmount"], &decided["DecisionComment"]), (&money(0, "RUB"), &json!(comment)));
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!((&result["Kind"], &result["Amount"]), (&json!("Correction"), &money(-100, "RUB")));
    assert_eq!(balances(service, agent, "RUB").await["Total"], 0);
    cabinet(service, agent).post(&ask_at(base.id), request()).await.expect(201);
}

/// Beside what is Pending it is Pending; beside what was paid meanwhile it is Approved, and paid by the next run.
#[tokio::test]
async fn what_is_granted_stands_as_its_accrual_does() {
    let (service, agent) = (service(), guid());
    let own = cabinet(service, agent);
    let pending = Owed::to(agent, 100).pending().write(service).await;
    let open = own.post(&ask_at(pending.id), request()).await.expect(201);
    let decided = decider(service).post(&decide_at(&open, "approve"), json!({})).await.expect(200);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!((&result["Status"], &result["ApprovedAt"]), (&json!("Pending"), &Value::Null));

    let paid = Owed::to(agent, 100).write(service).await;
    let open = own.post(&ask_at(paid.id), request()).await.expect(201);
    let made = pay_one(service, agent).await;
    payer(service).post(&to(&made, "confirm"), json!({})).await.expect(200);
    let decided = decider(service).post(&decide_at(&open, "approve"), json!({})).await.expect(200);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!(result["Status"], "Approved");
    assert_eq!(pay_one(service, agent).await["Gross"], money(50, "RUB"));
}

/// Refusals of decisions in their order; what was refused has changed nothing.
#[tokio::test]
async fn decisions_are_refused_in_order() {
    let service = service();
    let decider = decider(service);
    let missing = json!({"Id": guid()});
    for path in [decide_at(&missing, "approve"), decide_at(&missing, "reject")] {
        decider.post(&path, json!({"Comment": "x"})).await.expect_problem(404, "AGENT_ADJUSTMENT_NOT_FOUND");
    }
    let path = format!("{PLATFORM}/adjustment-requests/x/approve");
    decider.post(&path, json!({})).await.expect_problem(404, "NOT_FOUND");

    let (agent, _, open) = asked(json!({"Reason": "Other", "Comment": "x"})).await;
    let approve = decide_at(&open, "approve");
    for (body, field, code) in [
        (json!({"Amount": money(-1, "RUB")}), "/Amount/AmountMinor", "out_of_range"),
        (json!({"Comment": "x".repeat(2001)}), "/Comment", "too_long"),
        (json!({"Comment": "\0"}), "/Comment", "forbidden_character"),
    ] {
        decider.post(&approve, body).await.expect_refusal("VALIDATION_FAILED", field, code);
    }
    let reject = decide_at(&open, "reject");
    decider.post(&reject, json!({})).await.expect_refusal("VALIDATION_FAILED", "/Comment", "required");
    decider.post(&reject, json!({"Comment": " "})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Comment",
        "too_short",
    );
    for body in [
        json!({}),
        json!({"Amount": null}),
        json!({"Amount": money(150, "USD")}),
        json!({"Amount": money(1_001, "RUB")}),
        json!({"Amount": money(100, "RUB")}),
    ] {
        decider.post(&approve, body).await.expect_problem(422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");
    }
    let own = service.caller(&crate::holder(agent, &["agent.commissions.manage@platform"]));
    own.post(&approve, json!({"Amount": money(1, "USD")})).await.expect_problem(403, "AGENT_ADJUSTMENT_OWN");
    own.post(&reject, json!({"Comment": "x"})).await.expect_problem(403, "AGENT_ADJUSTMENT_OWN");

    let rejected = decider.post(&reject, json!({"Comment": " нет "})).await.expect(200);
    for (member, value) in [
        ("Status", json!("Rejected")),
        ("DecisionComment", json!("нет")),
        ("GrantedAmount", Value::Null),
        ("ResultAccrualId", Value::Null),
        ("Version", json!(2)),
    ] {
        assert_eq!(rejected[member], value, "{member}");
    }
    own.post(&approve, json!({})).await.expect_problem(403, "AGENT_ADJUSTMENT_OWN");
    for (path, body) in [(approve, json!({"Amount": money(1, "USD")})), (reject, json!({"Comment": "x"}))] {
        decider.post(&path, body).await.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
    }
    assert_eq!(balances(service, agent, "RUB").await["Total"], 100);
}

/// Of decisions that race one has the effect.
#[tokio::test]
async fn of_decisions_that_race_one_counts() {
    let service = service();
    for _ in 0..4 {
        let (agent, base, open) = asked(request()).await;
        let callers: Vec<_> = std::iter::repeat_with(|| decider(service)).take(10).collect();
        let (approve, reject) = (decide_at(&open, "approve"), decide_at(&open, "reject"));
        let decide = async |(at, caller): (usize, &testkit::client::Client)| {
            let path = if at % 2 == 0 { &approve } else { &reject };
            caller.post(path, json!({"Comment": "x"})).await
        };
        let answers = join_all(callers.iter().enumerate().map(decide)).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
        for answer in answers {
            if answer.status != 200 {
                answer.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
            }
        }
        let decided = accrual(service, agent, base.id).await["AdjustmentRequest"].clone();
        let total = if decided["Status"] == "Approved" { 150 } else { 100 };
        assert_eq!(balances(service, agent, "RUB").await["Total"], total);
    }
}

/// Requests are listed oldest first, by status, agent and accrual.
#[tokio::test]
async fn requests_are_listed() {
    let service = service();
    let decider = decider(service);
    let (agent, base, first) = asked(request()).await;
    decider.post(&decide_at(&first, "reject"), json!({"Comment": "x"})).await.expect(200);
    let second = cabinet(service, agent).post(&ask_at(base.id), request()).await.expect(201);
    let other = Owed::to(agent, 100).of_currency("USD").write(service).await;
    let body = with(request(), "RequestedAmount", money(7, "USD"));
    let third = cabinet(service, agent).post(&ask_at(other.id), body).await.expect(201);
    let found = async |query: &str| -> Vec<Value> {
        let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={agent}{query}");
        let page = decider.get(&path).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len());
        each(list(&page["Items"]), "Id").into_iter().cloned().collect()
    };
    let ids = [&first, &second, &third].map(|request| request["Id"].clone());
    assert_eq!(found("").await, ids);
    assert_eq!(found("&Sort=-CreatedAt").await, [ids[2].clone(), ids[1].clone(), ids[0].clone()]);
    assert_eq!(found("&Status=Open").await, ids[1..]);
    assert_eq!(found("&Status=Open,Rejected").await, ids);
    assert_eq!(found("&Status=Approved").await, [] as [Value; 0]);
    assert_eq!(found(&format!("&AccrualId={}", base.id)).await, ids[..2]);
    for (query, field, code) in [
        ("Status=open", "/Status", "unknown_value"),
        ("Status=", "/Status", "unknown_value"),
        ("AccrualId=x", "/AccrualId", "invalid_type"),
        ("AgentUserId=00000000-0000-0000-0000-000000000000", "/AgentUserId", "empty_id"),
        ("Sort=DecidedAt", "/Sort", "unknown_value"),
    ] {
        let answer = decider.get(&format!("{PLATFORM}/adjustment-requests?{query}")).await;
        answer.expect_refusal("VALIDATION_FAILED", field, code);
    }
}
