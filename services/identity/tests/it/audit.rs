//! The audit log (INV-IDN-010).

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, send};
use testkit::issuer::Claims;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{
    AUDIT, COMPANY_AUDIT, EMPLOYEES, ROLES, TENANTS, Tenant, add_role, claims_with, create_tenant, each,
    email, employee_path, guid, list, operator, remove_role, role, service, tax_number, text,
};

/// RULE-IDN-014: each change of a tenant has one complete entry.
#[tokio::test]
async fn each_change_of_a_tenant_writes_one_entry() {
    let claims = claims_with(None, &["identity.tenants.manage@platform", "identity.tenants.read@platform"]);
    let (actor, by) = (claims.sub.clone(), service().caller(&claims));
    let trace = guid().simple().to_string();
    let request = by.request(Method::POST, TENANTS).json(&json!({"Name": "x", "Type": "Agency"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let created = send(request).await.expect(201);
    let tenant = Tenant(text(&created["Id"]).parse().unwrap());
    let body = json!({"TaxNumber": tax_number(), "Name": "y", "LegalName": "z"});
    by.put(&tenant.path(""), body.clone()).await.expect(200);
    by.put(&tenant.path(""), body).await.expect(200);
    let suspended = by.post(&tenant.path("/suspend"), json!({"Reason": " debts "})).await.expect(200);
    by.post(&tenant.path("/suspend"), json!({}))
        .await
        .expect_problem(409, "IDENTITY_TENANT_INVALID_TRANSITION");
    by.post(&tenant.path("/activate"), json!({})).await.expect(200);
    by.post(&tenant.path("/archive"), json!({"Reason": "sold"})).await.expect(200);

    let entries = tenant.entries().await;
    let expected = [
        ("TenantCreated", Value::Null, json!("Active"), json!([]), Value::Null),
        ("TenantUpdated", Value::Null, Value::Null, json!(["LegalName", "Name", "TaxNumber"]), Value::Null),
        ("TenantSuspended", json!("Active"), json!("Suspended"), json!([]), json!("debts")),
        ("TenantActivated", json!("Suspended"), json!("Active"), json!([]), Value::Null),
        ("TenantArchived", json!("Active"), json!("Archived"), json!([]), json!("sold")),
    ];
    assert_eq!(entries.len(), expected.len(), "{entries:?}");
    for (entry, (action, from, to, fields, reason)) in entries.iter().zip(expected) {
        assert_eq!(text(&entry["Action"]), action);
        assert_eq!(
            (&entry["From"], &entry["To"], &entry["ChangedFields"], &entry["Reason"]),
            (&from, &to, &fields, &reason),
            "{action}"
        );
        assert_eq!((&entry["TenantId"], &entry["SubjectId"]), (&json!(tenant.0), &json!(tenant.0)));
        assert_eq!((text(&entry["ActorUserId"]), &entry["ActorCompanyId"]), (&*actor, &Value::Null));
        assert_eq!((&entry["RoleId"], &entry["RoleCode"]), (&Value::Null, &Value::Null));
        assert!(entry["TraceId"].as_str().is_some_and(|trace| trace.len() == 32));
    }
    assert_eq!(text(&entries[0]["TraceId"]), trace);
    assert_eq!(entries[0]["At"], created["CreatedAt"]);
    assert_eq!(entries[2]["At"], suspended["SuspendedAt"]);
}

/// RULE-IDN-014: changes of employees and roles have entries in their order, roles before the
/// employee.
#[tokio::test]
async fn each_change_of_an_employee_writes_its_entries() {
    let tenant = create_tenant("Developer").await;
    let (admin, bob) = (tenant.admin().await, tenant.employee().await);
    let path = employee_path(bob);
    admin.client.put(&path, json!({"Name": "Иной", "Email": email()})).await.expect(200);
    admin.client.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    admin.client.post(&format!("{path}/activate"), json!({})).await.expect(200);
    add_role(&admin.client, bob, 9).await.expect(204);
    add_role(&admin.client, bob, 3).await.expect(204);
    admin.client.delete(&path).await.expect(204);
    let entries = tenant.entries().await;
    let actions: Vec<_> = entries.iter().map(|entry| text(&entry["Action"])).collect();
    assert_eq!(
        actions,
        [
            "TenantCreated",
            "EmployeeCreated",
            "RoleAssigned",
            "EmployeeCreated",
            "EmployeeUpdated",
            "EmployeeSuspended",
            "EmployeeActivated",
            "RoleAssigned",
            "RoleAssigned",
            "RoleRemoved",
            "RoleRemoved",
            "EmployeeRemoved",
        ]
    );
    let of = |at: usize, member: &str| &entries[at][member];
    assert_eq!(
        (of(1, "SubjectId"), of(2, "SubjectId"), of(2, "RoleCode")),
        (&json!(admin.id), &json!(admin.id), &json!("developer-admin"))
    );
    assert_eq!((of(3, "From"), of(3, "To")), (&Value::Null, &json!("Active")));
    assert_eq!((of(4, "ChangedFields"), of(4, "From")), (&json!(["Email", "Name"]), &Value::Null));
    assert_eq!((of(5, "From"), of(5, "To")), (&json!("Active"), &json!("Suspended")));
    assert_eq!((of(9, "RoleId"), of(10, "RoleId")), (&json!(role(3)), &json!(role(9))));
    assert_eq!(
        (of(11, "From"), of(11, "To"), of(11, "RoleId")),
        (&json!("Active"), &Value::Null, &Value::Null)
    );
    for entry in &entries[4..] {
        assert_eq!(
            (&entry["SubjectId"], &entry["ActorUserId"], &entry["ActorCompanyId"]),
            (&json!(bob), &json!(admin.id), &json!(tenant.0))
        );
    }
}

/// RULE-IDN-014: only a refused escalation writes an entry. Other refusals write none.
#[tokio::test]
async fn refused_escalation_writes_an_entry() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let claims =
        claims_with(Some(tenant.0), &["identity.employee-roles.manage", "identity.tenants.manage@platform"]);
    let limited = service().caller(&claims);
    let before = tenant.actions().await.len();
    add_role(&limited, bob, 3).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let body = json!({"UserId": guid(), "Name": "x", "Email": email()});
    let refused = limited.post(&tenant.path("/administrators"), body).await;
    refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&limited, guid(), 3).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    remove_role(&limited, bob, 3).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    let entries = tenant.entries().await;
    let listed: Vec<_> = entries[before..]
        .iter()
        .map(|entry| (text(&entry["Action"]), &entry["SubjectId"], &entry["RoleCode"]))
        .collect();
    let (bob, own) = (json!(bob), json!(tenant.0));
    assert_eq!(
        listed,
        [
            ("RoleGrantRefused", &bob, &json!("sales-manager")),
            ("RoleGrantRefused", &own, &json!("developer-admin")),
        ]
    );
    assert_eq!(
        (text(&entries[before]["ActorUserId"]), &entries[before]["ActorCompanyId"]),
        (&*claims.sub, &own)
    );
    assert_eq!((&entries[before]["From"], &entries[before]["To"]), (&Value::Null, &Value::Null));
}

/// RULE-IDN-014: of one actor, 1,000 refused grants in an hour are recorded. Further ones are
/// refused without an entry, and those of another actor are recorded.
#[tokio::test]
async fn refused_grants_above_the_limit_leave_no_entry() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let [many, other] = [(); 2].map(|()| claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    let refuse = async |claims: &Claims| {
        let refused = add_role(&service().caller(claims), bob, 3).await;
        refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    };
    let fill = "insert into audit_entry (id, at, action, tenant_id, subject_id, actor_user_id, changed_fields) \
        select gen_random_uuid(), clock_timestamp() - $3::text::interval, 'RoleGrantRefused', \
            $1::text::uuid, $1::text::uuid, $2::text::uuid, '{}' from generate_series(1, $4::bigint)";
    let sql = service().sql().await;
    let recorded = async |claims: &Claims| {
        let count = "select count(*) from audit_entry where actor_user_id::text = $1";
        sql.query_one(count, &[&claims.sub]).await.unwrap().get::<_, i64>(0)
    };
    let id = tenant.0.to_string();
    for (age, count) in [("61 minutes", 2_000_i64), ("59 minutes", 999)] {
        sql.execute(fill, &[&id, &many.sub, &age, &count]).await.unwrap();
    }
    refuse(&many).await;
    assert_eq!(recorded(&many).await, 3_000);
    refuse(&many).await;
    assert_eq!(recorded(&many).await, 3_000);
    refuse(&other).await;
    assert_eq!(recorded(&other).await, 1);
}

/// RULE-IDN-014: the entry of a refused grant has the trace of its request.
#[tokio::test]
async fn refused_grant_has_the_trace_of_its_request() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let limited = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    let trace = guid().simple().to_string();
    let grant = limited.request(Method::POST, &format!("{ROLES}/{bob}/roles/{}/add", role(3)));
    let grant = grant.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let refused = send(grant).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let entries = tenant.entries().await;
    let entry = entries.last().unwrap();
    assert_eq!(
        (text(&entry["Action"]), text(&entry["TraceId"]), text(&refused["traceId"])),
        ("RoleGrantRefused", &*trace, &*trace)
    );
}

