//! Bonuses that one employee proposes and another one decides.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;
use testkit::held::HeldLocks;
use uuid::Uuid;

use crate::approval_races;
use crate::fixtures::{AccrualFixture, StoredAccrual, accrual, balance, cabinet, decider, pay_one, payer};
use crate::{
    COMMISSIONS, Deal, MY, PLATFORM, STAGE_CHANGED, accruals_of, await_published, claims_of, deliver, each,
    id_of, in_days, list, money, rub, service, set_rate, with, without,
};

fn proposals_path(accrual: Uuid) -> String {
    format!("{PLATFORM}/commission-accruals/{accrual}/bonus-proposals")
}

fn decision_path(proposal: &Value, decision: &str) -> String {
    format!("{PLATFORM}/bonus-proposals/{}/{decision}", id_of(&proposal["Id"]))
}

fn bonus(amount: i64) -> Value {
    json!({"Amount": rub(amount), "Reason": " сложная продажа "})
}

/// An Approved Base of 100 for a deal of 1,000, and an employee who proposes a bonus.
struct Case {
    agent: Uuid,
    base: StoredAccrual,
    proposer: Uuid,
    by: Client,
}

impl Case {
    async fn start() -> Self {
        let (agent, proposer) = (guid(), guid());
        let base = AccrualFixture::approved(agent, 100).write(service()).await;
        Self { agent, base, proposer, by: service().caller(&claims_of(proposer, &[COMMISSIONS])) }
    }

    async fn propose(&self, amount: i64) -> Value {
        self.by.post(&proposals_path(self.base.id), bonus(amount)).await.expect(201)
    }

    async fn total(&self) -> Value {
        balance(service(), self.agent, "RUB").await["Total"].clone()
    }

    async fn listed(&self) -> Vec<Value> {
        let path = format!("{PLATFORM}/bonus-proposals?AgentUserId={}", self.agent);
        list(&self.by.get(&path).await.expect(200)["Items"]).to_vec()
    }
}

/// RULE-AGT-074: a proposal creates no accrual. The approval by another employee creates the
/// accrual, which the statement shows in both formats.
#[tokio::test]
async fn approved_bonus_has_an_accrual_in_the_statement() {
    let (case, decider) = (Case::start().await, guid());
    let proposed = case.propose(70).await;
    let expected = json!({
        "AccrualId": case.base.id, "AgentUserId": case.agent, "Amount": rub(70), "Reason": "сложная продажа",
        "Status": "Open", "DecisionComment": null, "ResultAccrualId": null, "DecidedAt": null, "Version": 1,
    });
    assert_eq!(without(without(proposed.clone(), "Id"), "CreatedAt"), expected);
    assert_eq!(case.total().await, 100);
    assert_eq!(case.listed().await, std::slice::from_ref(&proposed));
    let caller = service().caller(&claims_of(decider, &[COMMISSIONS]));
    let path = decision_path(&proposed, "approve");
    let approved = caller.post(&path, json!({"Comment": "  "})).await.expect(200);
    assert_eq!((&approved["Status"], &approved["DecisionComment"]), (&json!("Approved"), &Value::Null));
    assert_eq!(case.listed().await, std::slice::from_ref(&approved));
    let id = id_of(&approved["ResultAccrualId"]);
    let shown = accrual(service(), case.agent, id).await;
    assert_eq!(
        (&shown["Kind"], &shown["Status"], &shown["Amount"]),
        (&json!("Bonus"), &json!("Approved"), &rub(70))
    );
    assert_eq!(shown["AdjustsAccrualId"], json!(case.base.id));
    assert_eq!(case.total().await, 170);

    let payout = pay_one(service(), case.agent).await;
    assert_eq!((&payout["Gross"], &payout["AccrualsCount"]), (&rub(170), &json!(2)));
    let statement = format!("{MY}/payouts/{}/statement", id_of(&payout["Id"]));
    let agent = cabinet(service(), case.agent);
    let lines = agent.get(&statement).await.expect(200);
    assert_eq!(each(list(&lines["Lines"]), "Kind"), ["Base", "Bonus"]);
    let csv = agent.get(&format!("{statement}?Format=Csv")).await;
    assert!(
        csv.text.contains(&format!("{id},")) && csv.text.contains(",Bonus,1000,1000,70,RUB,"),
        "{}",
        csv.text
    );

    await_published(service()).await;
    let event = service().bus().events(&id).remove(0).payload;
    assert_eq!(
        (&event["From"], &event["To"], &event["Kind"]),
        (&Value::Null, &json!("Approved"), &json!("Bonus"))
    );
    assert_eq!(event["ChangedByUserId"], json!(decider));
    let log =
        payer(service()).get(&format!("{PLATFORM}/money-log?AgentUserId={}", case.agent)).await.expect(200);
    let of_bonus = list(&log["Items"]).iter().filter(|entry| entry["SubjectId"] == proposed["Id"]);
    let of_bonus: Vec<_> =
        of_bonus.map(|entry| (&entry["Action"], &entry["ActorUserId"], &entry["Amount"])).collect();
    let expected = [("BonusApproved", decider), ("BonusProposed", case.proposer)];
    let expected = expected.map(|(action, user)| (json!(action), json!(user)));
    let expected: Vec<_> = expected.iter().map(|(action, user)| (action, user, &shown["Amount"])).collect();
    assert_eq!(of_bonus, expected);
}

