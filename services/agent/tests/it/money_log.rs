//! The money log: who moved or decided money.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::approval_limit::release_path;
use crate::fixtures::{AccrualFixture, await_completion, list_payouts, pay_one, payout_path, run_body};
use crate::{
    CABINET, COMMISSIONS, Deal, MY, PAYOUT_STATUS_CHANGED, PAYOUTS, PLATFORM, accruals_of, await_published,
    claims_of, each, id_of, in_days, list, payouts, rub, service, text,
};

/// Returns the entries of a filter, oldest first.
async fn entries(filter: &str) -> Vec<Value> {
    let page = payouts().get(&format!("{PLATFORM}/money-log?PageSize=100&{filter}")).await.expect(200);
    let mut entries = list(&page["Items"]).to_vec();
    entries.reverse();
    entries
}

/// INV-AGT-10, RULE-AGT-064: each transition of a payout has its author in the row, the event and
/// the log.
#[tokio::test]
async fn payout_transitions_name_their_author() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 100).write(service).await;
    let [starter, sender, confirmer] = [guid(), guid(), guid()];
    let caller = |user: Uuid| service.caller(&claims_of(user, &[PAYOUTS]));
    let begun = caller(starter).post(&format!("{PLATFORM}/payouts"), run_body(&[agent])).await.expect(201);
    let run = await_completion(service, &begun["Id"]).await;
    let payout = list_payouts(service, &run).await.remove(0);
    caller(sender).post(&payout_path(&payout, "send"), json!({})).await.expect(200);
    caller(confirmer).post(&payout_path(&payout, "confirm"), json!({})).await.expect(200);
    // A repeated request changes nothing.
    caller(sender).post(&payout_path(&payout, "confirm"), json!({})).await.expect(200);

    let id = id_of(&payout["Id"]);
    let authors = [starter, sender, confirmer].map(|user| json!(user));
    let log = entries(&format!("SubjectId={id}")).await;
    assert_eq!(each(&log, "Action"), ["PayoutScheduled", "PayoutSent", "PayoutPaid"]);
    assert_eq!(each(&log, "ActorUserId"), authors.iter().collect::<Vec<_>>());
    for entry in &log {
        assert_eq!((&entry["AgentUserId"], &entry["Amount"]), (&json!(agent), &rub(100)), "{entry}");
    }
    assert!(log[1..].iter().all(|entry| text(&entry["TraceId"]).len() == 32), "{log:?}");
    let row = "select updated_by_user_id::text from payout where id = $1::text::uuid";
    let row = service.sql().await.query_one(row, &[&id.to_string()]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), confirmer.to_string());
    await_published(service).await;
    let events = service.bus().events(&id);
    assert!(events.iter().all(|event| event.topic == PAYOUT_STATUS_CHANGED));
    let published: Vec<_> = events.iter().map(|event| event.payload["ChangedByUserId"].clone()).collect();
    assert_eq!(published, authors);
    let log = entries(&format!("SubjectId={}", id_of(&run["Id"]))).await;
    assert_eq!(
        (each(&log, "Action"), each(&log, "ActorUserId")),
        (vec![&json!("PayoutRunStarted")], vec![&authors[0]])
    );
}

/// INV-AGT-10, RULE-AGT-064: a failure and a cancellation have their author in the event and the
/// log.
#[tokio::test]
async fn ended_payouts_name_their_author() {
    let service = service();
    for (operation, body, to) in
        [("fail", json!({"Reason": "счёт закрыт"}), "Failed"), ("cancel", json!({}), "Cancelled")]
    {
        let (agent, by) = (guid(), guid());
        let accrual = AccrualFixture::approved(agent, 100).write(service).await;
        let payout = pay_one(service, agent).await;
        let caller = service.caller(&claims_of(by, &[PAYOUTS]));
        caller.post(&payout_path(&payout, operation), body).await.expect(200);
        let id = id_of(&payout["Id"]);
        let last = entries(&format!("SubjectId={id}")).await.pop().unwrap();
        let expected = (json!(format!("Payout{to}")), json!(by));
        assert_eq!((&last["Action"], &last["ActorUserId"]), (&expected.0, &expected.1));
        let event = service.published(id).await.pop().unwrap().payload;
        assert_eq!((&event["To"], &event["ChangedByUserId"]), (&json!(to), &json!(by)));
        assert!(service.published(accrual.id).await.is_empty(), "the accrual stays Approved");
    }
}

