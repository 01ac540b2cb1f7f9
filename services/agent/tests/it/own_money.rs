//! Nobody decides or moves their own money.

use serde_json::{Value, json};
use testkit::guid;

use crate::approval_limit::release;
use crate::fixtures::{AccrualFixture, accrual, decider, pay, payout_path, run_body};
use crate::rows::insert_payout;
use crate::{CABINET, COMMISSIONS, PAYOUTS, PLATFORM, claims_of, id_of, service, with};

const OPERATIONS: [(&str, &str); 4] =
    [("send", "InTransit"), ("cancel", "Cancelled"), ("confirm", "Paid"), ("fail", "Failed")];

/// RULE-AGT-061: a caller with every permission does not move their own payout.
#[tokio::test]
async fn own_payout_is_not_moved() {
    let (service, agent) = (service(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    for (operation, status) in OPERATIONS {
        AccrualFixture::approved(agent, 100).write(service).await;
        // A run for everybody includes its author. Another employee moves that payout.
        let started = own.post(&format!("{PLATFORM}/payouts"), run_body(&[agent])).await.expect(201);
        crate::fixtures::await_completion(service, &started["Id"]).await;
        let payout = crate::fixtures::list_payouts(service, &started).await.remove(0);
        let body = if operation == "fail" { json!({"Reason": "x"}) } else { json!({}) };
        let path = payout_path(&payout, operation);
        own.post(&path, body.clone()).await.expect_problem(403, "AGENT_PAYOUT_OWN");
        let shown = own.get(&payout_path(&payout, "statement")).await.expect(200);
        assert_eq!(shown["Payout"], payout, "{operation}");
        let moved = crate::fixtures::payer(service).post(&path, body).await.expect(200);
        assert_eq!(moved["Status"], status);
    }
    let missing = format!("{PLATFORM}/payouts/{}/confirm", guid());
    own.post(&missing, json!({})).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
}

/// RULE-AGT-061: a caller does not release, reject or reverse their own accrual.
#[tokio::test]
async fn own_accrual_is_not_decided() {
    let (service, agent) = (service(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    let waiting = |_, row| with(row, "awaits_release", true);
    let held = crate::rows::insert_accruals(agent, waiting, 1).await.remove(0);
    let (_, in_payout) = insert_payout(agent, |row| row).await;
    let (held_id, in_payout) = (id_of(&held["id"]), id_of(&in_payout["id"]));
    let before = accrual(service, agent, held_id).await;
    let comment = json!({"Comment": "моё"});
    for (id, decision, body) in [
        (held_id, "release", Value::Null),
        (held_id, "reject", comment.clone()),
        (in_payout, "reverse", comment.clone()),
    ] {
        let path = format!("{PLATFORM}/commission-accruals/{id}/{decision}");
        own.post(&path, body).await.expect_problem(403, "AGENT_ACCRUAL_OWN");
    }
    assert_eq!(accrual(service, agent, held_id).await, before);
    decider(service).post(&release(&json!({"Id": held_id})), Value::Null).await.expect(200);
}

/// RULE-AGT-061: a caller sets neither a card for themselves or their agency, nor their agency.
#[tokio::test]
async fn own_terms_are_not_set() {
    let (service, agent, agency) = (service(), guid(), guid());
    let own = service.caller(&claims_of(agent, &[COMMISSIONS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let (cards, entry) = (format!("{PLATFORM}/commission-rates"), format!("{PLATFORM}/agents/{agent}"));
    let card = |member: &str, id: uuid::Uuid| json!({member: id, "Rates": rates});
    own.put(&cards, card("AgencyCompanyId", agency)).await.expect(200);
    own.put(&entry, json!({"AgencyCompanyId": agency})).await.expect_problem(403, "AGENT_TERMS_OWN");
    decider(service).put(&entry, json!({"AgencyCompanyId": agency})).await.expect(200);
    own.put(&entry, json!({"AgencyCompanyId": null})).await.expect_problem(403, "AGENT_TERMS_OWN");
    for body in [
        card("AgentUserId", agent),
        with(card("AgentUserId", agent), "DeveloperCompanyId", guid().to_string()),
        card("AgencyCompanyId", agency),
        with(card("AgencyCompanyId", agency), "DeveloperCompanyId", guid().to_string()),
    ] {
        own.put(&cards, body.clone()).await.expect_problem(403, "AGENT_TERMS_OWN");
        decider(service).put(&cards, body).await.expect(200);
    }
    for body in [card("AgentUserId", guid()), card("DeveloperCompanyId", guid())] {
        own.put(&cards, body).await.expect(200);
    }
}

/// RULE-AGT-061: the former way to one's own money is closed.
///
/// A caller with the permissions for commissions and payouts gets no rate, and no payment.
#[tokio::test]
async fn caller_with_all_permissions_cannot_pay_themselves() {
    let (service, agent) = (service(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"AgentUserId": agent, "Rates": rates});
    own.put(&format!("{PLATFORM}/commission-rates"), card).await.expect_problem(403, "AGENT_TERMS_OWN");
    AccrualFixture::approved(agent, 100).write(service).await;
    let (_, payouts) = pay(service, run_body(&[agent])).await;
    let confirm = payout_path(&payouts[0], "confirm");
    own.post(&confirm, json!({})).await.expect_problem(403, "AGENT_PAYOUT_OWN");
}