/// RULE-AGT-075, INV-AGT-12: callers cannot propose or decide their own bonus, and cannot decide a
/// bonus that they proposed.
#[tokio::test]
async fn bonus_needs_two_employees_beside_its_agent() {
    let case = Case::start().await;
    let own = service().caller(&claims_of(case.agent, &[COMMISSIONS]));
    own.post(&proposals_path(case.base.id), bonus(1)).await.expect_problem(403, "AGENT_BONUS_OWN");
    let proposed = case.propose(1).await;
    for (decision, body) in [("approve", json!({})), ("reject", json!({"Comment": "нет"}))] {
        let path = decision_path(&proposed, decision);
        own.post(&path, body.clone()).await.expect_problem(403, "AGENT_BONUS_OWN");
        case.by.post(&path, body).await.expect_problem(403, "AGENT_BONUS_SECOND_PERSON");
    }
    assert_eq!((case.total().await, case.listed().await), (json!(100), vec![proposed]));
}

/// RULE-AGT-074: a rejected bonus creates no accrual, and a decision is final.
#[tokio::test]
async fn rejected_bonus_has_no_accrual() {
    let (case, other) = (Case::start().await, decider(service()));
    let proposed = case.propose(70).await;
    let reject = decision_path(&proposed, "reject");
    for body in [json!({}), json!({"Comment": " "}), json!({"Comment": "x".repeat(2_001)})] {
        other.post(&reject, body).await.expect_problem(400, "VALIDATION_FAILED");
    }
    let rejected = other.post(&reject, json!({"Comment": " нет "})).await.expect(200);
    assert_eq!((&rejected["Status"], &rejected["DecisionComment"]), (&json!("Rejected"), &json!("нет")));
    assert!(rejected["DecidedAt"].is_string() && rejected["ResultAccrualId"].is_null());
    for decision in ["approve", "reject"] {
        let path = decision_path(&proposed, decision);
        let response = other.post(&path, json!({"Comment": "да"})).await;
        response.expect_problem(409, "AGENT_BONUS_ALREADY_DECIDED");
        let unknown = decision_path(&json!({"Id": guid()}), decision);
        other.post(&unknown, json!({"Comment": "да"})).await.expect_problem(404, "AGENT_BONUS_NOT_FOUND");
    }
    assert_eq!(case.total().await, 100);
    for (filter, count) in [("Status=Open", 0), ("Status=Rejected,Approved", 1), ("AccrualId=", 1)] {
        let id = if filter == "AccrualId=" { case.base.id.to_string() } else { String::new() };
        let path = format!("{PLATFORM}/bonus-proposals?AgentUserId={}&{filter}{id}", case.agent);
        assert_eq!(other.get(&path).await.expect(200)["TotalCount"], count, "{filter}");
    }
}

