//! What people write, what is owed, and what crm tells beside: it is where the page has it, and in no other answer, event,
//! log, span or table.

use std::sync::Mutex;

use agent::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::begin_now;
use testkit::client::{Answer, Client, send};
use testkit::database;
use testkit::deployed::Deployed;
use uuid::Uuid;

use crate::{
    CABINET, CANCELLED, COMMISSIONS, CREATED, Deal, MY, PAYOUTS, PLATFORM, STAGE_CHANGED, eventually, guid,
    holder, id_of, in_days, in_millis, key_of, list, next, rub, service, text, with,
};

/// Marked values: of requests, decisions about them, decisions about accruals, and payouts.
const COMMENT: &str = "marked-comment";
const DECISION: &str = "marked-decision";
const VERDICT: &str = "marked-verdict";
const REFERENCE: &str = "marked-reference";
const FAILURE: &str = "marked-failure";
const WRITTEN: [&str; 5] = [COMMENT, DECISION, VERDICT, REFERENCE, FAILURE];
const CANCELLATION: &str = "marked-cancellation";
/// What a deal comes to. A tenth of it is what its agent earns.
const AMOUNT: i64 = 8_765_432_190;
const EARNED: &str = "876543219";

/// The service as it is deployed, who asks it, and every answer beside what it may show.
struct Watched {
    service: Deployed,
    sql: tokio_postgres::Client,
    agent: Uuid,
    own: Client,
    commissions: Client,
    payer: Client,
    /// Who decides and pays.
    deciders: [Uuid; 2],
    developer: Uuid,
    trace: String,
    count: Mutex<usize>,
    /// Ids that crm tells of and nobody here needs.
    unneeded: Mutex<Vec<String>>,
}

fn marks_in<'m>(text: &str, marks: &[&'m str]) -> Vec<&'m str> {
    marks.iter().filter(|mark| text.contains(**mark)).copied().collect()
}

