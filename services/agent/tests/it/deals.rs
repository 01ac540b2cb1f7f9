//! Accruals that deals create and undo.

use serde_json::{Value, json};
use testkit::guid;

use crate::{
    ACCRUAL_CHANGED, Deal, MY, PLATFORM, STAGE_CHANGED, accruals_of, await_applied, cabinet, commissions,
    deliver, id_of, in_days, list, money, next, payouts, rub, run_payouts, service, set_rate, text, with,
};

pub const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";
const LATEST: &str = "2026-07-01T10:00:00Z";

/// Creates a deal of 1,000,000 with a developer's rate of 10 %.
pub async fn deal() -> Deal {
    let developer = guid();
    set_rate(developer, 1_000).await;
    Deal::new(guid(), developer, rub(1_000_000))
}

/// Returns kind, status and amount of each accrual of a deal.
pub async fn ledger(deal: &Deal) -> Vec<(String, String, i64)> {
    let accruals = accruals_of(deal.id).await;
    let shown = accruals.iter().map(|accrual| {
        let amount = accrual["Amount"]["AmountMinor"].as_i64().unwrap();
        (text(&accrual["Kind"]).to_owned(), text(&accrual["Status"]).to_owned(), amount)
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

pub fn lines(expected: &[(&str, &str, i64)]) -> Vec<(String, String, i64)> {
    let mut lines: Vec<_> = expected
        .iter()
        .map(|(kind, status, amount)| ((*kind).to_owned(), (*status).to_owned(), *amount))
        .collect();
    lines.sort();
    lines
}

/// Returns From, To and Version of every event of an accrual, in the order of arrival.
async fn status_changes(accrual: &Value) -> Vec<(Value, Value, i64)> {
    let events = service().published(id_of(&accrual["Id"])).await;
    let changes = events.into_iter().map(|event| {
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        for member in ["AgentUserId", "DealId", "Kind", "Amount"] {
            assert_eq!(event.payload[member], accrual[member], "{member}");
        }
        let version = event.payload["Version"].as_i64().unwrap();
        (event.payload["From"].clone(), event.payload["To"].clone(), version)
    });
    changes.collect()
}

/// RULE-AGT-001: a sale creates a Base of the event's agent and amount, at the rate of its start.
#[tokio::test]
async fn sale_start_creates_base_accrual() {
    let mut deal = deal().await;
    deal.move_to("Sale", SOLD).await;
    let accruals = accruals_of(deal.id).await;
    let [base] = &accruals[..] else { panic!("{accruals:?}") };
    for (member, value) in [
        ("AgentUserId", json!(deal.agent)),
        ("DealId", json!(deal.id)),
        ("PropertyObjectId", json!(deal.object)),
        ("DeveloperCompanyId", json!(deal.developer)),
        ("DeveloperName", Value::Null),
        ("Kind", json!("Base")),
        ("BaseAmount", rub(1_000_000)),
        ("RateBps", json!(1_000)),
        ("Amount", rub(100_000)),
        ("Status", json!("Pending")),
        ("PayoutId", Value::Null),
        ("ReversesAccrualId", Value::Null),
        ("AdjustsAccrualId", Value::Null),
        ("EarnedAt", json!(SOLD)),
        ("ApprovedAt", Value::Null),
        ("PaidAt", Value::Null),
        ("Version", json!(1)),
        ("AdjustmentRequest", Value::Null),
    ] {
        assert_eq!(base[member], value, "{member}");
    }
    assert_eq!(status_changes(base).await, [(Value::Null, json!("Pending"), 1)]);
    let event = service().bus().events(&id_of(&base["Id"])).remove(0);
    assert_eq!(event.payload["ChangedAt"], base["CreatedAt"], "when it was written, not when it was earned");
    assert_ne!(base["CreatedAt"], base["EarnedAt"]);
    let summary = cabinet(deal.agent.unwrap()).get(&format!("{MY}/commission-summary")).await.expect(200);
    assert_eq!(summary["Balances"][0]["Pending"], rub(100_000));
}

/// RULE-AGT-001: each sequence of stage changes leads to the accruals that the table of effects
/// defines.
#[tokio::test]
async fn stage_change_has_the_effect_of_the_table() {
    let (pending, approved, reversed) =
        (("Base", "Pending", 100_000), ("Base", "Approved", 100_000), ("Base", "Reversed", 100_000));
    for (statuses, expected) in [
        (vec!["Sale"], vec![pending]),
        (vec!["Booking"], vec![]),
        (vec!["Booking", "Sale"], vec![pending]),
        (vec!["Cancelled", "Sale"], vec![pending]),
        (vec!["Frozen", "Sale"], vec![pending]),
        (vec!["Sale", "Sale"], vec![pending]),
        (vec!["Sale", "Frozen"], vec![pending]),
        (vec!["Sale", "Frozen", "Sale"], vec![pending]),
        (vec!["Sale", "Completed"], vec![approved]),
        (vec!["Sale", "Frozen", "Completed"], vec![approved]),
        (vec!["Completed"], vec![approved]),
        (vec!["Booking", "Completed"], vec![approved]),
        (vec!["Sale", "Completed", "Completed"], vec![approved]),
        (vec!["Sale", "Completed", "Sale"], vec![approved]),
        (vec!["Sale", "Application"], vec![reversed]),
        (vec!["Sale", "Booking"], vec![reversed]),
        (vec!["Sale", "Cancelled"], vec![reversed]),
        (vec!["Sale", "Frozen", "Cancelled"], vec![reversed]),
        (vec!["Sale", "Completed", "Cancelled"], vec![reversed]),
        (vec!["Completed", "Application"], vec![reversed]),
        (vec!["Sale", "Cancelled", "Application"], vec![reversed]),
        (vec!["Sale", "Booking", "Sale"], vec![reversed, pending]),
        (vec!["Sale", "Cancelled", "Sale", "Completed"], vec![reversed, approved]),
        (vec!["Sale", "Cancelled", "Completed", "Booking"], vec![reversed, reversed]),
    ] {
        let mut deal = deal().await;
        for status in &statuses {
            deal.move_to(status, SOLD).await;
        }
        assert_eq!(ledger(&deal).await, lines(&expected), "{statuses:?}");
    }
}

/// RULE-AGT-010, RULE-EVT-020: each change of an accrual's status is published once, in order.
///
/// A completion without an earlier sale publishes two changes: created and approved.
#[tokio::test]
async fn accrual_status_change_is_published_once_in_order() {
    let mut deal = deal().await;
    deal.move_to("Completed", LATER).await;
    let base = accruals_of(deal.id).await.remove(0);
    assert_eq!(
        (&base["ApprovedAt"], &base["EarnedAt"], &base["Version"]),
        (&json!(LATER), &json!(LATER), &json!(2))
    );
    let both = [(Value::Null, json!("Pending"), 1), (json!("Pending"), json!("Approved"), 2)];
    assert_eq!(status_changes(&base).await, both);
    deal.move_to("Cancelled", LATEST).await;
    let third = [(json!("Approved"), json!("Reversed"), 3)];
    assert_eq!(status_changes(&base).await, [&both[..], &third].concat());
}

/// RULE-AGT-005: when a sale ends, an accrual in a payout stays unchanged and gets a Reversal.
///
/// The Reversal is a debt, which no run pays and no later sale undoes.
#[tokio::test]
async fn ended_sale_reverses_accrual_in_a_payout() {
    let mut deal = deal().await;
    deal.move_to("Sale", SOLD).await;
    deal.move_to("Completed", LATER).await;
    let agent = deal.agent.unwrap();
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 1);
    deal.move_to("Cancelled", LATEST).await;
    assert_eq!(
        ledger(&deal).await,
        lines(&[("Base", "Approved", 100_000), ("Reversal", "Approved", -100_000)])
    );
    let accruals = accruals_of(deal.id).await;
    let of = |kind: &str| accruals.iter().find(|accrual| accrual["Kind"] == kind).unwrap();
    let (base, reversal) = (of("Base"), of("Reversal"));
    assert!(base["PayoutId"].is_string() && reversal["PayoutId"].is_null());
    for (member, value) in [
        ("AgentUserId", &base["AgentUserId"]),
        ("BaseAmount", &base["BaseAmount"]),
        ("RateBps", &base["RateBps"]),
        ("ReversesAccrualId", &base["Id"]),
        ("EarnedAt", &json!(LATEST)),
        ("ApprovedAt", &json!(LATEST)),
        ("Version", &json!(1)),
    ] {
        assert_eq!(&reversal[member], value, "{member}");
    }
    assert_eq!(status_changes(reversal).await, [(Value::Null, json!("Approved"), 1)]);
    // A debt is never paid.
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 0);
    // Another sale begins and ends. It does not change the first one.
    deal.move_to("Sale", LATEST).await;
    deal.move_to("Booking", LATEST).await;
    let left =
        [("Base", "Approved", 100_000), ("Base", "Reversed", 100_000), ("Reversal", "Approved", -100_000)];
    assert_eq!(ledger(&deal).await, lines(&left));
}

/// RULE-AGT-005: an accrual with a Reversal stays undone after its payout has failed.
#[tokio::test]
async fn accrual_released_by_failed_payout_stays_undone() {
    let mut deal = deal().await;
    deal.move_to("Completed", LATER).await;
    let agent = deal.agent.unwrap();
    let run = run_payouts(&[agent]).await;
    deal.move_to("Cancelled", LATEST).await;
    let listed = payouts().get(&format!("{PLATFORM}/payouts?RunId={}", text(&run["Id"]))).await.expect(200);
    let path = format!("{PLATFORM}/payouts/{}/fail", text(&listed["Items"][0]["Id"]));
    payouts().post(&path, json!({"Reason": "счёт закрыт"})).await.expect(200);
    let both = lines(&[("Base", "Approved", 100_000), ("Reversal", "Approved", -100_000)]);
    assert_eq!(ledger(&deal).await, both);
    deal.move_to("Sale", LATEST).await;
    deal.move_to("Cancelled", LATEST).await;
    let expected =
        [("Base", "Approved", 100_000), ("Base", "Reversed", 100_000), ("Reversal", "Approved", -100_000)];
    assert_eq!(ledger(&deal).await, lines(&expected));
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 0);
}

