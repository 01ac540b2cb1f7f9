//! Private data: texts of people and contract data appear only where they are documented, and in
//! no other response, event, log line, span or metric.

use std::sync::Mutex;

use crm::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::skip_to_end;
use testkit::client::{Client, Response, send};
use testkit::database;
use testkit::deployed::Deployed;
use testkit::issuer::CLIENTS;
use uuid::Uuid;

use crate::{
    CANCELLED, CARE, COMPANY_UPSERTED, CREATED, DEVELOPER_UPSERTED, EMPLOYMENT, MANAGE, MANAGE_OWN,
    OBJECT_UPSERTED, OWN, PIPELINE_OWN, PLATFORM, agency, company, developer, employment, eventually, guid,
    id_of, in_days, list, next_number, object, payloads, selections, service, text, user_with, with,
};

/// Marks: values of private fields, which are recognizable in any output.
const ESCROW: &str = "40817810900000071377";
const FIXATION: &str = "marked-fixation";
const COMMENT: &str = "marked-comment";
const REASON: &str = "marked-reason";
const CANCEL_REASON: &str = "marked-cancellation";
const NOTE: &str = "marked-note";
const REGISTRY_NUMBER: &str = "marked-number";
const CONTRACT_NUMBER: &str = "marked-contract";
const VIEW_NAME: &str = "marked-view";
const ALL: [&str; 9] =
    [ESCROW, FIXATION, COMMENT, REASON, CANCEL_REASON, NOTE, REGISTRY_NUMBER, CONTRACT_NUMBER, VIEW_NAME];
const TIMELINE_MARKS: [&str; 5] = [COMMENT, REASON, CANCEL_REASON, NOTE, REGISTRY_NUMBER];

/// A deployed service. Each of its responses is checked for marks.
struct Watched {
    crm: Deployed,
    sql: tokio_postgres::Client,
    platform: Client,
    care: Client,
    manager: Client,
    developer: Uuid,
    /// An active employee of an active agency.
    agent: Uuid,
    trace: String,
    /// The number of checked responses.
    checked: Mutex<usize>,
}

fn find_marks<'m>(text: &str, marks: &[&'m str]) -> Vec<&'m str> {
    let text = text.to_lowercase();
    marks.iter().filter(|mark| text.contains(**mark)).copied().collect()
}

