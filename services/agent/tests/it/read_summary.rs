//! Section 3: the summary.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fill::{put, put_accruals, request};
use crate::{
    Deal, MY, PLATFORM, accruals_of, cabinet, commissions, guid, id_of, list, money, pay, payouts, rub, run,
    text, with,
};

async fn summary(agent: Uuid) -> Value {
    cabinet(agent).get(&format!("{MY}/commission-summary")).await.expect(200)
}

/// A balance in roubles: `Pending`, `Approved`, `InPayout`, `Paid`, and what follows from them.
fn balance(sums: [i64; 4]) -> Value {
    let [pending, approved, in_payout, paid] = sums;
    let outstanding = pending + approved + in_payout;
    json!({
        "Currency": "RUB", "Pending": rub(pending), "Approved": rub(approved), "InPayout": rub(in_payout),
        "Paid": rub(paid), "Total": rub(outstanding + paid), "Outstanding": rub(outstanding),
    })
}

/// Whoever has earned nothing has no balance.
#[tokio::test]
async fn nobody_has_earned_anything_before_their_first_sale() {
    assert_eq!(summary(guid()).await, json!({"Balances": [], "OpenAdjustmentRequestsCount": 0}));
}

/// INV-AGT-1: each sum on its way from Pending to Paid, and what is owed back then.
#[tokio::test]
async fn a_commission_goes_from_pending_to_paid() {
    let (agent, developer) = (guid(), guid());
    pay(developer, 300).await;
    let mut deal = Deal::new(agent, developer, rub(10_000));
    let holds = async |sums: [i64; 4]| {
        assert_eq!(summary(agent).await["Balances"], json!([balance(sums)]));
    };
    deal.bring_to("Sale", "2026-02-01T00:00:00Z").await;
    holds([300, 0, 0, 0]).await;
    deal.bring_to("Completed", "2026-02-02T00:00:00Z").await;
    holds([0, 300, 0, 0]).await;
    assert_eq!(run(&[agent]).await["PayoutsCount"], 1);
    holds([0, 0, 300, 0]).await;
    let listed = cabinet(agent).get(&format!("{MY}/payouts")).await.expect(200);
    let payout = text(&listed["Items"][0]["Id"]).to_owned();
    payouts().post(&format!("{PLATFORM}/payouts/{payout}/confirm"), json!({})).await.expect(200);
    holds([0, 0, 0, 300]).await;
    // It is undone: a debt.
    deal.bring_to("Cancelled", "2026-02-03T00:00:00Z").await;
    holds([0, -300, 0, 300]).await;
}

/// Rejected and Reversed count nowhere; their currency stays, as it has entries.
#[tokio::test]
async fn what_does_not_stand_counts_nowhere() {
    let (agent, developer) = (guid(), guid());
    pay(developer, 300).await;
    let mut deal = Deal::new(agent, developer, rub(10_000));
    deal.bring_to("Sale", "2026-02-01T00:00:00Z").await;
    let mut dollars = Deal::new(agent, developer, money(5_000, "EUR"));
    dollars.bring_to("Sale", "2026-02-01T00:00:00Z").await;
    let accrual = id_of(&accruals_of(deal.id).await[0]["Id"]);
    let reject = format!("{PLATFORM}/commission-accruals/{accrual}/reject");
    commissions().post(&reject, json!({"Comment": "дважды"})).await.expect(200);
    let found = summary(agent).await;
    assert_eq!(found["Balances"][1], balance([0; 4]));
    assert_eq!(
        (&found["Balances"][0]["Currency"], &found["Balances"][0]["Total"]),
        (&json!("EUR"), &money(150, "EUR"))
    );
    dollars.bring_to("Application", "2026-02-02T00:00:00Z").await;
    let found = summary(agent).await;
    assert_eq!(found["Balances"][0]["Total"], money(0, "EUR"));
    assert_eq!(list(&found["Balances"]).len(), 2);
}

/// A sale without a rate makes no entry, and so no balance.
#[tokio::test]
async fn what_is_unrated_has_no_balance() {
    let agent = guid();
    let mut deal = Deal::new(agent, guid(), rub(10_000));
    deal.bring_to("Sale", "2026-02-01T00:00:00Z").await;
    deal.bring_to("Completed", "2026-02-02T00:00:00Z").await;
    assert_eq!(summary(agent).await["Balances"], json!([]));
}

/// `OpenAdjustmentRequestsCount` is of one's own requests that nobody has decided.
#[tokio::test]
async fn open_requests_are_counted() {
    let agent = guid();
    let accruals = put_accruals(agent, |_, row| row, 3).await;
    let of = |at: usize| request(agent, id_of(&accruals[at]["id"]));
    let rejected = with(with(of(2), "status", "Rejected"), "decided_at", "2026-01-02T00:00:00Z");
    put("adjustment_request", &[of(0), of(1), rejected]).await;
    assert_eq!(summary(agent).await["OpenAdjustmentRequestsCount"], 2);
    assert_eq!(summary(guid()).await["OpenAdjustmentRequestsCount"], 0);
    // No parameter names another agent.
    let foreign = format!("{MY}/commission-summary?AgentUserId={agent}");
    let foreign = cabinet(guid()).get(&foreign).await.expect(200);
    assert_eq!(foreign, json!({"Balances": [], "OpenAdjustmentRequestsCount": 0}));
}
