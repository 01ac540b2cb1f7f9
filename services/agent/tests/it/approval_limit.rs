//! Accruals above the limit of automatic approval. They await a release.

use serde_json::{Value, json};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

use crate::fixtures::{AccrualFixture, cabinet, decider, pay, run_body};
use crate::{
    ACCRUAL_CHANGED, Deal, PLATFORM, accruals_of, await_published, commissions, each, id_of, in_days, list,
    money, rub, service, set_rate, start, with,
};

/// The default of `AGENT_AUTO_APPROVE_LIMIT`.
const LIMIT: i64 = 1_000_000_000;

pub fn release_path(accrual: &Value) -> String {
    format!("{PLATFORM}/commission-accruals/{}/release", text(&accrual["Id"]))
}

/// Creates a sale of `amount` at a rate of 100 %, and completes it with the amount `completed`.
async fn complete(agent: Uuid, amount: i64, completed: i64) -> Deal {
    let developer = guid();
    set_rate(developer, 10_000).await;
    let mut deal = Deal::new(agent, developer, rub(amount));
    deal.move_to("Sale", &in_days(-2)).await;
    deal.amount = rub(completed);
    deal.move_to("Completed", &in_days(-1)).await;
    deal
}

/// Returns the kind, status, `AwaitsRelease` and amount of each accrual.
fn lines(accruals: &[Value]) -> Vec<(&str, &str, bool, i64)> {
    accruals
        .iter()
        .map(|accrual| {
            (
                text(&accrual["Kind"]),
                text(&accrual["Status"]),
                accrual["AwaitsRelease"].as_bool().unwrap(),
                accrual["Amount"]["AmountMinor"].as_i64().unwrap(),
            )
        })
        .collect()
}

/// INV-AGT-9, RULE-AGT-058: a completed sale above the limit pays nothing before its release.
#[tokio::test]
async fn accrual_above_the_limit_awaits_its_release() {
    let (service, agent) = (service(), guid());
    let deal = complete(agent, LIMIT + 1, LIMIT + 1).await;
    let unreleased = accruals_of(deal.id).await.remove(0);
    assert_eq!(lines(std::slice::from_ref(&unreleased)), [("Base", "Pending", true, LIMIT + 1)]);
    assert_eq!(unreleased["ApprovedAt"], Value::Null);
    let (_, payouts) = pay(service, run_body(&[agent])).await;
    assert_eq!(payouts.len(), 0, "{payouts:?}");

    let by = guid();
    let decider = service.caller(&crate::claims_of(by, &[crate::COMMISSIONS]));
    let released = decider.post(&release_path(&unreleased), Value::Null).await.expect(200);
    assert_eq!(lines(std::slice::from_ref(&released)), [("Base", "Approved", false, LIMIT + 1)]);
    assert!(text(&released["ApprovedAt"]) > in_days(-1).as_str());
    assert_eq!(
        commissions().post(&release_path(&unreleased), Value::Null).await.expect(200),
        released,
        "a repeat"
    );

    await_published(service).await;
    let events = service.bus().events(&id_of(&unreleased["Id"]));
    let of = |member: &str| events.iter().map(|event| event.payload[member].clone()).collect::<Vec<_>>();
    assert!(events.iter().all(|event| event.topic == ACCRUAL_CHANGED));
    assert_eq!(of("To"), ["Pending", "Approved"]);
    assert_eq!(of("ChangedByUserId"), [json!(deal.changed_by), json!(by)]);
    let (_, payouts) = pay(service, run_body(&[agent])).await;
    assert_eq!(each(&payouts, "Gross"), [&rub(LIMIT + 1)]);
}

/// INV-AGT-9, RULE-AGT-058: an accrual of exactly the limit is approved by the completion.
#[tokio::test]
async fn accrual_at_the_limit_is_approved() {
    let deal = complete(guid(), LIMIT, LIMIT).await;
    let accruals = accruals_of(deal.id).await;
    assert_eq!(lines(&accruals), [("Base", "Approved", false, LIMIT)]);
    let response = commissions().post(&release_path(&accruals[0]), Value::Null).await;
    response.expect_problem(409, "AGENT_ACCRUAL_NOT_RELEASABLE");
}