/// INV-IDN-010: the database rejects update, delete and truncate of entries.
#[tokio::test]
async fn database_rejects_changes_of_audit_entries() {
    create_tenant("Agency").await;
    let sql = service().sql().await;
    for change in [
        "update audit_entry set action = 'x'",
        "update audit_entry set action = 'x' where false",
        "delete from audit_entry",
        "truncate audit_entry",
        "truncate audit_entry cascade",
    ] {
        let refused = sql.batch_execute(change).await.unwrap_err();
        // The code of `restrict_violation`.
        assert_eq!(refused.code().map(tokio_postgres::error::SqlState::code), Some("23001"), "{change}");
    }
}

/// RULE-IDN-014: every filter selects entries; `From` is inclusive, `To` exclusive.
#[tokio::test]
async fn audit_filters_select_entries() {
    let tenant = create_tenant("Developer").await;
    let (admin, bob) = (tenant.admin().await, tenant.employee().await);
    admin.client.delete(&employee_path(bob)).await.expect(204);
    let entries = tenant.entries().await;
    let found = async |query: String| -> Vec<String> {
        let page = operator().get(&format!("{AUDIT}?TenantId={}&{query}", tenant.0)).await.expect(200);
        each(&page["Items"], "Action").into_iter().map(|action| text(action).to_owned()).collect()
    };
    assert_eq!(found(format!("SubjectId={bob}")).await, ["EmployeeRemoved", "EmployeeCreated"]);
    assert_eq!(found(format!("ActorUserId={}", admin.id)).await, ["EmployeeRemoved"]);
    assert_eq!(
        found("Actions=TenantCreated,RoleAssigned".to_owned()).await,
        ["RoleAssigned", "TenantCreated"]
    );
    let (from, to) = (text(&entries[0]["At"]), text(&entries[4]["At"]));
    let range = found(format!("From={from}&To={to}")).await;
    assert_eq!(range, ["EmployeeCreated", "RoleAssigned", "EmployeeCreated", "TenantCreated"]);
    assert_eq!(found(format!("SubjectId={}", guid())).await, [""; 0]);
}