impl Watched {
    async fn start() -> Self {
        let url = database::create().await.unwrap();
        let suffix = format!(".{}", guid().simple());
        begin_now::<Service>(&suffix).await.unwrap();
        let settings = [
            ("DATABASE_URL", url.as_str()),
            ("KAFKA_GROUP_SUFFIX", &suffix),
            ("LOG", "debug"),
            ("AGENT_PAYOUT_RUN_POLL_MS", "100"),
        ];
        let service = Deployed::start(env!("CARGO_BIN_EXE_agent"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = agent").await.unwrap();
        let (agent, deciders) = (guid(), [guid(), guid()]);
        let watched = Self {
            own: service.caller(&holder(agent, &[CABINET])),
            commissions: service.caller(&holder(deciders[0], &[COMMISSIONS])),
            payer: service.caller(&holder(deciders[1], &[PAYOUTS])),
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
        let card = json!({"DeveloperCompanyId": watched.developer, "Rates": rates});
        watched.ask(&watched.commissions, Method::PUT, "commission-rates", &card, &[]).await.expect(200);
        watched
    }

    async fn tell(&self, topic: &str, payload: &Value) {
        let members = [
            "ClientUserId",
            "CreatedByUserId",
            "ChangedByUserId",
            "CancelledByUserId",
            "FromStepId",
            "ToStepId",
        ];
        let unneeded = members.iter().filter_map(|member| payload[member].as_str().map(str::to_owned));
        self.unneeded.lock().unwrap().extend(unneeded);
        let (key, sequence) = (key_of(payload), next());
        service().bus().publish(topic, key, sequence, payload).await;
        let (key, seen) =
            (key.to_string(), "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3");
        eventually("the event", async || self.sql.query_opt(seen, &[&topic, &key, &sequence]).await.unwrap())
            .await;
    }

    /// Asks, and holds the answer to what it may show. A refusal shows nothing.
    async fn ask(&self, by: &Client, method: Method, path: &str, body: &Value, shows: &[&str]) -> Answer {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{PLATFORM}/{path}") };
        let request = by.request(method.clone(), &path);
        let request = request.header("traceparent", format!("00-{}-00f067aa0ba902b7-01", self.trace));
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = send(request).await;
        *self.count.lock().unwrap() += 1;
        let told = format!("{} {:?}", answer.text, answer.headers);
        let shows = if answer.status < 400 { shows } else { &[] };
        let more: Vec<_> =
            marks_in(&told, &WRITTEN).into_iter().filter(|mark| !shows.contains(mark)).collect();
        assert!(more.is_empty(), "{method} {path} shows {more:?}: {} {}", answer.status, answer.text);
        let unneeded = self.unneeded.lock().unwrap();
        let mut hidden = unneeded.iter().map(String::as_str).chain([CANCELLATION]);
        assert!(hidden.all(|id| !told.contains(id)), "{method} {path}: {told}");
        for decider in &self.deciders {
            assert!(!told.contains(&decider.to_string()), "{method} {path} shows who decided: {told}");
        }
        answer
    }

    async fn post(&self, by: &Client, path: &str, body: Value, shows: &[&str]) -> Answer {
        self.ask(by, Method::POST, path, &body, shows).await
    }

    async fn get(&self, by: &Client, path: &str, shows: &[&str]) -> Answer {
        self.ask(by, Method::GET, path, &Value::Null, shows).await
    }

    /// A deal in this status, and the id of its Base.
    async fn deal(&self, status: &'static str) -> (Deal, Uuid) {
        let mut deal = Deal::new(self.agent, self.developer, rub(AMOUNT));
        self.tell(CREATED, &deal.created(&in_days(-9))).await;
        let sold = deal.moves("Sale", &in_days(-8));
        self.tell(STAGE_CHANGED, &sold).await;
        if status == "Completed" {
            let completed = deal.moves(status, &in_days(-7));
            self.tell(STAGE_CHANGED, &completed).await;
        }
        let found =
            self.get(&self.own, &format!("{MY}/commission-accruals?DealId={}", deal.id), &WRITTEN).await;
        let base = id_of(&found.expect(200)["Items"][0]["Id"]);
        (deal, base)
    }

    async fn payout(&self) -> Uuid {
        let body = json!({
            "RunKey": guid().to_string(), "PeriodFrom": in_days(-30), "PeriodTo": in_millis(-1), "AgentUserIds": [self.agent],
        });
        let run = self.post(&self.payer, "payouts", body, &[]).await.expect(201);
        let path = format!("payouts?RunId={}", text(&run["Id"]));
        let made = eventually("the payout", async || {
            let page = self.get(&self.payer, &path, &[REFERENCE, FAILURE]).await.expect(200);
            list(&page["Items"]).first().map(|payout| id_of(&payout["Id"]))
        });
        let made = made.await;
        self.get(&self.payer, &format!("payout-runs/{}", text(&run["Id"])), &[]).await.expect(200);
        made
    }

    async fn ask_for(&self, accrual: Uuid) -> Uuid {
        let path = format!("{MY}/commission-accruals/{accrual}/adjustment-requests");
        let body = json!({"Reason": "Other", "Comment": COMMENT, "RequestedAmount": rub(5)});
        id_of(&self.post(&self.own, &path, body, &[COMMENT]).await.expect(201)["Id"])
    }
}

/// Every operation, each with a success.
async fn drive(watched: &Watched) -> Vec<Uuid> {
    let Watched { own, commissions, payer, .. } = watched;
    let decided = &[COMMENT, DECISION][..];
    let (_, rejected) = watched.deal("Sale").await;
    let request = watched.ask_for(rejected).await;
    let refusal = json!({"Comment": DECISION});
    watched
        .post(commissions, &format!("adjustment-requests/{request}/reject"), refusal, decided)
        .await
        .expect(200);
    let request = watched.ask_for(rejected).await;
    let grant = json!({"Comment": DECISION});
    watched
        .post(commissions, &format!("adjustment-requests/{request}/approve"), grant, decided)
        .await
        .expect(200);
    let verdict = json!({"Comment": VERDICT});
    let path = format!("commission-accruals/{rejected}/reject");
    watched.post(commissions, &path, verdict.clone(), decided).await.expect(200);

    let (_, paid) = watched.deal("Completed").await;
    let failed = watched.payout().await;
    let (send, fail) = (json!({"Reference": REFERENCE}), json!({"Reason": FAILURE}));
    let of_payout = &[REFERENCE, FAILURE][..];
    watched.post(payer, &format!("payouts/{failed}/send"), send, of_payout).await.expect(200);
    watched.post(payer, &format!("payouts/{failed}/fail"), fail, of_payout).await.expect(200);
    let made = watched.payout().await;
    let confirm = json!({"Reference": REFERENCE});
    watched.post(payer, &format!("payouts/{made}/confirm"), confirm, of_payout).await.expect(200);
    let path = format!("commission-accruals/{paid}/reverse");
    let reversal = watched.post(commissions, &path, verdict, &[]).await.expect(200);

    let (mut cancelled, base) = watched.deal("Sale").await;
    watched.ask_for(base).await;
    let change = cancelled.moves("Cancelled", &in_days(-6));
    watched.tell(CANCELLED, &with(cancelled.cancelled(&in_days(-6)), "CancelReason", CANCELLATION)).await;
    watched.get(commissions, "held-deals", &[]).await.expect(200);
    watched.tell(STAGE_CHANGED, &change).await;

    for (by, path, shows) in [
        (own, format!("{MY}/commission-accruals"), decided),
        (own, format!("{MY}/payouts"), of_payout),
        (own, format!("{MY}/payouts/{made}/statement"), of_payout),
        (own, format!("{MY}/payouts/{made}/statement?Format=Csv"), &[]),
        (own, format!("{MY}/agent-performance"), &[]),
        (own, format!("{MY}/commission-summary"), &[]),
        (commissions, "commission-accruals".to_owned(), decided),
        (commissions, "adjustment-requests".to_owned(), decided),
        (commissions, "unrated-deals".to_owned(), &[]),
        (commissions, "commission-rates".to_owned(), &[]),
        (commissions, format!("agents/{}", watched.agent), &[]),
        (payer, "payouts".to_owned(), of_payout),
        (payer, format!("payouts/{made}/statement"), of_payout),
    ] {
        watched.get(by, &path, shows).await.expect(200);
    }
    vec![rejected, paid, id_of(&reversal["Id"]), base, failed, made]
}

/// Every body that may hold marks, with what is wrong in it; and what is refused for what there is.
async fn refuse(watched: &Watched, ids: &[Uuid]) {
    let (rejected, paid, made) = (ids[0], ids[1], ids[5]);
    let Watched { own, commissions, payer, .. } = watched;
    for (by, path, member, mark) in [
        (own, format!("{MY}/commission-accruals/{paid}/adjustment-requests"), "Comment", COMMENT),
        (own, format!("{MY}/commission-accruals/{paid}/adjustment-requests"), "Reason", COMMENT),
        (commissions, format!("commission-accruals/{paid}/reject"), "Comment", VERDICT),
        (commissions, format!("commission-accruals/{rejected}/reverse"), "Comment", VERDICT),
        (commissions, format!("adjustment-requests/{}/reject", guid()), "Comment", DECISION),
        (commissions, format!("adjustment-requests/{}/approve", guid()), "Comment", DECISION),
        (payer, format!("payouts/{made}/send"), "Reference", REFERENCE),
        (payer, format!("payouts/{made}/fail"), "Reason", FAILURE),
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
            let answer = watched.post(by, &path, body, &[]).await;
            assert!(answer.status >= 400, "{path}: {}", answer.text);
        }
    }
    for query in
        ["Status=marked-comment", "Currency=marked-comment&Sort=marked-comment", "From=marked-comment"]
    {
        watched.get(own, &format!("{MY}/commission-accruals?{query}"), &[]).await.expect(400);
    }
}

/// Statements that the database refuses, of which it tells the whole row; and messages that cannot be taken.
async fn break_things(watched: &Watched) {
    let (_, accrual) = watched.deal("Sale").await;
    for table in ["accrual", "adjustment_request", "outbox"] {
        let add = format!("alter table {table} add constraint refused check (false) not valid");
        watched.sql.batch_execute(&add).await.unwrap();
        let path = format!("{MY}/commission-accruals/{accrual}/adjustment-requests");
        let body = json!({"Reason": "Other", "Comment": COMMENT});
        watched.post(&watched.own, &path, body, &[COMMENT]).await;
        let path = format!("commission-accruals/{accrual}/reject");
        let answer = watched.post(&watched.commissions, &path, json!({"Comment": VERDICT}), &[COMMENT]).await;
        assert!(answer.status == 500 || table == "adjustment_request", "{}", answer.text);
        watched.sql.batch_execute(&format!("alter table {table} drop constraint refused")).await.unwrap();
    }
    let mut deal = Deal::new(watched.agent, watched.developer, rub(-AMOUNT));
    for payload in [deal.moves("Sale", &in_days(-3)), with(deal.moves("Sale", COMMENT), "Amount", COMMENT)] {
        let payload = with(payload, "DealId", guid().to_string());
        let key = key_of(&payload).to_string();
        service().bus().publish(STAGE_CHANGED, key_of(&payload), next(), &payload).await;
        let aside = "select 1 from dead_letter where key = $1";
        eventually("the dead letter", async || watched.sql.query_opt(aside, &[&key]).await.unwrap()).await;
    }
}

/// Section 8, Privacy: comments, reasons and references are in no event, log, span or refusal. Amounts are in no log. No
/// answer shows who decided. Clients, cancellations, steps and authors that crm publishes are not stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_texts_appear_only_where_they_are_documented() {
    let watched = Watched::start().await;
    let ids = drive(&watched).await;
    refuse(&watched, &ids).await;
    let unneeded = watched.unneeded.lock().unwrap().clone();
    let tables = "select table_name::text from information_schema.tables where table_schema = 'agent'";
    let mut looked_at = 0;
    for table in watched.sql.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        for row in watched.sql.query(&format!("select t::text from \"{table}\" t"), &[]).await.unwrap() {
            let row: String = row.get(0);
            looked_at += 1;
            let found = unneeded.iter().map(String::as_str).chain([CANCELLATION]).find(|id| row.contains(id));
            assert_eq!(found, None, "{table} keeps what nobody needs: {row}");
        }
    }
    assert!(looked_at > 20, "only {looked_at} rows were looked at");
    break_things(&watched).await;

