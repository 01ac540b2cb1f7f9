//! What of crm's events cannot be applied.

use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::deals::{SOLD, deal, ledger, lines};
use crate::{
    CANCELLED, COMPLETED, CREATED, Deal, MY, PLATFORM, STAGE_CHANGED, accruals_of, cabinet, commissions,
    id_of, money, next, pay, rub, service, text, with, without,
};

/// Publishes a stage change that cannot be applied, and waits until it is put aside.
async fn put_aside(topic: &str, told: &Value) {
    let (key, sequence) = (id_of(&told["DealId"]), next());
    service().bus().publish(topic, key, sequence, told).await;
    let (sql, key) = (service().sql().await, key.to_string());
    let letters = "select 1 from dead_letter where topic = $1 and key = $2";
    eventually("the dead letter", async || sql.query_opt(letters, &[&topic, &key]).await.unwrap()).await;
}

/// A message that does not decode, or has a negative amount, is a dead letter and holds up its deal alone.
#[tokio::test]
async fn what_cannot_be_applied_holds_up_its_deal_alone() {
    let mut other = deal().await;
    for (member, value) in [
        ("Amount", rub(-1)),
        ("Amount", json!({"AmountMinor": 1.5, "Currency": "RUB"})),
        ("Amount", money(1, "rub")),
        ("Amount", Value::Null),
        ("RowVersion", json!(-1)),
        // More than crm counts to.
        ("RowVersion", json!(4_294_967_296_i64)),
        ("RowVersion", Value::Null),
        ("ChangedAt", json!("yesterday")),
        ("TenantId", json!("x")),
        ("AgentUserId", json!("x")),
        ("ToStatus", Value::Null),
    ] {
        let mut deal = deal().await;
        let sold = deal.moves("Sale", SOLD);
        put_aside(STAGE_CHANGED, &with(sold.clone(), member, value)).await;
        let (key, sequence) = (deal.id, next());
        service().bus().publish(STAGE_CHANGED, key, sequence, &sold).await;
        other.bring_to(if other.status == "Sale" { "Booking" } else { "Sale" }, SOLD).await;
        assert_eq!(ledger(&deal).await, [], "behind {member}");
    }
}

/// What the topics tell that move no money is held to the same.
#[tokio::test]
async fn what_no_topic_may_tell_is_kept_nowhere() {
    let fresh = || Deal::new(guid(), guid(), rub(1_000));
    for (topic, told) in [
        (CREATED, with(fresh().created(SOLD), "Amount", rub(-1))),
        (CREATED, without(fresh().created(SOLD), "CreatedAt")),
        (CANCELLED, with(fresh().cancelled(SOLD), "CancelledAt", Value::Null)),
        (CANCELLED, without(fresh().cancelled(SOLD), "RowVersion")),
        (COMPLETED, with(fresh().completed(SOLD), "Amount", rub(-1))),
        (COMPLETED, with(fresh().completed(SOLD), "CompletedAt", "yesterday")),
    ] {
        put_aside(topic, &told).await;
        let kept = "select 1 from deal where id = $1::text::uuid";
        let kept = service().sql().await.query_opt(kept, &[&id_of(&told["DealId"]).to_string()]).await;
        assert!(kept.unwrap().is_none(), "{topic}: {told}");
    }
}

/// What would take a sum beyond 64 bits is a dead letter; the agent's other deals go on.
#[tokio::test]
async fn a_sum_beyond_64_bits_is_put_aside() {
    let (developer, agent) = (guid(), guid());
    pay(developer, 10_000).await;
    let mut first = Deal::new(agent, developer, rub(i64::MAX));
    first.bring_to("Sale", SOLD).await;
    assert_eq!(ledger(&first).await, lines(&[("Base", "Pending", i64::MAX)]));
    let mut second = Deal::new(agent, developer, rub(1));
    put_aside(STAGE_CHANGED, &second.moves("Sale", SOLD)).await;
    assert_eq!(ledger(&second).await, []);
    let mut third = Deal::new(agent, developer, money(1, "USD"));
    third.bring_to("Sale", SOLD).await;
    assert_eq!(ledger(&third).await.len(), 1);
    first.bring_to("Completed", SOLD).await;
    assert_eq!(ledger(&first).await, lines(&[("Base", "Approved", i64::MAX)]));
}

/// It is what a sum comes to that is held to 64 bits, not what it passes through from line to line.
#[tokio::test]
async fn a_sum_may_pass_beyond_64_bits_on_its_way() {
    let (developer, agent) = (guid(), guid());
    pay(developer, 10_000).await;
    let mut small = Deal::new(agent, developer, rub(100));
    small.bring_to("Sale", SOLD).await;
    let base = accruals_of(small.id).await.remove(0);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "WrongAmount", "RequestedAmount": rub(40), "Comment": "много"});
    let request = cabinet(agent).post(&path, body).await.expect(201);
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    let mut great = Deal::new(agent, developer, rub(i64::MAX - 40));
    great.bring_to("Sale", SOLD).await;
    great.bring_to("Completed", SOLD).await;
    // The Base alone would be too much; the Correction goes with it.
    small.bring_to("Completed", SOLD).await;
    let granted = lines(&[("Base", "Approved", 100), ("Correction", "Approved", -60)]);
    assert_eq!(ledger(&small).await, granted);
}
