//! Contact data: it is in the answers that have the profile, and in no other answer, event, log, span, metric or table.

use std::collections::BTreeSet;
use std::sync::Mutex;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::deployed::Deployed;
use testkit::{database, eventually, guid, text};
use uuid::Uuid;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::objects::{House, building, flats, project};
use crate::own::{Broker, published};
use crate::{
    ADMIN, COMPANY_UPSERTED, DEVELOPER_UPSERTED, MANAGE, MANAGE_ALL, ME, OUTSIDE_UPSERTED, company, holder,
    id_of, next, objects, path, profile, with,
};

const EMAIL: &str = "marked.contact@example.org";
const PHONE: &str = "8 (495) 765-43-21";
/// What only a contact has, as it is sent and as it is stored.
const MARKS: [&str; 3] = ["marked.contact", "765-43-21", "4957654321"];

/// The service as it is deployed, on a broker that no other service uses, and who calls it.
struct Watched {
    service: Deployed,
    broker: Broker,
    sql: tokio_postgres::Client,
    developer: Uuid,
    manager: Client,
    operator: Client,
    trace: String,
    requests: Mutex<usize>,
}

/// The marks in a text, and those in the bytes that it shows as hexadecimal digits, as the database does.
fn marks_in(text: &str) -> BTreeSet<&'static str> {
    let as_hex = |mark: &str| testkit::collector::hex(mark.as_bytes());
    MARKS.into_iter().filter(|mark| text.contains(*mark) || text.contains(&as_hex(mark))).collect()
}

/// A profile with the marked contacts.
fn marked() -> Value {
    with(with(profile(), "ContactEmail", EMAIL), "ContactPhone", PHONE)
}

impl Watched {
    async fn start() -> Self {
        let broker = Broker::start();
        let url = database::create().await.unwrap();
        let settings =
            [("DATABASE_URL", url.as_str()), ("KAFKA_BROKERS", broker.servers()), ("LOG", "debug")];
        let service = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = chessboard").await.unwrap();
        let developer = guid();
        broker.bus().publish(COMPANY_UPSERTED, developer, next(), &company(developer, "Active", 1)).await;
        let manager = service.caller(&holder(Some(developer), &[MANAGE]));
        eventually("the developer", async || (manager.get(ME).await.status == 200).then_some(())).await;
        let operator = service.caller(&holder(None, &[MANAGE_ALL]));
        let trace = guid().simple().to_string();
        Self { service, broker, sql, developer, manager, operator, trace, requests: Mutex::new(0) }
    }

    async fn send(&self, by: &Client, method: Method, path: &str, body: &Value) -> Answer {
        let request = by.request(method, path);
        let request = request.header("traceparent", format!("00-{}-00f067aa0ba902b7-01", self.trace));
        *self.requests.lock().unwrap() += 1;
        send(if body.is_null() { request } else { request.json(body) }).await
    }

    /// Sends a request whose answer has the profile, contacts included.
    async fn shows(&self, by: &Client, method: Method, path: &str, body: &Value) {
        let answer = self.send(by, method, path, body).await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
        assert_eq!(
            marks_in(&answer.text),
            ["marked.contact", "4957654321"].into(),
            "{path}: {}",
            answer.text
        );
    }

    /// Sends a request whose answer has no contacts, whether it is refused or not.
    async fn hides(&self, by: &Client, method: Method, path: &str, body: &Value) -> Answer {
        let answer = self.send(by, method, path, body).await;
        let whole = format!("{} {:?}", answer.text, answer.headers);
        assert_eq!(marks_in(&whole), [].into(), "{path}: {whole}");
        answer
    }

