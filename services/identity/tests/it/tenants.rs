//! Creation, update and transitions of tenants.

use identity::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::service::Running;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::{
    ADMIN_PERMISSIONS, TENANTS, claims_with, count, create_tenant, guid, operator, service, tax_number, text,
    with,
};

/// RULE-IDN-003, RULE-IDN-004: `POST` returns the sent members, status Active and version 1. A
/// repeated request creates another tenant.
#[tokio::test]
async fn created_tenant_is_active_and_a_repeat_creates_another() {
    let body = json!({"Name": "  ООО «Ромашка»\n", "LegalName": " Romashka LLC ", "Type": "Developer", "Unknown": 1});
    let created = operator().post(TENANTS, body.clone()).await.expect(201);
    assert_eq!((text(&created["Name"]), text(&created["LegalName"])), ("ООО «Ромашка»", "Romashka LLC"));
    assert_eq!((text(&created["Type"]), text(&created["Status"])), ("Developer", "Active"));
    assert_eq!((&created["Version"], &created["EmployeesCount"]), (&json!(1), &json!(0)));
    for absent in ["TaxNumber", "SuspendedAt", "SuspensionReason"] {
        assert_eq!(created[absent], Value::Null);
    }
    assert_eq!(created["CreatedAt"], created["UpdatedAt"]);
    let id = text(&created["Id"]);
    assert_eq!(operator().get(&format!("{TENANTS}/{id}")).await.expect(200), created);
    let reference = json!({"Id": id, "Name": created["Name"], "Type": "Developer", "Status": "Active"});
    assert_eq!(operator().get(&format!("{TENANTS}/lookup/{id}")).await.expect(200), reference);
    assert_ne!(operator().post(TENANTS, body).await.expect(201)["Id"], created["Id"]);
}

/// RULE-IDN-004: a 400 lists every invalid member with its path and code.
#[tokio::test]
async fn invalid_tenant_body_lists_every_member() {
    for (body, expected) in [
        (
            json!({"Name": " ", "LegalName": "x".repeat(513), "Type": "Bank", "TaxNumber": "12"}),
            vec![
                "/LegalName too_long",
                "/Name too_short",
                "/TaxNumber bad_tax_number",
                "/Type unknown_value",
            ],
        ),
        (json!({}), vec!["/Name required", "/Type required"]),
        (json!({"Type": 1, "Name": ["x"]}), vec!["/Name invalid_type", "/Type invalid_type"]),
        (
            json!({"TaxNumber": "٧٧٠٧٠٨٣٨٩٣", "Type": "Agency"}),
            vec!["/Name required", "/TaxNumber bad_tax_number"],
        ),
        (
            json!({"Name": "a\u{7}b", "LegalName": "a\nb", "Type": "Agency"}),
            vec!["/LegalName forbidden_character", "/Name forbidden_character"],
        ),
        (json!({"Name": "x".repeat(257), "Type": "agency"}), vec!["/Name too_long", "/Type unknown_value"]),
    ] {
        let problem = operator().post(TENANTS, body.clone()).await.expect_problem(400, "VALIDATION_FAILED");
        let errors = problem["errors"].as_array().unwrap().iter();
        let mut listed: Vec<_> =
            errors.map(|error| format!("{} {}", text(&error["field"]), text(&error["code"]))).collect();
        listed.sort();
        assert_eq!(listed, expected, "{body}");
    }
    let longest = json!({"Name": "ё".repeat(256), "LegalName": "🏠".repeat(512), "Type": "Agency", "TaxNumber": tax_number()});
    operator().post(TENANTS, longest).await.expect(201);
}

/// RULE-IDN-004: a body above 64 KiB returns 413.
#[tokio::test]
async fn body_above_64_kib_is_refused() {
    let body = |padding: usize| json!({"Name": "x", "Type": "Agency", "Padding": "x".repeat(padding)});
    operator().post(TENANTS, body(60_000)).await.expect(201);
    operator().post(TENANTS, body(65_536)).await.expect_problem(413, "PAYLOAD_TOO_LARGE");
    let tenant = create_tenant("Agency").await;
    operator().post(&tenant.path("/suspend"), body(65_536)).await.expect_problem(413, "PAYLOAD_TOO_LARGE");
}

