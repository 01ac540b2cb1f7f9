//! Adjustment requests.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::fixtures::{
    AccrualFixture, StoredAccrual, accrual, balance, cabinet, decider, pay_one, payer, payout_path,
};
use crate::{ACCRUAL_CHANGED, PLATFORM, each, id_of, list, money, service, with, without};

fn requests_path(id: Uuid) -> String {
    format!("/api/v1/my/commission-accruals/{id}/adjustment-requests")
}

fn decision_path(request: &Value, decision: &str) -> String {
    format!("{PLATFORM}/adjustment-requests/{}/{decision}", id_of(&request["Id"]))
}

fn request() -> Value {
    json!({"Reason": "WrongAmount", "RequestedAmount": money(150, "RUB"), "Comment": "  мало \n"})
}

/// Stores a Base of 100 for a deal of 1,000, and files a request about it.
async fn file(body: Value) -> (Uuid, StoredAccrual, Value) {
    let agent = guid();
    let base = AccrualFixture::approved(agent, 100).write(service()).await;
    let filed = cabinet(service(), agent).post(&requests_path(base.id), body).await.expect(201);
    (agent, base, filed)
}

/// RULE-AGT-025: a filed request is stored with its comment trimmed.
#[tokio::test]
async fn filed_request_is_stored_trimmed() {
    let (agent, base, filed) = file(request()).await;
    assert_eq!(
        without(without(filed.clone(), "Id"), "CreatedAt"),
        json!({
            "AccrualId": base.id, "AgentUserId": agent, "Reason": "WrongAmount", "RequestedAmount": money(150, "RUB"),
            "Comment": "мало", "Status": "Open", "GrantedAmount": null, "DecisionComment": null, "ResultAccrualId": null,
            "DecidedAt": null, "Version": 1,
        })
    );
    assert_eq!(accrual(service(), agent, base.id).await["AdjustmentRequest"], filed);
    let (_, _, open) = file(json!({"Reason": "Other", "Comment": "x".repeat(2000)})).await;
    assert_eq!(open["RequestedAmount"], Value::Null);
}

