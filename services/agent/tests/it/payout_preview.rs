//! Previews of payout runs.

use serde_json::{Value, json};
use testkit::guid;
use time::Duration;
use uuid::Uuid;

use crate::fixtures::{AccrualFixture, ago, list_payouts, now, pay, pay_one, payer, payout_path, run_body};
use crate::{PLATFORM, each, list, money, rub, service, with, without};

fn preview_path() -> String {
    format!("{PLATFORM}/payouts/preview")
}

async fn items(body: Value) -> Vec<Value> {
    let page = payer(service()).post(&preview_path(), body).await.expect(200);
    assert_eq!(page["NextCursor"], Value::Null);
    list(&page["Items"]).to_vec()
}

/// Holds a deal, as another topic with a newer version does.
async fn hold(deal: Uuid) {
    let hold = "update deal set known_row_version = 9, held_since = now() where id = $1::text::uuid";
    service().sql().await.execute(hold, &[&deal.to_string()]).await.unwrap();
}

/// RULE-AGT-063: a preview shows the payouts that a later run creates, and changes nothing.
#[tokio::test]
async fn preview_equals_the_run() {
    let service = service();
    let agents = [guid(), guid(), guid(), guid()];
    let [mixed, balanced, late, held] = agents;
    for amount in [70, -20, 105] {
        AccrualFixture::approved(mixed, amount).write(service).await;
    }
    AccrualFixture::approved(mixed, 9).in_currency("USD").write(service).await;
    AccrualFixture::approved(balanced, 10).write(service).await;
    AccrualFixture::approved(balanced, -10).write(service).await;
    AccrualFixture::approved(late, 10).approved_at(now() + Duration::hours(1)).write(service).await;
    AccrualFixture::approved(late, 4).pending().write(service).await;
    let stored = AccrualFixture::approved(held, 10).write(service).await;
    hold(stored.deal).await;

    let body = with(run_body(&agents), "WithholdingBps", 1_300);
    let shown = items(body.clone()).await;
    assert_eq!(items(body.clone()).await, shown, "a preview changes nothing");
    let (run, _) = pay(service, body).await;
    let payouts = list_payouts(service, &run).await;
    assert_eq!(each(&payouts, "Gross"), [&rub(155), &money(9, "USD")]);
    for member in ["AgentUserId", "Gross", "Withheld", "Net", "AccrualsCount"] {
        assert_eq!(each(&shown, member), each(&payouts, member), "{member}");
    }
    assert_eq!(each(&shown, "IsFirstPayment"), [&json!(true), &json!(true)]);
    assert_eq!(each(&shown, "DeviationPercent"), [&Value::Null, &Value::Null]);
    assert_eq!(items(run_body(&agents)).await, [] as [Value; 0], "all is in a payout");
}

/// RULE-AGT-063: a preview compares with the mean of the paid payouts of the same currency.
#[tokio::test]
async fn preview_shows_first_payments_and_deviations() {
    let (service, agent) = (service(), guid());
    let shown = async || {
        let shown = items(run_body(&[agent])).await;
        let [shown] = &shown[..] else { panic!("{shown:?}") };
        (shown["IsFirstPayment"].clone(), shown["DeviationPercent"].clone())
    };
    for (amount, is_first, deviation, operation) in [
        (100, true, Value::Null, "fail"),
        // The accrual of the failed payout is paid with this one.
        (0, true, Value::Null, "confirm"),
        (75, false, json!(-25), "confirm"),
        (175, false, json!(100), "cancel"),
    ] {
        AccrualFixture::approved(agent, amount).write(service).await;
        assert_eq!(shown().await, (json!(is_first), deviation.clone()), "{operation} {deviation}");
        let payout = pay_one(service, agent).await;
        let body = if operation == "fail" { json!({"Reason": "x"}) } else { json!({}) };
        payer(service).post(&payout_path(&payout, operation), body).await.expect(200);
    }
    AccrualFixture::approved(agent, 5).in_currency("USD").write(service).await;
    let shown = items(run_body(&[agent])).await;
    let dollars = shown.iter().find(|item| item["Gross"]["Currency"] == "USD").unwrap();
    assert_eq!((&dollars["IsFirstPayment"], &dollars["DeviationPercent"]), (&json!(false), &Value::Null));
}

/// RULE-AGT-063: a preview is walked by cursors, in the order in which the run pays.
#[tokio::test]
async fn preview_is_walked_by_cursors() {
    let service = service();
    let mut agents: Vec<Uuid> = std::iter::repeat_with(guid).take(5).collect();
    for agent in &agents {
        AccrualFixture::approved(*agent, 10).write(service).await;
    }
    agents.sort();
    let (mut walked, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{}?PageSize=2{cursor}", preview_path());
        let page = payer(service).post(&path, run_body(&agents)).await.expect(200);
        walked.extend(list(&page["Items"]).iter().map(|item| crate::id_of(&item["AgentUserId"])));
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    assert_eq!(walked, agents);
}

/// RULE-AGT-063: a payout in a preview has at most the configured number of lines, and a sum within
/// 64 bits.
#[tokio::test]
async fn preview_keeps_the_limits_of_a_payout() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, i64::MAX).approved_at(ago(Duration::days(2))).write(service).await;
    // The held debt keeps the account within 64 bits, and is not part of the payable sum.
    let debt = AccrualFixture::approved(agent, -i64::MAX).write(service).await;
    hold(debt.deal).await;
    AccrualFixture::approved(agent, 5).write(service).await;
    let shown = items(run_body(&[agent])).await;
    assert_eq!((&shown[0]["Gross"], &shown[0]["AccrualsCount"]), (&rub(i64::MAX), &json!(1)));
    let payout = pay_one(service, agent).await;
    assert_eq!(
        (&shown[0]["Gross"], &shown[0]["AccrualsCount"]),
        (&payout["Gross"], &payout["AccrualsCount"])
    );
    let service = crate::start(&[("AGENT_PAYOUT_MAX_LINES", "2")]);
    AccrualFixture::approved(agent, 10).write_all(&service, 3).await;
    let page = payer(&service).post(&preview_path(), run_body(&[agent])).await.expect(200);
    let shown = list(&page["Items"]);
    assert_eq!((&shown[0]["Gross"], &shown[0]["AccrualsCount"]), (&rub(20), &json!(2)));
}

/// RULE-AGT-063: a preview validates the members of a run, and needs no key.
#[tokio::test]
async fn invalid_preview_is_refused() {
    let payer = payer(service());
    let body = without(run_body(&[guid()]), "RunKey");
    payer.post(&preview_path(), body.clone()).await.expect(200);
    payer.post(&preview_path(), without(body.clone(), "AgentUserIds")).await.expect(200);
    let twice = guid();
    for (member, value, field, code) in [
        ("PeriodFrom", body["PeriodTo"].clone(), "/PeriodTo", "empty_range"),
        ("PeriodTo", json!("2999-01-01T00:00:00Z"), "/PeriodTo", "out_of_bounds"),
        ("AgentUserIds", json!([twice, twice]), "/AgentUserIds/1", "duplicate"),
        ("WithholdingBps", json!(10_001), "/WithholdingBps", "out_of_range"),
    ] {
        let response = payer.post(&preview_path(), with(body.clone(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", field, code);
    }
    let response = payer.post(&format!("{}?Cursor=x", preview_path()), body).await;
    response.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
}
