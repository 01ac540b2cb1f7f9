//! Section 4: what comes in whatever order, what is held, and what waits for a rate.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::{
    CANCELLED, COMPLETED, CREATED, DEVELOPER_UPSERTED, Deal, PLATFORM, STAGE_CHANGED, accruals_of,
    commissions, developer, id_of, list, next, pay, rub, run, service, taken, tell, text, with,
};

const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";

/// A deal as it is kept.
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

async fn unrated(agent: Uuid) -> Vec<Value> {
    let path = format!("{PLATFORM}/unrated-deals?AgentUserId={agent}");
    list(&commissions().get(&path).await.expect(200)["Items"]).to_vec()
}

/// INV-AGT-8: while another topic has told of a higher version than the ledger has applied, nothing of the deal is paid.
#[tokio::test]
async fn what_is_known_to_be_cancelled_is_not_paid() {
    let (developer, agent) = (guid(), guid());
    pay(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    tell(service(), CREATED, &deal.created(SOLD)).await;
    assert_eq!(held(agent).await, Vec::<Value>::new(), "of a deal that was made the ledger lacks nothing");
    deal.bring_to("Sale", SOLD).await;
    deal.bring_to("Completed", SOLD).await;
    let end = deal.moves("Cancelled", LATER);
    tell(service(), CANCELLED, &deal.cancelled(LATER)).await;
    let [item] = &held(agent).await[..] else { panic!("one deal is held") };
    assert_eq!((&item["DealId"], &item["AgentUserId"]), (&json!(deal.id), &json!(agent)));
    assert_eq!((&item["AppliedRowVersion"], &item["KnownRowVersion"]), (&json!(3), &json!(4)));
    assert!(item["Since"].is_string());
    assert_eq!(run(&[agent]).await["PayoutsCount"], 0);
    let metrics = async || {
        let told = service().operator().get("/metrics").await.text;
        let line = told.lines().find(|line| line.starts_with("agent_held_deals "))?;
        line.rsplit(' ').next()?.parse::<i64>().ok().filter(|held| *held > 0)
    };
    eventually("the gauge", metrics).await;
    tell(service(), STAGE_CHANGED, &end).await;
    assert_eq!(held(agent).await, Vec::<Value>::new());
    assert_eq!(accruals_of(deal.id).await[0]["Status"], "Reversed");
    assert_eq!(run(&[agent]).await["PayoutsCount"], 0);
}

/// A completion that its own stage change overtakes, or not, holds nothing for longer than it takes.
#[tokio::test]
async fn what_the_ledger_has_caught_up_with_is_paid() {
    let (developer, agent) = (guid(), guid());
    pay(developer, 1_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.bring_to("Sale", SOLD).await;
    let done = deal.moves("Completed", SOLD);
    tell(service(), COMPLETED, &deal.completed(SOLD)).await;
    let since = held(agent).await[0]["Since"].clone();
    // What is known already changes nothing of since when it is held.
    tell(service(), COMPLETED, &deal.completed(SOLD)).await;
    tell(service(), CREATED, &deal.created(SOLD)).await;
    assert_eq!(held(agent).await[0]["Since"], since);
    assert_eq!(accruals_of(deal.id).await[0]["Status"], "Pending", "money moves along one topic only");
    tell(service(), STAGE_CHANGED, &done).await;
    tell(service(), COMPLETED, &deal.completed(SOLD)).await;
    assert_eq!(held(agent).await, Vec::<Value>::new());
    assert_eq!(run(&[agent]).await["PayoutsCount"], 1);
}

/// A late `deal-created` adds `CreatedAt`, and else only what nothing newer told.
#[tokio::test]
async fn a_late_creation_adds_when_it_was() {
    let (developer, agent, other) = (guid(), guid(), guid());
    let mut deal = Deal::new(agent, developer, rub(1_000));
    let created = with(with(deal.created(LATER), "AgentUserId", json!(other)), "Amount", rub(7));
    deal.bring_to("Sale", SOLD).await;
    let before = row(deal.id).await;
    tell(service(), CREATED, &created).await;
    let after = row(deal.id).await;
    assert_eq!((before["created_at"].is_null(), after["created_at"].is_string()), (true, true));
    for member in ["status", "agent_user_id", "amount", "sold_at", "applied_row_version", "held_since"] {
        assert_eq!(before[member], after[member], "{member}");
    }
}

/// Events of one change carry one version and do not shut each other out: the cancellation says when, the stage change who.
#[tokio::test]
async fn events_of_one_change_go_together() {
    for cancellation_first in [true, false] {
        let (developer, agent) = (guid(), guid());
        let mut deal = Deal::new(agent, developer, rub(1_000));
        let end = deal.moves("Cancelled", LATER);
        let mut both = [(STAGE_CHANGED, end), (CANCELLED, deal.cancelled(LATER))];
        if cancellation_first {
            both.reverse();
        }
        for (topic, told) in &both {
            tell(service(), topic, told).await;
        }
        let row = row(deal.id).await;
        assert_eq!((&row["status"], &row["agent_user_id"]), (&json!("Cancelled"), &json!(agent)));
        assert!(row["cancelled_at"].is_string() && row["held_since"].is_null());
    }
}

/// An unknown status raises the version that was applied and nothing else: whether a sale stands is kept apart from it.
#[tokio::test]
async fn an_unknown_status_moves_no_money() {
    let developer = guid();
    pay(developer, 1_000).await;
    let mut deal = Deal::new(guid(), developer, rub(1_000));
    deal.bring_to("Sale", SOLD).await;
    let before = row(deal.id).await;
    deal.bring_to("Frozen", LATER).await;
    let after = row(deal.id).await;
    assert_eq!((&after["status"], &after["applied_row_version"]), (&json!("Other"), &json!(3)));
    for member in ["sale_row_version", "sold_at", "sale_amount", "completed_at", "held_since"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    assert_eq!(accruals_of(deal.id).await[0]["Version"], 1);
}

/// Whatever Kafka delivers how often, and whichever topic comes first: one history ends in one ledger, and in one deal.
#[tokio::test]
async fn any_delivery_ends_in_one_ledger() {
    let statuses = ["Application", "Booking", "Sale", "Sale", "Completed", "Cancelled", "Frozen"];
    let step = (prop::sample::select(statuses.to_vec()), 1_i64..4, any::<bool>());
    let mut runner = TestRunner::deterministic();
    for _ in 0..8 {
        let steps = prop::collection::vec(step.clone(), 2..8).new_tree(&mut runner).unwrap().current();
        let mut ends = Vec::new();
        // In order, and then in some others, each of a deal of its own that has the same history.
        for delivery in 0..4 {
            let (developer, agents) = (guid(), [guid(), guid()]);
            pay(developer, 1_000).await;
            let mut deal = Deal::new(agents[0], developer, rub(1_000));
            let mut topics = vec![vec![(CREATED, deal.created(SOLD))], vec![], vec![], vec![]];
            for (to, thousands, is_of_other) in &steps {
                deal.agent = Some(agents[usize::from(*is_of_other)]);
                deal.amount = rub(thousands * 1_000);
                topics[1].push((STAGE_CHANGED, deal.moves(to, SOLD)));
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
            let mut sent = Vec::new();
            for topic in order {
                let (topic, told) = topics[topic].next().unwrap();
                // Something that came before may come again.
                if delivery > 1 && sent.len() % 3 == 2 {
                    let (topic, told): &(&str, Value) = &sent[sent.len() / 2];
                    tell(service(), topic, told).await;
                }
                tell(service(), topic, &told).await;
                sent.push((topic, told));
            }
            ends.push(end(&deal, &agents).await);
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{steps:?}: {ends:#?}");
    }
}

/// What became of a deal, without what differs between two of one history.
async fn end(deal: &Deal, agents: &[Uuid; 2]) -> (Value, Vec<Value>) {
    let named = |agent: &Value| {
        agent.as_str().map(|agent| agents.iter().position(|known| known.to_string() == agent).unwrap())
    };
    let mut row = row(deal.id).await;
    for member in ["agent_user_id", "sale_agent_user_id"] {
        row[member] = json!(named(&row[member]));
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
            json!([named(&accrual["AgentUserId"]), shown])
        })
        .collect();
    entries.sort_by_key(Value::to_string);
    (row, entries)
}

/// A deal without a rate is listed; once a card covers when it was sold it is accrued, through Pending to Approved where it is
/// completed.
#[tokio::test]
async fn an_unrated_deal_is_accrued_once_a_card_covers_it() {
    let (developer_id, agent) = (guid(), guid());
    tell(service(), DEVELOPER_UPSERTED, &developer(developer_id, "Ромашка")).await;
    let mut open = Deal::new(agent, developer_id, rub(1_000));
    let mut completed = Deal::new(agent, developer_id, rub(2_000));
    let mut ended = Deal::new(agent, developer_id, rub(3_000));
    open.bring_to("Sale", SOLD).await;
    completed.bring_to("Sale", LATER).await;
    completed.amount = rub(4_000);
    completed.bring_to("Completed", LATER).await;
    ended.bring_to("Sale", SOLD).await;
    assert_eq!(unrated(agent).await.len(), 3);
    ended.bring_to("Cancelled", LATER).await;
    let waiting = unrated(agent).await;
    let expected = json!({
        "DealId": open.id, "AgentUserId": agent, "DeveloperCompanyId": developer_id, "DeveloperName": "Ромашка",
        "Amount": rub(1_000), "SoldAt": SOLD,
    });
    assert_eq!(waiting[0], expected, "the oldest first");
    assert_eq!((&waiting[1]["Amount"], waiting.len()), (&rub(2_000), 2));
    let path = format!("{PLATFORM}/unrated-deals?DeveloperCompanyId={developer_id}&Sort=-SoldAt");
    let newest = commissions().get(&path).await.expect(200);
    assert_eq!((&newest["Items"][0]["DealId"], &newest["TotalCount"]), (&json!(completed.id), &json!(2)));
    // A card that does not cover when they were sold is none.
    let rates = json!([{"RateBps": 500, "ValidFrom": "2026-07-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer_id, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert_eq!(unrated(agent).await.len(), 2);
    pay(developer_id, 1_000).await;
    eventually("the accruals", async || unrated(agent).await.is_empty().then_some(())).await;
    let base = accruals_of(open.id).await.remove(0);
    assert_eq!(
        (&base["Amount"], &base["Status"], &base["EarnedAt"]),
        (&rub(100), &json!("Pending"), &json!(SOLD))
    );
    let accruals = accruals_of(completed.id).await;
    let of = |kind: &str| accruals.iter().find(|accrual| accrual["Kind"] == kind).unwrap();
    assert_eq!((&of("Base")["Amount"], &of("Base")["Status"]), (&rub(200), &json!("Approved")));
    assert_eq!((&of("Base")["EarnedAt"], &of("Base")["ApprovedAt"]), (&json!(LATER), &json!(LATER)));
    assert_eq!((&of("Correction")["Amount"], accruals.len()), (&rub(200), 2));
    let id = id_of(&of("Base")["Id"]);
    let events = service().published(id).await;
    let to: Vec<_> = events.iter().map(|event| text(&event.payload["To"])).collect();
    assert_eq!(to, ["Pending", "Approved"]);
    assert_eq!(accruals_of(ended.id).await, Vec::<Value>::new(), "what is not sold any more earns nothing");
    // It goes on as any other.
    open.bring_to("Completed", LATER).await;
    assert_eq!(accruals_of(open.id).await[0]["Status"], "Approved");
}

/// An agency that is entered later is enough, too.
#[tokio::test]
async fn an_agent_who_gets_an_agency_is_accrued() {
    let (developer, agent, agency) = (guid(), guid(), guid());
    let rates = json!([{"RateBps": 100, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"AgencyCompanyId": agency, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.bring_to("Sale", SOLD).await;
    assert_eq!(unrated(agent).await.len(), 1);
    let path = format!("{PLATFORM}/agents/{agent}");
    commissions().put(&path, json!({"AgencyCompanyId": agency})).await.expect(200);
    eventually("the accrual", async || unrated(agent).await.is_empty().then_some(())).await;
    assert_eq!(accruals_of(deal.id).await[0]["Amount"], rub(10));
}

/// A card wakes the job, which else looks much later.
#[tokio::test]
async fn a_card_wakes_the_job() {
    let own = crate::start(&[("AGENT_UNRATED_POLL_SECONDS", "3600")]);
    let (agent, developer) = (guid(), guid());
    let row = with(crate::fill::sold(agent, "Sale", SOLD), "developer_company_id", developer.to_string());
    crate::fill::put_into(&own, "deal", &[with(row, "is_unrated", true)]).await;
    let by = own.caller(&crate::holder(guid(), &[crate::COMMISSIONS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    by.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}");
    eventually("the accrual", async || (by.get(&path).await.expect(200)["TotalCount"] == 1).then_some(()))
        .await;
}

/// More deals than one transaction looks at are accrued all the same, each once, and none that has no rate stands before them.
#[tokio::test]
async fn many_unrated_deals_are_accrued() {
    let (developer, poor, agent) = (guid(), guid(), guid());
    let fill = |developer: Uuid, count: usize| {
        let row = move |_| {
            let row = crate::fill::sold(agent, "Sale", SOLD);
            let row = with(with(row, "developer_company_id", developer.to_string()), "sale_amount", 1_000);
            with(row, "is_unrated", true)
        };
        (0..count).map(row).collect::<Vec<_>>()
    };
    crate::fill::put("deal", &fill(poor, 1_100)).await;
    crate::fill::put("deal", &fill(developer, 1_100)).await;
    pay(developer, 1_000).await;
    let path = format!("{PLATFORM}/unrated-deals?AgentUserId={agent}");
    let left = async || commissions().get(&path).await.expect(200)["TotalCount"].as_i64();
    eventually("the accruals", async || (left().await == Some(1_100)).then_some(())).await;
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&PageSize=1");
    let page = commissions().get(&path).await.expect(200);
    assert_eq!((&page["TotalCount"], &page["Items"][0]["Amount"]), (&json!(1_100), &rub(100)));
    let summary = crate::cabinet(agent).get(&format!("{}/commission-summary", crate::MY)).await.expect(200);
    assert_eq!(summary["Balances"][0]["Pending"], rub(110_000));
}

/// A developer's name is that of the highest version, in whatever order they come; deals do not wait for it.
#[tokio::test]
async fn the_highest_version_names_a_developer() {
    let id = guid();
    let mut deal = Deal::new(guid(), id, rub(1_000));
    pay(id, 1_000).await;
    deal.bring_to("Sale", SOLD).await;
    let name = async || accruals_of(deal.id).await[0]["DeveloperName"].clone();
    assert_eq!(name().await, Value::Null);
    for (version, told, shown) in
        [(5, "five", "five"), (4, "four", "five"), (5, "again", "five"), (6, "six", "six")]
    {
        let told = with(developer(id, told), "Version", version);
        let sequence = next();
        service().bus().publish(DEVELOPER_UPSERTED, id, sequence, &told).await;
        taken(service(), DEVELOPER_UPSERTED, id, sequence).await;
        assert_eq!(name().await, json!(shown));
    }
}
