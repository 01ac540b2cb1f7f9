//! Sales without an agent or without a rate, and their assignment.

use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::guid;
use testkit::service::Running;
use uuid::Uuid;

use crate::fixtures::{balance, pay_one};
use crate::{
    COMMISSIONS, COMPANY_UPSERTED, Deal, MY, PLATFORM, accruals_of, await_published, cabinet, claims_of,
    commissions, deliver, each, id_of, list, money, next, rub, service, set_rate, with, without,
};

const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";

/// Creates the payload of `company-upserted`.
pub fn company(id: Uuid, company_type: &str, status: &str) -> Value {
    json!({
        "CompanyId": id, "Type": company_type, "Status": status, "Name": "Агентство", "LegalName": null,
        "Version": next(),
    })
}

/// Creates an active agency with an agent. Returns the agent and the agency.
pub async fn agent_of_agency(service: &Running) -> (Uuid, Uuid) {
    let (agent, agency) = (guid(), guid());
    deliver(service, COMPANY_UPSERTED, &company(agency, "Agency", "Active")).await;
    set_agency(service, agent, agency).await;
    (agent, agency)
}

async fn set_agency(service: &Running, agent: Uuid, agency: Uuid) {
    let by = service.caller(&claims_of(guid(), &[COMMISSIONS]));
    by.put(&format!("{PLATFORM}/agents/{agent}"), json!({"AgencyCompanyId": agency})).await.expect(200);
}

pub fn assign_path(deal: &Deal) -> String {
    format!("{PLATFORM}/unassigned-sales/{}/assign", deal.id)
}

pub fn assignment(agent: Uuid, rate_bps: i64) -> Value {
    json!({"AgentUserId": agent, "RateBps": rate_bps, "Comment": "агент привёл клиента"})
}

async fn assign(by: &Client, deal: &Deal, body: Value) -> Response {
    by.post(&assign_path(deal), body).await
}

/// Creates a deal whose sale begins without an agent.
async fn direct_sale(developer: Uuid, amount: i64) -> Deal {
    let mut deal = Deal::new(None, developer, rub(amount));
    deal.move_to("Sale", SOLD).await;
    deal
}

async fn unassigned(filter: &str) -> Value {
    commissions().get(&format!("{PLATFORM}/unassigned-sales?{filter}")).await.expect(200)
}

/// RULE-AGT-068: active sales without an agent or without a rate are listed, in pages.
#[tokio::test]
async fn sales_without_agent_or_rate_are_listed() {
    let (developer, agent, successor) = (guid(), guid(), guid());
    let mut without_rate = Deal::new(agent, developer, rub(3_000));
    without_rate.move_to("Sale", LATER).await;
    let mut without_agent = direct_sale(developer, 1_000).await;
    without_agent.agent = Some(successor);
    without_agent.move_to("Completed", LATER).await;
    let mut ended = direct_sale(developer, 2_000).await;
    ended.move_to("Booking", LATER).await;
    let of_developer = format!("DeveloperCompanyId={developer}");
    let page = unassigned(&of_developer).await;
    let expected = json!({
        "DealId": without_agent.id, "SaleRowVersion": 2, "Missing": "Agent", "AgentUserId": null,
        "DealAgentUserId": successor, "PropertyObjectId": without_agent.object, "DeveloperCompanyId": developer,
        "DeveloperName": null, "Amount": rub(1_000), "SoldAt": SOLD, "CompletedAt": LATER,
    });
    assert_eq!((&page["Items"][0], &page["TotalCount"]), (&expected, &json!(2)), "the oldest first");
    let second = &page["Items"][1];
    assert_eq!((&second["Missing"], &second["AgentUserId"]), (&json!("Rate"), &json!(agent)));
    assert_eq!((&second["DealAgentUserId"], &second["CompletedAt"]), (&json!(agent), &Value::Null));
    for (filter, deals) in [
        ("&Missing=Agent", vec![without_agent.id]),
        ("&Missing=Rate", vec![without_rate.id]),
        ("&Sort=-SoldAt", vec![without_rate.id, without_agent.id]),
        ("&PageSize=1&Page=2", vec![without_rate.id]),
        (&format!("&AgentUserId={agent}"), vec![without_rate.id]),
        (&format!("&AgentUserId={agent}&Missing=Agent"), vec![]),
        (&format!("&AgentUserId={successor}"), vec![]),
    ] {
        let page = unassigned(&format!("{of_developer}{filter}")).await;
        let found: Vec<_> = list(&page["Items"]).iter().map(|item| id_of(&item["DealId"])).collect();
        assert_eq!(found, deals, "{filter}");
    }
    for (query, member) in [("Missing=Both", "/Missing"), ("AgentUserId=x", "/AgentUserId")] {
        let response = commissions().get(&format!("{PLATFORM}/unassigned-sales?{query}")).await;
        let problem = response.expect_problem(400, "VALIDATION_FAILED");
        assert_eq!(problem["errors"][0]["field"], member, "{problem}");
    }
    // The list of unrated deals has only sales with an agent.
    let page = commissions().get(&format!("{PLATFORM}/unrated-deals?{of_developer}")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "DealId"), [&json!(without_rate.id)]);
}