/// RULE-AGT-006: a different amount at completion creates a Correction at the Base's rate, unless
/// it is 0.
#[tokio::test]
async fn different_amount_at_completion_creates_correction() {
    for (amount, correction) in [
        (1_500_000, Some(50_000)),
        (400_000, Some(-60_000)),
        (0, Some(-100_000)),
        (1_000_000, None),
        // Half a unit is rounded to even: 100000.5 becomes 100000.
        (1_000_005, None),
        (1_000_015, Some(2)),
    ] {
        let mut deal = deal().await;
        deal.move_to("Sale", SOLD).await;
        // A later rate applies to other sales only.
        set_rate(deal.developer, 2_000).await;
        deal.amount = rub(amount);
        deal.move_to("Completed", LATER).await;
        let mut expected = vec![("Base", "Approved", 100_000)];
        expected.extend(correction.map(|amount| ("Correction", "Approved", amount)));
        assert_eq!(ledger(&deal).await, lines(&expected), "{amount}");
        let accruals = accruals_of(deal.id).await;
        if let Some(correction) = accruals.iter().find(|accrual| accrual["Kind"] == "Correction") {
            let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
            assert_eq!(
                (&correction["AdjustsAccrualId"], &correction["BaseAmount"]),
                (&base["Id"], &rub(1_000_000))
            );
            assert_eq!((&correction["EarnedAt"], &correction["ApprovedAt"]), (&json!(LATER), &json!(LATER)));
            assert_eq!(status_changes(correction).await, [(Value::Null, json!("Approved"), 1)]);
        }
        deal.move_to("Cancelled", LATEST).await;
        assert!(ledger(&deal).await.iter().all(|(_, status, _)| status == "Reversed"));
    }
}