/// RULE-AGT-076: a bonus is positive, has the accrual's currency and is at most the limit. The sum
/// of the sale must satisfy INV-AGT-4.
#[tokio::test]
async fn bonus_beyond_a_limit_is_refused() {
    let (case, other) = (Case::start().await, decider(service()));
    let path = proposals_path(case.base.id);
    for amount in [0, -1] {
        let response = case.by.post(&path, bonus(amount)).await;
        response.expect_refusal("VALIDATION_FAILED", "/Amount/AmountMinor", "out_of_range");
    }
    // The Base and a bonus of 901 exceed the deal's 1,000.
    for amount in [rub(901), money(1, "USD"), rub(i64::MAX)] {
        let response = case.by.post(&path, with(bonus(1), "Amount", amount)).await;
        response.expect_problem(422, "AGENT_BONUS_AMOUNT_INVALID");
    }
    let [first, second] = [case.propose(900).await, case.propose(1).await];
    other.post(&decision_path(&first, "approve"), json!({})).await.expect(200);
    let response = other.post(&decision_path(&second, "approve"), json!({})).await;
    response.expect_problem(422, "AGENT_BONUS_AMOUNT_INVALID");

    // The default of `AGENT_BONUS_LIMIT` is 100,000,000.
    let large = AccrualFixture::approved(guid(), 1_000_000_000).write(service()).await;
    let path = proposals_path(large.id);
    case.by.post(&path, bonus(100_000_001)).await.expect_problem(422, "AGENT_BONUS_AMOUNT_INVALID");
    case.by.post(&path, bonus(100_000_000)).await.expect(201);
}

/// RULE-AGT-076: only the Base of a completed sale that is not undone gets a bonus.
#[tokio::test]
async fn bonus_needs_the_base_of_a_completed_sale() {
    let (case, by) = (Case::start().await, decider(service()));
    let unknown = by.post(&proposals_path(guid()), bonus(1)).await;
    unknown.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
    let pending = AccrualFixture::approved(guid(), 100).pending().write(service()).await;
    let adjustment = AccrualFixture::approved(case.agent, 5).adjusting(case.base).write(service()).await;
    for accrual in [pending, adjustment] {
        by.post(&proposals_path(accrual.id), bonus(1)).await.expect_problem(409, "AGENT_BONUS_NOT_ALLOWED");
    }
    let proposed = case.propose(1).await;
    let payout = pay_one(service(), case.agent).await;
    payer(service()).post(&crate::fixtures::payout_path(&payout, "confirm"), json!({})).await.expect(200);
    by.post(&decision_path(&proposed, "approve"), json!({})).await.expect(200);
    let open = case.propose(1).await;
    let reverse = format!("{PLATFORM}/commission-accruals/{}/reverse", case.base.id);
    by.post(&reverse, json!({"Comment": "отмена"})).await.expect(200);
    let listed = case.listed().await;
    let closed = listed.iter().find(|proposal| proposal["Id"] == open["Id"]).unwrap();
    assert_eq!((&closed["Status"], &closed["DecisionComment"]), (&json!("Rejected"), &Value::Null));
    let response = by.post(&proposals_path(case.base.id), bonus(1)).await;
    response.expect_problem(409, "AGENT_BONUS_NOT_ALLOWED");
    assert_eq!(case.total().await, 0);
}

