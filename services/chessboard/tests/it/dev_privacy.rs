//! Privacy of contact data.

use std::collections::BTreeSet;
use std::sync::Mutex;

use chessboard::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::dedicated::DedicatedBroker;
use testkit::deployed::Deployed;
use testkit::service::published;
use testkit::{database, eventually, guid, text};
use uuid::Uuid;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::objects::{House, building, flats, project};
use crate::{
    ADMIN, COMPANY_UPSERTED, DEVELOPER_UPSERTED, EXTERNAL_UPSERTED, MANAGE, MANAGE_ALL, ME, company_event,
    id_of, next_sequence, objects, path, profile, user_claims, with,
};

const EMAIL: &str = "marked.contact@example.org";
const PHONE: &str = "8 (495) 765-43-21";
/// Texts that occur only in contacts, as sent and as stored.
const MARKS: [&str; 3] = ["marked.contact", "765-43-21", "4957654321"];

/// A deployed service with a dedicated broker and its callers.
struct ObservedService {
    service: Deployed,
    broker: DedicatedBroker,
    sql: tokio_postgres::Client,
    developer: Uuid,
    manager: Client,
    administrator: Client,
    /// The trace of all requests.
    trace: String,
    /// Number of requests in the trace.
    requests: Mutex<usize>,
}

/// Returns the marks in a text, as characters or as hexadecimal digits of `bytea` columns.
fn marks_in(text: &str) -> BTreeSet<&'static str> {
    let as_hex = |mark: &str| testkit::collector::hex(mark.as_bytes());
    MARKS.into_iter().filter(|mark| text.contains(*mark) || text.contains(&as_hex(mark))).collect()
}

/// Returns a profile with the marked contacts.
fn marked() -> Value {
    with(with(profile(), "ContactEmail", EMAIL), "ContactPhone", PHONE)
}

impl ObservedService {
    async fn start() -> Self {
        let broker = DedicatedBroker::start::<Service>();
        let url = database::create().await.unwrap();
        let settings =
            [("DATABASE_URL", url.as_str()), ("KAFKA_BROKERS", broker.servers()), ("LOG", "debug")];
        let service = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = chessboard").await.unwrap();
        let developer = guid();
        broker
            .bus()
            .publish(COMPANY_UPSERTED, developer, next_sequence(), &company_event(developer, "Active", 1))
            .await;
        let manager = service.caller(&user_claims(Some(developer), &[MANAGE]));
        eventually("the developer", async || (manager.get(ME).await.status == 200).then_some(())).await;
        let administrator = service.caller(&user_claims(None, &[MANAGE_ALL]));
        let trace = guid().simple().to_string();
        Self { service, broker, sql, developer, manager, administrator, trace, requests: Mutex::new(0) }
    }

    async fn send(&self, by: &Client, method: Method, path: &str, body: &Value) -> Response {
        let request = by.request(method, path);
        let request = request.header("traceparent", format!("00-{}-00f067aa0ba902b7-01", self.trace));
        *self.requests.lock().unwrap() += 1;
        send(if body.is_null() { request } else { request.json(body) }).await
    }

    /// Sends a request whose response has the profile with contacts.
    async fn expect_contacts(&self, by: &Client, method: Method, path: &str, body: &Value) {
        let response = self.send(by, method, path, body).await;
        assert!(response.status < 300, "{path}: {}", response.text);
        assert_eq!(
            marks_in(&response.text),
            ["marked.contact", "4957654321"].into(),
            "{path}: {}",
            response.text
        );
    }

    /// Sends a request whose response has no contacts, regardless of its status.
    async fn expect_no_contacts(&self, by: &Client, method: Method, path: &str, body: &Value) -> Response {
        let response = self.send(by, method, path, body).await;
        let whole = format!("{} {:?}", response.text, response.headers);
        assert_eq!(marks_in(&whole), [].into(), "{path}: {whole}");
        response
    }

    async fn expect_rejection(&self, by: &Client, method: Method, path: &str, body: &Value, status: u16) {
        let response = self.expect_no_contacts(by, method, path, body).await;
        assert_eq!(response.status, status, "{path}: {}", response.text);
    }
}

