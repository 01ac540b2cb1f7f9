//! Events of CRM that cannot be applied.

use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::approval_limit::release_path;
use crate::deals::{SOLD, deal, ledger, lines};
use crate::{
    CANCELLED, COMPLETED, CREATED, Deal, MY, PLATFORM, STAGE_CHANGED, accruals_of, cabinet, commissions,
    id_of, money, next, rub, service, set_rate, text, with, without,
};

/// Publishes an invalid event, and waits until it is a dead letter.
async fn deliver_invalid(topic: &str, payload: &Value) {
    let (key, sequence) = (id_of(&payload["DealId"]), next());
    service().bus().publish(topic, key, sequence, payload).await;
    let (sql, key) = (service().sql().await, key.to_string());
    let letters = "select 1 from dead_letter where topic = $1 and key = $2";
    eventually("the dead letter", async || sql.query_opt(letters, &[&topic, &key]).await.unwrap()).await;
}

/// RULE-AGT-012: a message that cannot be decoded or has a negative amount blocks only its own
/// deal.
#[tokio::test]
async fn invalid_message_blocks_its_own_deal_only() {
    let mut other = deal().await;
    for (member, value) in [
        ("Amount", rub(-1)),
        ("Amount", json!({"AmountMinor": 1.5, "Currency": "RUB"})),
        ("Amount", money(1, "rub")),
        ("Amount", Value::Null),
        ("RowVersion", json!(-1)),
        // CRM's versions have 32 bits.
        ("RowVersion", json!(4_294_967_296_i64)),
        ("RowVersion", Value::Null),
        ("ChangedAt", json!("yesterday")),
        ("TenantId", json!("x")),
        ("AgentUserId", json!("x")),
        ("ToStatus", Value::Null),
    ] {
        let mut deal = deal().await;
        let sold = deal.stage_changed("Sale", SOLD);
        deliver_invalid(STAGE_CHANGED, &with(sold.clone(), member, value)).await;
        let (key, sequence) = (deal.id, next());
        service().bus().publish(STAGE_CHANGED, key, sequence, &sold).await;
        other.move_to(if other.status == "Sale" { "Booking" } else { "Sale" }, SOLD).await;
        assert_eq!(ledger(&deal).await, [], "behind {member}");
    }
}

/// RULE-AGT-012: an invalid message stores no deal, also on topics that do not change the ledger.
#[tokio::test]
async fn invalid_message_of_other_topics_stores_no_deal() {
    let fresh = || Deal::new(guid(), guid(), rub(1_000));
    for (topic, payload) in [
        (CREATED, with(fresh().created(SOLD), "Amount", rub(-1))),
        (CREATED, without(fresh().created(SOLD), "CreatedAt")),
        (CANCELLED, with(fresh().cancelled(SOLD), "CancelledAt", Value::Null)),
        (CANCELLED, without(fresh().cancelled(SOLD), "RowVersion")),
        (COMPLETED, with(fresh().completed(SOLD), "Amount", rub(-1))),
        (COMPLETED, with(fresh().completed(SOLD), "CompletedAt", "yesterday")),
    ] {
        deliver_invalid(topic, &payload).await;
        let select = "select 1 from deal where id = $1::text::uuid";
        let stored = service().sql().await.query_opt(select, &[&id_of(&payload["DealId"]).to_string()]).await;
        assert!(stored.unwrap().is_none(), "{topic}: {payload}");
    }
}

/// RULE-AGT-012: an event that would raise a sum above 64 bits is a dead letter.
/// Other deals of the agent continue.
#[tokio::test]
async fn sum_beyond_64_bits_is_dead_lettered() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 10_000).await;
    let mut first = Deal::new(agent, developer, rub(i64::MAX));
    first.move_to("Sale", SOLD).await;
    assert_eq!(ledger(&first).await, lines(&[("Base", "Pending", i64::MAX)]));
    let mut second = Deal::new(agent, developer, rub(1));
    deliver_invalid(STAGE_CHANGED, &second.stage_changed("Sale", SOLD)).await;
    assert_eq!(ledger(&second).await, []);
    let mut third = Deal::new(agent, developer, money(1, "USD"));
    third.move_to("Sale", SOLD).await;
    assert_eq!(ledger(&third).await.len(), 1);
    first.move_to("Completed", SOLD).await;
    // The amount is above the limit of automatic approval.
    assert_eq!(ledger(&first).await, lines(&[("Base", "Pending", i64::MAX)]));
}

/// RULE-AGT-012: only the final sum has to fit into 64 bits, not the sums between two entries.
#[tokio::test]
async fn intermediate_sum_may_exceed_64_bits() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 10_000).await;
    let mut small = Deal::new(agent, developer, rub(100));
    small.move_to("Sale", SOLD).await;
    let base = accruals_of(small.id).await.remove(0);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "WrongAmount", "RequestedAmount": rub(40), "Comment": "много"});
    let request = cabinet(agent).post(&path, body).await.expect(201);
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    let mut large = Deal::new(agent, developer, rub(i64::MAX - 40));
    large.move_to("Sale", SOLD).await;
    large.move_to("Completed", SOLD).await;
    let unreleased = accruals_of(large.id).await.remove(0);
    commissions().post(&release_path(&unreleased), Value::Null).await.expect(200);
    // With the Base alone, the Approved sum would exceed 64 bits. The Correction is posted with it.
    small.move_to("Completed", SOLD).await;
    let granted = lines(&[("Base", "Approved", 100), ("Correction", "Approved", -60)]);
    assert_eq!(ledger(&small).await, granted);
}
