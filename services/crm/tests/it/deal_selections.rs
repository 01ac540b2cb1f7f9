//! The selections of deals and of their clients, also while selections is unavailable.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::contract::Contract;
use testkit::faults::{Fault, FaultProxy};
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use uuid::Uuid;

use crate::rows::{deal_row, insert_deals, insert_with};
use crate::{
    CARE, DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN, OBJECT_UPSERTED, OWN, PLATFORM, READ_OWN, agent,
    create_developer, create_object, developer, guid, id_of, list, manager, object, platform, publish,
    selections, selections_proxy, service, steps, user_with, with,
};

const GET_SELECTION: &str = "/api/v1/internal/selections/{selection_id}";
const LIST_BY_OWNER: &str = "/api/v1/internal/selections/by-owner/{owner_user_id}";

/// Creates a selection of an owner.
async fn create_selection(owner: Uuid) -> Value {
    let by = selections().caller(&Claims::user(owner));
    by.post("/api/v1/selections", json!({"Title": "Дома у леса"})).await.expect(201)
}

/// Returns the response of selections to crm.
async fn expected_response(path: &str) -> Value {
    selections().machine("crm").get(path).await.expect(200)
}

/// Creates a deal with a client, an agent and a selection. Returns its id and its developer.
async fn create(client: Uuid, agent: Option<Uuid>, selection: Option<Uuid>) -> (Uuid, Uuid) {
    let developer = create_developer().await;
    let mut deal = deal_row(&steps(developer).await[0]);
    (deal["client_user_id"], deal["agent_user_id"], deal["selection_id"]) =
        (json!(client), json!(agent), json!(selection));
    (insert_deals(&[deal]).await[0], developer)
}

async fn read(deal: Uuid) -> Response {
    platform().get(&format!("{PLATFORM}/deals/{deal}/selection")).await
}

/// RULE-CRM-058, RULE-CRM-070: every reader of the deal gets the unchanged response of selections.
/// A deleted selection keeps the content that it had at its deletion, whatever its owner sends.
#[tokio::test]
async fn selection_of_the_client_is_returned() {
    let client = guid();
    let selection = id_of(&create_selection(client).await["Id"]);
    let (deal, developer) = create(client, Some(guid()), Some(selection)).await;
    let path = format!("/api/v1/internal/selections/{selection}");
    let expected = expected_response(&path).await;
    for (permission, family) in
        [(MANAGE, PLATFORM), (CARE, PLATFORM), (READ_OWN, OWN), ("crm.deals.manage-own", OWN)]
    {
        let by = service().caller(&user_with(Some(developer), &[permission]));
        let shown = by.get(&format!("{family}/deals/{deal}/selection")).await.expect(200);
        assert_eq!(shown, expected, "{permission}");
    }
    let owner = selections().caller(&Claims::user(client));
    let own = format!("/api/v1/selections/{selection}");
    owner.delete(&own).await.expect(204);
    let changed = owner.put(&own, json!({"Title": "y", "Description": "later"})).await;
    changed.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let deleted = read(deal).await.expect(200);
    assert!(deleted["DeletedAt"].is_string());
    for member in ["Title", "Description", "Items", "ItemsCount", "OwnerUserId"] {
        assert_eq!(deleted[member], expected[member], "{member}");
    }
    assert_eq!(deleted, expected_response(&path).await);
}

/// RULE-CRM-058, RULE-CRM-063: a missing, an unknown and a foreign selection have the same
/// response. A selection of the agent is foreign, too.
#[tokio::test]
async fn selection_of_another_owner_is_not_found() {
    let (client, stranger) = (guid(), guid());
    let foreign = id_of(&create_selection(stranger).await["Id"]);
    for (selection, agent) in
        [(None, None), (Some(guid()), None), (Some(foreign), None), (Some(foreign), Some(stranger))]
    {
        let (deal, developer) = create(client, agent, selection).await;
        let own = manager(developer).get(&format!("{OWN}/deals/{deal}/selection")).await;
        for response in [read(deal).await, own] {
            assert!(!response.text.contains(&stranger.to_string()), "{}", response.text);
            response.expect_problem(404, "CRM_SELECTION_NOT_FOUND");
        }
    }
    let (deal, _) = create(client, None, None).await;
    for (by, path) in [
        (platform(), format!("{PLATFORM}/deals/{}/selection", guid())),
        (platform(), format!("{PLATFORM}/deals/{}/client-selections", guid())),
        (manager(guid()), format!("{OWN}/deals/{deal}/selection")),
    ] {
        by.get(&path).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    }
}

