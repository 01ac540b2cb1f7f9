//! Private texts and amounts appear only where the specification allows them.
//!
//! The tests search responses, events, logs, spans and tables.

use std::sync::Mutex;

use agent::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::skip_to_end;
use testkit::client::{Client, Response, send};
use testkit::database;
use testkit::deployed::Deployed;
use uuid::Uuid;

use crate::{
    CABINET, CANCELLED, COMMISSIONS, CREATED, Deal, MY, PAYOUTS, PLATFORM, STAGE_CHANGED, claims_of,
    eventually, guid, id_of, in_days, in_millis, key_of, list, next, rub, service, text, with,
};

/// The comment of an adjustment request.
const COMMENT: &str = "marked-comment";
/// The comment of a decision about a request, or the reason of a bonus.
const DECISION: &str = "marked-decision";
/// The comment of a decision about an accrual or a bonus, or of an assignment.
const VERDICT: &str = "marked-verdict";
/// The reference of a payout.
const REFERENCE: &str = "marked-reference";
/// The reason of a failed payout.
const FAILURE: &str = "marked-failure";
const ALL_MARKS: [&str; 5] = [COMMENT, DECISION, VERDICT, REFERENCE, FAILURE];
/// The reason of a cancellation in an event of CRM.
const CANCELLATION: &str = "marked-cancellation";
/// The amount of a deal. Its agent earns 10 % of it.
const AMOUNT: i64 = 8_765_432_190;
const EARNED: &str = "876543219";

/// A deployed service whose every response is searched for private data.
struct ObservedService {
    service: Deployed,
    sql: tokio_postgres::Client,
    agent: Uuid,
    own: Client,
    commissions: Client,
    payer: Client,
    proposer: Client,
    /// The employees who decide and pay.
    deciders: [Uuid; 3],
    developer: Uuid,
    /// The trace id of all requests.
    trace: String,
    /// The number of requests.
    count: Mutex<usize>,
    /// Ids in CRM's events that the service does not need.
    unneeded: Mutex<Vec<String>>,
}

fn marks_in<'m>(text: &str, marks: &[&'m str]) -> Vec<&'m str> {
    marks.iter().filter(|mark| text.contains(**mark)).copied().collect()
}