/// RULE-AGT-025, RULE-AGT-031: an invalid request is refused before its accrual is looked up.
#[tokio::test]
async fn invalid_adjustment_request_is_refused() {
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
        let response = caller.post(&requests_path(guid()), with(request(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", field, code);
    }
    for member in ["Reason", "Comment"] {
        let response = caller.post(&requests_path(guid()), without(request(), member)).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "required");
    }
    caller.post(&requests_path(guid()), request()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    caller.post(&requests_path(Uuid::nil()), request()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    let path = "/api/v1/my/commission-accruals/x/adjustment-requests";
    caller.post(path, request()).await.expect_problem(404, "NOT_FOUND");
}

/// RULE-AGT-025, RULE-AGT-035, RULE-AGT-036: refusals follow the specified order.
///
/// The order is: another agent's accrual, an accrual that is not adjustable, an open request, an
/// invalid amount.
#[tokio::test]
async fn inadmissible_adjustment_request_is_refused_in_order() {
    let service = service();
    let (agent, base, _) = file(request()).await;
    let (own, other) = (cabinet(service, agent), cabinet(service, guid()));
    let foreign_amount = with(request(), "RequestedAmount", money(1, "USD"));
    other
        .post(&requests_path(base.id), foreign_amount.clone())
        .await
        .expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    own.post(&requests_path(base.id), foreign_amount.clone())
        .await
        .expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
    let correction = AccrualFixture::approved(agent, 5).adjusting(base).write(service).await;
    own.post(&requests_path(correction.id), foreign_amount.clone())
        .await
        .expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
    let fresh = AccrualFixture::approved(agent, 100).write(service).await;
    for amount in [money(1, "USD"), money(1_001, "RUB"), money(i64::MAX, "RUB")] {
        let response = own.post(&requests_path(fresh.id), with(request(), "RequestedAmount", amount)).await;
        response.expect_problem(422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");
    }
    let whole = with(request(), "RequestedAmount", money(1_000, "RUB"));
    own.post(&requests_path(fresh.id), whole).await.expect(201);
    let pending = AccrualFixture::approved(agent, 100).pending().write(service).await;
    own.post(&requests_path(pending.id), with(request(), "RequestedAmount", money(0, "RUB")))
        .await
        .expect(201);
}

/// Checks that an accrual is not adjustable, and that no request is stored.
async fn expect_not_adjustable(agent: Uuid, id: Uuid) {
    let response = cabinet(service(), agent).post(&requests_path(id), request()).await;
    response.expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
    let path = format!("{PLATFORM}/adjustment-requests?AccrualId={id}");
    assert_eq!(decider(service()).get(&path).await.expect(200)["TotalCount"], 0);
}

/// RULE-AGT-025, RULE-AGT-032: an accrual in a payout accepts a request until it is Paid.
///
/// A Paid accrual accepts no request, even if an earlier one is open.
#[tokio::test]
async fn paid_accrual_accepts_no_request() {
    let (service, agent) = (service(), guid());
    let own = cabinet(service, agent);
    let (paid, disputed) = (AccrualFixture::approved(agent, 100), AccrualFixture::approved(agent, 100));
    let (paid, disputed) = (paid.write(service).await, disputed.write(service).await);
    let created = pay_one(service, agent).await;
    assert_eq!(accrual(service, agent, disputed.id).await["PayoutId"], created["Id"]);
    own.post(&requests_path(disputed.id), request()).await.expect(201);
    own.post(&requests_path(disputed.id), request())
        .await
        .expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    assert_eq!(accrual(service, agent, paid.id).await["Status"], "Paid");
    expect_not_adjustable(agent, paid.id).await;
    own.post(&requests_path(disputed.id), request())
        .await
        .expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
}

/// RULE-AGT-067: with `DisputePaid` a Paid accrual accepts a request. Its approval leaves the Paid
/// accrual as it is, and a Correction of the difference enters the next payout.
#[tokio::test]
async fn disputed_paid_accrual_is_corrected_by_a_correction() {
    let (service, agent) = (service(), guid());
    let own = cabinet(service, agent);
    for (paid, whole, difference) in [(100, 60, -40), (100, 70, -30)] {
        let disputed = AccrualFixture::approved(agent, paid).write(service).await;
        let created = pay_one(service, agent).await;
        payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
        let before = accrual(service, agent, disputed.id).await;
        assert_eq!(before["Status"], "Paid");
        let plain = with(request(), "DisputePaid", false);
        own.post(&requests_path(disputed.id), plain)
            .await
            .expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
        let body = with(request(), "DisputePaid", true);
        let filed = own.post(&requests_path(disputed.id), body.clone()).await.expect(201);
        own.post(&requests_path(disputed.id), body)
            .await
            .expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
        let approve = decision_path(&filed, "approve");
        let granted = json!({"Amount": money(whole, "RUB")});
        let approved = decider(service).post(&approve, granted).await.expect(200);
        let correction = accrual(service, agent, id_of(&approved["ResultAccrualId"])).await;
        assert_eq!(
            (&correction["Kind"], &correction["Status"], &correction["Amount"]),
            (&json!("Correction"), &json!("Approved"), &money(difference, "RUB"))
        );
        assert_eq!(correction["AdjustsAccrualId"], before["Id"]);
        let after = accrual(service, agent, disputed.id).await;
        assert_eq!((&after["Status"], &after["Amount"]), (&json!("Paid"), &before["Amount"]));
    }
}

/// RULE-AGT-067: `DisputePaid` permits no request about an undone or a rejected accrual.
#[tokio::test]
async fn disputed_ineffective_accrual_accepts_no_request() {
    let (service, agent) = (service(), guid());
    let undone = AccrualFixture::approved(agent, 100).write(service).await;
    let created = pay_one(service, agent).await;
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    let path = format!("{PLATFORM}/commission-accruals/{}/reverse", undone.id);
    let reversal = decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    let rejected = AccrualFixture::approved(agent, 100).write(service).await;
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", rejected.id);
    decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    for id in [undone.id, id_of(&reversal["Id"]), rejected.id] {
        let body = with(request(), "DisputePaid", true);
        let response = cabinet(service, agent).post(&requests_path(id), body).await;
        response.expect_problem(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
    }
}

/// RULE-AGT-025, RULE-AGT-032: a rejected, ended or undone accrual and a Reversal accept no
/// request.
#[tokio::test]
async fn ineffective_accrual_accepts_no_request() {
    let (service, agent) = (service(), guid());
    let rejected = AccrualFixture::approved(agent, 100).write(service).await;
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", rejected.id);
    decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    assert_eq!(accrual(service, agent, rejected.id).await["Status"], "Rejected");
    expect_not_adjustable(agent, rejected.id).await;

    let mut deal = crate::deals::deal().await;
    deal.move_to("Sale", crate::deals::SOLD).await;
    deal.move_to("Cancelled", crate::deals::SOLD).await;
    let ended = crate::accruals_of(deal.id).await.remove(0);
    assert_eq!(ended["Status"], "Reversed");
    expect_not_adjustable(deal.agent.unwrap(), id_of(&ended["Id"])).await;

    let undone = AccrualFixture::approved(agent, 100).write(service).await;
    pay_one(service, agent).await;
    let path = format!("{PLATFORM}/commission-accruals/{}/reverse", undone.id);
    let reversal = decider(service).post(&path, json!({"Comment": "x"})).await.expect(200);
    assert_eq!(accrual(service, agent, undone.id).await["Status"], "Approved");
    assert_eq!((&reversal["Kind"], &reversal["Status"]), (&json!("Reversal"), &json!("Approved")));
    for id in [undone.id, id_of(&reversal["Id"])] {
        expect_not_adjustable(agent, id).await;
    }
}

/// INV-AGT-3: only one of several concurrent requests about an accrual is stored.
#[tokio::test]
async fn only_one_concurrent_request_is_open() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    let callers: Vec<_> = std::iter::repeat_with(|| cabinet(service, agent)).take(12).collect();
    let path = requests_path(base.id);
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, request()))).await;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1);
    for response in responses {
        if response.status != 201 {
            response.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
        }
    }
}

