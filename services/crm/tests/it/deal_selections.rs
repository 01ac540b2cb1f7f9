//! The selections beside a deal: what is shown to whom, and what CRM answers while selections is away.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::contract::Contract;
use testkit::faults::{Fault, Faults};
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use uuid::Uuid;

use crate::fill::{deal_in, put_deals};
use crate::{
    CARE, DEVELOPER_UPSERTED, MANAGE, OWN, PLATFORM, READ_OWN, between, create_developer, developer, guid,
    holder, id_of, list, manager, platform, selections, service, steps, tell, with,
};

const ONE: &str = "/api/v1/internal/selections/{selection_id}";
const OF_OWNER: &str = "/api/v1/internal/selections/by-owner/{owner_user_id}";

/// A selection of this owner.
async fn create_selection(owner: Uuid) -> Value {
    let by = selections().caller(&Claims::user(owner));
    by.post("/api/v1/selections", json!({"Title": "Дома у леса"})).await.expect(201)
}

/// What selections answers to CRM.
async fn of_selections(path: &str) -> Value {
    selections().machine("crm").get(path).await.expect(200)
}

/// A deal of this client, agent and selection.
async fn create(client: Uuid, agent: Option<Uuid>, selection: Option<Uuid>) -> (Uuid, Uuid) {
    let developer = create_developer().await;
    let mut deal = deal_in(&steps(developer).await[0]);
    (deal["client_user_id"], deal["agent_user_id"], deal["selection_id"]) =
        (json!(client), json!(agent), json!(selection));
    (put_deals(&[deal]).await[0], developer)
}

async fn read(deal: Uuid) -> Answer {
    platform().get(&format!("{PLATFORM}/deals/{deal}/selection")).await
}

/// Answered as selections shows it, if its owner is the deal's client or agent, to all who read deals; a deleted one, too.
#[tokio::test]
async fn a_deals_selection_is_shown() {
    let (client, agent) = (guid(), guid());
    for owner in [client, agent] {
        let selection = id_of(&create_selection(owner).await["Id"]);
        let (deal, developer) = create(client, Some(agent), Some(selection)).await;
        let path = format!("/api/v1/internal/selections/{selection}");
        let expected = of_selections(&path).await;
        for (permission, family) in
            [(MANAGE, PLATFORM), (CARE, PLATFORM), (READ_OWN, OWN), ("crm.deals.manage-own", OWN)]
        {
            let by = service().caller(&holder(Some(developer), &[permission]));
            let shown = by.get(&format!("{family}/deals/{deal}/selection")).await.expect(200);
            assert_eq!(shown, expected, "{permission}");
        }
        let owner = selections().caller(&Claims::user(owner));
        owner.delete(&format!("/api/v1/selections/{selection}")).await.expect(204);
        let deleted = read(deal).await.expect(200);
        assert!(deleted["DeletedAt"].is_string());
        assert_eq!(deleted, of_selections(&path).await);
    }
}