impl ObservedService {
    async fn start() -> Self {
        let url = database::create().await.unwrap();
        let suffix = format!(".{}", guid().simple());
        skip_to_end::<Service>(&suffix).await.unwrap();
        let settings = [
            ("DATABASE_URL", url.as_str()),
            ("KAFKA_GROUP_SUFFIX", &suffix),
            ("LOG", "debug"),
            ("AGENT_PAYOUT_RUN_POLL_MS", "100"),
        ];
        let service = Deployed::start(env!("CARGO_BIN_EXE_agent"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = agent").await.unwrap();
        let (agent, deciders) = (guid(), [guid(), guid(), guid()]);
        let observed = Self {
            own: service.caller(&claims_of(agent, &[CABINET])),
            commissions: service.caller(&claims_of(deciders[0], &[COMMISSIONS])),
            payer: service.caller(&claims_of(deciders[1], &[PAYOUTS])),
            proposer: service.caller(&claims_of(deciders[2], &[COMMISSIONS])),
            service,
            sql,
            agent,
            deciders,
            developer: guid(),
            trace: guid().simple().to_string(),
            count: Mutex::new(0),
            unneeded: Mutex::new(Vec::new()),
        };
        let rates = json!([{"RateBps": 1_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
        let card = json!({"DeveloperCompanyId": observed.developer, "Rates": rates});
        observed.send(&observed.commissions, Method::PUT, "commission-rates", &card, &[]).await.expect(200);
        observed
    }

    async fn deliver(&self, topic: &str, payload: &Value) {
        let members = ["ClientUserId", "CreatedByUserId", "CancelledByUserId", "FromStepId", "ToStepId"];
        let unneeded = members.iter().filter_map(|member| payload[member].as_str().map(str::to_owned));
        self.unneeded.lock().unwrap().extend(unneeded);
        let (key, sequence) = (key_of(payload), next());
        service().bus().publish(topic, key, sequence, payload).await;
        let (key, seen) =
            (key.to_string(), "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3");
        eventually("the event", async || self.sql.query_opt(seen, &[&topic, &key, &sequence]).await.unwrap())
            .await;
    }

    /// Sends a request, and checks that the response has only the `allowed` marks.
    /// A refusal has none.
    async fn send(
        &self,
        by: &Client,
        method: Method,
        path: &str,
        body: &Value,
        allowed: &[&str],
    ) -> Response {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{PLATFORM}/{path}") };
        let request = by.request(method.clone(), &path);
        let request = request.header("traceparent", format!("00-{}-00f067aa0ba902b7-01", self.trace));
        let request = if body.is_null() { request } else { request.json(body) };
        let response = send(request).await;
        *self.count.lock().unwrap() += 1;
        let text = format!("{} {:?}", response.text, response.headers);
        let allowed = if response.status < 400 { allowed } else { &[] };
        let leaked: Vec<_> =
            marks_in(&text, &ALL_MARKS).into_iter().filter(|mark| !allowed.contains(mark)).collect();
        assert!(leaked.is_empty(), "{method} {path} shows {leaked:?}: {} {}", response.status, response.text);
        let unneeded = self.unneeded.lock().unwrap();
        let mut hidden = unneeded.iter().map(String::as_str).chain([CANCELLATION]);
        assert!(hidden.all(|id| !text.contains(id)), "{method} {path}: {text}");
        for decider in &self.deciders {
            assert!(!text.contains(&decider.to_string()), "{method} {path} shows the decider: {text}");
        }
        response
    }

    async fn post(&self, by: &Client, path: &str, body: Value, allowed: &[&str]) -> Response {
        self.send(by, Method::POST, path, &body, allowed).await
    }

    async fn get(&self, by: &Client, path: &str, allowed: &[&str]) -> Response {
        self.send(by, Method::GET, path, &Value::Null, allowed).await
    }

    /// Creates a deal in Sale or Completed, and returns it with the id of its Base.
    async fn deal(&self, status: &'static str) -> (Deal, Uuid) {
        let mut deal = Deal::new(self.agent, self.developer, rub(AMOUNT));
        self.deliver(CREATED, &deal.created(&in_days(-9))).await;
        let sold = deal.stage_changed("Sale", &in_days(-8));
        self.deliver(STAGE_CHANGED, &sold).await;
        if status == "Completed" {
            let completed = deal.stage_changed(status, &in_days(-7));
            self.deliver(STAGE_CHANGED, &completed).await;
        }
        let found =
            self.get(&self.own, &format!("{MY}/commission-accruals?DealId={}", deal.id), &ALL_MARKS).await;
        let base = id_of(&found.expect(200)["Items"][0]["Id"]);
        (deal, base)
    }

    async fn payout(&self) -> Uuid {
        let body = json!({
            "RunKey": guid().to_string(), "PeriodFrom": in_days(-30), "PeriodTo": in_millis(-1), "AgentUserIds": [self.agent],
        });
        let run = self.post(&self.payer, "payouts", body, &[]).await.expect(201);
        let path = format!("payouts?RunId={}", text(&run["Id"]));
        let payout = eventually("the payout", async || {
            let page = self.get(&self.payer, &path, &[REFERENCE, FAILURE]).await.expect(200);
            list(&page["Items"]).first().map(|payout| id_of(&payout["Id"]))
        });
        let payout = payout.await;
        self.get(&self.payer, &format!("payout-runs/{}", text(&run["Id"])), &[]).await.expect(200);
        payout
    }

    async fn file_request(&self, accrual: Uuid) -> Uuid {
        let path = format!("{MY}/commission-accruals/{accrual}/adjustment-requests");
        let body = json!({"Reason": "Other", "Comment": COMMENT, "RequestedAmount": rub(5)});
        id_of(&self.post(&self.own, &path, body, &[COMMENT]).await.expect(201)["Id"])
    }
}

/// Assigns a sale without an agent.
async fn assign(observed: &ObservedService) {
    let agency = guid();
    let insert = "insert into agency (id, is_active, version) values ($1::text::uuid, true, 1)";
    observed.sql.execute(insert, &[&agency.to_string()]).await.unwrap();
    let path = format!("agents/{}", observed.agent);
    let terms = json!({"AgencyCompanyId": agency});
    observed.send(&observed.commissions, Method::PUT, &path, &terms, &[]).await.expect(200);
    let mut deal = Deal::new(None, observed.developer, rub(AMOUNT));
    observed.deliver(STAGE_CHANGED, &deal.stage_changed("Sale", &in_days(-8))).await;
    observed.get(&observed.commissions, "unassigned-sales", &[]).await.expect(200);
    let path = format!("unassigned-sales/{}/assign", deal.id);
    let body = json!({"AgentUserId": observed.agent, "Comment": VERDICT});
    observed.post(&observed.commissions, &path, body, &[]).await.expect(200);
}

/// Proposes and approves a bonus.
async fn grant_bonus(observed: &ObservedService) {
    let (_, rewarded) = observed.deal("Completed").await;
    let bonus = json!({"Amount": rub(1), "Reason": DECISION});
    let path = format!("commission-accruals/{rewarded}/bonus-proposals");
    let proposal = observed.post(&observed.proposer, &path, bonus, &[DECISION]).await.expect(201);
    let path = format!("bonus-proposals/{}/approve", text(&proposal["Id"]));
    let verdict = json!({"Comment": VERDICT});
    observed.post(&observed.commissions, &path, verdict, &[DECISION, VERDICT]).await.expect(200);
}

/// Calls every operation successfully. Returns the ids of the entities.
async fn call_operations(observed: &ObservedService) -> Vec<Uuid> {
    let ObservedService { own, commissions, payer, .. } = observed;
    let decided = &[COMMENT, DECISION][..];
    let (_, rejected) = observed.deal("Sale").await;
    let request = observed.file_request(rejected).await;
    let refusal = json!({"Comment": DECISION});
    observed
        .post(commissions, &format!("adjustment-requests/{request}/reject"), refusal, decided)
        .await
        .expect(200);
    let request = observed.file_request(rejected).await;
    let grant = json!({"Comment": DECISION});
    observed
        .post(commissions, &format!("adjustment-requests/{request}/approve"), grant, decided)
        .await
        .expect(200);
    let verdict = json!({"Comment": VERDICT});
    let path = format!("commission-accruals/{rejected}/reject");
    observed.post(commissions, &path, verdict.clone(), decided).await.expect(200);

    let (_, paid) = observed.deal("Completed").await;
    let failed = observed.payout().await;
    let (send, fail) = (json!({"Reference": REFERENCE}), json!({"Reason": FAILURE}));
    let of_payout = &[REFERENCE, FAILURE][..];
    observed.post(payer, &format!("payouts/{failed}/send"), send, of_payout).await.expect(200);
    observed.post(payer, &format!("payouts/{failed}/fail"), fail, of_payout).await.expect(200);
    let payout = observed.payout().await;
    let confirm = json!({"Reference": REFERENCE});
    observed.post(payer, &format!("payouts/{payout}/confirm"), confirm, of_payout).await.expect(200);
    let path = format!("commission-accruals/{paid}/reverse");
    let reversal = observed.post(commissions, &path, verdict, &[]).await.expect(200);

    assign(observed).await;
    grant_bonus(observed).await;
    let (mut cancelled, base) = observed.deal("Sale").await;
    observed.file_request(base).await;
    let change = cancelled.stage_changed("Cancelled", &in_days(-6));
    observed.deliver(CANCELLED, &with(cancelled.cancelled(&in_days(-6)), "CancelReason", CANCELLATION)).await;
    observed.get(commissions, "held-deals", &[]).await.expect(200);
    observed.deliver(STAGE_CHANGED, &change).await;

    for (by, path, allowed) in [
        (own, format!("{MY}/commission-accruals"), decided),
        (own, format!("{MY}/payouts"), of_payout),
        (own, format!("{MY}/payouts/{payout}/statement"), of_payout),
        (own, format!("{MY}/payouts/{payout}/statement?Format=Csv"), &[]),
        (own, format!("{MY}/agent-performance"), &[]),
        (own, format!("{MY}/commission-summary"), &[]),
        (commissions, "commission-accruals".to_owned(), decided),
        (commissions, "adjustment-requests".to_owned(), decided),
        (commissions, "bonus-proposals".to_owned(), &[DECISION, VERDICT]),
        (commissions, "unrated-deals".to_owned(), &[]),
        (commissions, "commission-rates".to_owned(), &[]),
        (commissions, format!("agents/{}", observed.agent), &[]),
        (payer, "payouts".to_owned(), of_payout),
        (payer, format!("payouts/{payout}/statement"), of_payout),
    ] {
        observed.get(by, &path, allowed).await.expect(200);
    }
    vec![rejected, paid, id_of(&reversal["Id"]), base, failed, payout]
}

/// Provokes refusals with marked texts in every body and in query strings.
async fn provoke_refusals(observed: &ObservedService, ids: &[Uuid]) {
    let (rejected, paid, payout) = (ids[0], ids[1], ids[5]);
    let ObservedService { own, commissions, payer, .. } = observed;
    for (by, path, member, mark) in [
        (own, format!("{MY}/commission-accruals/{paid}/adjustment-requests"), "Comment", COMMENT),
        (own, format!("{MY}/commission-accruals/{paid}/adjustment-requests"), "Reason", COMMENT),
        (commissions, format!("commission-accruals/{paid}/reject"), "Comment", VERDICT),
        (commissions, format!("commission-accruals/{rejected}/reverse"), "Comment", VERDICT),
        (commissions, format!("unassigned-sales/{}/assign", guid()), "Comment", VERDICT),
        (commissions, format!("commission-accruals/{paid}/bonus-proposals"), "Reason", DECISION),
        (commissions, format!("bonus-proposals/{}/reject", guid()), "Comment", VERDICT),
        (commissions, format!("adjustment-requests/{}/reject", guid()), "Comment", DECISION),
        (commissions, format!("adjustment-requests/{}/approve", guid()), "Comment", DECISION),
        (payer, format!("payouts/{payout}/send"), "Reference", REFERENCE),
        (payer, format!("payouts/{payout}/fail"), "Reason", FAILURE),
        (payer, "payouts".to_owned(), "RunKey", REFERENCE),
    ] {
        for body in [
            json!({member: format!("{mark}{}", "x".repeat(5_000))}),
            json!({member: format!("{mark}\0")}),
            json!({member: [mark]}),
            json!({member: mark, "Amount": mark, "RequestedAmount": mark}),
            json!({member: mark}),
            json!([mark]),
        ] {
            let response = observed.post(by, &path, body, &[]).await;
            assert!(response.status >= 400, "{path}: {}", response.text);
        }
    }
    for query in
        ["Status=marked-comment", "Currency=marked-comment&Sort=marked-comment", "From=marked-comment"]
    {
        observed.get(own, &format!("{MY}/commission-accruals?{query}"), &[]).await.expect(400);
    }
}

/// Provokes dead letters, and database errors whose text contains the row.
async fn provoke_failures(observed: &ObservedService) {
    let (_, accrual) = observed.deal("Sale").await;
    for table in ["accrual", "adjustment_request", "outbox"] {
        let add = format!("alter table {table} add constraint refused check (false) not valid");
        observed.sql.batch_execute(&add).await.unwrap();
        let path = format!("{MY}/commission-accruals/{accrual}/adjustment-requests");
        let body = json!({"Reason": "Other", "Comment": COMMENT});
        observed.post(&observed.own, &path, body, &[COMMENT]).await;
        let path = format!("commission-accruals/{accrual}/reject");
        let response =
            observed.post(&observed.commissions, &path, json!({"Comment": VERDICT}), &[COMMENT]).await;
        assert!(response.status == 500 || table == "adjustment_request", "{}", response.text);
        observed.sql.batch_execute(&format!("alter table {table} drop constraint refused")).await.unwrap();
    }
    let mut deal = Deal::new(observed.agent, observed.developer, rub(-AMOUNT));
    for payload in [
        deal.stage_changed("Sale", &in_days(-3)),
        with(deal.stage_changed("Sale", COMMENT), "Amount", COMMENT),
    ] {
        let payload = with(payload, "DealId", guid().to_string());
        let key = key_of(&payload).to_string();
        service().bus().publish(STAGE_CHANGED, key_of(&payload), next(), &payload).await;
        let letter = "select 1 from dead_letter where key = $1";
        eventually("the dead letter", async || observed.sql.query_opt(letter, &[&key]).await.unwrap()).await;
    }
}

/// RULE-AGT-056: comments, reasons and references are in no event, log, span or refusal.
///
/// Amounts are in no log, and no response shows the decider.
/// The service stores no client, no cancellation reason and no step of CRM's events, and no user
/// who created or cancelled a deal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_texts_appear_only_where_they_are_documented() {
    let observed = ObservedService::start().await;
    let ids = call_operations(&observed).await;
    provoke_refusals(&observed, &ids).await;
    let unneeded = observed.unneeded.lock().unwrap().clone();
    let tables = "select table_name::text from information_schema.tables where table_schema = 'agent'";
    let mut rows = 0;
    for table in observed.sql.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        for row in observed.sql.query(&format!("select t::text from \"{table}\" t"), &[]).await.unwrap() {
            let row: String = row.get(0);
            rows += 1;
            let found = unneeded.iter().map(String::as_str).chain([CANCELLATION]).find(|id| row.contains(id));
            assert_eq!(found, None, "{table} stores data that is not needed: {row}");
        }
    }
    assert!(rows > 20, "only {rows} rows were searched");
    provoke_failures(&observed).await;

    for id in &ids {
        eventually("the outbox to be published", async || {
            let waiting = "select from outbox where key = $1";
            observed.sql.query(waiting, &[&id.to_string()]).await.unwrap().is_empty().then_some(())
        })
        .await;
        service().bus().read_to_end().await;
        let events = service().bus().events(id);
        assert!(!events.is_empty(), "{id} has no event");
        for event in events {
            assert_eq!(marks_in(&format!("{event:?}"), &ALL_MARKS), [""; 0], "{event:?}");
        }
    }
    let name = "POST /api/platform-manager/agent/commission-accruals/{accrual_id}/reject";
    observed.service.collector.span(&observed.trace, |span| span.name == name).await;
    let spans: Vec<_> = observed.service.collector.all().collect();
    assert!(spans.len() > *observed.count.lock().unwrap() / 2, "{} spans", spans.len());
    let hidden: Vec<&str> = ALL_MARKS.into_iter().chain([CANCELLATION, EARNED]).collect();
    for span in spans {
        let shown = format!("{span:?}");
        assert_eq!(marks_in(&shown, &hidden), [""; 0], "a span: {shown}");
    }
    let log = observed.service.log();
    assert!(log.iter().any(|line| line["level"] == "ERROR"), "the failures are logged");
    for line in log {
        let line = line.to_string();
        assert_eq!(marks_in(&line, &hidden), [""; 0], "a line of the log: {line}");
        assert!(unneeded.iter().all(|id| !line.contains(id)), "a line of the log: {line}");
    }
    let metrics = observed.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, marks_in(&metrics.text, &hidden)), (200, Vec::new()));
}