/// RULE-AGT-026: an approval creates one accrual for the difference, a Bonus or a Correction.
#[tokio::test]
async fn approval_creates_accrual_for_the_difference() {
    let service = service();
    for (reason, kind) in
        [("MissingBonus", "Bonus"), ("WrongRate", "Correction"), ("WrongDeal", "Correction")]
    {
        let (agent, base, filed) = file(with(request(), "Reason", reason)).await;
        let body = json!({"Comment": " да "});
        let decided = decider(service).post(&decision_path(&filed, "approve"), body).await.expect(200);
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
        assert_eq!(balance(service, agent, "RUB").await["Total"], 150);
        let events = service.published(id_of(&result["Id"])).await;
        let [event] = &events[..] else { panic!("one event: {events:?}") };
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        assert_eq!((&event.payload["From"], &event.payload["To"]), (&Value::Null, &json!("Approved")));
    }
}

/// RULE-AGT-026: a further approval takes the earlier ones into account.
/// A lower amount is a negative Correction.
#[tokio::test]
async fn further_approval_counts_earlier_approvals() {
    let service = service();
    let (agent, base, filed) = file(request()).await;
    decider(service).post(&decision_path(&filed, "approve"), json!({})).await.expect(200);
    let again = with(request(), "RequestedAmount", money(20, "RUB"));
    let again = cabinet(service, agent).post(&requests_path(base.id), again).await.expect(201);
    let decided =
        decider(service).post(&decision_path(&again, "approve"), json!({"Comment": ""})).await.expect(200);
    assert_eq!(decided["DecisionComment"], Value::Null);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!(result["Amount"], money(-130, "RUB"));
    assert_eq!(balance(service, agent, "RUB").await["Total"], 20);
}

/// RULE-AGT-026: a whole amount of 0 can be approved. Afterwards the agent may file another
/// request.
#[tokio::test]
async fn whole_amount_of_zero_is_approved() {
    let service = service();
    let (agent, base, open) = file(with(request(), "RequestedAmount", money(0, "RUB"))).await;
    let comment = "я".repeat(2000);
    let body = json!({"Comment": format!(" {comment}\n")});
    let decided = decider(service).post(&decision_path(&open, "approve"), body).await.expect(200);
    assert_eq!((&decided["GrantedAmount"], &decided["DecisionComment"]), (&money(0, "RUB"), &json!(comment)));
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!((&result["Kind"], &result["Amount"]), (&json!("Correction"), &money(-100, "RUB")));
    assert_eq!(balance(service, agent, "RUB").await["Total"], 0);
    cabinet(service, agent).post(&requests_path(base.id), request()).await.expect(201);
}