/// RULE-CRM-058: platform managers get the selections of the client, up to 100 of them.
#[tokio::test]
async fn selections_of_the_client_are_listed() {
    let client = guid();
    // More than a page of the default size.
    for _ in 0..23 {
        create_selection(client).await;
    }
    let (deal, developer) = create(client, None, None).await;
    let path = format!("{PLATFORM}/deals/{deal}/client-selections");
    let shown = platform().get(&path).await.expect(200);
    assert_eq!(list(&shown["Items"]).len(), 23);
    assert_eq!(
        shown,
        expected_response(&format!("/api/v1/internal/selections/by-owner/{client}?PageSize=100")).await
    );
    service().caller(&user_with(None, &[CARE])).get(&path).await.expect_problem(403, "FORBIDDEN");
    let own = format!("{OWN}/deals/{deal}/client-selections");
    manager(developer).get(&own).await.expect_problem(404, "NOT_FOUND");
    let (of_other_client, _) = create(guid(), None, None).await;
    let none =
        platform().get(&format!("{PLATFORM}/deals/{of_other_client}/client-selections")).await.expect(200);
    assert_eq!(none["TotalCount"], 0);
}

/// A crm for one test with its proxy to selections. Each test has its own, since a circuit breaker
/// that one test opens would fail the calls of another.
struct Setup {
    proxy: FaultProxy,
    /// Stops when the setup is dropped.
    crm: Running,
    developer: Uuid,
    by: Client,
    deal: Uuid,
    selection: Uuid,
    client: Uuid,
}

