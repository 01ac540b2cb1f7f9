//! The commission summary.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::rows::{insert, insert_accruals, request};
use crate::{
    Deal, MY, PLATFORM, accruals_of, cabinet, commissions, guid, id_of, list, money, payouts, rub,
    run_payouts, set_rate, text, with,
};

async fn summary(agent: Uuid) -> Value {
    cabinet(agent).get(&format!("{MY}/commission-summary")).await.expect(200)
}

/// Creates a balance in roubles from `Pending`, `Approved`, `InPayout` and `Paid`.
fn balance(sums: [i64; 4]) -> Value {
    let [pending, approved, in_payout, paid] = sums;
    let outstanding = pending + approved + in_payout;
    json!({
        "Currency": "RUB", "Pending": rub(pending), "Approved": rub(approved), "InPayout": rub(in_payout),
        "Paid": rub(paid), "Total": rub(outstanding + paid), "Outstanding": rub(outstanding),
    })
}

/// RULE-AGT-051: an agent without accruals has no balance.
#[tokio::test]
async fn agent_without_accruals_has_no_balance() {
    assert_eq!(summary(guid()).await, json!({"Balances": [], "OpenAdjustmentRequestsCount": 0}));
}

/// RULE-AGT-051, INV-AGT-1: the balances follow an accrual from Pending to Paid, and then its debt.
#[tokio::test]
async fn balances_follow_an_accrual_from_pending_to_paid() {
    let (agent, developer) = (guid(), guid());
    set_rate(developer, 300).await;
    let mut deal = Deal::new(agent, developer, rub(10_000));
    let expect_balance = async |sums: [i64; 4]| {
        assert_eq!(summary(agent).await["Balances"], json!([balance(sums)]));
    };
    deal.move_to("Sale", "2026-02-01T00:00:00Z").await;
    expect_balance([300, 0, 0, 0]).await;
    deal.move_to("Completed", "2026-02-02T00:00:00Z").await;
    expect_balance([0, 300, 0, 0]).await;
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 1);
    expect_balance([0, 0, 300, 0]).await;
    let listed = cabinet(agent).get(&format!("{MY}/payouts")).await.expect(200);
    let payout = text(&listed["Items"][0]["Id"]).to_owned();
    payouts().post(&format!("{PLATFORM}/payouts/{payout}/confirm"), json!({})).await.expect(200);
    expect_balance([0, 0, 0, 300]).await;
    // The cancellation leaves a debt.
    deal.move_to("Cancelled", "2026-02-03T00:00:00Z").await;
    expect_balance([0, -300, 0, 300]).await;
}

/// RULE-AGT-051: Rejected and Reversed accruals count nowhere.
/// Their currency keeps its balance of 0.
#[tokio::test]
async fn rejected_and_reversed_accruals_count_nowhere() {
    let (agent, developer) = (guid(), guid());
    set_rate(developer, 300).await;
    let mut deal = Deal::new(agent, developer, rub(10_000));
    deal.move_to("Sale", "2026-02-01T00:00:00Z").await;
    let mut in_euro = Deal::new(agent, developer, money(5_000, "EUR"));
    in_euro.move_to("Sale", "2026-02-01T00:00:00Z").await;
    let accrual = id_of(&accruals_of(deal.id).await[0]["Id"]);
    let reject = format!("{PLATFORM}/commission-accruals/{accrual}/reject");
    commissions().post(&reject, json!({"Comment": "дважды"})).await.expect(200);
    let found = summary(agent).await;
    assert_eq!(found["Balances"][1], balance([0; 4]));
    assert_eq!(
        (&found["Balances"][0]["Currency"], &found["Balances"][0]["Total"]),
        (&json!("EUR"), &money(150, "EUR"))
    );
    in_euro.move_to("Application", "2026-02-02T00:00:00Z").await;
    let found = summary(agent).await;
    assert_eq!(found["Balances"][0]["Total"], money(0, "EUR"));
    assert_eq!(list(&found["Balances"]).len(), 2);
}

/// RULE-AGT-051: an unrated deal has no accrual, so it makes no balance.
#[tokio::test]
async fn unrated_deal_has_no_balance() {
    let agent = guid();
    let mut deal = Deal::new(agent, guid(), rub(10_000));
    deal.move_to("Sale", "2026-02-01T00:00:00Z").await;
    deal.move_to("Completed", "2026-02-02T00:00:00Z").await;
    assert_eq!(summary(agent).await["Balances"], json!([]));
}

/// RULE-AGT-051: `OpenAdjustmentRequestsCount` counts the caller's open requests.
#[tokio::test]
async fn open_requests_of_the_caller_are_counted() {
    let agent = guid();
    let accruals = insert_accruals(agent, |_, row| row, 3).await;
    let of = |at: usize| request(agent, id_of(&accruals[at]["id"]));
    let rejected = with(with(of(2), "status", "Rejected"), "decided_at", "2026-01-02T00:00:00Z");
    insert("adjustment_request", &[of(0), of(1), rejected]).await;
    assert_eq!(summary(agent).await["OpenAdjustmentRequestsCount"], 2);
    assert_eq!(summary(guid()).await["OpenAdjustmentRequestsCount"], 0);
    // `AgentUserId` is ignored: callers read only their own data.
    let foreign = format!("{MY}/commission-summary?AgentUserId={agent}");
    let foreign = cabinet(guid()).get(&foreign).await.expect(200);
    assert_eq!(foreign, json!({"Balances": [], "OpenAdjustmentRequestsCount": 0}));
}