/// RULE-AGT-069: an assigned sale has a Base, which follows the events of the deal and is paid.
///
/// The event and the money log name the author, and statistics count the deal for the assigned
/// agent.
#[tokio::test]
async fn assigned_sale_is_accrued_and_paid() {
    let (agent, _) = agent_of_agency(service()).await;
    let (developer, by) = (guid(), guid());
    let mut deal = direct_sale(developer, 100_000).await;
    let employee = service().caller(&claims_of(by, &[COMMISSIONS]));
    let base = assign(&employee, &deal, assignment(agent, 250)).await.expect(200);
    assert_eq!((&base["Kind"], &base["Status"]), (&json!("Base"), &json!("Pending")));
    assert_eq!((&base["Amount"], &base["RateBps"]), (&rub(2_500), &json!(250)));
    assert_eq!((&base["AgentUserId"], &base["EarnedAt"]), (&json!(agent), &json!(SOLD)));
    assert_eq!(unassigned(&format!("DeveloperCompanyId={developer}")).await["TotalCount"], 0);
    for count_by in ["DealAgent", "CommissionAgent"] {
        let path = format!("{MY}/agent-performance?From={SOLD}&To={LATER}&CountBy={count_by}");
        let found = cabinet(agent).get(&path).await.expect(200);
        assert_eq!(found["SalesVolume"], json!([rub(100_000)]), "{count_by}");
    }
    // Later changes of the deal's agent leave the commission as it is.
    deal.agent = Some(guid());
    deal.move_to("Sale", LATER).await;
    deal.move_to("Completed", LATER).await;
    let accruals = accruals_of(deal.id).await;
    assert_eq!((&accruals[0]["Status"], accruals.len()), (&json!("Approved"), 1));
    let payout = pay_one(service(), agent).await;
    assert_eq!((&payout["AgentUserId"], &payout["Gross"]), (&json!(agent), &rub(2_500)));

    await_published(service()).await;
    let events = service().bus().events(&id_of(&base["Id"]));
    let changes = events.iter().map(|event| &event.payload);
    let changes: Vec<_> =
        changes.map(|event| (event["To"].clone(), event["ChangedByUserId"].clone())).collect();
    let expected = [("Pending", by), ("Approved", deal.changed_by)];
    assert_eq!(changes, expected.map(|(status, user)| (json!(status), json!(user))));
    let log = commissions().get(&format!("{PLATFORM}/money-log?ActorUserId={by}")).await.expect(200);
    let entries = list(&log["Items"]);
    assert_eq!(each(entries, "Action"), ["SaleAssigned", "AccrualCreated"]);
    assert_eq!(each(entries, "SubjectId"), [&json!(deal.id), &base["Id"]]);
    assert_eq!((&entries[0]["Amount"], &entries[0]["RateBps"]), (&rub(2_500), &json!(250)));
    assert_eq!(entries[0]["AgentUserId"], json!(agent));
    let row = "select agent_user_id::text, assigned_by_user_id::text, comment from sale_assignment \
               where deal_id = $1::text::uuid and sale_row_version = 2";
    let row = service().sql().await.query_one(row, &[&deal.id.to_string()]).await.unwrap();
    let stored: [String; 3] = [0, 1, 2].map(|column| row.get(column));
    assert_eq!(stored, [agent.to_string(), by.to_string(), "агент привёл клиента".to_owned()]);
}