/// Sends requests about a profile with contacts and about the data below it, which all succeed.
/// Returns the ids of the project and the object.
async fn send_accepted_requests(observed: &ObservedService) -> Vec<Uuid> {
    let ObservedService { manager, administrator, service, developer, .. } = observed;
    let (own, none) = (path(*developer, ""), json!({}));
    observed.expect_contacts(manager, Method::PUT, ME, &marked()).await;
    observed.expect_contacts(manager, Method::GET, ME, &Value::Null).await;
    observed.expect_contacts(administrator, Method::PUT, &own, &with(marked(), "Description", "Иное")).await;
    observed.expect_contacts(administrator, Method::GET, &own, &Value::Null).await;
    observed.expect_contacts(administrator, Method::GET, ADMIN, &Value::Null).await;
    for operation in ["publish", "withdraw", "publish", "hide", "publish"] {
        observed.expect_contacts(manager, Method::POST, &format!("{ME}/{operation}"), &none).await;
    }
    observed.expect_contacts(administrator, Method::POST, &path(*developer, "/release"), &none).await;

    let created =
        observed.expect_no_contacts(manager, Method::POST, objects::PROJECTS, &project()).await.expect(201);
    let project = id_of(&created["Id"]);
    let below = format!("{}/{project}", objects::PROJECTS);
    let created =
        observed.expect_no_contacts(manager, Method::POST, &format!("{below}/buildings"), &building()).await;
    let building = id_of(&created.expect(201)["Id"]);
    let house = House { developer: *developer, manager: manager.clone(), project, building };
    let grid = json!({"Objects": flats(2)});
    observed
        .expect_no_contacts(manager, Method::PUT, &house.path("/property-objects"), &grid)
        .await
        .expect(200);
    observed.expect_no_contacts(manager, Method::POST, &format!("{below}/publish"), &none).await.expect(200);
    let object = house.id_of("1").await;

    let guest = &service.guest();
    observed.expect_contacts(guest, Method::GET, DEVELOPERS, &Value::Null).await;
    observed.expect_contacts(guest, Method::GET, &format!("{DEVELOPERS}/{developer}"), &Value::Null).await;
    for (by, path) in [
        (guest, PROJECTS.to_owned()),
        (guest, format!("{PROJECTS}/facets")),
        (guest, format!("{PROJECTS}/{project}")),
        (guest, format!("{PROJECTS}/{project}/buildings/{building}")),
        (guest, format!("{OBJECTS}?DeveloperId={developer}")),
        (guest, format!("{OBJECTS}/{object}")),
        (guest, format!("{OBJECTS}/{object}/price-history")),
        (manager, below.clone()),
        (manager, objects::PROJECTS.to_owned()),
        (manager, house.path("")),
        (manager, format!("{ME}/events?PageSize=100")),
        (administrator, self::path(*developer, "/events?PageSize=100")),
    ] {
        observed.expect_no_contacts(by, Method::GET, &path, &Value::Null).await.expect(200);
    }
    vec![project, object]
}

/// Sends bodies with contacts that are rejected, each for another reason.
async fn send_rejected_requests(observed: &ObservedService) {
    let ObservedService { manager, administrator, developer, .. } = observed;
    let own = path(*developer, "");
    for (member, value) in [
        ("Name", json!("")),
        ("ContactEmail", json!("marked.contact@example")),
        ("ContactEmail", json!([EMAIL])),
        ("ContactEmail", json!(EMAIL.repeat(20))),
        ("ContactPhone", json!(format!("{PHONE} ext"))),
        ("ContactPhone", json!({"x": PHONE})),
        ("ContactPhone", json!(PHONE.repeat(3))),
        ("Website", json!(EMAIL)),
        ("FoundedYear", json!(EMAIL)),
        ("LogoFileId", json!(PHONE)),
        ("Highlights", json!({"ContractVersion": 1, "AwardTitles": [EMAIL]})),
        ("Version", json!(EMAIL)),
    ] {
        let body = with(marked(), member, value);
        observed.expect_rejection(manager, Method::PUT, ME, &body, 400).await;
        observed.expect_rejection(administrator, Method::PUT, &own, &body, 400).await;
        let body = with(body, "CompanyId", json!(guid()));
        observed.expect_rejection(administrator, Method::POST, ADMIN, &body, 400).await;
    }
    let stale = with(with(marked(), "Name", "Иное"), "Version", 1);
    observed.expect_rejection(manager, Method::PUT, ME, &stale, 409).await;
    observed
        .expect_rejection(
            administrator,
            Method::POST,
            ADMIN,
            &with(marked(), "CompanyId", json!(guid())),
            422,
        )
        .await;
    observed
        .expect_rejection(
            administrator,
            Method::POST,
            ADMIN,
            &with(marked(), "CompanyId", json!(developer)),
            409,
        )
        .await;
    observed.expect_rejection(administrator, Method::PUT, &path(guid(), ""), &marked(), 404).await;
    observed.expect_rejection(administrator, Method::DELETE, &own, &Value::Null, 409).await;
    let truncated = manager.request(Method::PUT, ME).header("content-type", "application/json");
    let truncated = send(truncated.body(format!("{{\"ContactEmail\": \"{EMAIL}"))).await;
    assert_eq!(marks_in(&truncated.text), [].into());
    truncated.expect_problem(400, "VALIDATION_FAILED");
}

