//! Events in any order, and deals that are held until the ledger has caught up.

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::{
    CANCELLED, COMPLETED, CREATED, DEVELOPER_UPSERTED, Deal, PLATFORM, STAGE_CHANGED, accruals_of,
    await_applied, commissions, deliver, developer, list, next, rub, run_payouts, service, set_rate, with,
};

const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";

/// Reads the row of a deal.
async fn row(id: Uuid) -> Value {
    let sql = service().sql().await;
    let select = "select to_json(deal)::text from deal where id = $1::text::uuid";
    let row = sql.query_one(select, &[&id.to_string()]).await.unwrap();
    serde_json::from_str(row.get::<_, &str>(0)).unwrap()
}

async fn held(agent: Uuid) -> Vec<Value> {
    let path = format!("{PLATFORM}/held-deals?AgentUserId={agent}");
    list(&commissions().get(&path).await.expect(200)["Items"]).to_vec()
}

/// INV-AGT-8, RULE-AGT-065: a change after a missing one changes no accrual and holds the deal,
/// until both are published again.
#[tokio::test]
async fn change_after_a_missing_one_is_applied_after_a_republish() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deliver(service(), CREATED, &deal.created(SOLD)).await;
    let mut sale = deal.stage_changed("Sale", SOLD);
    sale["PreviousRowVersion"] = json!(0);
    let mut completion = deal.stage_changed("Completed", LATER);
    completion["PreviousRowVersion"] = json!(2);
    deliver(service(), STAGE_CHANGED, &completion).await;
    assert_eq!(accruals_of(deal.id).await, Vec::<Value>::new());
    let [item] = &held(agent).await[..] else { panic!("one deal is held") };
    assert_eq!((&item["AppliedRowVersion"], &item["KnownRowVersion"]), (&json!(0), &json!(3)));
    for change in [&sale, &completion] {
        deliver(service(), STAGE_CHANGED, change).await;
    }
    assert_eq!(held(agent).await, Vec::<Value>::new());
    let accrual = accruals_of(deal.id).await.remove(0);
    assert_eq!((&accrual["Status"], &accrual["EarnedAt"]), (&json!("Approved"), &json!(SOLD)));
}

/// INV-AGT-8: no accrual of a deal is paid while a topic has sent a newer version than the ledger
/// has applied.
#[tokio::test]
async fn deal_known_to_be_cancelled_is_not_paid() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deliver(service(), CREATED, &deal.created(SOLD)).await;
    assert_eq!(held(agent).await, Vec::<Value>::new(), "no stage change of a new deal is missing");
    deal.move_to("Sale", SOLD).await;
    deal.move_to("Completed", SOLD).await;
    let end = deal.stage_changed("Cancelled", LATER);
    deliver(service(), CANCELLED, &deal.cancelled(LATER)).await;
    let [item] = &held(agent).await[..] else { panic!("one deal is held") };
    assert_eq!((&item["DealId"], &item["AgentUserId"]), (&json!(deal.id), &json!(agent)));
    assert_eq!((&item["AppliedRowVersion"], &item["KnownRowVersion"]), (&json!(3), &json!(4)));
    assert!(item["Since"].is_string());
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 0);
    let held_deals = async || {
        let metrics = service().operator().get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("agent_held_deals "))?;
        line.rsplit(' ').next()?.parse::<i64>().ok().filter(|held| *held > 0)
    };
    eventually("the gauge", held_deals).await;
    deliver(service(), STAGE_CHANGED, &end).await;
    assert_eq!(held(agent).await, Vec::<Value>::new());
    assert_eq!(accruals_of(deal.id).await[0]["Status"], "Reversed");
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 0);
}

