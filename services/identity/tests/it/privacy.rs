//! Private data in logs, spans, problems, events and audit entries.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response, send};
use testkit::deployed::Deployed;
use testkit::issuer::CLIENTS;
use testkit::service::issuer;
use testkit::{database, eventually};
use uuid::Uuid;

use crate::{
    ACCESS_REVOKED, ADMIN_PERMISSIONS, AUDIT, EMPLOYEES, STATUS_CHANGED, TENANTS, claims_with, guid, service,
    text,
};

/// Marked values, which the test searches for in every output.
const NAME: &str = "Marked-Name";
const ADDRESS: &str = "marked.address";
const QUERY: &str = "marked-query";
const REASON: &str = "marked-reason";
const NUMBER: &str = "987654321012";

/// Sends a request with this trace id.
async fn call(by: &Client, trace: &str, method: Method, path: &str, body: &Value) -> Response {
    let request = by.request(method, path).header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    send(if body.is_null() { request } else { request.json(body) }).await
}

fn assert_unmarked(what: &str, text: &str, marks: &[&str]) {
    let found = marks.iter().find(|mark| text.to_lowercase().contains(&mark.to_lowercase()));
    assert_eq!(found, None, "{what}: {text}");
}

/// Starts a service that logs everything.
async fn start(database_url: &str) -> Deployed {
    let admin_url = issuer().admin_url();
    let &(_, secret) = CLIENTS.iter().find(|(client, _)| *client == "identity").unwrap();
    let settings = [
        ("DATABASE_URL", database_url),
        ("LOG", "debug"),
        ("IDENTITY_ISSUER_ADMIN_URL", admin_url.as_str()),
        ("CLIENT_SECRET", secret),
    ];
    Deployed::start(env!("CARGO_BIN_EXE_identity"), &[], &settings).await
}

/// Returns the events of a person who was hired and removed, and of their suspended company.
async fn published(user: Uuid, company: Uuid) -> Vec<Published> {
    let bus = service().bus();
    let all = async |key: Uuid, count: usize| {
        eventually("the events", async || Some(bus.events(&key)).filter(|events| events.len() >= count)).await
    };
    let (mut of_person, of_company) = (all(user, 3).await, all(company, 4).await);
    let mut topics: Vec<_> = of_person.iter().map(|event| event.topic.as_str()).collect();
    topics.sort_unstable();
    assert_eq!(topics, [ACCESS_REVOKED, STATUS_CHANGED, STATUS_CHANGED]);
    assert_eq!(of_company.len(), 4, "{of_company:?}");
    of_person.extend(of_company);
    of_person
}