/// RULE-AGT-077: the end of a sale undoes an approved bonus, and closes a proposal that is still
/// open.
#[tokio::test]
async fn end_of_a_sale_undoes_its_bonus() {
    let service = approval_races::service();
    for approval_first in [true, false] {
        let (agent, developer) = (guid(), guid());
        let rates = json!([{"RateBps": 1_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
        let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
        decider(service).put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
        let mut deal = Deal::new(agent, developer, rub(1_000));
        for (status, days) in [("Sale", -3), ("Completed", -2)] {
            let change = deal.stage_changed(status, &in_days(days));
            deliver(service, STAGE_CHANGED, &change).await;
        }
        let by = decider(service);
        let accruals = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}");
        let base = by.get(&accruals).await.expect(200)["Items"][0].clone();
        let proposed = by.post(&proposals_path(id_of(&base["Id"])), bonus(70)).await.expect(201);
        let cancelled = deal.stage_changed("Cancelled", &in_days(-1));
        let (other, path) = (decider(service), decision_path(&proposed, "approve"));
        let lock = format!("select from deal where id = '{}' for update", deal.id);
        let held = HeldLocks::lock(service, &lock).await;
        let (end, approve) = (deliver(service, STAGE_CHANGED, &cancelled), other.post(&path, json!({})));
        let statuses = if approval_first {
            let (response, ()) = held.queue(HeldLocks::ANY, approve, end).await;
            response.expect(200);
            vec!["Reversed", "Reversed"]
        } else {
            let ((), response) = held.queue(HeldLocks::ANY, end, approve).await;
            response.expect_problem(409, "AGENT_BONUS_ALREADY_DECIDED");
            vec!["Reversed"]
        };
        let shown = by.get(&accruals).await.expect(200);
        assert_eq!(each(list(&shown["Items"]), "Status"), statuses);
        assert_eq!(balance(service, agent, "RUB").await["Total"], 0);
    }
}

/// RULE-AGT-077: only one of several parallel decisions succeeds.
#[tokio::test]
async fn parallel_decisions_about_a_bonus_have_one_effect() {
    let case = Case::start().await;
    let proposed = case.propose(70).await;
    let callers: Vec<_> = std::iter::repeat_with(|| decider(service())).take(8).collect();
    let [approve, reject] = ["approve", "reject"].map(|decision| decision_path(&proposed, decision));
    let requests = callers.iter().enumerate();
    let requests = requests.map(|(at, caller)| {
        caller.post(if at % 2 == 0 { &approve } else { &reject }, json!({"Comment": "решено"}))
    });
    let responses = join_all(requests).await;
    let (decided, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    let [decision] = &decided[..] else { panic!("one decision: {decided:?}") };
    for response in refused {
        response.expect_problem(409, "AGENT_BONUS_ALREADY_DECIDED");
    }
    let is_approved = decision.body["Status"] == "Approved";
    assert_eq!(case.total().await, if is_approved { 170 } else { 100 });
}

/// RULE-AGT-074: a request for another whole amount counts the bonus.
#[tokio::test]
async fn adjustment_counts_the_bonus_in_the_whole_amount() {
    let (agent, developer) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.move_to("Sale", "2026-05-01T10:00:00Z").await;
    deal.move_to("Completed", "2026-05-02T10:00:00Z").await;
    let base = accruals_of(deal.id).await.remove(0);
    let proposed = decider(service()).post(&proposals_path(id_of(&base["Id"])), bonus(70)).await.expect(201);
    decider(service()).post(&decision_path(&proposed, "approve"), json!({})).await.expect(200);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", id_of(&base["Id"]));
    let request = json!({"Reason": "WrongAmount", "RequestedAmount": rub(200), "Comment": "мало"});
    let filed = cabinet(service(), agent).post(&path, request).await.expect(201);
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", id_of(&filed["Id"]));
    decider(service()).post(&path, json!({})).await.expect(200);
    assert_eq!(each(&accruals_of(deal.id).await, "Amount"), [&rub(100), &rub(70), &rub(30)]);
}
