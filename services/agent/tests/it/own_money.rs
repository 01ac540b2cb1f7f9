//! Refusals of decisions and transitions that concern the caller's own money.

use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::approval_limit::release_path;
use crate::fixtures::{
    AccrualFixture, accrual, await_completion, decider, list_payouts, pay, payer, payout_path, run_body,
};
use crate::rows::{insert_accruals, insert_payout};
use crate::{
    CABINET, COMMISSIONS, Deal, PAYOUTS, PLATFORM, accruals_of, claims_of, each, id_of, in_days, rub,
    service, with,
};

const OPERATIONS: [(&str, &str); 4] =
    [("send", "InTransit"), ("cancel", "Cancelled"), ("confirm", "Paid"), ("fail", "Failed")];

/// RULE-AGT-061: a caller with every permission cannot change their own payout.
#[tokio::test]
async fn own_payout_change_is_refused() {
    let (service, agent) = (service(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    for (operation, status) in OPERATIONS {
        AccrualFixture::approved(agent, 100).write(service).await;
        // A run may pay the employee who started it. Another employee then changes that payout.
        let started = own.post(&format!("{PLATFORM}/payouts"), run_body(&[agent])).await.expect(201);
        await_completion(service, &started["Id"]).await;
        let payout = list_payouts(service, &started).await.remove(0);
        let body = if operation == "fail" { json!({"Reason": "x"}) } else { json!({}) };
        let path = payout_path(&payout, operation);
        own.post(&path, body.clone()).await.expect_problem(403, "AGENT_PAYOUT_OWN");
        let shown = own.get(&payout_path(&payout, "statement")).await.expect(200);
        assert_eq!(shown["Payout"], payout, "{operation}");
        let moved = payer(service).post(&path, body).await.expect(200);
        assert_eq!(moved["Status"], status);
    }
    let missing = format!("{PLATFORM}/payouts/{}/confirm", guid());
    own.post(&missing, json!({})).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
}

/// RULE-AGT-061: a caller cannot release, reject or reverse their own accrual.
#[tokio::test]
async fn own_accrual_decision_is_refused() {
    let (service, agent) = (service(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    let waiting = |_, row| with(row, "awaits_release", true);
    let unreleased = insert_accruals(agent, waiting, 1).await.remove(0);
    let (_, in_payout) = insert_payout(agent, |row| row).await;
    let (unreleased_id, in_payout) = (id_of(&unreleased["id"]), id_of(&in_payout["id"]));
    let before = accrual(service, agent, unreleased_id).await;
    let comment = json!({"Comment": "моё"});
    for (id, decision, body) in [
        (unreleased_id, "release", Value::Null),
        (unreleased_id, "reject", comment.clone()),
        (in_payout, "reverse", comment.clone()),
    ] {
        let path = format!("{PLATFORM}/commission-accruals/{id}/{decision}");
        own.post(&path, body).await.expect_problem(403, "AGENT_ACCRUAL_OWN");
    }
    assert_eq!(accrual(service, agent, unreleased_id).await, before);
    decider(service).post(&release_path(&json!({"Id": unreleased_id})), Value::Null).await.expect(200);
}

/// RULE-AGT-061: callers can set neither their own agency, nor a card for themselves or for their
/// agency.
#[tokio::test]
async fn own_terms_change_is_refused() {
    let (service, agent, agency) = (service(), guid(), guid());
    let own = service.caller(&claims_of(agent, &[COMMISSIONS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let (cards, entry) = (format!("{PLATFORM}/commission-rates"), format!("{PLATFORM}/agents/{agent}"));
    let card = |member: &str, id: uuid::Uuid| json!({member: id, "Rates": rates});
    // The caller does not belong to the agency yet.
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

/// RULE-AGT-061: a caller with the permissions for commissions and for payouts can neither set
/// their own rate nor confirm their own payout.
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

/// INV-AGT-9, RULE-AGT-061: an accrual at a rate that its agent set, and its corrections, await a
/// release by another employee.
#[tokio::test]
async fn accrual_at_the_agents_own_rate_awaits_its_release() {
    let (service, agent, developer) = (service(), guid(), guid());
    let own = service.caller(&claims_of(agent, &[CABINET, COMMISSIONS, PAYOUTS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    // The card covers every agent of the developer, and the caller is one of them.
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    own.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let [mut own_deal, mut other_deal] = [agent, guid()].map(|agent| Deal::new(agent, developer, rub(100)));
    for deal in [&mut own_deal, &mut other_deal] {
        deal.move_to("Sale", &in_days(-2)).await;
        deal.amount = rub(90);
        deal.move_to("Completed", &in_days(-1)).await;
    }
    let found = accruals_of(other_deal.id).await;
    assert_eq!(each(&found, "Status"), ["Approved", "Approved"]);
    let unreleased = accruals_of(own_deal.id).await;
    assert_eq!(each(&unreleased, "Status"), ["Pending", "Pending"]);
    assert_eq!(each(&unreleased, "AwaitsRelease"), [true, true]);
    own.post(&release_path(&unreleased[0]), Value::Null).await.expect_problem(403, "AGENT_ACCRUAL_OWN");
    decider(service).post(&release_path(&unreleased[0]), Value::Null).await.expect(200);
    assert_eq!(each(&accruals_of(own_deal.id).await, "Status"), ["Approved", "Approved"]);
}

/// INV-AGT-9, RULE-AGT-061: an unrated sale that the agent's own rate covers awaits a release.
#[tokio::test]
async fn unrated_sale_at_the_agents_own_rate_awaits_its_release() {
    let (service, agent, developer) = (service(), guid(), guid());
    let mut deal = Deal::new(agent, developer, rub(100));
    deal.move_to("Completed", &in_days(-1)).await;
    let own = service.caller(&claims_of(agent, &[COMMISSIONS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    own.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let unreleased = eventually("the accrual", async || accruals_of(deal.id).await.pop()).await;
    assert_eq!((&unreleased["Status"], &unreleased["AwaitsRelease"]), (&json!("Pending"), &json!(true)));
}