/// RULE-IDN-020, RULE-IDN-067, RULE-EVT-002: no log, span or problem contains private data, even if
/// the database rejects a row. No event and no audit entry contains a name, an address, a query or
/// a tax number. No log, span or entry contains a secret. The event of a suspension has its reason.
#[tokio::test]
async fn private_data_is_in_no_log_span_problem_event_or_entry() {
    let url = database::create().await.unwrap();
    let identity = start(&url).await;
    let by = identity.caller(&claims_with(None, &ADMIN_PERMISSIONS));
    let trace = guid().simple().to_string();
    let marked = json!({
        "Name": "x", "Type": "Developer", "TaxNumber": NUMBER, "Email": format!("{ADDRESS}@example.org"), "Reason": REASON,
    });
    let person = json!({"Name": NAME, "Email": format!("{ADDRESS}@example.org")});
    let created = call(&by, &trace, Method::POST, TENANTS, &marked).await.expect(201);
    let company: Uuid = text(&created["Id"]).parse().unwrap();
    let tenant = format!("{TENANTS}/{company}");
    let admin = identity.caller(&claims_with(Some(company), &["identity.employee-roles.manage"]));
    let employee = call(&admin, &trace, Method::POST, EMPLOYEES, &person).await.expect(201);
    let user: Uuid = text(&employee["Id"]).parse().unwrap();
    let account = json!({"Name": "x", "RoleIds": []});
    let account =
        call(&admin, &trace, Method::POST, "/api/identity/machine-accounts", &account).await.expect(201);
    let path = format!("/api/identity/machine-accounts/{}/secret", text(&account["Id"]));
    let credentials = call(&admin, &trace, Method::POST, &path, &Value::Null).await.expect(200);
    let secret = text(&credentials["ClientSecret"]);
    call(&by, &trace, Method::GET, &format!("{TENANTS}/search?Query={QUERY}"), &Value::Null)
        .await
        .expect(200);
    call(&admin, &trace, Method::GET, &format!("{EMPLOYEES}?Query={QUERY}"), &Value::Null).await.expect(200);

    let all_marks = [NAME, ADDRESS, QUERY, REASON, NUMBER];
    let path = format!("{EMPLOYEES}/{user}");
    for (by, method, path, body) in [
        (&by, Method::POST, TENANTS.to_owned(), marked.clone()),
        (
            &by,
            Method::POST,
            TENANTS.to_owned(),
            json!({"Name": "", "TaxNumber": format!("{NUMBER}1"), "Type": REASON}),
        ),
        (&admin, Method::POST, EMPLOYEES.to_owned(), person.clone()),
        (&admin, Method::POST, EMPLOYEES.to_owned(), json!({"Name": format!("{NAME}\0"), "Email": ADDRESS})),
        (&admin, Method::PUT, path.clone(), json!({"Name": NAME, "Email": [ADDRESS], "Version": NAME})),
        (
            &by,
            Method::POST,
            format!("{tenant}/administrators"),
            json!({"Name": NAME, "Email": person["Email"], "UserId": NAME}),
        ),
        (&by, Method::POST, format!("{tenant}/suspend"), json!({"Reason": format!("{REASON}\u{b}x")})),
        (&by, Method::GET, format!("{TENANTS}/search?Query={QUERY}%00"), Value::Null),
        (&by, Method::GET, format!("{TENANTS}/lookup?Query={QUERY}{}", "x".repeat(100)), Value::Null),
    ] {
        let response = call(by, &trace, method, &path, &body).await;
        assert!(matches!(response.status, 400 | 409), "{path} {body}: {}", response.text);
        assert_unmarked("a problem", &response.text, &all_marks);
    }
    call(&by, &trace, Method::POST, &format!("{tenant}/suspend"), &json!({"Reason": REASON}))
        .await
        .expect(200);
    let removal = format!("{tenant}/employees/{user}");
    call(&by, &trace, Method::DELETE, &removal, &Value::Null).await.expect(204);

    // The database rejects these statements, and its error contains the whole row.
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = identity").await.unwrap();
    let other =
        call(&by, &trace, Method::POST, TENANTS, &json!({"Name": "y", "Type": "Agency"})).await.expect(201);
    let active = claims_with(Some(text(&other["Id"]).parse().unwrap()), &["identity.employee-roles.manage"]);
    let active = identity.caller(&active);
    for (by, table, path, body) in
        [(&by, "tenant", TENANTS, &marked), (&active, "employee", EMPLOYEES, &person)]
    {
        sql.batch_execute(&format!("alter table {table} add constraint refused check (false) not valid"))
            .await
            .unwrap();
        let failed = call(by, &trace, Method::POST, path, body).await;
        assert_unmarked("a problem", &failed.text, &all_marks);
        failed.expect_problem(500, "INTERNAL_ERROR");
    }
    let errors = || identity.log().into_iter().filter(|line| line["level"] == "ERROR").count();
    eventually("both errors in the log", async || (errors() == 2).then_some(())).await;
    for line in identity.log() {
        assert_unmarked("a line of the log", &line.to_string(), &all_marks);
        assert_unmarked("a line of the log", &line.to_string(), &[secret]);
    }
    for name in [
        "POST /api/identity/employees",
        "GET /api/identity/admin/tenants/search",
        "DELETE /api/identity/admin/tenants/{tenant_id}/employees/{user_id}",
    ] {
        identity.collector.span(&trace, |span| span.name == name).await;
    }
    for span in identity.collector.all() {
        assert_unmarked("a span", &format!("{span:?}"), &all_marks);
        assert_unmarked("a span", &format!("{span:?}"), &[secret]);
    }
    let events = published(user, company).await;
    for event in &events {
        assert_unmarked("an event", &format!("{event:?}"), &[NAME, ADDRESS, QUERY, NUMBER]);
    }
    assert!(events.iter().any(|event| event.payload["Reason"] == REASON), "{events:?}");
    let entries = by.get(&format!("{AUDIT}?TenantId={company}")).await.expect(200);
    assert_unmarked("an entry", &entries.to_string(), &[NAME, ADDRESS, QUERY, NUMBER, secret]);
}
