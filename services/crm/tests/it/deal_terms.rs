//! The parties of a deal and its amount.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    DEVELOPER_UPSERTED, Deal, MANAGE, MANAGE_OWN, OBJECT_UPSERTED, OWN, PLATFORM, agency, agent, company,
    contract, create_agent, create_deal, create_developer, create_object, developer, each, employment, id_of,
    manager, object, platform, publish, publish_company, publish_employment, publish_object, rub, service,
    start, user_with, with,
};

/// Returns a manager of a developer and a platform manager, each with its user id and base path.
fn callers(developer: Uuid) -> [(Uuid, Client, &'static str); 2] {
    let caller = |company, permission| {
        let id = guid();
        let claims = Claims { sub: id.to_string(), ..user_with(company, &[permission]) };
        (id, service().caller(&claims))
    };
    let (manager_id, manager) = caller(Some(developer), MANAGE_OWN);
    let (platform_id, platform) = caller(None, MANAGE);
    [(manager_id, manager, OWN), (platform_id, platform, PLATFORM)]
}

/// Returns a body that creates a deal.
fn creation(object: Uuid, client: Uuid, agent: Option<Uuid>) -> Value {
    json!({"PropertyObjectId": object, "ClientUserId": client, "AgentUserId": agent})
}

/// RULE-CRM-064, RULE-CRM-065, RULE-CRM-067, RULE-CRM-068: an employee of a developer cannot create
/// a commission for themselves.
#[tokio::test]
async fn employee_cannot_create_a_commission_for_themselves() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let [(actor, by, base), _] = callers(developer);
    let price = json!({"AmountMinor": 1_000_000_000_000_000_i64, "Currency": "RUB"});
    let create = async |body: Value| by.post(&format!("{base}/deals"), body).await;
    let wanted = with(creation(flat, guid(), Some(actor)), "Amount", price.clone());
    create(wanted.clone()).await.expect_problem(422, "CRM_AGENT_IS_ACTOR");
    let stranger = with(wanted.clone(), "AgentUserId", json!(guid()));
    create(stranger).await.expect_problem(422, "CRM_AGENT_NOT_ACTIVE");
    let employed = with(wanted, "AgentUserId", json!(agent().await));
    create(employed.clone()).await.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    let as_client = with(employed.clone(), "ClientUserId", json!(actor));
    create(as_client).await.expect_problem(422, "CRM_CLIENT_IS_ACTOR");
    let honest = with(employed, "Amount", rub(700_000_000));
    let deal = id_of(&create(honest).await.expect(201)["DealId"]);
    let deal = Deal { id: deal, object: flat, developer };
    let refused = by.put(&deal.own("/agent"), json!({"AgentUserId": actor})).await;
    refused.expect_problem(422, "CRM_AGENT_IS_ACTOR");
    let refused = by.put(&deal.own("/contract"), json!({"Amount": price})).await;
    refused.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    assert_eq!(each(&deal.timeline().await, "Kind"), ["DealCreated"]);
    assert_eq!(deal.read().await["RowVersion"], 1);
}

/// INV-DEAL-11, RULE-CRM-064, RULE-CRM-065, RULE-CRM-066: the acting user, the client and the agent
/// are different persons in both route families, at the creation and at a change of the agent.
#[tokio::test]
async fn acting_user_client_and_agent_are_different_persons() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let (client, agent) = (guid(), agent().await);
    for (actor, by, base) in callers(developer) {
        let create =
            async |client, agent| by.post(&format!("{base}/deals"), creation(flat, client, agent)).await;
        for agent in [None, Some(agent), Some(actor)] {
            create(actor, agent).await.expect_problem(422, "CRM_CLIENT_IS_ACTOR");
        }
        create(client, Some(actor)).await.expect_problem(422, "CRM_AGENT_IS_ACTOR");
        create(agent, Some(agent)).await.expect_problem(422, "CRM_AGENT_IS_CLIENT");
        let created = create(client, None).await.expect(201);
        let path = format!("{base}/deals/{}/agent", id_of(&created["DealId"]));
        let set = async |agent: Option<Uuid>| by.put(&path, json!({"AgentUserId": agent})).await;
        set(Some(actor)).await.expect_problem(422, "CRM_AGENT_IS_ACTOR");
        set(Some(client)).await.expect_problem(422, "CRM_AGENT_IS_CLIENT");
        assert_eq!(set(Some(agent)).await.expect(200)["RowVersion"], 2);
        assert_eq!(set(None).await.expect(200)["RowVersion"], 3);
        // Another user has created this deal of the acting user.
        let created = platform().post(&format!("{PLATFORM}/deals"), creation(flat, actor, None)).await;
        let deal = id_of(&created.expect(201)["DealId"]);
        let refused = by.put(&format!("{base}/deals/{deal}/agent"), json!({"AgentUserId": agent})).await;
        refused.expect_problem(422, "CRM_CLIENT_IS_ACTOR");
        assert_eq!(by.get(&format!("{base}/deals/{deal}")).await.expect(200)["AgentUserId"], Value::Null);
    }
}