/// RULE-AGT-006: a completion does not correct a rejected Base, or one with an effective grant.
#[tokio::test]
async fn decided_amount_is_not_corrected_at_completion() {
    let mut rejected = deal().await;
    rejected.move_to("Sale", SOLD).await;
    let base = accruals_of(rejected.id).await.remove(0);
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", text(&base["Id"]));
    commissions().post(&path, json!({"Comment": "дважды"})).await.expect(200);
    rejected.amount = rub(2_000_000);
    rejected.move_to("Completed", LATER).await;
    assert_eq!(ledger(&rejected).await, lines(&[("Base", "Rejected", 100_000)]));

    let mut granted = deal().await;
    granted.move_to("Sale", SOLD).await;
    let request = file_request(&granted).await;
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    granted.amount = rub(2_000_000);
    granted.move_to("Completed", LATER).await;
    assert_eq!(
        ledger(&granted).await,
        lines(&[("Base", "Approved", 100_000), ("Correction", "Approved", 23)])
    );
}

/// Files the agent's request for a slightly higher Base.
async fn file_request(deal: &Deal) -> Value {
    let base = accruals_of(deal.id).await.remove(0);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "WrongAmount", "RequestedAmount": rub(100_023), "Comment": "мало"});
    cabinet(deal.agent.unwrap()).post(&path, body).await.expect(201)
}