/// RULE-AGT-026: the new accrual is Pending if the adjusted one is Pending, and Approved if that
/// one is Approved or Paid.
#[tokio::test]
async fn approved_adjustment_has_the_status_of_its_accrual() {
    let (service, agent) = (service(), guid());
    let own = cabinet(service, agent);
    let pending = AccrualFixture::approved(agent, 100).pending().write(service).await;
    let open = own.post(&requests_path(pending.id), request()).await.expect(201);
    let decided = decider(service).post(&decision_path(&open, "approve"), json!({})).await.expect(200);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!((&result["Status"], &result["ApprovedAt"]), (&json!("Pending"), &Value::Null));

    let paid = AccrualFixture::approved(agent, 100).write(service).await;
    let open = own.post(&requests_path(paid.id), request()).await.expect(201);
    let created = pay_one(service, agent).await;
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    let decided = decider(service).post(&decision_path(&open, "approve"), json!({})).await.expect(200);
    let result = accrual(service, agent, id_of(&decided["ResultAccrualId"])).await;
    assert_eq!(result["Status"], "Approved");
    assert_eq!(pay_one(service, agent).await["Gross"], money(50, "RUB"));
}

/// RULE-AGT-026, RULE-AGT-036, RULE-AGT-037, RULE-AGT-038, RULE-AGT-039: refusals of a decision
/// follow the specified order.
///
/// A refused decision changes nothing.
#[tokio::test]
async fn inadmissible_decision_is_refused_in_order() {
    let service = service();
    let decider = decider(service);
    let missing = json!({"Id": guid()});
    for path in [decision_path(&missing, "approve"), decision_path(&missing, "reject")] {
        decider.post(&path, json!({"Comment": "x"})).await.expect_problem(404, "AGENT_ADJUSTMENT_NOT_FOUND");
    }
    let path = format!("{PLATFORM}/adjustment-requests/x/approve");
    decider.post(&path, json!({})).await.expect_problem(404, "NOT_FOUND");

    let (agent, _, open) = file(json!({"Reason": "Other", "Comment": "x"})).await;
    let approve = decision_path(&open, "approve");
    for (body, field, code) in [
        (json!({"Amount": money(-1, "RUB")}), "/Amount/AmountMinor", "out_of_range"),
        (json!({"Comment": "x".repeat(2001)}), "/Comment", "too_long"),
        (json!({"Comment": "\0"}), "/Comment", "forbidden_character"),
    ] {
        decider.post(&approve, body).await.expect_refusal("VALIDATION_FAILED", field, code);
    }
    let reject = decision_path(&open, "reject");
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
    let own = service.caller(&crate::claims_of(agent, &[crate::COMMISSIONS]));
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
    assert_eq!(balance(service, agent, "RUB").await["Total"], 100);
}

/// RULE-AGT-030: only one of several concurrent decisions succeeds.
#[tokio::test]
async fn only_one_concurrent_decision_succeeds() {
    let service = service();
    for _ in 0..4 {
        let (agent, base, open) = file(request()).await;
        let callers: Vec<_> = std::iter::repeat_with(|| decider(service)).take(10).collect();
        let (approve, reject) = (decision_path(&open, "approve"), decision_path(&open, "reject"));
        let decide = async |(at, caller): (usize, &testkit::client::Client)| {
            let path = if at % 2 == 0 { &approve } else { &reject };
            caller.post(path, json!({"Comment": "x"})).await
        };
        let responses = join_all(callers.iter().enumerate().map(decide)).await;
        assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1, "{responses:?}");
        for response in responses {
            if response.status != 200 {
                response.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
            }
        }
        let decided = accrual(service, agent, base.id).await["AdjustmentRequest"].clone();
        let total = if decided["Status"] == "Approved" { 150 } else { 100 };
        assert_eq!(balance(service, agent, "RUB").await["Total"], total);
    }
}

/// RULE-AGT-025: requests are listed oldest first, and filtered by status, agent and accrual.
#[tokio::test]
async fn requests_are_listed_and_filtered() {
    let service = service();
    let decider = decider(service);
    let (agent, base, first) = file(request()).await;
    decider.post(&decision_path(&first, "reject"), json!({"Comment": "x"})).await.expect(200);
    let second = cabinet(service, agent).post(&requests_path(base.id), request()).await.expect(201);
    let other = AccrualFixture::approved(agent, 100).in_currency("USD").write(service).await;
    let body = with(request(), "RequestedAmount", money(7, "USD"));
    let third = cabinet(service, agent).post(&requests_path(other.id), body).await.expect(201);
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
        let response = decider.get(&format!("{PLATFORM}/adjustment-requests?{query}")).await;
        response.expect_refusal("VALIDATION_FAILED", field, code);
    }
}