/// RULE-AGT-069: an assigned completed sale has the same accruals as a sale that had an agent from
/// the start. A large accrual awaits its release.
#[tokio::test]
async fn completed_sale_is_assigned_with_its_correction() {
    let (agent, _) = agent_of_agency(service()).await;
    let mut small = direct_sale(guid(), 100_000).await;
    small.amount = rub(120_000);
    let mut large = direct_sale(guid(), 100_000_000_000).await;
    let mut in_other_currency = direct_sale(guid(), 1_000).await;
    in_other_currency.amount = money(2_000, "USD");
    for deal in [&mut small, &mut large, &mut in_other_currency] {
        deal.move_to("Completed", LATER).await;
    }
    let by = commissions();
    let base = assign(&by, &small, assignment(agent, 1_000)).await.expect(200);
    assert_eq!((&base["Status"], &base["ApprovedAt"]), (&json!("Approved"), &json!(LATER)));
    let accruals = accruals_of(small.id).await;
    assert_eq!(each(&accruals, "Kind"), ["Base", "Correction"]);
    assert_eq!(each(&accruals, "Amount"), [&rub(10_000), &rub(2_000)]);
    let base = assign(&by, &large, assignment(agent, 1_000)).await.expect(200);
    assert_eq!((&base["Status"], &base["AwaitsRelease"]), (&json!("Pending"), &json!(true)));
    let base = assign(&by, &in_other_currency, assignment(agent, 1_000)).await.expect(200);
    assert_eq!((&base["Amount"], &base["EarnedAt"]), (&money(200, "USD"), &json!(LATER)));
    let pending = balance(service(), agent, "RUB").await;
    assert_eq!((&pending["Pending"], &pending["Approved"]), (&json!(10_000_000_000_i64), &json!(12_000)));
}

/// RULE-AGT-069: without `RateBps` the agent's card decides, and a sale that lacks only a rate
/// keeps its agent.
#[tokio::test]
async fn assignment_takes_the_rate_of_the_request_or_of_a_card() {
    let (agent, _) = agent_of_agency(service()).await;
    let (developer, by) = (guid(), commissions());
    let direct = direct_sale(developer, 1_000).await;
    let mut unrated = Deal::new(agent, guid(), rub(1_000));
    unrated.move_to("Sale", SOLD).await;
    let of_card = without(assignment(agent, 0), "RateBps");
    assign(&by, &direct, of_card.clone()).await.expect_problem(422, "AGENT_RATE_MISSING");
    set_rate(developer, 700).await;
    let base = assign(&by, &direct, of_card.clone()).await.expect(200);
    assert_eq!((&base["RateBps"], &base["Amount"]), (&json!(700), &rub(70)));
    assign(&by, &direct, of_card).await.expect(200);

    let (other, _) = agent_of_agency(service()).await;
    let response = assign(&by, &unrated, assignment(other, 500)).await;
    response.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
    let base = assign(&by, &unrated, assignment(agent, 500)).await.expect(200);
    assert_eq!((&base["AgentUserId"], &base["Amount"]), (&json!(agent), &rub(50)));
    // The job for unrated deals runs each second. It adds nothing, although a card covers the sale.
    set_rate(unrated.developer, 900).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    assert_eq!(accruals_of(unrated.id).await.len(), 1);
}

