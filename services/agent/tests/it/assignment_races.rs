//! Races of an assignment with later events of the sale or with another assignment.
//!
//! A test locks the deal. The first of two changes then waits for the test, and the second one for
//! the first.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use testkit::held::HeldLocks;

use crate::approval_races::service;
use crate::assignments::{agent_of_agency, assign_path, assignment};
use crate::fixtures::{balance, decider};
use crate::{Deal, PLATFORM, STAGE_CHANGED, deliver, each, in_days, list, rub};

async fn direct_sale() -> Deal {
    let mut deal = Deal::new(None, guid(), rub(1_000));
    let sale = deal.stage_changed("Sale", &in_days(-2));
    deliver(service(), STAGE_CHANGED, &sale).await;
    deal
}

async fn lock(deal: &Deal) -> HeldLocks {
    HeldLocks::lock(service(), &format!("select from deal where id = '{}' for update", deal.id)).await
}

async fn accruals_of(deal: &Deal) -> Vec<Value> {
    let path = format!("{PLATFORM}/commission-accruals?DealId={}", deal.id);
    list(&decider(service()).get(&path).await.expect(200)["Items"]).to_vec()
}

/// RULE-AGT-073: the end of a sale undoes an earlier assignment, and a later assignment is refused.
#[tokio::test]
async fn assignment_racing_the_end_of_its_sale_leaves_no_balance() {
    for assignment_first in [true, false] {
        let (agent, _) = agent_of_agency(service()).await;
        let mut deal = direct_sale().await;
        let cancelled = deal.stage_changed("Cancelled", &in_days(-1));
        let (by, path) = (decider(service()), assign_path(&deal));
        let held = lock(&deal).await;
        let (end, assign) =
            (deliver(service(), STAGE_CHANGED, &cancelled), by.post(&path, assignment(agent, 1_000)));
        if assignment_first {
            let (response, ()) = held.queue(HeldLocks::ANY, assign, end).await;
            assert_eq!(response.expect(200)["Status"], "Pending");
            assert_eq!(each(&accruals_of(&deal).await, "Status"), ["Reversed"]);
            assert_eq!(balance(service(), agent, "RUB").await["Total"], 0);
        } else {
            let ((), response) = held.queue(HeldLocks::ANY, end, assign).await;
            response.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
            assert_eq!(accruals_of(&deal).await, [] as [Value; 0]);
        }
    }
}

/// RULE-AGT-073: an assignment and the completion of its sale lead to the same ledger in both
/// orders.
#[tokio::test]
async fn assignment_racing_a_completion_leads_to_the_same_ledger() {
    for assignment_first in [true, false] {
        let (agent, _) = agent_of_agency(service()).await;
        let mut deal = direct_sale().await;
        deal.amount = rub(1_500);
        let completed = deal.stage_changed("Completed", &in_days(-1));
        let (by, path) = (decider(service()), assign_path(&deal));
        let held = lock(&deal).await;
        let (completion, assign) =
            (deliver(service(), STAGE_CHANGED, &completed), by.post(&path, assignment(agent, 1_000)));
        let response = if assignment_first {
            held.queue(HeldLocks::ANY, assign, completion).await.0
        } else {
            held.queue(HeldLocks::ANY, completion, assign).await.1
        };
        let status = if assignment_first { "Pending" } else { "Approved" };
        assert_eq!(response.expect(200)["Status"], status);
        let accruals = accruals_of(&deal).await;
        let mut lines: Vec<_> =
            accruals.iter().map(|line| json!([line["Kind"], line["Status"], line["Amount"]])).collect();
        lines.sort_by_key(Value::to_string);
        let expected = [json!(["Base", "Approved", rub(100)]), json!(["Correction", "Approved", rub(50)])];
        assert_eq!(lines, expected);
        assert_eq!(balance(service(), agent, "RUB").await["Approved"], 150);
    }
}

/// RULE-AGT-073: only one of several parallel assignments has an effect. Those to the same agent
/// succeed, too, and those to the other agent are refused.
#[tokio::test]
async fn parallel_assignments_have_one_effect() {
    let (first, _) = agent_of_agency(service()).await;
    let (second, _) = agent_of_agency(service()).await;
    let deal = direct_sale().await;
    let path = assign_path(&deal);
    let callers: Vec<_> = std::iter::repeat_with(|| decider(service())).take(8).collect();
    let agents = [first, second];
    let requests = callers.iter().enumerate();
    let requests = requests.map(|(at, caller)| caller.post(&path, assignment(agents[at % 2], 1_000)));
    let responses = join_all(requests).await;
    let accruals = accruals_of(&deal).await;
    let [base] = &accruals[..] else { panic!("one accrual: {accruals:?}") };
    for (at, response) in responses.into_iter().enumerate() {
        if base["AgentUserId"] == json!(agents[at % 2]) {
            assert_eq!(response.expect(200)["Id"], base["Id"]);
        } else {
            response.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
        }
    }
    let log = format!("{PLATFORM}/money-log?SubjectId={}", deal.id);
    let log = decider(service()).get(&log).await.expect(200);
    assert_eq!(list(&log["Items"]).len(), 1, "{log}");
}