/// RULE-IDN-014: a company's administrator reads the entries of the own company only, including
/// changes by the platform. The parameter `TenantId` has no effect.
#[tokio::test]
async fn company_log_contains_only_own_entries() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    other.admin().await;
    let query = format!("{COMPANY_AUDIT}?TenantId={}", other.0);
    let page = tenant.outside_admin().get(&query).await.expect(200);
    assert_eq!(each(&page["Items"], "Action"), [&json!("TenantCreated")]);
}

/// RULE-IDN-014: a walk returns each entry that existed at its beginning once, newest first.
#[tokio::test]
async fn walk_returns_the_state_at_its_beginning() {
    let tenant = create_tenant("Agency").await;
    tenant.admin().await;
    for _ in 0..8 {
        tenant.employee().await;
    }
    let before: Vec<Value> = tenant.entries().await.into_iter().rev().collect();
    let (mut returned, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{AUDIT}?TenantId={}&PageSize=3{cursor}", tenant.0);
        let page = operator().get(&path).await.expect(200);
        returned.extend(list(&page["Items"]).iter().cloned());
        tenant.employee().await;
        let Some(next) = page["NextCursor"].as_str() else { break };
        cursor = format!("&Cursor={next}");
    }
    assert_eq!(returned, before);
    let time = |entry: &Value| OffsetDateTime::parse(text(&entry["At"]), &Rfc3339).unwrap();
    let keys: Vec<_> = returned.iter().map(|entry| (time(entry), text(&entry["Id"]))).collect();
    assert!(keys.is_sorted_by(|newer, older| newer > older), "{keys:?}");
}

/// RULE-IDN-014: a 400 lists every invalid parameter of the log.
#[tokio::test]
async fn invalid_audit_query_lists_every_parameter() {
    let invalid_fields = async |by: Client, path: String| -> Vec<String> {
        let problem = by.get(&path).await.expect_problem(400, "VALIDATION_FAILED");
        let mut fields: Vec<_> =
            each(&problem["errors"], "field").into_iter().map(|field| text(field).to_owned()).collect();
        fields.sort();
        fields
    };
    let all = "TenantId=x&SubjectId=x&ActorUserId=x&Actions=Tenant&From=x&To=x&PageSize=101&Cursor=x";
    let fields =
        ["/Actions", "/ActorUserId", "/Cursor", "/From", "/PageSize", "/SubjectId", "/TenantId", "/To"];
    assert_eq!(invalid_fields(operator(), format!("{AUDIT}?{all}")).await, fields);
    let range = "From=2026-01-01T00:00:00Z&To=2026-01-01T00:00:00Z&PageSize=0";
    assert_eq!(invalid_fields(operator(), format!("{AUDIT}?{range}")).await, ["/PageSize", "/To"]);
    let more = format!("{AUDIT}?{range}&Actions=x&SubjectId=x");
    assert_eq!(invalid_fields(operator(), more).await, ["/Actions", "/PageSize", "/SubjectId", "/To"]);
    let outside_admin = || Tenant(Uuid::nil()).outside_admin();
    for cursor in ["", "e30", "bm8", "%00"] {
        assert_eq!(
            invalid_fields(outside_admin(), format!("{COMPANY_AUDIT}?Cursor={cursor}")).await,
            ["/Cursor"]
        );
    }
    assert_eq!(invalid_fields(outside_admin(), format!("{COMPANY_AUDIT}?Actions=")).await, ["/Actions"]);
    // A missing permission precedes the query.
    operator().get(&format!("{EMPLOYEES}?x")).await.expect_problem(403, "FORBIDDEN");
}
