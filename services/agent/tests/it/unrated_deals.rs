//! Unrated deals, and the job that creates their accruals.

use serde_json::{Value, json};
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::{
    COMMISSIONS, DEVELOPER_UPSERTED, Deal, MY, PLATFORM, accruals_of, cabinet, claims_of, commissions,
    deliver, developer, id_of, list, rows, rub, service, set_rate, start, text, with,
};

const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";

async fn unrated(agent: Uuid) -> Vec<Value> {
    let path = format!("{PLATFORM}/unrated-deals?AgentUserId={agent}");
    list(&commissions().get(&path).await.expect(200)["Items"]).to_vec()
}

/// RULE-AGT-009: an unrated deal is listed, and is accrued once a card covers `SoldAt`.
///
/// The accrual of a completed deal passes from Pending to Approved.
#[tokio::test]
async fn unrated_deal_is_accrued_once_a_card_covers_it() {
    let (developer_id, agent) = (guid(), guid());
    deliver(service(), DEVELOPER_UPSERTED, &developer(developer_id, "Ромашка")).await;
    let mut open = Deal::new(agent, developer_id, rub(1_000));
    let mut completed = Deal::new(agent, developer_id, rub(2_000));
    let mut ended = Deal::new(agent, developer_id, rub(3_000));
    open.move_to("Sale", SOLD).await;
    completed.move_to("Sale", LATER).await;
    completed.amount = rub(4_000);
    completed.move_to("Completed", LATER).await;
    ended.move_to("Sale", SOLD).await;
    assert_eq!(unrated(agent).await.len(), 3);
    ended.move_to("Cancelled", LATER).await;
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
    // A card that does not cover `SoldAt` changes nothing.
    let rates = json!([{"RateBps": 500, "ValidFrom": "2026-07-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer_id, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert_eq!(unrated(agent).await.len(), 2);
    set_rate(developer_id, 1_000).await;
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
    assert_eq!(accruals_of(ended.id).await, Vec::<Value>::new(), "an ended sale earns nothing");
    // The rated deal follows later changes.
    open.move_to("Completed", LATER).await;
    assert_eq!(accruals_of(open.id).await[0]["Status"], "Approved");
}

/// RULE-AGT-009: an unrated deal is accrued once its agent has an agency with a card.
#[tokio::test]
async fn unrated_deal_is_accrued_once_its_agent_has_an_agency() {
    let (developer, agent, agency) = (guid(), guid(), guid());
    let rates = json!([{"RateBps": 100, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"AgencyCompanyId": agency, "Rates": rates});
    commissions().put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.move_to("Sale", SOLD).await;
    assert_eq!(unrated(agent).await.len(), 1);
    let path = format!("{PLATFORM}/agents/{agent}");
    commissions().put(&path, json!({"AgencyCompanyId": agency})).await.expect(200);
    eventually("the accrual", async || unrated(agent).await.is_empty().then_some(())).await;
    assert_eq!(accruals_of(deal.id).await[0]["Amount"], rub(10));
}

/// RULE-AGT-009: a changed card starts the job before its next interval.
#[tokio::test]
async fn changed_card_starts_the_job() {
    let own = start(&[("AGENT_UNRATED_POLL_SECONDS", "3600")]);
    let (agent, developer) = (guid(), guid());
    let row = with(rows::sold(agent, "Sale", SOLD), "developer_company_id", developer.to_string());
    rows::insert_into(&own, "deal", &[with(row, "is_unrated", true)]).await;
    let by = own.caller(&claims_of(guid(), &[COMMISSIONS]));
    let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    by.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}");
    eventually("the accrual", async || (by.get(&path).await.expect(200)["TotalCount"] == 1).then_some(()))
        .await;
}

/// RULE-AGT-009: the job accrues more deals than one batch contains, each once. Deals that stay
/// unrated do not block the others.
#[tokio::test]
async fn more_unrated_deals_than_one_batch_are_accrued() {
    let (developer, without_rate, agent) = (guid(), guid(), guid());
    let unrated_rows = |developer: Uuid, count: usize| {
        let row = move |_| {
            let row = rows::sold(agent, "Sale", SOLD);
            let row = with(with(row, "developer_company_id", developer.to_string()), "sale_amount", 1_000);
            with(row, "is_unrated", true)
        };
        (0..count).map(row).collect::<Vec<_>>()
    };
    rows::insert("deal", &unrated_rows(without_rate, 1_100)).await;
    rows::insert("deal", &unrated_rows(developer, 1_100)).await;
    set_rate(developer, 1_000).await;
    let path = format!("{PLATFORM}/unrated-deals?AgentUserId={agent}");
    let left = async || commissions().get(&path).await.expect(200)["TotalCount"].as_i64();
    eventually("the accruals", async || (left().await == Some(1_100)).then_some(())).await;
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&PageSize=1");
    let page = commissions().get(&path).await.expect(200);
    assert_eq!((&page["TotalCount"], &page["Items"][0]["Amount"]), (&json!(1_100), &rub(100)));
    let summary = cabinet(agent).get(&format!("{MY}/commission-summary")).await.expect(200);
    assert_eq!(summary["Balances"][0]["Pending"], rub(110_000));
}