/// INV-DEAL-11, RULE-CRM-064, RULE-CRM-065: the client and the agent neither change the amount of
/// their deal nor complete it.
#[tokio::test]
async fn client_and_agent_do_not_decide_their_commission() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    for (actor, by, base) in callers(developer) {
        for (client, agent, code) in
            [(actor, None, "CRM_CLIENT_IS_ACTOR"), (guid(), Some(actor), "CRM_AGENT_IS_ACTOR")]
        {
            let created = platform().post(&format!("{PLATFORM}/deals"), creation(flat, client, agent)).await;
            let deal = Deal { id: id_of(&created.expect(201)["DealId"]), object: flat, developer };
            deal.bring_to("Sale").await;
            let contract_path = format!("{base}/deals/{}/contract", deal.id);
            let same = with(contract(), "Amount", deal.read().await["Amount"].clone());
            by.put(&contract_path, same).await.expect(200);
            let higher = with(contract(), "Amount", rub(710_000_000));
            by.put(&contract_path, higher).await.expect_problem(422, code);
            // The platform completes only for a developer that is not Active.
            if base == OWN {
                let completion = json!({"RegistryRecordNumber": "77:01"});
                by.post(&deal.own("/complete"), completion).await.expect_problem(422, code);
            }
            assert_eq!(deal.read().await["Status"], "Sale");
        }
    }
}

/// RULE-CRM-067: on company routes the agent is an active employee of an active agency. The
/// platform chooses any agent.
#[tokio::test]
async fn agent_on_company_routes_is_an_active_employee_of_an_active_agency() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let deal = crate::create_deal_of(developer, flat).await;
    let by = manager(developer);
    let (user, company_id) = (guid(), guid());
    let create = async || by.post(&format!("{OWN}/deals"), creation(flat, guid(), Some(user))).await;
    let set = async || by.put(&deal.own("/agent"), json!({"AgentUserId": user})).await;
    let refused = async |reason: &str| {
        for response in [create().await, set().await] {
            assert_eq!(
                (response.status, &response.body["code"]),
                (422, &json!("CRM_AGENT_NOT_ACTIVE")),
                "{reason}"
            );
        }
    };
    refused("unknown").await;
    publish_employment(&employment(user, company_id, Some("Active"))).await;
    refused("the company is unknown").await;
    for kind in ["Developer", "Partner", "Platform"] {
        let other = guid();
        publish_company(&with(company(other, "Active"), "Type", kind)).await;
        publish_employment(&employment(user, other, Some("Active"))).await;
        refused(kind).await;
    }
    for status in ["Suspended", "Archived"] {
        publish_company(&agency(company_id, status)).await;
        publish_employment(&employment(user, company_id, Some("Active"))).await;
        refused(status).await;
    }
    publish_company(&agency(company_id, "Active")).await;
    for to in [Some("Suspended"), Some("OnLeave"), None] {
        publish_employment(&employment(user, company_id, to)).await;
        refused(&format!("{to:?}")).await;
    }
    platform().post(&format!("{PLATFORM}/deals"), creation(flat, guid(), Some(user))).await.expect(201);
    let stranger = json!({"AgentUserId": guid()});
    platform().put(&deal.path("/agent"), stranger).await.expect(200);
    publish_employment(&employment(user, company_id, Some("Active"))).await;
    assert_eq!(create().await.expect(201)["AgentUserId"], json!(user));
    set().await.expect(200);
    // An unchanged agent and a removal need no employment.
    publish_employment(&employment(user, company_id, None)).await;
    set().await.expect(200);
    by.put(&deal.own("/agent"), json!({})).await.expect(200);
}

/// RULE-CRM-068: on company routes an amount differs from the object's price by at most 20 percent.
/// The bounds are inclusive, and another currency always differs. The platform sets any amount.
#[tokio::test]
async fn amount_on_company_routes_is_close_to_the_price() {
    let developer = create_developer().await;
    let flat = guid();
    publish_object(&with(object(flat, developer, "Available"), "Price", rub(1_000))).await;
    let by = manager(developer);
    let dollars = json!({"AmountMinor": 1_000, "Currency": "USD"});
    for (amount, is_close) in
        [(rub(799), false), (rub(800), true), (rub(1_200), true), (rub(1_201), false), (dollars, false)]
    {
        let deal = crate::create_deal_of(developer, flat).await;
        let body = with(creation(flat, guid(), None), "Amount", amount.clone());
        let created = by.post(&format!("{OWN}/deals"), body.clone()).await;
        let changed = by.put(&deal.own("/contract"), json!({"Amount": amount})).await;
        if is_close {
            assert_eq!(created.expect(201)["Amount"], amount);
            assert_eq!(changed.expect(200)["RowVersion"], 2);
        } else {
            created.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
            changed.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
            let created = platform().post(&format!("{PLATFORM}/deals"), body).await.expect(201);
            assert_eq!(created["Amount"], amount);
            platform().put(&deal.path("/contract"), json!({"Amount": amount})).await.expect(200);
            assert_eq!(platform().get(&deal.path("/contract")).await.expect(200)["Amount"], amount);
        }
    }
}

