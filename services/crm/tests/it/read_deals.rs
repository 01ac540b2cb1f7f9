//! Reads of single deals.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rows::{LONG_AGO, deal_row, insert_deals};
use crate::{
    CARE, MANAGE, MANAGE_OWN, OWN, PIPELINE_OWN, PLATFORM, READ_OWN, create_developer, create_object, guid,
    platform, service, steps, user_with, with,
};

/// The paths below a deal that every reader of deals may read.
const READS: [&str; 3] = ["", "/timeline", "/stages"];

/// RULE-CRM-046: a view has every field except escrow account number and fixation data. The
/// contract number is null for readers without access to contract data.
#[tokio::test]
async fn deal_view_has_every_field_except_secrets() {
    let developer = create_developer().await;
    let object = create_object(developer).await;
    let steps = steps(developer).await;
    let step = steps.iter().find(|step| step["Group"] == "Contract").unwrap();
    let mut deal = with(deal_row(step), "property_object_id", json!(object));
    let (agent, selection, updater) = (guid(), guid(), guid());
    for (column, value) in [
        ("agent_user_id", json!(agent)),
        ("selection_id", json!(selection)),
        ("updated_by_user_id", json!(updater)),
        ("escrow_account_number", json!("40817810099910004312")),
        ("fixation_data", json!("very secret")),
        ("contract_number", json!("ДДУ-17")),
        ("folded_contract_number", json!("дду-17")),
        ("row_version", json!(4_294_967_295_i64)),
        ("amount", json!(1_000_000_000_000_000_i64)),
        ("currency", json!("USD")),
        ("updated_at", json!("2026-01-02T03:04:05.678901Z")),
    ] {
        deal[column] = value;
    }
    let id = insert_deals(&[deal.clone()]).await[0];
    let expected = json!({
        "DealId": id, "Status": "Sale", "StepId": step["Id"], "StepGroup": "Contract",
        "UpdatedAt": "2026-01-02T03:04:05.678901Z", "RowVersion": 4_294_967_295_i64, "TenantId": developer,
        "PropertyObjectId": object, "ProjectName": "Лесной", "BuildingName": "1", "Number": "12",
        "ClientUserId": deal["client_user_id"], "AgentUserId": agent,
        "Amount": {"AmountMinor": 1_000_000_000_000_000_i64, "Currency": "USD"}, "StepEnteredAt": LONG_AGO,
        "BookingExpiresAt": null, "CreatedAt": LONG_AGO, "DeveloperName": "Ромашка", "StepName": step["Name"],
        "SelectionId": selection, "ContractType": "Ddu", "PaymentMethod": "Cash", "ContractNumber": "ДДУ-17", "CancelledAt": null,
        "CancelReason": null, "CompletedAt": null, "CreatedByUserId": deal["created_by_user_id"],
        "UpdatedByUserId": updater,
    });
    for (permission, company, family) in [
        (MANAGE, None, PLATFORM),
        (CARE, None, PLATFORM),
        (READ_OWN, Some(developer), OWN),
        (MANAGE_OWN, Some(developer), OWN),
    ] {
        let by = service().caller(&user_with(company, &[permission]));
        let number =
            if [MANAGE, MANAGE_OWN].contains(&permission) { json!("ДДУ-17") } else { Value::Null };
        let expected = with(expected.clone(), "ContractNumber", number);
        assert_eq!(by.get(&format!("{family}/deals/{id}")).await.expect(200), expected, "{permission}");
    }
}

/// RULE-CRM-047: a read of another company's deal is refused like one of an unknown deal. Only
/// `traceId` and `instance` differ.
#[tokio::test]
async fn read_of_a_foreign_deal_is_refused_like_an_unknown_one() {
    let developer = create_developer().await;
    let id = insert_deals(&[deal_row(&steps(developer).await[0])]).await[0];
    let stranger = service().caller(&user_with(Some(guid()), &[READ_OWN, MANAGE_OWN]));
    for below in READS {
        let refusal = async |id: Uuid| {
            let refused = stranger.get(&format!("{OWN}/deals/{id}{below}")).await;
            let mut problem = refused.expect_problem(404, "CRM_DEAL_NOT_FOUND");
            problem["traceId"] = Value::Null;
            problem["instance"] = Value::Null;
            problem
        };
        assert_eq!(refusal(id).await, refusal(guid()).await, "{below}");
        let unknown = platform().get(&format!("{PLATFORM}/deals/{}{below}", guid())).await;
        unknown.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    }
}

/// RULE-CRM-047, RULE-ALL-050: an `-own` permission covers the token's company in any scope.
/// Platform permissions grant nothing on company routes.
#[tokio::test]
async fn permission_covers_its_scope_only() {
    let developer = create_developer().await;
    let id = insert_deals(&[deal_row(&steps(developer).await[0])]).await[0];
    let (own, all) = (format!("{OWN}/deals/{id}"), format!("{PLATFORM}/deals/{id}"));
    for (permissions, company, of_own, of_all) in [
        (vec!["crm.deals.read-own@platform"], Some(developer), 200, 403),
        (vec!["crm.deals.read-own@platform"], Some(guid()), 404, 403),
        (vec!["crm.deals.read-own@platform"], None, 403, 403),
        (vec!["crm.deals.manage@organization"], Some(developer), 403, 403),
        (vec!["crm.deals.care"], Some(developer), 403, 403),
        (vec![MANAGE, CARE], Some(developer), 403, 200),
        (vec![PIPELINE_OWN], Some(developer), 403, 403),
        (vec![], Some(developer), 403, 403),
    ] {
        let by = service().caller(&user_with(company, &permissions));
        assert_eq!(by.get(&own).await.status, of_own, "{permissions:?} {company:?}");
        assert_eq!(by.get(&all).await.status, of_all, "{permissions:?} {company:?}");
    }
}

/// RULE-CRM-047: the permission is checked before path and query. A malformed id is 404, the empty
/// id 400.
#[tokio::test]
async fn permission_is_checked_before_the_path() {
    let unprivileged = service().caller(&user_with(Some(guid()), &[]));
    let (all, own) = (platform(), service().caller(&user_with(Some(guid()), &[READ_OWN])));
    for (family, by) in [(PLATFORM, all), (OWN, own)] {
        for below in READS.into_iter().map(|below| ("deals", below)).chain([("board/columns", "")]) {
            let path = |id: &str| format!("{family}/{}/{id}{}?Cursor=x", below.0, below.1);
            for id in ["x", "00000000-0000-0000-0000-000000000000"] {
                unprivileged.get(&path(id)).await.expect_problem(403, "FORBIDDEN");
                service().guest().get(&path(id)).await.expect_problem(401, "UNAUTHORIZED");
            }
            by.get(&path("x")).await.expect_problem(404, "NOT_FOUND");
            let field = if below.0 == "deals" { "/DealId" } else { "/StepId" };
            let empty = by.get(&path("00000000-0000-0000-0000-000000000000")).await;
            empty.expect_refusal("VALIDATION_FAILED", field, "empty_id");
        }
    }
}

/// RULE-CRM-047, RULE-ALL-015: a read route returns 405 with `Allow` for other methods.
#[tokio::test]
async fn read_route_refuses_other_methods() {
    let path = format!("{PLATFORM}/deals/{}/timeline", guid());
    let refused = testkit::client::send(platform().request(Method::DELETE, &path)).await;
    assert_eq!(refused.header("allow"), "GET, HEAD");
    refused.expect_problem(405, "METHOD_NOT_ALLOWED");
}