/// INV-AGT-10, RULE-AGT-064: each change of an accrual and each decision is logged with its author.
#[tokio::test]
async fn accruals_and_decisions_are_logged() {
    let (service, agent, developer, by) = (service(), guid(), guid(), guid());
    let decider = service.caller(&claims_of(by, &[COMMISSIONS]));
    let rates = json!([
        {"RateBps": 100, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": "2001-01-01T00:00:00Z"},
        {"RateBps": 50, "ValidFrom": "2001-01-01T00:00:00Z", "ValidTo": null},
    ]);
    let card = json!({"AgentUserId": agent, "Rates": rates});
    let card = decider.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let entry = format!("{PLATFORM}/agents/{agent}");
    decider.put(&entry, json!({"AgencyCompanyId": guid()})).await.expect(200);
    let mut deal = Deal::new(agent, developer, rub(1_000_000_000_000));
    deal.move_to("Sale", &in_days(-2)).await;
    let base = accruals_of(deal.id).await.remove(0);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let own = service.caller(&claims_of(agent, &[CABINET]));
    let body = json!({"Reason": "Other", "RequestedAmount": rub(6_000_000_000_i64), "Comment": "мало"});
    let request = own.post(&path, body).await.expect(201);
    let decide = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    decider.post(&decide, json!({})).await.expect(200);
    deal.move_to("Completed", &in_days(-1)).await;
    decider.post(&release_path(&base), Value::Null).await.expect(200);

    let log = entries(&format!("AgentUserId={agent}")).await;
    let found: Vec<_> = log.iter().map(|entry| (text(&entry["Action"]), &entry["ActorUserId"])).collect();
    let (by, seller) = (json!(by), json!(deal.changed_by));
    for expected in [
        ("RateCardReplaced", &by),
        ("AgentReplaced", &by),
        ("AccrualCreated", &seller),
        ("AccrualCreated", &by),
        ("AdjustmentApproved", &by),
        ("AccrualHeld", &seller),
        ("AccrualReleased", &by),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    }
    let of = |action: &str| log.iter().find(|entry| entry["Action"] == action).unwrap();
    // The log has the highest rate of a card.
    let replaced = of("RateCardReplaced");
    assert_eq!((&replaced["SubjectId"], &replaced["RateBps"]), (&card["Id"], &json!(100)));
    assert_eq!(of("AdjustmentApproved")["Amount"], rub(6_000_000_000));
    assert_eq!(of("AdjustmentApproved")["SubjectId"], request["Id"]);
    assert_eq!(of("AccrualReleased")["Amount"], rub(5_000_000_000));
    let own = entries(&format!("ActorUserId={}", text(&by))).await;
    assert_eq!(own.len(), log.iter().filter(|entry| entry["ActorUserId"] == by).count());
}

/// RULE-AGT-064: a walk returns each entry once, newest first.
#[tokio::test]
async fn log_is_walked_by_cursors() {
    let (service, agent) = (service(), guid());
    let decider = service.caller(&claims_of(guid(), &[COMMISSIONS]));
    for _ in 0..5 {
        let body = json!({"AgencyCompanyId": guid()});
        decider.put(&format!("{PLATFORM}/agents/{agent}"), body).await.expect(200);
    }
    let all = entries(&format!("AgentUserId={agent}")).await;
    assert_eq!(all.len(), 5);
    let (mut walked, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{PLATFORM}/money-log?AgentUserId={agent}&PageSize=2{cursor}");
        let page = decider.get(&path).await.expect(200);
        walked.extend_from_slice(list(&page["Items"]));
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    walked.reverse();
    assert_eq!(walked, all);
    let invalid = decider.get(&format!("{PLATFORM}/money-log?SubjectId=x&Cursor=x")).await;
    invalid.expect_problem(400, "VALIDATION_FAILED");
}

/// INV-AGT-10: the database refuses each change of the log.
#[tokio::test]
async fn money_log_is_append_only() {
    let (service, agent) = (service(), guid());
    let decider = service.caller(&claims_of(guid(), &[COMMISSIONS]));
    let body = json!({"AgencyCompanyId": guid()});
    decider.put(&format!("{PLATFORM}/agents/{agent}"), body).await.expect(200);
    let sql = service.sql().await;
    for change in ["update money_log set actor_user_id = null", "delete from money_log", "truncate money_log"]
    {
        let error = sql.execute(change, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "23001", "{change}");
    }
}