    async fn refuses(&self, by: &Client, method: Method, path: &str, body: &Value, status: u16) {
        let answer = self.hides(by, method, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
}

/// Makes every move of the profile with its contacts, and builds below it. Returns the ids of what is below.
async fn succeed(watched: &Watched) -> Vec<Uuid> {
    let Watched { manager, operator, service, developer, .. } = watched;
    let (own, none) = (path(*developer, ""), json!({}));
    watched.shows(manager, Method::PUT, ME, &marked()).await;
    watched.shows(manager, Method::GET, ME, &Value::Null).await;
    watched.shows(operator, Method::PUT, &own, &with(marked(), "Description", "Иное")).await;
    watched.shows(operator, Method::GET, &own, &Value::Null).await;
    watched.shows(operator, Method::GET, ADMIN, &Value::Null).await;
    for made in ["publish", "withdraw", "publish", "hide", "publish"] {
        watched.shows(manager, Method::POST, &format!("{ME}/{made}"), &none).await;
    }
    watched.shows(operator, Method::POST, &path(*developer, "/release"), &none).await;

    let created = watched.hides(manager, Method::POST, objects::PROJECTS, &project()).await.expect(201);
    let project = id_of(&created["Id"]);
    let below = format!("{}/{project}", objects::PROJECTS);
    let created = watched.hides(manager, Method::POST, &format!("{below}/buildings"), &building()).await;
    let building = id_of(&created.expect(201)["Id"]);
    let house = House { developer: *developer, manager: manager.clone(), project, building };
    let grid = json!({"Objects": flats(2)});
    watched.hides(manager, Method::PUT, &house.path("/property-objects"), &grid).await.expect(200);
    watched.hides(manager, Method::POST, &format!("{below}/publish"), &none).await.expect(200);
    let object = house.id_of("1").await;

    let guest = &service.guest();
    watched.shows(guest, Method::GET, DEVELOPERS, &Value::Null).await;
    watched.shows(guest, Method::GET, &format!("{DEVELOPERS}/{developer}"), &Value::Null).await;
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
        (operator, self::path(*developer, "/events?PageSize=100")),
    ] {
        watched.hides(by, Method::GET, &path, &Value::Null).await.expect(200);
    }
    vec![project, object]
}

/// Sends bodies with contacts that are refused, each for another reason.
async fn refuse(watched: &Watched) {
    let Watched { manager, operator, developer, .. } = watched;
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
        watched.refuses(manager, Method::PUT, ME, &body, 400).await;
        watched.refuses(operator, Method::PUT, &own, &body, 400).await;
        // A new profile has no version to name.
        let status = if member == "Version" { 422 } else { 400 };
        let body = with(body, "CompanyId", json!(guid()));
        watched.refuses(operator, Method::POST, ADMIN, &body, status).await;
    }
    let stale = with(with(marked(), "Name", "Иное"), "Version", 1);
    watched.refuses(manager, Method::PUT, ME, &stale, 409).await;
    watched.refuses(operator, Method::POST, ADMIN, &with(marked(), "CompanyId", json!(guid())), 422).await;
    watched.refuses(operator, Method::POST, ADMIN, &with(marked(), "CompanyId", json!(developer)), 409).await;
    watched.refuses(operator, Method::PUT, &path(guid(), ""), &marked(), 404).await;
    watched.refuses(operator, Method::DELETE, &own, &Value::Null, 409).await;
    let torn = manager.request(Method::PUT, ME).header("content-type", "application/json");
    let torn = send(torn.body(format!("{{\"ContactEmail\": \"{EMAIL}"))).await;
    assert_eq!(marks_in(&torn.text), [].into());
    torn.expect_problem(400, "VALIDATION_FAILED");
}