impl Watched {
    async fn start() -> Self {
        let url = database::create().await.unwrap();
        let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
        let suffix = format!(".{}", guid().simple());
        skip_to_end::<Service>(&suffix).await.unwrap();
        let settings = [
            ("DATABASE_URL", url.as_str()),
            ("KAFKA_GROUP_SUFFIX", &suffix),
            ("LOG", "debug"),
            ("SELECTIONS_URL", &selections().internal_url()),
            ("CLIENT_SECRET", secret),
            ("CRM_BOOKING_EXPIRY_INTERVAL_MS", "50"),
            ("CRM_BOOKING_TTL_SECONDS", "1"),
        ];
        let crm = Deployed::start(env!("CARGO_BIN_EXE_crm"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = crm").await.unwrap();
        let id = guid();
        let watched = Self {
            platform: crm.caller(&user_with(None, &[MANAGE])),
            care: crm.caller(&user_with(None, &[CARE])),
            manager: crm.caller(&user_with(Some(id), &[MANAGE_OWN, PIPELINE_OWN])),
            crm,
            sql,
            developer: id,
            agent: guid(),
            trace: guid().simple().to_string(),
            checked: Mutex::new(0),
        };
        watched.publish(DEVELOPER_UPSERTED, "Id", &developer(id)).await;
        let company = guid();
        watched.publish(COMPANY_UPSERTED, "CompanyId", &agency(company, "Active")).await;
        let employed = employment(watched.agent, company, Some("Active"));
        watched.publish(EMPLOYMENT, "UserId", &employed).await;
        watched
    }

    async fn publish(&self, topic: &str, id: &str, payload: &Value) {
        let (key, sequence) = (id_of(&payload[id]), next_number());
        service().bus().publish(topic, key, sequence, payload).await;
        let (key, seen) =
            (key.to_string(), "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3");
        eventually("the event", async || self.sql.query_opt(seen, &[&topic, &key, &sequence]).await.unwrap())
            .await;
    }

    /// Sends a request and checks that a success shows no other marks than `shows`.
    async fn request(
        &self,
        by: &Client,
        method: Method,
        path: &str,
        body: &Value,
        shows: &[&str],
    ) -> Response {
        let request = by.request(method.clone(), path);
        let request = request.header("traceparent", format!("00-{}-00f067aa0ba902b7-01", self.trace));
        let request = if body.is_null() { request } else { request.json(body) };
        let response = send(request).await;
        self.check(&format!("{method} {path}"), &response, shows);
        response
    }

    fn check(&self, what: &str, response: &Response, shows: &[&str]) {
        *self.checked.lock().unwrap() += 1;
        // A refusal shows no mark.
        let shows = if response.status < 400 { shows } else { &[] };
        let found = find_marks(&format!("{} {:?}", response.text, response.headers), &ALL);
        let more: Vec<_> = found.iter().filter(|mark| !shows.contains(mark)).collect();
        assert!(more.is_empty(), "{what} shows {more:?}: {} {}", response.status, response.text);
    }

    async fn post(&self, by: &Client, path: &str, body: Value, shows: &[&str]) -> Response {
        self.request(by, Method::POST, path, &body, shows).await
    }

    async fn put(&self, by: &Client, path: &str, body: Value) -> Response {
        self.request(by, Method::PUT, path, &body, &[]).await
    }

    async fn get(&self, by: &Client, path: &str, shows: &[&str]) -> Response {
        self.request(by, Method::GET, path, &Value::Null, shows).await
    }

    /// Creates a deal of a new object, with marked contract data.
    async fn create_deal(&self) -> Uuid {
        let event = object(guid(), self.developer, "Available");
        self.publish(OBJECT_UPSERTED, "Id", &event).await;
        let (client, owner) = selections().user();
        let selection = json!({"Title": "x", "Items": [{"PropertyObjectId": event["Id"]}]});
        let selection = owner.post("/api/v1/selections", selection).await.expect(201);
        let body =
            json!({"PropertyObjectId": event["Id"], "ClientUserId": client, "SelectionId": selection["Id"]});
        let created = self.post(&self.platform, &format!("{PLATFORM}/deals"), body, &[]).await.expect(201);
        let id = id_of(&created["DealId"]);
        self.put(&self.manager, &own(id, "/contract"), contract_data()).await.expect(200);
        id
    }
}

fn path(deal: Uuid, below: &str) -> String {
    format!("{PLATFORM}/deals/{deal}{below}")
}

fn own(deal: Uuid, below: &str) -> String {
    format!("{OWN}/deals/{deal}{below}")
}

fn contract_data() -> Value {
    json!({"ContractType": "Ddu", "PaymentMethod": "Cash", "EscrowAccountNumber": ESCROW, "FixationData": FIXATION,
        "ContractNumber": CONTRACT_NUMBER})
}

/// Calls every operation with success, and brings one deal to each end.
async fn call_every_operation(watched: &Watched) -> Vec<Uuid> {
    let Watched { platform, care, manager, developer, .. } = watched;
    let (kept, cancelled, completed) =
        (watched.create_deal().await, watched.create_deal().await, watched.create_deal().await);
    let pipeline = format!("{OWN}/pipeline-steps");
    let steps = watched.get(manager, &pipeline, &[]).await.expect(200);
    let live = list(&steps["Steps"]).to_vec();
    let renamed = with(live[0].clone(), "Name", "x");
    let steps: Vec<_> = [renamed].into_iter().chain(live[1..].iter().cloned()).collect();
    watched.put(manager, &pipeline, json!({"Steps": steps})).await.expect(200);
    watched.get(platform, &format!("{PLATFORM}/pipeline-steps?TenantId={developer}"), &[]).await.expect(200);

    let moved = json!({"StepId": live[1]["Id"], "Reason": REASON});
    watched.post(manager, &own(kept, "/move-step"), moved, &[]).await.expect(200);
    watched.put(manager, &own(kept, "/agent"), json!({"AgentUserId": watched.agent})).await.expect(200);
    watched.post(manager, &own(kept, "/booking"), json!({"ExpiresAt": in_days(1)}), &[]).await.expect(201);
    watched.put(manager, &own(kept, "/booking"), json!({"ExpiresAt": in_days(2)})).await.expect(200);
    let preview = json!({"TargetStatus": "Sale", "Comment": COMMENT});
    watched.post(platform, &path(kept, "/override-status/preview"), preview, &[]).await.expect(200);
    let sold = json!({"TargetStatus": "Sale", "Comment": COMMENT});
    watched.post(platform, &path(kept, "/override-status"), sold, &[]).await.expect(200);
    for by in [platform, care] {
        watched.post(by, &path(kept, "/notes"), json!({"Text": NOTE}), &[NOTE]).await.expect(201);
    }
    watched.post(manager, &own(kept, "/notes"), json!({"Text": NOTE}), &[NOTE]).await.expect(201);
    // The booking of this deal expires.
    watched.post(manager, &own(cancelled, "/booking"), json!({}), &[]).await.expect(201);
    eventually("the expiry", async || {
        let expired = "select 1 from booking where deal_id = $1::text::uuid and status = 'Expired'";
        watched.sql.query_opt(expired, &[&cancelled.to_string()]).await.unwrap()
    })
    .await;
    watched
        .post(manager, &own(cancelled, "/cancel"), json!({"Reason": CANCEL_REASON}), &[])
        .await
        .expect(200);
    let overridden = watched.create_deal().await;
    let body = json!({"TargetStatus": "Cancelled", "Comment": CANCEL_REASON});
    watched.post(platform, &path(overridden, "/override-status"), body, &[]).await.expect(200);
    let sold = json!({"TargetStatus": "Sale", "Comment": COMMENT});
    watched.post(platform, &path(completed, "/override-status"), sold, &[]).await.expect(200);
    let body = json!({"RegistryRecordNumber": REGISTRY_NUMBER});
    watched.post(manager, &own(completed, "/complete"), body, &[]).await.expect(200);

    let deals = vec![kept, cancelled, completed, overridden];
    for deal in &deals {
        for (by, path, shows_contract) in [
            (platform, path(*deal, ""), true),
            (manager, own(*deal, ""), true),
            (care, path(*deal, ""), false),
        ] {
            let shown: &[_] =
                if shows_contract { &[CANCEL_REASON, CONTRACT_NUMBER] } else { &[CANCEL_REASON] };
            watched.get(by, &path, shown).await.expect(200);
            watched.get(by, &format!("{path}/timeline?PageSize=100"), &TIMELINE_MARKS).await.expect(200);
            watched.get(by, &format!("{path}/stages"), &[]).await.expect(200);
            watched.get(by, &format!("{path}/selection"), &[]).await.expect(200);
            let status = if shows_contract { 200 } else { 403 };
            let shown = [ESCROW, FIXATION, CONTRACT_NUMBER];
            let contract = watched.get(by, &format!("{path}/contract"), &shown).await;
            assert_eq!(contract.status, status);
            assert_eq!(find_marks(&contract.text, &ALL).len(), if shows_contract { 3 } else { 0 });
        }
        watched.get(platform, &path(*deal, "/client-selections"), &[]).await.expect(200);
    }
    let step = text(&live[0]["Id"]);
    for family in [PLATFORM, OWN] {
        let by = if family == PLATFORM { platform } else { manager };
        for below in [
            format!("deals?TenantId={developer}"),
            format!("board?TenantId={developer}"),
            format!("board/columns/{step}"),
            format!("deals?ContractNumber={CONTRACT_NUMBER}"),
        ] {
            watched.get(by, &format!("{family}/{below}"), &[]).await.expect(200);
        }
        let shown = [CANCEL_REASON, CONTRACT_NUMBER];
        watched.get(by, &format!("{family}/exports/deals"), &shown).await.expect(200);
        let view = json!({"Name": VIEW_NAME, "Query": format!("ContractNumber={CONTRACT_NUMBER}")});
        let (views, shown) = (format!("{family}/saved-views"), [VIEW_NAME, CONTRACT_NUMBER]);
        watched.post(by, &views, view, &shown).await.expect(201);
        watched.get(by, &views, &shown).await.expect(200);
    }
    watched.get(care, &format!("{PLATFORM}/exports/deals"), &[CANCEL_REASON]).await.expect(200);
    for below in ["status-overrides", "exports/status-overrides"] {
        watched.get(platform, &format!("{PLATFORM}/{below}"), &[COMMENT, CANCEL_REASON]).await.expect(200);
    }
    deals
}

/// Sends marks in invalid bodies: with wrong lengths, types, control characters and versions.
async fn send_invalid_requests(watched: &Watched, deals: &[Uuid]) {
    let (kept, completed) = (deals[0], deals[2]);
    let long = |mark: &str| format!("{mark}{}", "x".repeat(5_000));
    let bodies = |member: &str, mark: &str| {
        vec![
            json!({member: long(mark)}),
            json!({member: format!("{mark}\0")}),
            json!({member: [mark]}),
            json!({member: {"Text": mark}}),
            json!({member: mark, "RowVersion": mark}),
            json!({member: null, "Other": mark}),
        ]
    };
    for (below, member, mark) in [
        ("/move-step", "Reason", REASON),
        ("/cancel", "Reason", CANCEL_REASON),
        ("/complete", "RegistryRecordNumber", REGISTRY_NUMBER),
        ("/notes", "Text", NOTE),
        ("/override-status", "Comment", COMMENT),
        ("/override-status", "TargetStatus", COMMENT),
        ("/override-status/preview", "TargetStatus", COMMENT),
        ("/booking", "ExpiresAt", REASON),
    ] {
        for body in bodies(member, mark) {
            let shows: &[&str] = if below == "/notes" { &[NOTE] } else { &[] };
            let response = watched.post(&watched.platform, &path(kept, below), body, shows).await;
            // A note ignores `RowVersion`.
            assert!(response.status >= 400 || below == "/notes", "{below}: {}", response.text);
        }
    }
    for (member, mark) in [
        ("EscrowAccountNumber", ESCROW),
        ("FixationData", FIXATION),
        ("ContractNumber", CONTRACT_NUMBER),
        ("ContractType", FIXATION),
    ] {
        for body in bodies(member, mark) {
            watched.put(&watched.manager, &own(kept, "/contract"), body).await;
        }
    }
    watched
        .put(&watched.manager, &own(kept, "/contract"), json!({"EscrowAccountNumber": format!("{ESCROW}1")}))
        .await
        .expect(400);
    for broken in [format!("{{\"Comment\": \"{COMMENT}"), format!("[\"{ESCROW}\"]"), COMMENT.to_owned()] {
        for (method, below) in
            [(Method::POST, "/override-status"), (Method::PUT, "/contract"), (Method::POST, "/notes")]
        {
            let request = watched
                .platform
                .request(method, &path(kept, below))
                .header("content-type", "application/json");
            let response = send(request.body(broken.clone())).await;
            assert_eq!(response.status, 400);
            watched.check(below, &response, &[]);
        }
    }
    // Refusals with 400, 403, 404, 409 and 422.
    let stale = json!({"TargetStatus": "Booking", "Comment": COMMENT, "RowVersion": 1});
    watched.post(&watched.platform, &path(kept, "/override-status"), stale, &[]).await.expect(409);
    let forbidden = json!({"TargetStatus": "Completed", "Comment": COMMENT});
    watched.post(&watched.platform, &path(kept, "/override-status"), forbidden, &[]).await.expect(422);
    watched.post(&watched.platform, &path(guid(), "/notes"), json!({"Text": NOTE}), &[]).await.expect(404);
    watched
        .post(&watched.manager, &own(completed, "/cancel"), json!({"Reason": REASON}), &[])
        .await
        .expect(409);
    watched.put(&watched.manager, &own(completed, "/contract"), contract_data()).await.expect(409);
    watched.put(&watched.manager, &own(kept, "/contract"), with(contract_data(), "RowVersion", 1)).await;
    for query in [
        "deals?Statuses=marked-note",
        "deals?Sort=marked-note",
        "board?Groups=marked-note&TenantId=marked-note",
    ] {
        watched.get(&watched.platform, &format!("{PLATFORM}/{query}"), &[]).await.expect(400);
    }
    watched.get(&watched.platform, &path(kept, "/timeline?Cursor=marked-note"), &[]).await.expect(400);
    watched.post(&watched.care, &path(kept, "/cancel"), json!({"Reason": REASON}), &[]).await.expect(403);
}

/// Makes the database refuse statements with an error that shows the whole row. Returns the deal
/// of these statements.
async fn make_statements_fail(watched: &Watched) -> Uuid {
    let deal = watched.create_deal().await;
    // A note does not change its deal. Notes and contract data publish nothing.
    for (table, rule, statuses) in [
        ("timeline", "kind = 'DealCreated'", [500, 500, 500, 500]),
        ("deal", "cancel_reason is null and escrow_account_number is null", [500, 500, 500, 201]),
        ("outbox", "false", [500, 500, 200, 201]),
    ] {
        let refused = format!("refused_{table}");
        let add = format!("alter table {table} add constraint {refused} check ({rule}) not valid");
        watched.sql.batch_execute(&add).await.unwrap();
        let calls = [
            (Method::POST, "/cancel", json!({"Reason": CANCEL_REASON})),
            (Method::POST, "/override-status", json!({"TargetStatus": "Sale", "Comment": COMMENT})),
            (Method::PUT, "/contract", with(contract_data(), "FixationData", format!("{FIXATION} {table}"))),
            (Method::POST, "/notes", json!({"Text": NOTE})),
        ];
        for ((method, below, body), status) in std::iter::zip(calls, statuses) {
            let response =
                watched.request(&watched.platform, method, &path(deal, below), &body, &[NOTE]).await;
            assert_eq!(response.status, status, "{table}, {below}: {}", response.text);
        }
        watched.sql.batch_execute(&format!("alter table {table} drop constraint {refused}")).await.unwrap();
        let count = statuses.into_iter().filter(|status| *status == 500).count();
        let is_logged = || {
            let log = watched.crm.log();
            let of_this =
                log.iter().filter(|line| line["level"] == "ERROR" && line.to_string().contains(&refused));
            (of_this.count() == count).then_some(())
        };
        eventually("the log of each refused statement", async || is_logged()).await;
    }
    for away in ["timeline", "deal"] {
        watched.sql.batch_execute(&format!("alter table {away} rename to away")).await.unwrap();
        let response =
            watched.post(&watched.platform, &path(deal, "/notes"), json!({"Text": NOTE}), &[]).await;
        assert_eq!(response.status, 500, "{}", response.text);
        watched.sql.batch_execute(&format!("alter table away rename to {away}")).await.unwrap();
    }
    deal
}

/// Publishes messages that cannot be applied: some do not decode, the database refuses the others.
async fn publish_unreadable_messages(watched: &Watched) {
    for topic in [COMPANY_UPSERTED, EMPLOYMENT, DEVELOPER_UPSERTED, OBJECT_UPSERTED] {
        for payload in [
            json!({"Id": NOTE, "CompanyId": NOTE, "Version": NOTE}),
            json!([NOTE]),
            json!({"Id": guid(), "CompanyId": guid(), "Type": NOTE, "Status": NOTE, "Name": NOTE, "Version": 1}),
            with(
                with(object(guid(), watched.developer, NOTE), "Number", "\0"),
                "ProjectName",
                format!("{NOTE}\0"),
            ),
        ] {
            let key = guid();
            service().bus().publish(topic, key, next_number(), &payload).await;
            let handled =
                "select 1 from dead_letter where key = $1 union all select 1 from inbox where key = $1";
            let key = key.to_string();
            eventually("the message to be handled", async || {
                watched.sql.query(handled, &[&key]).await.unwrap().pop()
            })
            .await;
        }
    }
    let company = company(watched.developer, "Suspended");
    watched.publish(COMPANY_UPSERTED, "CompanyId", &company).await;
}

/// RULE-CRM-044, RULE-ALL-029: only the contract routes show escrow account numbers and fixation
/// data. The timeline shows texts of people. Events show the reason of a cancellation only. No
/// refusal, log line, span or metric shows any of them, also if statements or messages fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_texts_appear_only_where_they_are_documented() {
    let watched = Watched::start().await;
    let mut deals = call_every_operation(&watched).await;
    send_invalid_requests(&watched, &deals).await;
    deals.push(make_statements_fail(&watched).await);
    publish_unreadable_messages(&watched).await;

    let bus = service().bus();
    for deal in &deals {
        eventually("the outbox to be published", async || {
            let waiting = "select from outbox where key = $1";
            watched.sql.query(waiting, &[&deal.to_string()]).await.unwrap().is_empty().then_some(())
        })
        .await;
    }
    bus.read_to_end().await;
    for (deal, is_cancelled) in std::iter::zip(&deals, [false, true, false, true, false]) {
        let events = bus.events(deal);
        assert!(!payloads(&events, CREATED).is_empty());
        assert_eq!(payloads(&events, CANCELLED).len(), usize::from(is_cancelled));
        for event in events {
            let allowed: &[&str] = if event.topic == CANCELLED { &[CANCEL_REASON] } else { &[] };
            let found = find_marks(&format!("{event:?}"), &ALL);
            assert_eq!(found, allowed, "{event:?}");
        }
    }
    let name = "POST /api/platform-manager/crm/deals/{deal_id}/notes";
    watched.crm.collector.span(&watched.trace, |span| span.name == name).await;
    let spans: Vec<_> = watched.crm.collector.all().collect();
    // Spans are exported in batches, so the last ones may be missing.
    assert!(spans.len() > *watched.checked.lock().unwrap() / 2, "{} spans", spans.len());
    for span in spans {
        let shown = format!("{span:?}");
        assert_eq!(find_marks(&shown, &ALL), [""; 0], "a span: {shown}");
    }
    let log = watched.crm.log();
    for line in log {
        let line = line.to_string();
        assert_eq!(find_marks(&line, &ALL), [""; 0], "a line of the log: {line}");
    }
    let metrics = watched.crm.operator().get("/metrics").await;
    assert_eq!((metrics.status, find_marks(&metrics.text, &ALL)), (200, Vec::new()));
}
