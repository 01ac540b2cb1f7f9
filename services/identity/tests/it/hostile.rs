//! Hostile requests: ids of other companies, bodies at the limit, invalid members and path ids.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};

use crate::{
    EMPLOYEES, ROLES, TENANTS, create_tenant, each, email, employee_path, guid, operator, role, text,
};

pub const INVALID: &str = "VALIDATION_FAILED";

const LIMIT: usize = 64 * 1024;

/// Sends a body as it is, as JSON.
pub async fn raw(by: &Client, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Response {
    send(by.request(method, path).header("content-type", "application/json").body(body)).await
}

/// RULE-IDN-034: each operation returns the same body for another company's employee as for
/// an unknown user.
#[tokio::test]
async fn foreign_employee_returns_the_same_body_as_an_unknown_user() {
    let (own, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let (stranger, by) = (other.admin().await.id, own.admin().await.client);
    let calls = |user| {
        let employee = employee_path(user);
        let roles = format!("{ROLES}/{user}/roles");
        vec![
            (Method::GET, employee.clone(), Value::Null),
            (Method::PUT, employee.clone(), json!({"Name": "x", "Email": email()})),
            (Method::PUT, employee.clone(), json!({"Name": "x", "Email": email(), "Version": 1})),
            (Method::POST, format!("{employee}/suspend"), json!({"Version": 1})),
            (Method::POST, format!("{employee}/activate"), json!({})),
            (Method::DELETE, employee, Value::Null),
            (Method::GET, roles.clone(), Value::Null),
            (Method::POST, format!("{roles}/{}/add", role(7)), Value::Null),
            (Method::POST, format!("{roles}/{}/add", role(6)), Value::Null),
            (Method::POST, format!("{roles}/{}/add", role(99)), Value::Null),
            (Method::DELETE, format!("{roles}/{}", role(6)), Value::Null),
            (Method::DELETE, format!("{roles}/{}", role(99)), Value::Null),
        ]
    };
    let call = async |(method, path, body): (Method, String, Value)| {
        let request = by.request(method, &path);
        let response = send(if body.is_null() { request } else { request.json(&body) }).await;
        let mut problem = response.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        assert_eq!(problem["instance"], path);
        // The path and the trace id differ between the responses, so they are removed before the
        // comparison.
        problem["instance"] = Value::Null;
        problem["traceId"] = Value::Null;
        problem
    };
    let before = other.entries().await;
    for (foreign, unknown) in calls(stranger).into_iter().zip(calls(guid())) {
        let request = foreign.clone();
        assert_eq!(call(foreign).await, call(unknown).await, "{request:?}");
    }
    assert_eq!(other.entries().await, before);
    let found = by.get(EMPLOYEES).await.expect(200);
    assert!(!each(&found["Items"], "Id").contains(&&json!(stranger)));
}

/// RULE-IDN-035: a body of 64 KiB is accepted, and a body with one byte more returns 413.
#[tokio::test]
async fn body_one_byte_above_64_kib_is_refused() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, operator, user) = (tenant.outside_admin(), operator(), tenant.employee().await);
    let padded = |body: Value, length: usize| {
        let body = body.to_string();
        format!("{}{}}}", &body[..body.len() - 1], " ".repeat(length - body.len()))
    };
    let employee_body = || json!({"Name": "x", "Email": email()});
    let employee = employee_path(user);
    for (by, method, path, body) in [
        (&operator, Method::POST, TENANTS.to_owned(), json!({"Name": "x", "Type": "Agency"})),
        (&operator, Method::PUT, tenant.path(""), json!({"Name": "x"})),
        (&operator, Method::POST, tenant.path("/suspend"), json!({})),
        (&operator, Method::POST, tenant.path("/activate"), json!({})),
        (&operator, Method::POST, tenant.path("/administrators"), employee_body()),
        (&outside_admin, Method::POST, EMPLOYEES.to_owned(), employee_body()),
        (&outside_admin, Method::PUT, employee.clone(), employee_body()),
        (&outside_admin, Method::POST, format!("{employee}/suspend"), json!({})),
        (&outside_admin, Method::POST, format!("{employee}/activate"), json!({})),
        (&operator, Method::POST, tenant.path("/archive"), json!({})),
    ] {
        let too_large = raw(by, method.clone(), &path, padded(body.clone(), LIMIT + 1)).await;
        too_large.expect_problem(413, "PAYLOAD_TOO_LARGE");
        let fits = raw(by, method.clone(), &path, padded(body, LIMIT)).await;
        assert!(fits.status < 300, "{method} {path}: {}", fits.text);
    }
}