/// INV-IDN-001, RULE-IDN-005: `PUT` replaces all members. An identical body changes nothing,
/// regardless of `Version`.
#[tokio::test]
async fn update_replaces_all_members_or_changes_nothing() {
    let tenant = create_tenant("Partner").await;
    let before = tenant.read().await;
    let same = json!({"Name": " Ромашка ", "Version": 99});
    assert_eq!(operator().put(&tenant.path(""), same).await.expect(200), before);

    let number = tax_number();
    let changed =
        json!({"Name": "Лютик", "LegalName": "L", "TaxNumber": number, "Type": "Agency", "Version": 1});
    let after = operator().put(&tenant.path(""), changed).await.expect(200);
    assert_eq!((text(&after["Name"]), text(&after["TaxNumber"])), ("Лютик", &*number));
    assert_eq!(
        (&after["Version"], text(&after["Type"])),
        (&json!(2), "Partner"),
        "INV-IDN-001: the type stays"
    );
    assert_ne!(after["UpdatedAt"], before["UpdatedAt"]);
    assert_eq!(after["CreatedAt"], before["CreatedAt"]);

    let stale = json!({"Name": "Клевер", "Version": 1});
    operator().put(&tenant.path(""), stale).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    let emptied = operator().put(&tenant.path(""), json!({"Name": "Лютик"})).await.expect(200);
    assert_eq!(
        (&emptied["LegalName"], &emptied["TaxNumber"], &emptied["Version"]),
        (&Value::Null, &Value::Null, &json!(3))
    );
}

