//! Hostile requests: foreign ids, bodies at the limit, malformed texts and malformed addresses.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};

use crate::{
    EMPLOYEES, ROLES, TENANTS, create_tenant, each, email, employee_path, guid, operator, role, tax_number,
    text,
};

const INVALID: &str = "VALIDATION_FAILED";
const LIMIT: usize = 64 * 1024;

async fn raw(by: &Client, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Response {
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

/// RULE-IDN-035: an optional body may be empty, `{}` or an object with unknown members, and nothing
/// else.
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

/// RULE-IDN-036: a control character in a text returns 400, except line breaks and tabs in
/// `Reason`.
#[tokio::test]
async fn control_characters_are_refused_except_in_reasons() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, user) = (tenant.outside_admin(), tenant.employee().await);
    let controls: Vec<char> = (0..=0x9f).filter_map(char::from_u32).filter(|c| c.is_control()).collect();
    assert_eq!(controls.len(), 65);
    for control in controls {
        let text = format!("a{control}b");
        for member in ["Name", "LegalName"] {
            let mut body = json!({"Name": "x", "Type": "Agency"});
            body[member] = json!(text);
            let field = format!("/{member}");
            operator().post(TENANTS, body.clone()).await.expect_refusal(
                INVALID,
                &field,
                "forbidden_character",
            );
            operator().put(&tenant.path(""), body).await.expect_refusal(
                INVALID,
                &field,
                "forbidden_character",
            );
        }
        for (by, path) in
            [(&outside_admin, EMPLOYEES.to_owned()), (&operator(), tenant.path("/administrators"))]
        {
            let response = by.post(&path, json!({"Name": text, "Email": email()})).await;
            response.expect_refusal(INVALID, "/Name", "forbidden_character");
            let response = by.post(&path, json!({"Name": "x", "Email": format!("{text}@example.org")})).await;
            response.expect_refusal(INVALID, "/Email", "forbidden_character");
        }
        let response = outside_admin.put(&employee_path(user), json!({"Name": text, "Email": email()})).await;
        response.expect_refusal(INVALID, "/Name", "forbidden_character");
        for to in ["suspend", "archive"] {
            if !matches!(control, '\n' | '\r' | '\t') {
                let response =
                    operator().post(&tenant.path(&format!("/{to}")), json!({"Reason": text})).await;
                response.expect_refusal(INVALID, "/Reason", "forbidden_character");
            }
        }
    }
    let reason = "a\r\n\tb\nc";
    let suspended =
        operator().post(&tenant.path("/suspend"), json!({"Reason": format!(" {reason} ")})).await.expect(200);
    assert_eq!(suspended["SuspensionReason"], reason);
    assert_eq!(tenant.entries().await.last().unwrap()["Reason"], reason);
}

/// RULE-IDN-036: a broken UTF-16 surrogate and invalid UTF-8 return 400.
#[tokio::test]
async fn invalid_unicode_is_refused() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    for escape in ["\\ud800", "\\udc00", "\\udc00\\ud800", "\\ud800x"] {
        for (by, method, path, body) in [
            (
                &operator(),
                Method::POST,
                TENANTS.to_owned(),
                format!("{{\"Type\":\"Agency\",\"Name\":\"{escape}\"}}"),
            ),
            (&operator(), Method::POST, tenant.path("/suspend"), format!("{{\"Reason\":\"a{escape}\"}}")),
            (
                &outside_admin,
                Method::POST,
                EMPLOYEES.to_owned(),
                format!("{{\"Email\":\"a@b.cd\",\"Name\":\"{escape}\"}}"),
            ),
        ] {
            raw(by, method, &path, body).await.expect_problem(400, INVALID);
        }
    }
    let bytes =
        raw(&operator(), Method::POST, TENANTS, &b"{\"Type\":\"Agency\",\"Name\":\"\xff\"}"[..]).await;
    bytes.expect_refusal(INVALID, "", "malformed");
    let paired =
        raw(&operator(), Method::POST, TENANTS, "{\"Type\":\"Agency\",\"Name\":\"\\ud83c\\udfe0\"}").await;
    assert_eq!(paired.expect(201)["Name"], "🏠");
}