/// INV-AGT-9, RULE-AGT-058: a Correction awaits a release if its Base does, or if it
/// exceeds the limit alone or with its Base.
#[tokio::test]
async fn correction_beyond_the_limit_awaits_its_release() {
    for (amount, completed, expected) in [
        // The Base is above the limit, so its negative Correction waits, too.
        (LIMIT + 5, LIMIT, [("Base", "Pending", true, LIMIT + 5), ("Correction", "Pending", true, -5)]),
        // The Correction alone is above the limit.
        (10, 2 * LIMIT, [("Base", "Approved", false, 10), ("Correction", "Pending", true, 2 * LIMIT - 10)]),
        // Neither is above the limit, but their sum is.
        (LIMIT, LIMIT + 1, [("Base", "Approved", false, LIMIT), ("Correction", "Pending", true, 1)]),
        (10, 4, [("Base", "Approved", false, 10), ("Correction", "Approved", false, -6)]),
    ] {
        let deal = complete(guid(), amount, completed).await;
        let accruals = accruals_of(deal.id).await;
        assert_eq!(lines(&accruals), expected);
        let Some(waiting) = accruals.iter().find(|accrual| accrual["AwaitsRelease"] == true) else {
            continue;
        };
        commissions().post(&release_path(waiting), Value::Null).await.expect(200);
        let accruals = accruals_of(deal.id).await;
        assert!(accruals.iter().all(|accrual| accrual["Status"] == "Approved"), "{accruals:?}");
    }
}

/// RULE-AGT-058: the list finds the accruals that await their release.
#[tokio::test]
async fn list_filters_accruals_that_await_their_release() {
    let agent = guid();
    let unreleased = complete(agent, LIMIT + 1, LIMIT + 1).await;
    let approved = complete(agent, 10, 10).await;
    for (filter, deal) in [("true", unreleased.id), ("false", approved.id)] {
        let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&AwaitsRelease={filter}");
        let page = commissions().get(&path).await.expect(200);
        assert_eq!(each(list(&page["Items"]), "DealId"), [&json!(deal)]);
        let path = format!("/api/v1/my/commission-accruals?AwaitsRelease={filter}");
        let page = cabinet(service(), agent).get(&path).await.expect(200);
        assert_eq!(page["TotalCount"], 1);
    }
    let path = format!("{PLATFORM}/commission-accruals?AwaitsRelease=yes");
    commissions().get(&path).await.expect_refusal("VALIDATION_FAILED", "/AwaitsRelease", "invalid_type");
}

/// RULE-AGT-059: only an accrual that awaits its release can be released.
#[tokio::test]
async fn accrual_that_awaits_no_release_is_not_releasable() {
    let (service, agent) = (service(), guid());
    let pending = AccrualFixture::approved(agent, 2 * LIMIT).pending().write(service).await;
    let approved = AccrualFixture::approved(agent, 2 * LIMIT).write(service).await;
    for id in [pending.id, approved.id] {
        let path = release_path(&json!({"Id": id}));
        let response = decider(service).post(&path, Value::Null).await;
        response.expect_problem(409, "AGENT_ACCRUAL_NOT_RELEASABLE");
    }
    let mut deal = complete(agent, LIMIT + 1, LIMIT + 1).await;
    let unreleased = accruals_of(deal.id).await.remove(0);
    deal.move_to("Cancelled", &in_days(0)).await;
    let reversed = accruals_of(deal.id).await.remove(0);
    assert_eq!(lines(std::slice::from_ref(&reversed)), [("Base", "Reversed", false, LIMIT + 1)]);
    let response = decider(service).post(&release_path(&unreleased), Value::Null).await;
    response.expect_problem(409, "AGENT_ACCRUAL_NOT_RELEASABLE");
    for id in [guid(), Uuid::nil()] {
        let response = decider(service).post(&release_path(&json!({"Id": id})), Value::Null).await;
        response.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    }
}