/// Makes statements fail with the whole row in the database's error, and publishes an event with
/// contacts that does not decode. Returns the key of the event.
async fn cause_failures(observed: &ObservedService) -> Uuid {
    // Each edit changes the year, so that it writes, and the logo, so that it publishes an event.
    for (table, year) in [("developer", 2001), ("developer_log", 2002), ("outbox", 2003)] {
        let add = format!("alter table {table} add constraint refused check (false) not valid");
        observed.sql.batch_execute(&add).await.unwrap();
        let body = with(with(marked(), "FoundedYear", year), "LogoFileId", json!(guid()));
        observed.expect_rejection(&observed.manager, Method::PUT, ME, &body, 500).await;
        observed.sql.batch_execute(&format!("alter table {table} drop constraint refused")).await.unwrap();
    }
    let key = guid();
    let event = crate::external_profile(key, observed.developer, 1);
    let event = with(with(event, "FoundedYear", EMAIL), "ContactPhone", PHONE).to_string();
    let headers = [("ce_id", guid().to_string()), ("ce_source", "/external".to_owned())];
    let bus = observed.broker.bus();
    bus.publish_raw(EXTERNAL_UPSERTED, key.to_string().as_bytes(), &headers, event.as_bytes()).await;
    let dead = "select 1 from dead_letter where key = $1";
    let find = async || observed.sql.query_opt(dead, &[&key.to_string()]).await.unwrap();
    eventually("the dead letter", find).await;
    key
}

/// Checks every row of every table for contacts and returns the tables that have rows.
///
/// The contacts of the profile and the message of a dead letter are exempt.
async fn check_tables(observed: &ObservedService) -> BTreeSet<String> {
    let tables = "select table_name::text from information_schema.tables where table_schema = 'chessboard'";
    let mut filled = BTreeSet::new();
    for table in observed.sql.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let exempt = match table.as_str() {
            "developer" => "- 'contact_phone' - 'contact_email'",
            "dead_letter" => "- 'payload'",
            _ => "",
        };
        let rows = format!("select (to_jsonb(t) {exempt})::text from \"{table}\" t");
        for row in observed.sql.query(&rows, &[]).await.unwrap() {
            let row: String = row.get(0);
            assert_eq!(marks_in(&row), [].into(), "{table} has contacts: {row}");
            filled.insert(table.clone());
        }
    }
    filled
}

/// RULE-CHS-011: contacts are in the responses with the profile. They are in no event, log, span,
/// metric, problem or other table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_are_in_profile_responses_only() {
    let observed = ObservedService::start().await;
    let ids = send_accepted_requests(&observed).await;
    send_rejected_requests(&observed).await;
    let dead = cause_failures(&observed).await;

    let bus = observed.broker.bus();
    let mut topics = BTreeSet::new();
    for key in ids.iter().chain([&observed.developer, &dead]) {
        for mut event in published(&observed.sql, bus, &key.to_string()).await {
            if *key == dead {
                // The message itself and its copy in the dead-letter topic have contacts.
                event.payload = Value::Null;
            }
            let shown = format!("{event:?}");
            assert_eq!(marks_in(&shown), [].into(), "{shown}");
            topics.insert(event.topic);
        }
    }
    for topic in [DEVELOPER_UPSERTED, objects::PROJECT_CHANGED, objects::OBJECT_UPSERTED, EXTERNAL_UPSERTED] {
        assert!(topics.contains(topic), "no {topic} among {topics:?}");
    }
    assert!(topics.iter().any(|topic| topic.contains(".dlq")), "{topics:?}");

    // The outbox is empty now, so it has no copy of the dead letter.
    let filled = check_tables(&observed).await;
    for table in ["developer", "developer_log", "dead_letter", "project", "property_object", "inbox"] {
        assert!(filled.contains(table), "{table} has no row among {filled:?}");
    }

    let name = format!("PUT {ADMIN}/{{developer_id}}");
    observed.service.collector.span(&observed.trace, |span| span.name == name).await;
    let spans: Vec<_> = observed.service.collector.all().collect();
    // The service exports spans in batches, so those of the last requests may be missing.
    assert!(spans.len() > *observed.requests.lock().unwrap() / 2, "{} spans", spans.len());
    for span in spans {
        let shown = format!("{span:?}");
        assert_eq!(marks_in(&shown), [].into(), "a span: {shown}");
    }
    let log = observed.service.log();
    let errors = log.iter().filter(|line| text(&line["level"]) == "ERROR").count();
    assert!(errors >= 3, "{errors} errors in the log");
    for line in log {
        assert_eq!(marks_in(&line.to_string()), [].into(), "a line of the log: {line}");
    }
    let metrics = observed.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, marks_in(&metrics.text)), (200, [].into()));
}
