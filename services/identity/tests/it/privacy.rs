//! What is in no log, span, problem, event or entry: names, addresses, what is looked for, reasons, tax numbers.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::deployed::Deployed;
use uuid::Uuid;

use crate::{ALL, AUDIT, EMPLOYEES, STATUS_CHANGED, TENANTS, UPSERTED, guid, holder, service, text};

/// Marked values of a person, of a search, of a reason and of a tax number.
const NAME: &str = "Marked-Name";
const ADDRESS: &str = "marked.address";
const QUERY: &str = "marked-query";
const REASON: &str = "marked-reason";
const NUMBER: &str = "987654321012";

/// A request in a trace of its own.
async fn ask(by: &Client, trace: &str, method: Method, path: &str, body: &Value) -> Answer {
    let request = by.request(method, path).header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    send(if body.is_null() { request } else { request.json(body) }).await
}

fn assert_unmarked(what: &str, text: &str, marks: &[&str]) {
    let found = marks.iter().find(|mark| text.to_lowercase().contains(&mark.to_lowercase()));
    assert_eq!(found, None, "{what}: {text}");
}

#[tokio::test]
async fn what_is_private_is_told_to_nobody_else() {
    let identity = Deployed::start(env!("CARGO_BIN_EXE_identity"), &[], &[("LOG", "debug")]).await;
    let by = identity.caller(&holder(None, &ALL));
    let trace = guid().simple().to_string();
    let marked = json!({
        "Name": "x", "Type": "Developer", "TaxNumber": NUMBER, "Email": format!("{ADDRESS}@example.org"), "Reason": REASON,
    });
    let person = json!({"Name": NAME, "Email": format!("{ADDRESS}@example.org")});
    let made = ask(&by, &trace, Method::POST, TENANTS, &marked).await.expect(201);
    let company: Uuid = text(&made["Id"]).parse().unwrap();
    let tenant = format!("{TENANTS}/{company}");
    let partner = identity.caller(&holder(Some(company), &["identity.employee-roles.manage"]));
    let employee = ask(&partner, &trace, Method::POST, EMPLOYEES, &person).await.expect(201);
    let user: Uuid = text(&employee["Id"]).parse().unwrap();
    ask(&by, &trace, Method::GET, &format!("{TENANTS}/search?Query={QUERY}"), &Value::Null).await.expect(200);
    ask(&partner, &trace, Method::GET, &format!("{EMPLOYEES}?Query={QUERY}"), &Value::Null).await.expect(200);

    let person_and_more = [NAME, ADDRESS, QUERY, REASON, NUMBER];
    let path = format!("{EMPLOYEES}/{user}");
    for (by, method, path, body) in [
        (&by, Method::POST, TENANTS.to_owned(), marked.clone()),
        (
            &by,
            Method::POST,
            TENANTS.to_owned(),
            json!({"Name": "", "TaxNumber": format!("{NUMBER}1"), "Type": REASON}),
        ),
        (&partner, Method::POST, EMPLOYEES.to_owned(), person.clone()),
        (
            &partner,
            Method::POST,
            EMPLOYEES.to_owned(),
            json!({"Name": format!("{NAME}\0"), "Email": ADDRESS}),
        ),
        (&partner, Method::PUT, path.clone(), json!({"Name": NAME, "Email": [ADDRESS], "Version": NAME})),
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
        let answer = ask(by, &trace, method, &path, &body).await;
        assert!(matches!(answer.status, 400 | 409), "{path} {body}: {}", answer.text);
        assert_unmarked("a problem", &answer.text, &person_and_more);
    }
    ask(&by, &trace, Method::POST, &format!("{tenant}/suspend"), &json!({"Reason": REASON}))
        .await
        .expect(200);
    let removal = format!("{tenant}/employees/{user}");
    ask(&by, &trace, Method::DELETE, &removal, &Value::Null).await.expect(204);

    for line in identity.log() {
        assert_unmarked("a line of the log", &line.to_string(), &person_and_more);
    }
    for name in [
        "POST /api/identity/employees",
        "GET /api/identity/admin/tenants/search",
        "DELETE /api/identity/admin/tenants/{tenant_id}/employees/{user_id}",
    ] {
        let span = identity.collector.span(&trace, |span| span.name == name).await;
        assert_unmarked("a span", &format!("{span:?}"), &person_and_more);
    }
    let bus = service().bus();
    let of_person = bus.events_until(user, STATUS_CHANGED).await;
    let of_company = bus.events_until(company, UPSERTED).await;
    assert!(!of_person.is_empty() && !of_company.is_empty());
    for event in of_person.iter().chain(&of_company) {
        // A reason is told where a company is suspended, and nowhere else.
        assert_unmarked("an event", &format!("{event:?}"), &[NAME, ADDRESS, QUERY, NUMBER]);
    }
    let entries = by.get(&format!("{AUDIT}?TenantId={company}")).await.expect(200);
    assert_unmarked("an entry", &entries.to_string(), &[NAME, ADDRESS, QUERY, NUMBER]);
}