impl Setup {
    async fn new() -> Self {
        let proxy = FaultProxy::start(selections().internal_url());
        let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
        let url = proxy.url();
        let crm = Running::start::<crm::Service>(&[("SELECTIONS_URL", &url), ("CLIENT_SECRET", secret)]);
        let (tenant, client) = (guid(), guid());
        publish(&crm, DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
        let by = crm.caller(&user_with(None, &[MANAGE]));
        let pipeline = by.get(&format!("{PLATFORM}/pipeline-steps?TenantId={tenant}")).await.expect(200);
        let selection = id_of(&create_selection(client).await["Id"]);
        let deal = with(
            with(deal_row(&pipeline["Steps"][0]), "client_user_id", json!(client)),
            "selection_id",
            json!(selection),
        );
        insert_with(&crm.sql().await, "deal", std::slice::from_ref(&deal)).await;
        Self { proxy, crm, developer: tenant, by, deal: id_of(&deal["id"]), selection, client }
    }

    async fn read(&self) -> Response {
        self.by.get(&format!("{PLATFORM}/deals/{}/selection", self.deal)).await
    }

    async fn list(&self) -> Response {
        self.by.get(&format!("{PLATFORM}/deals/{}/client-selections", self.deal)).await
    }
}

/// Asserts a 503 with `Retry-After` that shows nothing of the cause.
#[track_caller]
fn expect_unavailable(response: Response) {
    assert!(!response.header("retry-after").is_empty());
    let problem = response.expect_problem(503, "SERVICE_UNAVAILABLE").to_string();
    assert!(!problem.contains("127.0.0.1") && !problem.contains("SELECTIONS"), "{problem}");
}

/// RULE-CRM-058: the response is 503 after two retries, and after a 500 without a retry. Other
/// operations continue, and the routes recover when selections does.
#[tokio::test]
async fn outage_of_selections_affects_its_routes_only() {
    for (fault, tries) in [
        (Fault::Drop, 3),
        (Fault::Respond(503, String::new()), 3),
        (Fault::problem(429, "SELECTIONS_RATE_LIMITED"), 3),
        (Fault::Garbage, 3),
        (Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"), 1),
    ] {
        let setup = Setup::new().await;
        let path = format!("/selections/{}", setup.selection);
        setup.proxy.inject(path.clone(), fault.clone());
        expect_unavailable(setup.read().await);
        assert_eq!(setup.proxy.calls(&path).len(), tries, "{fault:?}");
        let by_owner = format!("/by-owner/{}", setup.client);
        setup.proxy.inject(by_owner.clone(), fault.clone());
        expect_unavailable(setup.list().await);
        assert_eq!(setup.proxy.calls(&by_owner).len(), tries, "{fault:?}");
        setup.by.get(&format!("{PLATFORM}/deals/{}", setup.deal)).await.expect(200);
        setup.by.get(&format!("{PLATFORM}/deals/{}/timeline", setup.deal)).await.expect(200);
        setup.proxy.remove_faults();
        testkit::eventually("selections is back", async || (setup.read().await.status == 200).then_some(()))
            .await;
        setup.list().await.expect(200);
    }
}

/// RULE-CRM-058, RULE-ALL-039: each attempt sends the machine token and the request's trace, never
/// the caller's token.
#[tokio::test]
async fn each_call_sends_the_machine_token_and_the_trace() {
    let setup = Setup::new().await;
    let trace = guid().simple().to_string();
    for (below, path) in [
        ("selection", format!("/selections/{}", setup.selection)),
        ("client-selections", format!("/by-owner/{}", setup.client)),
    ] {
        setup.proxy.inject_next(2, path.clone(), Fault::Respond(503, String::new()));
        let request = setup.by.request(Method::GET, &format!("{PLATFORM}/deals/{}/{below}", setup.deal));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        send(request).await.expect(200);
        let calls = setup.proxy.calls(&path);
        assert_eq!(calls.len(), 3, "{below}");
        for call in calls {
            let parts: Vec<_> = call.headers["traceparent"].split('-').collect();
            assert_eq!(parts[1], trace, "{below}");
            assert_ne!(parts[2], "00f067aa0ba902b7", "a span of its own");
            let claims = claims(&call.headers["authorization"]);
            assert_eq!((&claims["client_id"], &claims["aud"]), (&json!("crm"), &json!("platform-internal")));
        }
    }
}

/// Returns the claims of a bearer token.
fn claims(authorization: &str) -> Value {
    let token = authorization.strip_prefix("Bearer ").unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

/// RULE-CRM-058: an attempt over 5 s fails and is retried.
#[tokio::test]
async fn attempt_over_five_seconds_is_retried() {
    let setup = Setup::new().await;
    setup.proxy.inject_next(
        1,
        format!("/selections/{}", setup.selection),
        Fault::Delay(Duration::from_secs(7)),
    );
    assert_eq!(setup.read().await.expect(200)["Id"], json!(setup.selection));
    assert_eq!(setup.proxy.calls(format!("/selections/{}", setup.selection)).len(), 2);
}

/// RULE-CRM-058, RULE-ALL-066: every request is documented by selections, and every documented
/// response is accepted.
#[tokio::test]
async fn requests_and_responses_match_the_contract_of_selections() {
    let provider = Contract::read(&::service::contracts::<selections::Service>().unwrap().openapi).unwrap();
    let client = guid();
    let selection = id_of(&create_selection(client).await["Id"]);
    let (deal, _) = create(client, None, Some(selection)).await;
    read(deal).await.expect(200);
    platform().get(&format!("{PLATFORM}/deals/{deal}/client-selections")).await.expect(200);
    for path in [format!("/selections/{selection}"), format!("/by-owner/{client}")] {
        let calls = selections_proxy().calls(&path);
        assert_eq!(calls.len(), 1, "{path}");
        provider
            .check_request(&calls[0].method, calls[0].path.split('?').next().unwrap(), &calls[0].body)
            .unwrap();
    }
    let responses = provider.examples("GET", GET_SELECTION);
    assert!(
        responses.iter().any(|(_, example)| example["code"] == "SELECTIONS_NOT_FOUND"),
        "selections documents the code that crm maps to 404"
    );
    let setup = Setup::new().await;
    for (status, mut example) in responses.into_iter().chain(provider.success_samples("GET", GET_SELECTION)) {
        setup.proxy.remove_faults();
        if status == 200 {
            example["OwnerUserId"] = json!(setup.client);
        }
        setup
            .proxy
            .inject(format!("/selections/{}", setup.selection), Fault::Respond(status, example.to_string()));
        let response = setup.read().await;
        match example["code"].as_str() {
            None => assert_eq!(response.expect(200), example),
            Some("SELECTIONS_NOT_FOUND") => drop(response.expect_problem(404, "CRM_SELECTION_NOT_FOUND")),
            Some(_) => expect_unavailable(response),
        }
    }
    let responses = provider.examples("GET", LIST_BY_OWNER);
    for (status, example) in responses.into_iter().chain(provider.success_samples("GET", LIST_BY_OWNER)) {
        setup.proxy.remove_faults();
        setup
            .proxy
            .inject(format!("/by-owner/{}", setup.client), Fault::Respond(status, example.to_string()));
        let response = setup.list().await;
        match example["code"].as_str() {
            None => assert_eq!(response.expect(200), example),
            Some(_) => expect_unavailable(response),
        }
    }
}

/// RULE-CRM-069, RULE-CRM-070: a new deal has a selection of its client that is not deleted.
/// Unknown, foreign and deleted selections have the same response in both route families.
#[tokio::test]
async fn new_deal_has_a_selection_of_its_client_only() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let (client, agent) = (guid(), agent().await);
    let of_client = id_of(&create_selection(client).await["Id"]);
    let (of_agent, of_stranger) = (create_selection(agent).await, create_selection(guid()).await);
    let deleted = id_of(&create_selection(client).await["Id"]);
    let owner = selections().caller(&Claims::user(client));
    owner.delete(&format!("/api/v1/selections/{deleted}")).await.expect(204);
    for (by, base) in [(platform(), PLATFORM), (manager(developer), OWN)] {
        let create = async |selection: Uuid| {
            let body = json!({
                "PropertyObjectId": flat, "ClientUserId": client, "AgentUserId": agent, "SelectionId": selection,
            });
            by.post(&format!("{base}/deals"), body).await
        };
        for selection in [guid(), id_of(&of_agent["Id"]), id_of(&of_stranger["Id"]), deleted] {
            create(selection).await.expect_problem(422, "CRM_SELECTION_NOT_OF_CLIENT");
        }
        let created = create(of_client).await.expect(201);
        assert_eq!(created["SelectionId"], json!(of_client));
    }
}

/// RULE-CRM-069: a collaborator, a former one and their colleagues create no deal with a selection
/// whose id they know from the collaboration. The owner's copy of it has an id of its own.
#[tokio::test]
async fn new_deal_has_no_selection_that_has_had_a_collaborator() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let (client, collaborator) = (guid(), user_with(Some(developer), &[MANAGE_OWN]));
    let shared = id_of(&create_selection(client).await["Id"]);
    let owner = selections().caller(&Claims::user(client));
    let collaborators = format!("/api/v1/selections/{shared}/collaborators/{}", collaborator.sub);
    owner.put(&collaborators, Value::Null).await.expect(204);
    let create = async |by: &Client, selection: Uuid| {
        let body = json!({"PropertyObjectId": flat, "ClientUserId": client, "SelectionId": selection});
        by.post(&format!("{OWN}/deals"), body).await
    };
    let (collaborator, colleague) = (service().caller(&collaborator), manager(developer));
    for by in [&collaborator, &colleague] {
        create(by, shared).await.expect_problem(422, "CRM_SELECTION_NOT_OF_CLIENT");
    }
    owner.delete(&collaborators).await.expect(204);
    for by in [&collaborator, &colleague] {
        create(by, shared).await.expect_problem(422, "CRM_SELECTION_NOT_OF_CLIENT");
    }
    let copy = owner.post(&format!("/api/v1/selections/{shared}/duplicate"), json!({})).await.expect(201);
    create(&colleague, id_of(&copy["Id"])).await.expect(201);
}

/// RULE-CRM-058, RULE-CRM-069: while selections is unavailable, a creation with a selection is 503
/// and makes no deal. Other creations and repeats succeed.
#[tokio::test]
async fn outage_of_selections_refuses_new_deals_with_a_selection() {
    let setup = Setup::new().await;
    let flat = guid();
    publish(&setup.crm, OBJECT_UPSERTED, "Id", &object(flat, setup.developer, "Available")).await;
    let create = async |body: Value| setup.by.post(&format!("{PLATFORM}/deals"), body).await;
    let body = json!({"PropertyObjectId": flat, "ClientUserId": setup.client, "RequestId": guid()});
    let with_selection = with(body.clone(), "SelectionId", json!(setup.selection));
    let path = format!("/selections/{}", setup.selection);
    setup.proxy.inject(path.clone(), Fault::Drop);
    expect_unavailable(create(with_selection.clone()).await);
    let of_flat = format!("{PLATFORM}/deals?PropertyObjectId={flat}");
    assert_eq!(setup.by.get(&of_flat).await.expect(200)["TotalCount"], 0);
    create(with(body, "RequestId", json!(guid()))).await.expect(201);
    setup.proxy.remove_faults();
    let created = testkit::eventually("selections is back", async || {
        let response = create(with_selection.clone()).await;
        (response.status == 201).then_some(response)
    });
    let created = created.await.expect(201);
    setup.proxy.inject(path, Fault::Drop);
    let repeated = create(with_selection).await.expect(200);
    assert_eq!(repeated["DealId"], created["DealId"]);
}