/// INV-IDN-002, RULE-IDN-005: a tax number is unique until its tenant is archived.
#[tokio::test]
async fn tax_number_of_an_archived_tenant_is_free() {
    let number = tax_number();
    let body = json!({"Name": "x", "Type": "Agency", "TaxNumber": number});
    let first = operator().post(TENANTS, body.clone()).await.expect(201);
    operator().post(TENANTS, body.clone()).await.expect_problem(409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
    let other = create_tenant("Agency").await;
    let taking = json!({"Name": "y", "TaxNumber": number});
    operator()
        .put(&other.path(""), taking.clone())
        .await
        .expect_problem(409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
    let stale = with(taking, "Version", 7);
    operator().put(&other.path(""), stale).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");

    let path = format!("{TENANTS}/{}", text(&first["Id"]));
    operator().post(&format!("{path}/suspend"), json!({})).await.expect(200);
    operator().post(TENANTS, body.clone()).await.expect_problem(409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
    let archived = operator().post(&format!("{path}/archive"), json!({})).await.expect(200);
    assert_eq!(text(&archived["TaxNumber"]), number);
    operator().post(TENANTS, body).await.expect(201);
}

/// RULE-IDN-006, RULE-IDN-043, RULE-IDN-044: each transition has the outcome and the effects of the
/// table.
#[tokio::test]
async fn transition_has_the_outcome_and_effects_of_the_table() {
    let invalid = "IDENTITY_TENANT_INVALID_TRANSITION";
    let tenant = create_tenant("Developer").await;
    let call = async |to: &str, body: Value| operator().post(&tenant.path(&format!("/{to}")), body).await;
    call("activate", json!({})).await.expect_problem(409, invalid);
    call("suspend", json!({"Version": 9})).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    let suspended =
        call("suspend", json!({"Reason": " не платит\n\tсовсем ", "Version": 1})).await.expect(200);
    assert_eq!(
        (text(&suspended["Status"]), text(&suspended["SuspensionReason"])),
        ("Suspended", "не платит\n\tсовсем")
    );
    assert_eq!(suspended["SuspendedAt"], suspended["UpdatedAt"]);
    call("suspend", json!({"Version": 9})).await.expect_problem(409, invalid);

    let active = call("activate", json!({"Reason": 5})).await.expect(200);
    assert_eq!(
        (text(&active["Status"]), &active["SuspendedAt"], &active["SuspensionReason"]),
        ("Active", &Value::Null, &Value::Null)
    );
    call("suspend", json!({})).await.expect(200);
    let archived = call("archive", json!({"Reason": "sold"})).await.expect(200);
    assert_eq!(
        (text(&archived["Status"]), &archived["SuspendedAt"], &archived["SuspensionReason"]),
        ("Archived", &Value::Null, &Value::Null)
    );
    assert_eq!(archived["Version"], 5);
    for to in ["suspend", "activate", "archive"] {
        call(to, json!({"Version": 1})).await.expect_problem(409, "IDENTITY_TENANT_ARCHIVED");
    }
    let updated = operator().put(&tenant.path(""), json!({"Name": "Ромашка"})).await;
    updated.expect_problem(409, "IDENTITY_TENANT_ARCHIVED");

    let fresh = create_tenant("Developer").await;
    operator().post(&fresh.path("/archive"), json!({})).await.expect(200);
}

/// RULE-IDN-006: an absent or empty body of a transition is `{}`.
#[tokio::test]
async fn transition_without_a_body_succeeds() {
    let tenant = create_tenant("Agency").await;
    let call = |to: &str| operator().request(Method::POST, &tenant.path(&format!("/{to}")));
    send(call("suspend")).await.expect(200);
    send(call("activate").header("content-type", "text/plain")).await.expect(200);
    send(call("suspend").header("content-type", "application/json").body("")).await.expect(200);
    send(call("activate").header("content-type", "text/plain").body("{}"))
        .await
        .expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
    for wrong in [json!([]), Value::Null] {
        send(call("activate").json(&wrong)).await.expect_problem(400, "VALIDATION_FAILED");
    }
    // A vertical tab is white space, so the trimmed reason is empty.
    let reason = json!({"Reason": "\u{b}", "Version": "x"});
    send(call("archive").json(&reason)).await.expect_refusal("VALIDATION_FAILED", "/Reason", "too_short");
}

/// RULE-IDN-006, RULE-IDN-046: no administrator can suspend or archive the company in their own
/// token.
#[tokio::test]
async fn own_tenant_cannot_be_suspended_or_archived() {
    let tenant = create_tenant("Platform").await;
    let own = service().caller(&claims_with(Some(tenant.0), &["identity.tenants.manage@platform"]));
    for to in ["suspend", "archive"] {
        let path = tenant.path(&format!("/{to}"));
        own.post(&path, json!({"Version": 9})).await.expect_problem(409, "IDENTITY_OWN_TENANT");
    }
    tenant.transition("suspend").await;
    own.post(&tenant.path("/suspend"), json!({})).await.expect_problem(409, "IDENTITY_OWN_TENANT");
    own.post(&tenant.path("/activate"), json!({})).await.expect(200);
}

/// RULE-IDN-003, RULE-IDN-038: an unknown tenant returns 404 in each operation.
#[tokio::test]
async fn unknown_tenant_returns_not_found() {
    for id in [guid(), Uuid::nil()] {
        let path = format!("{TENANTS}/{id}");
        let body = json!({"Name": "x", "Email": "a@b.cd"});
        for response in [
            operator().get(&path).await,
            operator().get(&format!("{TENANTS}/lookup/{id}")).await,
            operator().put(&path, body.clone()).await,
            operator().post(&format!("{path}/suspend"), json!({})).await,
            operator().post(&format!("{path}/activate"), json!({})).await,
            operator().post(&format!("{path}/archive"), json!({})).await,
            operator().post(&format!("{path}/administrators"), body.clone()).await,
        ] {
            response.expect_problem(404, "IDENTITY_TENANT_NOT_FOUND");
        }
        let employee = format!("{path}/employees/{}", guid());
        operator().delete(&employee).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        assert_eq!(operator().get(&format!("{path}/employees")).await.expect(200)["Items"], json!([]));
    }
}

/// INV-IDN-001: the database rejects a new id or type, and a removal.
#[tokio::test]
async fn database_rejects_removal_and_new_type_of_tenants() {
    // `truncate` locks tables, so the requests of other tests could deadlock with it.
    let own = Running::start::<Service>(&[]);
    let body = json!({"Name": "Ромашка", "Type": "Agency"});
    let tenant = own.caller(&claims_with(None, &ADMIN_PERMISSIONS)).post(TENANTS, body).await.expect(201);
    let id = text(&tenant["Id"]);
    let sql = own.sql().await;
    for change in [
        format!("delete from tenant where id = '{id}'"),
        format!("update tenant set type = 'Partner' where id = '{id}'"),
        format!("update tenant set id = '{}' where id = '{id}'", guid()),
        "truncate tenant cascade".to_owned(),
    ] {
        let error = sql.batch_execute(&change).await.unwrap_err();
        // The code of `restrict_violation`.
        assert_eq!(error.code().map(SqlState::code), Some("23001"), "{change}");
    }
}

/// INV-IDN-002, RULE-IDN-042: of ten concurrent creations with one tax number, one returns 201 and
/// nine return 409.
#[tokio::test]
async fn one_of_ten_concurrent_tenants_gets_the_tax_number() {
    let number = tax_number();
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let body = json!({"Name": "x", "Type": "Agency", "TaxNumber": number});
    let responses =
        futures_util::future::join_all(callers.iter().map(|caller| caller.post(TENANTS, body.clone()))).await;
    assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 9));
    for lost in responses.into_iter().filter(|response| response.status == 409) {
        lost.expect_problem(409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
    }
}