/// RULE-AGT-072: the list of held deals finds a deal by its agent and by the agent of its
/// commission.
#[tokio::test]
async fn held_deal_is_found_by_both_of_its_agents() {
    let (developer, first, second) = (guid(), guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(first, developer, rub(1_000));
    deal.move_to("Sale", SOLD).await;
    deal.agent = Some(second);
    deal.move_to("Sale", LATER).await;
    deal.stage_changed("Cancelled", LATER);
    deliver(service(), CANCELLED, &deal.cancelled(LATER)).await;
    for agent in [first, second] {
        let [item] = &held(agent).await[..] else { panic!("one deal is held") };
        let agents = (&item["AgentUserId"], &item["CommissionAgentUserId"]);
        assert_eq!((&item["DealId"], agents), (&json!(deal.id), (&json!(second), &json!(first))));
    }
}

/// RULE-AGT-003: a deal is held until the stage change of its completion arrives. Then it is paid.
#[tokio::test]
async fn deal_is_paid_once_the_ledger_has_caught_up() {
    let (developer, agent) = (guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.move_to("Sale", SOLD).await;
    let done = deal.stage_changed("Completed", SOLD);
    deliver(service(), COMPLETED, &deal.completed(SOLD)).await;
    let since = held(agent).await[0]["Since"].clone();
    // Known events keep the start of the hold.
    deliver(service(), COMPLETED, &deal.completed(SOLD)).await;
    deliver(service(), CREATED, &deal.created(SOLD)).await;
    assert_eq!(held(agent).await[0]["Since"], since);
    assert_eq!(accruals_of(deal.id).await[0]["Status"], "Pending", "the ledger follows one topic only");
    deliver(service(), STAGE_CHANGED, &done).await;
    deliver(service(), COMPLETED, &deal.completed(SOLD)).await;
    assert_eq!(held(agent).await, Vec::<Value>::new());
    assert_eq!(run_payouts(&[agent]).await["PayoutsCount"], 1);
}

/// RULE-AGT-002, RULE-EVT-025: a late `deal-created` adds `CreatedAt` and overwrites nothing newer.
#[tokio::test]
async fn late_deal_created_adds_the_creation_time() {
    let (developer, agent, other) = (guid(), guid(), guid());
    let mut deal = Deal::new(agent, developer, rub(1_000));
    let created = with(with(deal.created(LATER), "AgentUserId", json!(other)), "Amount", rub(7));
    deal.move_to("Sale", SOLD).await;
    let before = row(deal.id).await;
    deliver(service(), CREATED, &created).await;
    let after = row(deal.id).await;
    assert_eq!((before["created_at"].is_null(), after["created_at"].is_string()), (true, true));
    for member in ["status", "agent_user_id", "amount", "sold_at", "applied_row_version", "held_since"] {
        assert_eq!(before[member], after[member], "{member}");
    }
}

/// RULE-AGT-002, RULE-EVT-024: two events of one version complement each other.
///
/// The cancellation has the time, and the stage change has the agent.
#[tokio::test]
async fn events_of_one_change_complement_each_other() {
    for cancellation_first in [true, false] {
        let (developer, agent) = (guid(), guid());
        let mut deal = Deal::new(agent, developer, rub(1_000));
        let end = deal.stage_changed("Cancelled", LATER);
        let mut both = [(STAGE_CHANGED, end), (CANCELLED, deal.cancelled(LATER))];
        if cancellation_first {
            both.reverse();
        }
        for (topic, payload) in &both {
            deliver(service(), topic, payload).await;
        }
        let row = row(deal.id).await;
        assert_eq!((&row["status"], &row["agent_user_id"]), (&json!("Cancelled"), &json!(agent)));
        assert!(row["cancelled_at"].is_string() && row["held_since"].is_null());
    }
}

/// RULE-AGT-011: an unknown status raises the applied version and changes no money.
#[tokio::test]
async fn unknown_status_changes_no_money() {
    let developer = guid();
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(guid(), developer, rub(1_000));
    deal.move_to("Sale", SOLD).await;
    let before = row(deal.id).await;
    deal.move_to("Frozen", LATER).await;
    let after = row(deal.id).await;
    assert_eq!((&after["status"], &after["applied_row_version"]), (&json!("Other"), &json!(3)));
    for member in ["sale_row_version", "sold_at", "sale_amount", "completed_at", "held_since"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    assert_eq!(accruals_of(deal.id).await[0]["Version"], 1);
}

/// RULE-AGT-002, RULE-EVT-023, RULE-EVT-026: every delivery order, with or without repeats, leads
/// to the same state.
#[tokio::test]
async fn every_delivery_order_ends_in_one_ledger() {
    let statuses = ["Application", "Booking", "Sale", "Sale", "Completed", "Cancelled", "Frozen"];
    let step = (prop::sample::select(statuses.to_vec()), 1_i64..4, any::<bool>());
    let mut runner = TestRunner::deterministic();
    for _ in 0..8 {
        let steps = prop::collection::vec(step.clone(), 2..8).new_tree(&mut runner).unwrap().current();
        let mut deliveries = Vec::new();
        // The first delivery is in order. Each one has a deal of its own with the same history.
        for delivery in 0..4 {
            let (developer, agents) = (guid(), [guid(), guid()]);
            set_rate(developer, 1_000).await;
            let mut deal = Deal::new(agents[0], developer, rub(1_000));
            let mut topics = vec![vec![(CREATED, deal.created(SOLD))], vec![], vec![], vec![]];
            for (to, thousands, is_of_other) in &steps {
                deal.agent = Some(agents[usize::from(*is_of_other)]);
                deal.amount = rub(thousands * 1_000);
                topics[1].push((STAGE_CHANGED, deal.stage_changed(to, SOLD)));
                match *to {
                    "Cancelled" => topics[2].push((CANCELLED, deal.cancelled(SOLD))),
                    "Completed" => topics[3].push((COMPLETED, deal.completed(SOLD))),
                    _ => {}
                }
            }
            let mut order: Vec<usize> =
                (0..4).flat_map(|topic| std::iter::repeat_n(topic, topics[topic].len())).collect();
            if delivery > 0 {
                order = Just(order).prop_shuffle().new_tree(&mut runner).unwrap().current();
            }
            let mut topics: Vec<_> = topics.into_iter().map(Vec::into_iter).collect();
            let events: Vec<_> = order.into_iter().map(|topic| topics[topic].next().unwrap()).collect();
            deliveries.push(async move {
                for (at, (topic, payload)) in events.iter().enumerate() {
                    // Repeats an earlier event.
                    if delivery > 1 && at % 3 == 2 {
                        let (topic, payload) = &events[at / 2];
                        deliver(service(), topic, payload).await;
                    }
                    deliver(service(), topic, payload).await;
                }
                comparable_state(&deal, &agents).await
            });
        }
        let states = join_all(deliveries).await;
        assert!(states.iter().all(|state| *state == states[0]), "{steps:?}: {states:#?}");
    }
}

/// Reads a deal and its accruals, with the indexes of agents, and without the other ids that differ
/// between two deals of one history.
async fn comparable_state(deal: &Deal, agents: &[Uuid; 2]) -> (Value, Vec<Value>) {
    let index_of = |agent: &Value| {
        agent.as_str().map(|agent| agents.iter().position(|known| known.to_string() == agent).unwrap())
    };
    let mut row = row(deal.id).await;
    for member in ["agent_user_id", "sale_agent_user_id", "counted_agent_user_id", "commission_agent_user_id"]
    {
        row[member] = json!(index_of(&row[member]));
    }
    for member in ["id", "developer_company_id", "property_object_id"] {
        row[member] = Value::Null;
    }
    let accruals = accruals_of(deal.id).await;
    let mut entries: Vec<_> = accruals
        .iter()
        .map(|accrual| {
            let members = ["Kind", "Status", "Amount", "BaseAmount", "EarnedAt", "ApprovedAt", "Version"];
            let shown: Vec<_> = members.iter().map(|member| accrual[member].clone()).collect();
            json!([index_of(&accrual["AgentUserId"]), shown])
        })
        .collect();
    entries.sort_by_key(Value::to_string);
    (row, entries)
}

/// RULE-AGT-013: the highest version decides the name of a developer. Deals do not
/// wait for the name.
#[tokio::test]
async fn highest_version_decides_the_developer_name() {
    let id = guid();
    let mut deal = Deal::new(guid(), id, rub(1_000));
    set_rate(id, 1_000).await;
    deal.move_to("Sale", SOLD).await;
    let name = async || accruals_of(deal.id).await[0]["DeveloperName"].clone();
    assert_eq!(name().await, Value::Null);
    for (version, name_sent, shown) in
        [(5, "five", "five"), (4, "four", "five"), (5, "again", "five"), (6, "six", "six")]
    {
        let payload = with(developer(id, name_sent), "Version", version);
        let sequence = next();
        service().bus().publish(DEVELOPER_UPSERTED, id, sequence, &payload).await;
        await_applied(service(), DEVELOPER_UPSERTED, id, sequence).await;
        assert_eq!(name().await, json!(shown));
    }
}