/// Has the database refuse statements, with the whole row in what it says of that; and has the consumer meet an event with contacts in
/// it that it cannot decode. Returns the key of the event.
async fn fail(watched: &Watched) -> Uuid {
    for (table, years) in [("developer", 2001), ("developer_log", 2002), ("outbox", 2003)] {
        let add = format!("alter table {table} add constraint refused check (false) not valid");
        watched.sql.batch_execute(&add).await.unwrap();
        let body = with(with(marked(), "FoundedYear", years), "LogoFileId", json!(guid()));
        watched.refuses(&watched.manager, Method::PUT, ME, &body, 500).await;
        watched.sql.batch_execute(&format!("alter table {table} drop constraint refused")).await.unwrap();
    }
    let key = guid();
    let event = crate::outside(key, watched.developer, 1);
    let event = with(with(event, "FoundedYear", EMAIL), "ContactPhone", PHONE).to_string();
    let headers = [("ce_id", guid().to_string()), ("ce_source", "/outside".to_owned())];
    let bus = watched.broker.bus();
    bus.publish_raw(OUTSIDE_UPSERTED, key.to_string().as_bytes(), &headers, event.as_bytes()).await;
    let dead = "select 1 from dead_letter where key = $1";
    let ask = async || watched.sql.query_opt(dead, &[&key.to_string()]).await.unwrap();
    eventually("the dead letter", ask).await;
    key
}

/// Reads every row of every table, but for the contacts of the profile, and for the message that a dead letter has whole. Returns the
/// tables that have rows.
async fn read_tables(watched: &Watched) -> BTreeSet<String> {
    let tables = "select table_name::text from information_schema.tables where table_schema = 'chessboard'";
    let mut filled = BTreeSet::new();
    for table in watched.sql.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let but = match table.as_str() {
            "developer" => "- 'contact_phone' - 'contact_email'",
            "dead_letter" => "- 'payload'",
            _ => "",
        };
        let rows = format!("select (to_jsonb(t) {but})::text from \"{table}\" t");
        for row in watched.sql.query(&rows, &[]).await.unwrap() {
            let row: String = row.get(0);
            assert_eq!(marks_in(&row), [].into(), "{table} keeps contacts: {row}");
            filled.insert(table.clone());
        }
    }
    filled
}

/// Section 10, Privacy: contact data is in the answers that have the profile, not in events, logs, spans, metrics, refusals, the log of the
/// profile, or a table other than that of the profile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_are_in_answers_alone() {
    let watched = Watched::start().await;
    let below = succeed(&watched).await;
    refuse(&watched).await;
    let dead = fail(&watched).await;

    let bus = watched.broker.bus();
    let mut topics = BTreeSet::new();
    for key in below.iter().chain([&watched.developer, &dead]) {
        for mut event in published(&watched.sql, bus, &key.to_string()).await {
            if *key == dead {
                // The message itself, and its copy in the dead-letter topic.
                event.payload = Value::Null;
            }
            let shown = format!("{event:?}");
            assert_eq!(marks_in(&shown), [].into(), "{shown}");
            topics.insert(event.topic);
        }
    }
    for topic in [DEVELOPER_UPSERTED, objects::PROJECT_CHANGED, objects::OBJECT_UPSERTED, OUTSIDE_UPSERTED] {
        assert!(topics.contains(topic), "no {topic} among {topics:?}");
    }
    assert!(topics.iter().any(|topic| topic.contains(".dlq")), "{topics:?}");

    // The outbox is empty by now: it has no copy of the dead letter.
    let filled = read_tables(&watched).await;
    for table in ["developer", "developer_log", "dead_letter", "project", "property_object", "inbox"] {
        assert!(filled.contains(table), "{table} has no row among {filled:?}");
    }

    let name = format!("PUT {ADMIN}/{{developer_id}}");
    watched.service.collector.span(&watched.trace, |span| span.name == name).await;
    let spans: Vec<_> = watched.service.collector.all().collect();
    assert!(spans.len() > *watched.requests.lock().unwrap() / 2, "{} spans", spans.len());
    for span in spans {
        let shown = format!("{span:?}");
        assert_eq!(marks_in(&shown), [].into(), "a span: {shown}");
    }
    let log = watched.service.log();
    let errors = log.iter().filter(|line| text(&line["level"]) == "ERROR").count();
    assert!(errors >= 3, "{errors} errors in the log");
    for line in log {
        assert_eq!(marks_in(&line.to_string()), [].into(), "a line of the log: {line}");
    }
    let metrics = watched.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, marks_in(&metrics.text)), (200, [].into()));
}