/// RULE-IDN-036, RULE-ALL-006: texts are trimmed, then counted in Unicode scalar values, then
/// stored.
#[tokio::test]
async fn text_is_trimmed_before_its_length_is_checked() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    let of = |count: usize| "🏠".repeat(count);
    let around = |text: String| format!(" \u{a0}\u{2003}{text}\u{3000} ");
    let created = operator()
        .post(TENANTS, json!({"Name": around(of(256)), "LegalName": around(of(512)), "Type": "Agency"}))
        .await
        .expect(201);
    assert_eq!((text(&created["Name"]), text(&created["LegalName"])), (&*of(256), &*of(512)));
    let created = outside_admin
        .post(EMPLOYEES, json!({"Name": around(of(256)), "Email": around(email())}))
        .await
        .expect(201);
    assert_eq!(text(&created["Name"]), of(256));
    assert!(!text(&created["Email"]).contains(char::is_whitespace));
    let suspended =
        operator().post(&tenant.path("/suspend"), json!({"Reason": around(of(1000))})).await.expect(200);
    assert_eq!(text(&suspended["SuspensionReason"]), of(1000));
    for (name, legal_name, field, why) in [
        (of(257), of(1), "/Name", "too_long"),
        (of(1), of(513), "/LegalName", "too_long"),
        (String::new(), of(1), "/Name", "too_short"),
        (around(String::new()), of(1), "/Name", "too_short"),
        (of(1), String::new(), "/LegalName", "too_short"),
        (of(1), around(String::new()), "/LegalName", "too_short"),
    ] {
        let body = json!({"Name": name, "LegalName": legal_name, "Type": "Agency"});
        operator().post(TENANTS, body.clone()).await.expect_refusal(INVALID, field, why);
        operator().put(&tenant.path(""), body).await.expect_refusal(INVALID, field, why);
    }
    for (reason, why) in
        [(String::new(), "too_short"), (around(String::new()), "too_short"), (of(1001), "too_long")]
    {
        for to in ["suspend", "archive"] {
            let response = operator().post(&tenant.path(&format!("/{to}")), json!({"Reason": reason})).await;
            response.expect_refusal(INVALID, "/Reason", why);
        }
    }
}

/// RULE-IDN-036: `TaxNumber` has 10 or 12 ASCII digits.
#[tokio::test]
async fn tax_number_has_10_or_12_ascii_digits() {
    for wrong in [
        "",
        "1",
        "123456789",
        "12345678901",
        "1234567890123",
        " 1234567890",
        "1234567890 ",
        "123456789a",
        "-123456789",
        "+123456789",
        "１２３４５６７８９０",
        "١٢٣٤٥٦٧٨٩٠",
        "1234567.90",
        "1234567890\0",
        "1234567890\n",
    ] {
        let response =
            operator().post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": wrong})).await;
        response.expect_refusal(INVALID, "/TaxNumber", "bad_tax_number");
    }
    for wrong in [json!(1_234_567_890), json!(true), json!([]), json!({})] {
        let response =
            operator().post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": wrong})).await;
        response.expect_refusal(INVALID, "/TaxNumber", "invalid_type");
    }
    for right in [tax_number(), tax_number()[..10].to_owned()] {
        let created = operator()
            .post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": right}))
            .await
            .expect(201);
        assert_eq!(created["TaxNumber"], right);
    }
}

/// INV-IDN-005: an address is parsed and returned as it was written.
#[tokio::test]
async fn email_is_parsed_and_returned_as_written() {
    let outside_admin = create_tenant("Agency").await.outside_admin();
    for written in [
        "Anna.Smith@Example.ORG",
        "a+tag@example.org",
        "иван@пример.рф",
        "o'brien@example.org",
        "a@sub.sub.example.co",
        "x@xn--e1afmkfd.xn--p1ai",
        "_@example.org",
    ] {
        let created = outside_admin
            .post(EMPLOYEES, json!({"Name": "x", "Email": format!(" {written} ")}))
            .await
            .expect(201);
        assert_eq!(created["Email"], written);
    }
    let long = format!("{}@{}.org", "a".repeat(64), vec!["b".repeat(60); 4].join("."));
    for wrong in [
        "",
        "x",
        "@",
        "a@",
        "@example.org",
        "a@b@example.org",
        "a b@example.org",
        "a@exa mple.org",
        "a..b@example.org",
        ".a@example.org",
        "a.@example.org",
        "a@.org",
        "a@example..org",
        "a@-example.org",
        "Anna <a@example.org>",
        "a@example.org,b@example.org",
        "mailto:a@example.org ",
        "a@example.org\u{200b}",
        "a@[127.0.0.1]",
        "\"a b\"@example.org",
        long.as_str(),
    ] {
        let response = outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": wrong})).await;
        let problem = response.expect_problem(400, INVALID);
        assert_eq!(each(&problem["errors"], "field"), [&json!("/Email")], "{wrong}");
    }
}

/// INV-IDN-005: an address is unique in any letter case of any script, and free in another company.
#[tokio::test]
async fn email_is_unique_in_any_letter_case_of_any_script() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    for (one, another) in [
        ("anna@example.org", "ANNA@Example.ORG"),
        ("иван@пример.рф", "ИВАН@ПРИМЕР.РФ"),
        ("οδος@example.org", "ΟΔΟΣ@example.org"),
        ("straße@example.org", "STRAẞE@example.org"),
    ] {
        tenant.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": one})).await.expect(201);
        let taken = tenant.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": another})).await;
        taken.expect_problem(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
        other.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": another})).await.expect(201);
    }
    // An employee's own address in another letter case is no conflict.
    let found = tenant.outside_admin().get(&format!("{EMPLOYEES}?Query=anna")).await.expect(200);
    let path = employee_path(text(&found["Items"][0]["Id"]).parse().unwrap());
    let changed = tenant
        .outside_admin()
        .put(&path, json!({"Name": "x", "Email": "Anna@example.org"}))
        .await
        .expect(200);
    assert_eq!((&changed["Email"], &changed["Version"]), (&json!("Anna@example.org"), &json!(2)));
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