    for id in &ids {
        eventually("the outbox to be published", async || {
            let waiting = "select from outbox where key = $1";
            watched.sql.query(waiting, &[&id.to_string()]).await.unwrap().is_empty().then_some(())
        })
        .await;
        service().bus().read_to_end().await;
        let events = service().bus().events(id);
        assert!(!events.is_empty(), "{id} has no event");
        for event in events {
            assert_eq!(marks_in(&format!("{event:?}"), &WRITTEN), [""; 0], "{event:?}");
        }
    }
    let name = "POST /api/platform-manager/agent/commission-accruals/{accrual_id}/reject";
    watched.service.collector.span(&watched.trace, |span| span.name == name).await;
    let spans: Vec<_> = watched.service.collector.all().collect();
    assert!(spans.len() > *watched.count.lock().unwrap() / 2, "{} spans", spans.len());
    let hidden: Vec<&str> = WRITTEN.into_iter().chain([CANCELLATION, EARNED]).collect();
    for span in spans {
        let shown = format!("{span:?}");
        assert_eq!(marks_in(&shown, &hidden), [""; 0], "a span: {shown}");
    }
    let log = watched.service.log();
    assert!(log.iter().any(|line| line["level"] == "ERROR"), "the failures are logged");
    for line in log {
        let line = line.to_string();
        assert_eq!(marks_in(&line, &hidden), [""; 0], "a line of the log: {line}");
        assert!(unneeded.iter().all(|id| !line.contains(id)), "a line of the log: {line}");
    }
    let metrics = watched.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, marks_in(&metrics.text, &hidden)), (200, Vec::new()));
}