/// RULE-AGT-058: the platform may reject an accrual that awaits its release.
#[tokio::test]
async fn unreleased_accrual_is_rejected() {
    let deal = complete(guid(), LIMIT + 1, LIMIT + 1).await;
    let unreleased = accruals_of(deal.id).await.remove(0);
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", text(&unreleased["Id"]));
    let rejected = commissions().post(&path, json!({"Comment": "мошенничество"})).await.expect(200);
    assert_eq!(lines(std::slice::from_ref(&rejected)), [("Base", "Rejected", false, LIMIT + 1)]);
}

/// RULE-AGT-058: a granted accrual needs no release, because an employee decided its amount.
#[tokio::test]
async fn grant_above_the_limit_needs_no_release() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(5 * LIMIT));
    deal.move_to("Sale", &in_days(-2)).await;
    let base = accruals_of(deal.id).await.remove(0);
    let path = format!("/api/v1/my/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "MissingBonus", "RequestedAmount": rub(3 * LIMIT), "Comment": "мало"});
    let request = cabinet(service(), agent).post(&path, body).await.expect(201);
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    deal.move_to("Completed", &in_days(-1)).await;
    let accruals = accruals_of(deal.id).await;
    let granted = 5 * LIMIT / 2;
    let expected = [("Base", "Approved", false, LIMIT / 2), ("Bonus", "Approved", false, granted)];
    assert_eq!(lines(&accruals), expected);
}

/// RULE-AGT-058: a granted accrual whose Base awaits a release awaits the release, too.
#[tokio::test]
async fn grant_beside_an_unreleased_accrual_is_released_with_it() {
    let agent = guid();
    let deal = complete(agent, 2 * LIMIT, 2 * LIMIT).await;
    let base = accruals_of(deal.id).await.remove(0);
    let path = format!("/api/v1/my/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "WrongAmount", "RequestedAmount": rub(LIMIT), "Comment": "много"});
    let request = cabinet(service(), agent).post(&path, body).await.expect(201);
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    let lower = ("Correction", "Pending", true, -LIMIT);
    assert_eq!(lines(&accruals_of(deal.id).await), [("Base", "Pending", true, 2 * LIMIT), lower]);
    commissions().post(&release_path(&base), Value::Null).await.expect(200);
    let lower = ("Correction", "Approved", false, -LIMIT);
    assert_eq!(lines(&accruals_of(deal.id).await), [("Base", "Approved", false, 2 * LIMIT), lower]);
}

/// RULE-AGT-009, RULE-AGT-058: the limit is a setting and also applies to unrated deals.
#[tokio::test]
async fn limit_is_a_setting_and_applies_to_unrated_deals() {
    let service: Running = start(&[("AGENT_AUTO_APPROVE_LIMIT", "99")]);
    let (developer, agent) = (guid(), guid());
    let mut deals = [99, 100].map(|amount| Deal::new(agent, developer, money(amount, "USD")));
    for deal in &mut deals {
        let completed = deal.stage_changed("Completed", &in_days(-1));
        crate::deliver(&service, crate::STAGE_CHANGED, &completed).await;
    }
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = with(json!({"Rates": rates}), "DeveloperCompanyId", developer.to_string());
    decider(&service).put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&Sort=Amount");
    let accruals = eventually("both accruals", async || {
        let page = decider(&service).get(&path).await.expect(200);
        // `TotalCount` is counted a moment later than the items are read.
        let items = list(&page["Items"]).to_vec();
        (items.len() == 2).then_some(items)
    })
    .await;
    assert_eq!(lines(&accruals), [("Base", "Approved", false, 99), ("Base", "Pending", true, 100)]);
}
