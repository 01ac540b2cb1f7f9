//! Sections 1 and 2: a deal as it is read.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fill::{LONG_AGO, deal_in, put_deals};
use crate::{
    CARE, MANAGE, MANAGE_OWN, OWN, PIPELINE_OWN, PLATFORM, READ_OWN, create_developer, create_object, guid,
    holder, platform, service, steps, with,
};

/// What is below a deal and is read.
const BELOW: [&str; 3] = ["", "/timeline", "/stages"];

/// `DealView`, whole: without contract data but for the words that are no secret.
#[tokio::test]
async fn a_deal_is_read_whole() {
    let developer = create_developer().await;
    let object = create_object(developer).await;
    let steps = steps(developer).await;
    let step = steps.iter().find(|step| step["Group"] == "Contract").unwrap();
    let mut deal = with(deal_in(step), "property_object_id", json!(object));
    let (agent, selection, by) = (guid(), guid(), guid());
    for (column, value) in [
        ("agent_user_id", json!(agent)),
        ("selection_id", json!(selection)),
        ("updated_by_user_id", json!(by)),
        ("escrow_account_number", json!("40817810099910004312")),
        ("fixation_data", json!("very secret")),
        ("row_version", json!(4_294_967_295_i64)),
        ("amount", json!(1_000_000_000_000_000_i64)),
        ("currency", json!("USD")),
        ("updated_at", json!("2026-01-02T03:04:05.678901Z")),
    ] {
        deal[column] = value;
    }
    let id = put_deals(&[deal.clone()]).await[0];
    let expected = json!({
        "DealId": id, "Status": "Sale", "StepId": step["Id"], "StepGroup": "Contract",
        "UpdatedAt": "2026-01-02T03:04:05.678901Z", "RowVersion": 4_294_967_295_i64, "TenantId": developer,
        "PropertyObjectId": object, "ProjectName": "Лесной", "BuildingName": "1", "Number": "12",
        "ClientUserId": deal["client_user_id"], "AgentUserId": agent,
        "Amount": {"AmountMinor": 1_000_000_000_000_000_i64, "Currency": "USD"}, "StepEnteredAt": LONG_AGO,
        "BookingExpiresAt": null, "CreatedAt": LONG_AGO, "DeveloperName": "Ромашка", "StepName": step["Name"],
        "SelectionId": selection, "ContractType": "Ddu", "PaymentMethod": "Cash", "CancelledAt": null,
        "CancelReason": null, "CompletedAt": null, "CreatedByUserId": deal["created_by_user_id"],
        "UpdatedByUserId": by,
    });
    for (permission, company, family) in [
        (MANAGE, None, PLATFORM),
        (CARE, None, PLATFORM),
        (READ_OWN, Some(developer), OWN),
        (MANAGE_OWN, Some(developer), OWN),
    ] {
        let by = service().caller(&holder(company, &[permission]));
        assert_eq!(by.get(&format!("{family}/deals/{id}")).await.expect(200), expected, "{permission}");
    }
}

/// Section 1: another company's deal is as if it did not exist, `traceId` and `instance` apart.
#[tokio::test]
async fn another_companys_deal_is_as_none() {
    let developer = create_developer().await;
    let id = put_deals(&[deal_in(&steps(developer).await[0])]).await[0];
    let stranger = service().caller(&holder(Some(guid()), &[READ_OWN, MANAGE_OWN]));
    for below in BELOW {
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

/// Section 1: `-own` permissions reach the token's company and no further, in whatever scope; those of the platform count nowhere under C.
#[tokio::test]
async fn permissions_reach_as_far_as_they_say() {
    let developer = create_developer().await;
    let id = put_deals(&[deal_in(&steps(developer).await[0])]).await[0];
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
        let by = service().caller(&holder(company, &permissions));
        assert_eq!(by.get(&own).await.status, of_own, "{permissions:?} {company:?}");
        assert_eq!(by.get(&all).await.status, of_all, "{permissions:?} {company:?}");
    }
}

/// Section 1, Order: the permission before path and query; an id that is none is 404, the empty one 400.
#[tokio::test]
async fn a_path_is_looked_at_after_the_permission() {
    let nobody = service().caller(&holder(Some(guid()), &[]));
    let (all, own) = (platform(), service().caller(&holder(Some(guid()), &[READ_OWN])));
    for (family, by) in [(PLATFORM, all), (OWN, own)] {
        for below in BELOW.into_iter().map(|below| ("deals", below)).chain([("board/columns", "")]) {
            let path = |id: &str| format!("{family}/{}/{id}{}?Cursor=x", below.0, below.1);
            for id in ["x", "00000000-0000-0000-0000-000000000000"] {
                nobody.get(&path(id)).await.expect_problem(403, "FORBIDDEN");
                service().guest().get(&path(id)).await.expect_problem(401, "UNAUTHORIZED");
            }
            by.get(&path("x")).await.expect_problem(404, "NOT_FOUND");
            let field = if below.0 == "deals" { "/DealId" } else { "/StepId" };
            let empty = by.get(&path("00000000-0000-0000-0000-000000000000")).await;
            empty.expect_refusal("VALIDATION_FAILED", field, "empty_id");
        }
    }
}

/// What is read is changed by no other method.
#[tokio::test]
async fn what_is_read_takes_no_other_method() {
    let path = format!("{PLATFORM}/deals/{}/timeline", guid());
    let refused = testkit::client::send(platform().request(Method::DELETE, &path)).await;
    assert_eq!(refused.header("allow"), "GET, HEAD");
    refused.expect_problem(405, "METHOD_NOT_ALLOWED");
}