/// RULE-AGT-070: the assignee must belong to an active agency and must not be the caller. The order
/// of the agency's events does not matter.
#[tokio::test]
async fn sale_is_assigned_to_an_agent_of_an_active_agency_only() {
    let (agent, agency, by) = (guid(), guid(), commissions());
    let deal = direct_sale(guid(), 1_000).await;
    let body = assignment(agent, 100);
    let refused = async || {
        assign(&by, &deal, body.clone()).await.expect_problem(422, "AGENT_ASSIGNEE_INVALID");
    };
    refused().await;
    set_agency(service(), agent, agency).await;
    refused().await;
    // The older event arrives last.
    let [active, suspended] = ["Active", "Suspended"].map(|status| company(agency, "Agency", status));
    deliver(service(), COMPANY_UPSERTED, &suspended).await;
    deliver(service(), COMPANY_UPSERTED, &active).await;
    refused().await;
    let partner = guid();
    deliver(service(), COMPANY_UPSERTED, &company(partner, "Partner", "Active")).await;
    set_agency(service(), agent, partner).await;
    refused().await;
    set_agency(service(), agent, agency).await;
    deliver(service(), COMPANY_UPSERTED, &company(agency, "Agency", "Archived")).await;
    refused().await;
    let own = service().caller(&claims_of(agent, &[COMMISSIONS]));
    assign(&own, &deal, body.clone()).await.expect_problem(403, "AGENT_TERMS_OWN");
    deliver(service(), COMPANY_UPSERTED, &company(agency, "Agency", "Active")).await;
    assign(&own, &deal, body.clone()).await.expect_problem(403, "AGENT_TERMS_OWN");
    assert_eq!(accruals_of(deal.id).await.len(), 0);
    assign(&by, &deal, body.clone()).await.expect(200);
}

/// RULE-AGT-069: a repeat changes nothing, and another assignment of the sale is refused.
#[tokio::test]
async fn repeated_assignment_changes_nothing() {
    let (agent, agency) = agent_of_agency(service()).await;
    let (other, _) = agent_of_agency(service()).await;
    let (mut deal, by) = (direct_sale(guid(), 1_000).await, commissions());
    let first = assign(&by, &deal, assignment(agent, 100)).await.expect(200);
    deliver(service(), COMPANY_UPSERTED, &company(agency, "Agency", "Suspended")).await;
    let repeat = assign(&commissions(), &deal, assignment(agent, 100)).await.expect(200);
    assert_eq!(first, repeat);
    for body in [assignment(agent, 101), assignment(other, 100)] {
        assign(&by, &deal, body).await.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
    }
    let log = commissions().get(&format!("{PLATFORM}/money-log?SubjectId={}", deal.id)).await.expect(200);
    assert_eq!(list(&log["Items"]).len(), 1, "{log}");
    // A rejected Base stays rejected.
    let reject = format!("{PLATFORM}/commission-accruals/{}/reject", id_of(&first["Id"]));
    by.post(&reject, json!({"Comment": "нет"})).await.expect(200);
    assert_eq!(assign(&by, &deal, assignment(agent, 100)).await.expect(200)["Status"], "Rejected");
    // The end of the sale ends the assignment.
    deal.move_to("Cancelled", LATER).await;
    let response = assign(&by, &deal, assignment(agent, 100)).await;
    response.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
    deal.move_to("Sale", LATER).await;
    let expected = with(assignment(other, 100), "SaleRowVersion", 2);
    assign(&by, &deal, expected.clone()).await.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
    let base = assign(&by, &deal, with(expected, "SaleRowVersion", deal.row_version)).await.expect(200);
    assert_eq!(base["AgentUserId"], json!(other));
}

/// RULE-AGT-070: an invalid assignment is refused.
#[tokio::test]
async fn invalid_assignment_is_refused() {
    let (agent, by) = (guid(), commissions());
    let (deal, unknown) = (direct_sale(guid(), 1_000).await, Deal::new(None, guid(), rub(1)));
    assign(&by, &unknown, assignment(agent, 1)).await.expect_problem(404, "AGENT_DEAL_NOT_FOUND");
    for (member, value) in [
        ("AgentUserId", Value::Null),
        ("AgentUserId", json!(Uuid::nil())),
        ("RateBps", json!(-1)),
        ("RateBps", json!(10_001)),
        ("RateBps", json!(1.5)),
        ("Comment", Value::Null),
        ("Comment", json!("  ")),
        ("Comment", json!("x".repeat(2_001))),
        ("SaleRowVersion", json!(-1)),
    ] {
        let response = assign(&by, &deal, with(assignment(agent, 1), member, value)).await;
        let problem = response.expect_problem(400, "VALIDATION_FAILED");
        assert_eq!(problem["errors"][0]["field"], format!("/{member}"), "{problem}");
    }
    let mut open = Deal::new(None, guid(), rub(1));
    open.move_to("Booking", SOLD).await;
    assign(&by, &open, assignment(agent, 1)).await.expect_problem(409, "AGENT_SALE_NOT_ASSIGNABLE");
}