/// RULE-CRM-068: on company routes a new amount is compared with the present price. An unchanged
/// amount is not compared. Without a valid price of the object, each new amount is refused.
#[tokio::test]
async fn only_a_new_amount_is_compared_with_the_present_price() {
    let deal = create_deal().await;
    let by = manager(deal.developer);
    let put = async |body: Value| by.put(&deal.own("/contract"), body).await;
    publish_object(&with(object(deal.object, deal.developer, "Available"), "Price", rub(10))).await;
    put(contract()).await.expect(200);
    put(with(contract(), "Amount", rub(700_000_000))).await.expect(200);
    put(with(contract(), "Amount", rub(700_000_001)))
        .await
        .expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    put(with(contract(), "Amount", rub(9))).await.expect(200);
    publish_object(&with(object(deal.object, deal.developer, "Available"), "Price", rub(0))).await;
    put(with(contract(), "Amount", rub(1))).await.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    let body = with(creation(deal.object, guid(), None), "Amount", rub(1));
    let refused = by.post(&format!("{OWN}/deals"), body.clone()).await;
    refused.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    platform().post(&format!("{PLATFORM}/deals"), body).await.expect(201);
}

/// RULE-CRM-068: `CRM_AMOUNT_TOLERANCE_PERCENT` is the tolerance.
#[tokio::test]
async fn tolerance_of_the_amount_is_a_setting() {
    let crm = start(&[("CRM_AMOUNT_TOLERANCE_PERCENT", "0")]);
    let (tenant, flat) = (guid(), guid());
    publish(&crm, DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
    publish(&crm, OBJECT_UPSERTED, "Id", &object(flat, tenant, "Available")).await;
    let agent = create_agent(&crm).await;
    let by = crm.caller(&user_with(Some(tenant), &[MANAGE_OWN]));
    let create = async |amount: i64| {
        let body = with(creation(flat, guid(), Some(agent)), "Amount", rub(amount));
        by.post(&format!("{OWN}/deals"), body).await
    };
    create(700_000_001).await.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    create(700_000_000).await.expect(201);
}

/// RULE-CRM-002, RULE-CRM-007, RULE-CRM-008: the parties are checked after the step, then the
/// agent, the amount and the selection. A stale version is the last refusal of a change.
#[tokio::test]
async fn terms_with_several_faults_report_the_first() {
    let tenant = guid();
    let flat = guid();
    publish_object(&object(flat, tenant, "Available")).await;
    let [(actor, by, base), _] = callers(tenant);
    let create = async |body: Value| by.post(&format!("{base}/deals"), body).await;
    let worst = with(creation(flat, actor, Some(actor)), "Amount", rub(1));
    create(worst.clone()).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    publish(service(), DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
    create(worst.clone()).await.expect_problem(422, "CRM_CLIENT_IS_ACTOR");
    let worst = with(worst, "ClientUserId", json!(guid()));
    create(worst.clone()).await.expect_problem(422, "CRM_AGENT_IS_ACTOR");
    let worst = with(worst, "AgentUserId", json!(guid()));
    create(with(worst.clone(), "SelectionId", json!(guid())))
        .await
        .expect_problem(422, "CRM_AGENT_NOT_ACTIVE");
    let worst = with(with(worst, "AgentUserId", json!(agent().await)), "SelectionId", json!(guid()));
    create(worst.clone()).await.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    let worst = with(worst, "Amount", rub(700_000_000));
    create(worst).await.expect_problem(422, "CRM_SELECTION_NOT_OF_CLIENT");
    let deal = crate::create_deal_of(tenant, flat).await;
    let set = async |body: Value| by.put(&deal.own("/agent"), with(body, "RowVersion", 0)).await;
    set(json!({"AgentUserId": actor})).await.expect_problem(422, "CRM_AGENT_IS_ACTOR");
    set(json!({"AgentUserId": guid()})).await.expect_problem(422, "CRM_AGENT_NOT_ACTIVE");
    set(json!({})).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    deal.bring_to("Sale").await;
    let put = async |body: Value| by.put(&deal.own("/contract"), with(body, "RowVersion", 0)).await;
    put(json!({"Amount": rub(1)})).await.expect_problem(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    put(with(contract(), "Amount", rub(1))).await.expect_problem(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
    put(with(contract(), "Amount", rub(700_000_001))).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    deal.bring_to("Cancelled").await;
    set(json!({"AgentUserId": actor})).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
    put(json!({"Amount": rub(1)})).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
}