/// RULE-IDN-035: an optional body may be empty or an object, whose unknown members are ignored.
#[tokio::test]
async fn optional_body_must_be_an_object() {
    let tenant = create_tenant("Agency").await;
    let suspend = tenant.path("/suspend");
    for wrong in ["[]", "1", "\"x\"", "{", "[{}]"] {
        raw(&operator(), Method::POST, &suspend, wrong).await.expect_problem(400, INVALID);
    }
    let untyped = send(operator().request(Method::POST, &suspend).body("{}")).await;
    untyped.expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
    send(operator().request(Method::POST, &suspend)).await.expect(200);
    raw(&operator(), Method::POST, &tenant.path("/activate"), "").await.expect(200);
    let nulls = json!({"Reason": null, "Version": null, "Status": "Active", "SuspendedAt": 1});
    let suspended = operator().post(&suspend, nulls).await.expect(200);
    assert_eq!((&suspended["SuspensionReason"], &suspended["Status"]), (&Value::Null, &json!("Suspended")));
    // `activate` has no `Reason` and ignores any value of it.
    operator().post(&tenant.path("/activate"), json!({"Reason": 1})).await.expect(200);
}

/// RULE-IDN-035: a 400 lists every invalid and missing member.
#[tokio::test]
async fn invalid_body_lists_every_member() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, user) = (tenant.outside_admin(), tenant.employee().await);
    let long = "x".repeat(2000);
    for (by, method, path, body, fields) in [
        (&operator(), Method::POST, TENANTS.to_owned(), json!({}), vec!["/Name", "/Type"]),
        (
            &operator(),
            Method::POST,
            TENANTS.to_owned(),
            json!({"Name": "", "LegalName": long, "Type": "developer", "TaxNumber": "1"}),
            vec!["/LegalName", "/Name", "/TaxNumber", "/Type"],
        ),
        (
            &operator(),
            Method::POST,
            TENANTS.to_owned(),
            json!({"Name": 1, "LegalName": [], "Type": null, "TaxNumber": {}}),
            vec!["/LegalName", "/Name", "/TaxNumber", "/Type"],
        ),
        (
            &operator(),
            Method::PUT,
            tenant.path(""),
            json!({"Name": null, "LegalName": "", "TaxNumber": "x", "Version": "1"}),
            vec!["/LegalName", "/Name", "/TaxNumber", "/Version"],
        ),
        (
            &operator(),
            Method::POST,
            tenant.path("/suspend"),
            json!({"Reason": long, "Version": 1.5}),
            vec!["/Reason", "/Version"],
        ),
        (
            &operator(),
            Method::POST,
            tenant.path("/archive"),
            json!({"Reason": 1, "Version": true}),
            vec!["/Reason", "/Version"],
        ),
        (&operator(), Method::POST, tenant.path("/activate"), json!({"Version": "x"}), vec!["/Version"]),
        (
            &operator(),
            Method::POST,
            tenant.path("/administrators"),
            json!({"UserId": "x", "Name": "\0", "Email": "x"}),
            vec!["/Email", "/Name", "/UserId"],
        ),
        (&outside_admin, Method::POST, EMPLOYEES.to_owned(), json!({"name": "x"}), vec!["/Email", "/Name"]),
        (
            &outside_admin,
            Method::PUT,
            employee_path(user),
            json!({"Name": long, "Email": 1, "Version": []}),
            vec!["/Email", "/Name", "/Version"],
        ),
    ] {
        let response = send(by.request(method.clone(), &path).json(&body)).await;
        let problem = response.expect_problem(400, INVALID);
        let mut listed: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
        listed.sort_unstable();
        assert_eq!(listed, fields, "{method} {path} {body}");
    }
}