/// RULE-AGT-006: a different currency at completion ends the sale and begins another one.
#[tokio::test]
async fn different_currency_at_completion_begins_another_sale() {
    let mut deal = deal().await;
    deal.move_to("Sale", SOLD).await;
    deal.amount = money(500, "USD");
    deal.move_to("Completed", LATER).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 50), ("Base", "Reversed", 100_000)]));
    let accruals = accruals_of(deal.id).await;
    let latter = accruals.iter().find(|accrual| accrual["Status"] == "Approved").unwrap();
    assert_eq!((&latter["Amount"], &latter["EarnedAt"]), (&money(50, "USD"), &json!(LATER)));
    assert_eq!(status_changes(latter).await.len(), 2);
    let summary = cabinet(deal.agent.unwrap()).get(&format!("{MY}/commission-summary")).await.expect(200);
    let balances = list(&summary["Balances"]);
    assert_eq!(balances[0]["Total"], rub(0));
    assert_eq!(balances[1]["Approved"], money(50, "USD"));
}

/// RULE-AGT-006, RULE-AGT-007: a different currency undoes grants and closes requests of the first
/// sale.
///
/// The agent can file a request about the new sale.
#[tokio::test]
async fn different_currency_at_completion_ends_grants_and_requests() {
    let mut deal = deal().await;
    deal.move_to("Sale", SOLD).await;
    let granted = file_request(&deal).await;
    let approve = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&granted["Id"]));
    commissions().post(&approve, json!({})).await.expect(200);
    let open = file_request(&deal).await;
    deal.amount = money(500, "USD");
    deal.move_to("Completed", LATER).await;
    let left = [("Base", "Approved", 50), ("Base", "Reversed", 100_000), ("Correction", "Reversed", 23)];
    assert_eq!(ledger(&deal).await, lines(&left));

    let agent = deal.agent.unwrap();
    let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={agent}");
    let listed = commissions().get(&path).await.expect(200);
    let [first, second] = list(&listed["Items"]) else { panic!("{listed}") };
    assert_eq!((&first["Id"], &first["Status"]), (&granted["Id"], &json!("Approved")));
    assert_eq!((&second["Id"], &second["Status"]), (&open["Id"], &json!("Rejected")));
    assert_eq!((&second["DecisionComment"], &second["Version"]), (&Value::Null, &json!(2)));

    let accruals = accruals_of(deal.id).await;
    let latter = accruals.iter().find(|accrual| accrual["Status"] == "Approved").unwrap();
    assert_eq!(latter["AdjustmentRequest"], Value::Null);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&latter["Id"]));
    let body = json!({"Reason": "WrongRate", "RequestedAmount": money(60, "USD"), "Comment": "мало"});
    cabinet(agent).post(&path, body).await.expect(201);
}