/// None on the deal, unknown to selections, or somebody else's: all alike.
#[tokio::test]
async fn a_selection_that_is_not_theirs_is_not_found() {
    let (client, stranger) = (guid(), guid());
    let theirs = id_of(&create_selection(stranger).await["Id"]);
    for selection in [None, Some(guid()), Some(theirs)] {
        let (deal, developer) = create(client, None, selection).await;
        let own = manager(developer).get(&format!("{OWN}/deals/{deal}/selection")).await;
        for answer in [read(deal).await, own] {
            assert!(!answer.text.contains(&stranger.to_string()), "{}", answer.text);
            answer.expect_problem(404, "CRM_SELECTION_NOT_FOUND");
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

/// The client's selections, all of them, for the platform's managers alone.
#[tokio::test]
async fn the_clients_selections_are_listed() {
    let client = guid();
    for _ in 0..23 {
        create_selection(client).await;
    }
    let (deal, developer) = create(client, None, None).await;
    let path = format!("{PLATFORM}/deals/{deal}/client-selections");
    let shown = platform().get(&path).await.expect(200);
    assert_eq!(list(&shown["Items"]).len(), 23);
    assert_eq!(
        shown,
        of_selections(&format!("/api/v1/internal/selections/by-owner/{client}?PageSize=100")).await
    );
    service().caller(&holder(None, &[CARE])).get(&path).await.expect_problem(403, "FORBIDDEN");
    let own = format!("{OWN}/deals/{deal}/client-selections");
    manager(developer).get(&own).await.expect_problem(404, "NOT_FOUND");
    let (nobodys, _) = create(guid(), None, None).await;
    let none = platform().get(&format!("{PLATFORM}/deals/{nobodys}/client-selections")).await.expect(200);
    assert_eq!(none["TotalCount"], 0);
}

/// A CRM of a test's own, since it keeps a breaker, and what stands between it and selections.
struct Scene {
    between: Faults,
    /// Ends with the scene.
    _crm: Running,
    by: Client,
    deal: Uuid,
    selection: Uuid,
    client: Uuid,
}

impl Scene {
    async fn new() -> Self {
        let between = Faults::before(selections().internal_url());
        let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
        let url = between.url();
        let crm = Running::start::<crm::Service>(&[("SELECTIONS_URL", &url), ("CLIENT_SECRET", secret)]);
        let (tenant, client) = (guid(), guid());
        tell(&crm, DEVELOPER_UPSERTED, "Id", &developer(tenant)).await;
        let by = crm.caller(&holder(None, &[MANAGE]));
        let pipeline = by.get(&format!("{PLATFORM}/pipeline-steps?TenantId={tenant}")).await.expect(200);
        let selection = id_of(&create_selection(client).await["Id"]);
        let deal = with(
            with(deal_in(&pipeline["Steps"][0]), "client_user_id", json!(client)),
            "selection_id",
            json!(selection),
        );
        let sql = crm.sql().await;
        let insert = "insert into deal select * from json_populate_record(null::deal, $1::text::json)";
        sql.execute(insert, &[&deal.to_string()]).await.unwrap();
        Self { between, _crm: crm, by, deal: id_of(&deal["id"]), selection, client }
    }

    async fn read(&self) -> Answer {
        self.by.get(&format!("{PLATFORM}/deals/{}/selection", self.deal)).await
    }

    async fn list(&self) -> Answer {
        self.by.get(&format!("{PLATFORM}/deals/{}/client-selections", self.deal)).await
    }
}

/// `503` with `Retry-After`, and nothing of the cause.
#[track_caller]
fn expect_unavailable(answer: Answer) {
    assert!(!answer.header("retry-after").is_empty());
    let problem = answer.expect_problem(503, "SERVICE_UNAVAILABLE").to_string();
    assert!(!problem.contains("127.0.0.1") && !problem.contains("SELECTIONS"), "{problem}");
}

/// Selections away, twice repeated: 503. No other operation needs it, and afterwards all is well again.
#[tokio::test]
async fn selections_being_away_is_503_for_what_needs_it() {
    for (fault, tries) in [
        (Fault::Drop, 3),
        (Fault::Answer(503, String::new()), 3),
        (Fault::problem(429, "SELECTIONS_RATE_LIMITED"), 3),
        (Fault::Garbage, 3),
        (Fault::problem(500, "SELECTIONS_INTERNAL_ERROR"), 1),
    ] {
        let scene = Scene::new().await;
        let path = format!("/selections/{}", scene.selection);
        scene.between.on(path.clone(), fault.clone());
        expect_unavailable(scene.read().await);
        assert_eq!(scene.between.calls(&path).len(), tries, "{fault:?}");
        let of_owner = format!("/by-owner/{}", scene.client);
        scene.between.on(of_owner.clone(), fault.clone());
        expect_unavailable(scene.list().await);
        assert_eq!(scene.between.calls(&of_owner).len(), tries, "{fault:?}");
        scene.by.get(&format!("{PLATFORM}/deals/{}", scene.deal)).await.expect(200);
        scene.by.get(&format!("{PLATFORM}/deals/{}/timeline", scene.deal)).await.expect(200);
        scene.between.heal();
        testkit::eventually("selections is back", async || (scene.read().await.status == 200).then_some(()))
            .await;
        scene.list().await.expect(200);
    }
}

/// The call carries the machine token and the trace of the request, each try of it, whoever asks; never the caller's own token.
#[tokio::test]
async fn each_call_carries_the_machine_token_and_the_trace() {
    let scene = Scene::new().await;
    let trace = guid().simple().to_string();
    for (below, path) in [
        ("selection", format!("/selections/{}", scene.selection)),
        ("client-selections", format!("/by-owner/{}", scene.client)),
    ] {
        scene.between.next(2, path.clone(), Fault::Answer(503, String::new()));
        let request = scene.by.request(Method::GET, &format!("{PLATFORM}/deals/{}/{below}", scene.deal));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        send(request).await.expect(200);
        let calls = scene.between.calls(&path);
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

/// What a token says.
fn claims(authorization: &str) -> Value {
    let token = authorization.strip_prefix("Bearer ").unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

/// Over 5 s is away. One that is late once is asked again.
#[tokio::test]
async fn selections_that_is_late_is_asked_again() {
    let scene = Scene::new().await;
    scene.between.next(1, format!("/selections/{}", scene.selection), Fault::Slow(Duration::from_secs(7)));
    assert_eq!(scene.read().await.expect(200)["Id"], json!(scene.selection));
    assert_eq!(scene.between.calls(format!("/selections/{}", scene.selection)).len(), 2);
}

/// What CRM relies on selections for is what selections documents: every request, and every answer is understood.
#[tokio::test]
async fn what_is_asked_and_answered_is_what_selections_documents() {
    let provider = Contract::read(&::service::contracts::<selections::Service>().unwrap().openapi).unwrap();
    let client = guid();
    let selection = id_of(&create_selection(client).await["Id"]);
    let (deal, _) = create(client, None, Some(selection)).await;
    read(deal).await.expect(200);
    platform().get(&format!("{PLATFORM}/deals/{deal}/client-selections")).await.expect(200);
    for path in [format!("/selections/{selection}"), format!("/by-owner/{client}")] {
        let calls = between().calls(&path);
        assert_eq!(calls.len(), 1, "{path}");
        provider
            .check_request(&calls[0].method, calls[0].path.split('?').next().unwrap(), &calls[0].body)
            .unwrap();
    }
    let answers = provider.examples("GET", ONE);
    assert!(
        answers.iter().any(|(_, example)| example["code"] == "SELECTIONS_NOT_FOUND"),
        "what CRM has words for"
    );
    let scene = Scene::new().await;
    for (status, mut example) in answers.into_iter().chain(provider.successes("GET", ONE)) {
        scene.between.heal();
        if status == 200 {
            example["OwnerUserId"] = json!(scene.client);
        }
        scene
            .between
            .on(format!("/selections/{}", scene.selection), Fault::Answer(status, example.to_string()));
        let answer = scene.read().await;
        match example["code"].as_str() {
            None => assert_eq!(answer.expect(200), example),
            Some("SELECTIONS_NOT_FOUND") => drop(answer.expect_problem(404, "CRM_SELECTION_NOT_FOUND")),
            Some(_) => expect_unavailable(answer),
        }
    }
    let answers = provider.examples("GET", OF_OWNER);
    for (status, example) in answers.into_iter().chain(provider.successes("GET", OF_OWNER)) {
        scene.between.heal();
        scene.between.on(format!("/by-owner/{}", scene.client), Fault::Answer(status, example.to_string()));
        let answer = scene.list().await;
        match example["code"].as_str() {
            None => assert_eq!(answer.expect(200), example),
            Some(_) => expect_unavailable(answer),
        }
    }
}