/// RULE-IDN-035: an invalid `Version` is listed beside the other invalid members.
#[tokio::test]
async fn invalid_version_hides_no_other_error() {
    let tenant = create_tenant("Agency").await;
    let (operator, outside_admin, user) = (operator(), tenant.outside_admin(), tenant.employee().await);
    for version in ["\"1\"", "1.5", "true", "[]", "{}", "9223372036854775808"] {
        for (by, method, path, rest, fields) in [
            (
                &operator,
                Method::PUT,
                tenant.path(""),
                r#""TaxNumber":"1","Name":"""#,
                vec!["/Name", "/TaxNumber", "/Version"],
            ),
            (&operator, Method::POST, tenant.path("/suspend"), r#""Reason":"""#, vec!["/Reason", "/Version"]),
            (&operator, Method::POST, tenant.path("/archive"), r#""Reason":1"#, vec!["/Reason", "/Version"]),
            (
                &outside_admin,
                Method::PUT,
                employee_path(user),
                r#""Email":"x""#,
                vec!["/Email", "/Name", "/Version"],
            ),
        ] {
            let response = raw(by, method, &path, format!("{{\"Version\":{version},{rest}}}")).await;
            let problem = response.expect_problem(400, INVALID);
            let mut listed: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
            listed.sort_unstable();
            assert_eq!(listed, fields, "{path} {version}");
        }
    }
    // Any integer is a valid version. A version that is not the current one is a conflict.
    for version in [i64::MIN, -1, 0, i64::MAX] {
        let stale = json!({"Name": "y", "Version": version});
        let refused = operator.put(&tenant.path(""), stale).await;
        refused.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    }
}

/// RULE-IDN-035: unknown and read-only members are ignored.
#[tokio::test]
async fn read_only_members_are_ignored() {
    let forged = json!({
        "Name": "x", "Type": "Agency", "Email": email(), "Id": guid(), "Status": "Archived", "EmployeesCount": 7, "Version": 9,
        "CreatedAt": "2001-01-01T00:00:00Z", "RoleCodes": ["platform-admin"], "CompanyId": guid(), "SuspendedAt": "x", "x": {"y": [null]},
    });
    let tenant = operator().post(TENANTS, forged.clone()).await.expect(201);
    assert_ne!(tenant["Id"], forged["Id"]);
    assert_eq!(
        (&tenant["Status"], &tenant["EmployeesCount"], &tenant["Version"], &tenant["SuspendedAt"]),
        (&json!("Active"), &json!(0), &json!(1), &Value::Null)
    );
    let own = create_tenant("Agency").await;
    let employee = own.outside_admin().post(EMPLOYEES, forged.clone()).await.expect(201);
    assert_ne!(employee["Id"], forged["Id"]);
    assert_eq!(
        (&employee["Status"], &employee["RoleCodes"], &employee["Version"], &employee["CompanyId"]),
        (&json!("Active"), &json!([]), &json!(1), &json!(own.0))
    );
    let mut update = forged.clone();
    update["Version"] = json!(1);
    update["Type"] = json!("Platform");
    let path = format!("{TENANTS}/{}", text(&tenant["Id"]));
    assert_eq!(operator().put(&path, update).await.expect(200), tenant, "INV-IDN-001: nothing has changed");
}

/// RULE-IDN-037: a path id that does not parse returns `NOT_FOUND`. The nil UUID is an unknown id.
#[tokio::test]
async fn unparsable_path_id_returns_not_found() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, user) = (tenant.outside_admin(), tenant.employee().await);
    for segment in ["x", "1", "%00", "%FF", "00000000-0000-0000-0000-00000000000", "search%00", "null"] {
        for response in [
            operator().get(&format!("{TENANTS}/{segment}")).await,
            operator().get(&format!("{TENANTS}/lookup/{segment}")).await,
            operator().get(&format!("{TENANTS}/{segment}/employees")).await,
            operator().put(&format!("{TENANTS}/{segment}"), json!({})).await,
            operator().delete(&tenant.path(&format!("/employees/{segment}"))).await,
            operator().delete(&tenant.path(&format!("/employees/{user}/roles/{segment}"))).await,
            outside_admin.get(&format!("{EMPLOYEES}/{segment}")).await,
            outside_admin.put(&format!("{EMPLOYEES}/{segment}"), json!({})).await,
            outside_admin.get(&format!("{ROLES}/{segment}/roles")).await,
            outside_admin.post(&format!("{ROLES}/{user}/roles/{segment}/add"), Value::Null).await,
            outside_admin.delete(&format!("{ROLES}/{segment}/roles/{}", role(7))).await,
        ] {
            response.expect_problem(404, "NOT_FOUND");
        }
    }
    let nil = uuid::Uuid::nil();
    operator().get(&format!("{TENANTS}/{nil}")).await.expect_problem(404, "IDENTITY_TENANT_NOT_FOUND");
    operator().get(&format!("{TENANTS}/lookup/{nil}")).await.expect_problem(404, "IDENTITY_TENANT_NOT_FOUND");
    outside_admin.get(&employee_path(nil)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
}