/// RULE-AGT-004: no later event gives an accrual to a sale that began without an agent.
#[tokio::test]
async fn sale_without_agent_earns_nothing() {
    let mut deal = deal().await;
    let agent = deal.agent.take();
    deal.move_to("Sale", SOLD).await;
    deal.agent = agent;
    deal.move_to("Sale", SOLD).await;
    deal.move_to("Completed", LATER).await;
    deal.move_to("Cancelled", LATER).await;
    assert_eq!(ledger(&deal).await, []);
    deal.move_to("Sale", LATEST).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Pending", 100_000)]), "another sale");
}

/// RULE-AGT-004: a sale keeps the agent, amount and rate of its start.
#[tokio::test]
async fn sale_keeps_agent_amount_and_rate_of_its_start() {
    let mut deal = deal().await;
    let agent = deal.agent;
    deal.move_to("Sale", SOLD).await;
    set_rate(deal.developer, 5_000).await;
    (deal.agent, deal.amount) = (Some(guid()), rub(9_000_000));
    deal.move_to("Sale", LATER).await;
    deal.amount = rub(1_000_000);
    deal.move_to("Completed", LATEST).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 100_000)]));
    assert_eq!(accruals_of(deal.id).await[0]["AgentUserId"], json!(agent));
}

/// RULE-AGT-003, RULE-EVT-026: a stage change whose version is not above the applied one is
/// ignored.
///
/// The values of `ce_id` and `ce_sequence` do not matter.
#[tokio::test]
async fn applied_stage_change_is_not_applied_again() {
    let mut deal = deal().await;
    let booked = deal.stage_changed("Booking", SOLD);
    let sold = deal.stage_changed("Sale", SOLD);
    let back = with(deal.clone().stage_changed("Cancelled", LATER), "RowVersion", sold["RowVersion"].clone());
    let completed = deal.stage_changed("Completed", LATER);
    for payload in [&sold, &sold, &booked, &back, &completed, &sold, &completed, &back, &booked] {
        deliver(service(), STAGE_CHANGED, payload).await;
    }
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 100_000)]));
    let base = accruals_of(deal.id).await.remove(0);
    assert_eq!(status_changes(&base).await.len(), 2);
    assert_eq!(base["Version"], 2);
}

/// RULE-AGT-007: the end of a sale closes its open requests as Rejected without a comment.
#[tokio::test]
async fn ended_sale_closes_its_open_requests() {
    let mut deal = deal().await;
    deal.move_to("Sale", SOLD).await;
    let filed = file_request(&deal).await;
    deal.move_to("Cancelled", LATER).await;
    let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={}", deal.agent.unwrap());
    let listed = commissions().get(&path).await.expect(200);
    let [request] = list(&listed["Items"]) else { panic!("{listed}") };
    assert_eq!((&request["Id"], &request["Status"]), (&filed["Id"], &json!("Rejected")));
    assert_eq!((&request["DecisionComment"], &request["Version"]), (&Value::Null, &json!(2)));
    assert!(request["DecidedAt"].is_string());
}

/// INV-AGT-1: after concurrent changes of an agent's deals the account has the correct sum.
#[tokio::test]
async fn concurrent_deals_of_one_agent_are_all_counted() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut last = Vec::new();
    for _ in 0..30 {
        let mut deal = Deal::new(agent, developer, rub(1_000));
        for status in ["Sale", "Completed"] {
            let sequence = next();
            let payload = deal.stage_changed(status, SOLD);
            service().bus().publish(STAGE_CHANGED, deal.id, sequence, &payload).await;
            last.push((deal.id, sequence));
        }
    }
    for (id, sequence) in last {
        await_applied(service(), STAGE_CHANGED, id, sequence).await;
    }
    let summary = cabinet(agent).get(&format!("{MY}/commission-summary")).await.expect(200);
    assert_eq!(summary["Balances"][0]["Approved"], rub(3_000));
    let from = in_days(-1);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&From={from}");
    assert_eq!(commissions().get(&path).await.expect(200)["TotalCount"], 30);
}
