//! Walks of the audit log by cursor.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::{eventually, text};
use uuid::Uuid;

use crate::{
    ADMIN_PERMISSIONS, AUDIT, COMPANY_AUDIT, EMPLOYEES, TENANTS, add_role, claims_with, create_tenant, each,
    email, employee_path, guid, list, operator, remove_role, service, tax_number,
};

const INVALID: &str = "VALIDATION_FAILED";

/// Signs in an administrator of the platform, whose id selects the entries of one test.
fn actor() -> (Uuid, Client) {
    let claims = claims_with(None, &ADMIN_PERMISSIONS);
    (claims.sub.parse().unwrap(), service().caller(&claims))
}

/// Follows the cursors from a first page to the end.
async fn walk(by: &Client, path: &str, first: Value) -> Vec<Value> {
    let (mut returned, mut page) = (Vec::new(), first);
    loop {
        returned.extend(list(&page["Items"]).iter().cloned());
        let Some(cursor) = page["NextCursor"].as_str() else { return returned };
        page = by.get(&format!("{path}&Cursor={cursor}")).await.expect(200);
    }
}

fn ids(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| text(&entry["Id"])).collect()
}

/// RULE-IDN-032: a walk leaves out entries that are written during the walk.
#[tokio::test]
async fn walk_is_stable_under_concurrent_writes() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    for _ in 0..10 {
        tenant.employee().await;
    }
    for (by, path) in [
        (operator(), format!("{AUDIT}?TenantId={}&PageSize=2", tenant.0)),
        (outside_admin.clone(), format!("{COMPANY_AUDIT}?PageSize=2")),
    ] {
        let before: Vec<_> = tenant.entries().await.into_iter().rev().collect();
        let first = by.get(&path).await.expect(200);
        let writers = join_all((0..6).map(|_| async {
            outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": email()})).await.expect(201);
        }));
        let (returned, _) = join(walk(&by, &path, first), writers).await;
        assert_eq!(ids(&returned), ids(&before), "{path}");
    }
}

/// RULE-IDN-032: a walk leaves out the entry of a transaction that was open when the walk began.
#[tokio::test]
async fn entry_committed_after_the_first_page_is_left_out() {
    let (id, by) = actor();
    for name in ["one", "two"] {
        by.post(TENANTS, json!({"Name": name, "Type": "Agency"})).await.expect(201);
    }
    let number = tax_number();
    let sql = service().sql().await;
    let insert = "insert into tenant (id, name, type, status, tax_number, created_at, updated_at, version, lower_name, search_text) \
        values (gen_random_uuid(), 'x', 'Agency', 'Active', $1, now(), now(), 1, 'x', 'x')";
    // A request with this tax number begins its transaction, then waits for the end of this one.
    sql.batch_execute("begin").await.unwrap();
    sql.execute(insert, &[&number]).await.unwrap();
    let pid: i32 = sql.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);

    let late = by.post(TENANTS, json!({"Name": "late", "Type": "Agency", "TaxNumber": number}));
    let path = format!("{AUDIT}?ActorUserId={id}&PageSize=1");
    let concurrent = async {
        let watch = service().sql().await;
        eventually("the late request waits", async || {
            let waits = "select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
            watch.query_opt(waits, &[&pid]).await.unwrap()
        })
        .await;
        let early = by.post(TENANTS, json!({"Name": "three", "Type": "Agency"})).await.expect(201);
        let first = by.get(&path).await.expect(200);
        assert_eq!(each(&first["Items"], "SubjectId"), [&early["Id"]]);
        sql.batch_execute("rollback").await.unwrap();
        first
    };
    let (late, first) = join(late, concurrent).await;
    let late = late.expect(201);

    let returned = walk(&by, &path, first).await;
    assert_eq!(returned.len(), 3, "{returned:?}");
    assert!(returned.iter().all(|entry| entry["SubjectId"] != late["Id"]));
    let again = walk(&by, &path, by.get(&path).await.expect(200)).await;
    assert_eq!(again.len(), 4, "the next walk returns the entry");
}

/// RULE-IDN-032: pages are sorted by (`At`, `Id`), newest first, and have 20 entries by default,
/// 100 at most.
#[tokio::test]
async fn page_has_20_entries_by_default_and_100_at_most() {
    let tenant = create_tenant("Agency").await;
    let insert = "insert into audit_entry (id, at, action, tenant_id, subject_id, actor_user_id, changed_fields) \
        select gen_random_uuid(), '2001-01-01T00:00:00Z'::timestamptz + (n / 40) * interval '1 microsecond', 'TenantUpdated', id, id, id, '{Name}' \
        from generate_series(1, 120) as n, (values ($1::text::uuid)) as tenant (id)";
    service().sql().await.execute(insert, &[&tenant.0.to_string()]).await.unwrap();
    let path = format!("{AUDIT}?TenantId={}", tenant.0);
    for (size, expected) in [("", 20), ("&PageSize=1", 1), ("&PageSize=99", 99), ("&PageSize=100", 100)] {
        let page = operator().get(&format!("{path}{size}")).await.expect(200);
        assert_eq!(list(&page["Items"]).len(), expected, "{size}");
    }
    for size in [7, 40, 100] {
        let path = format!("{path}&PageSize={size}");
        let returned = walk(&operator(), &path, operator().get(&path).await.expect(200)).await;
        assert_eq!(returned.len(), 121, "120 rows and the creation of the tenant");
        // Without `Z`, a time sorts before a time with more decimals.
        let keys: Vec<_> = returned
            .iter()
            .map(|entry| {
                (entry["At"].to_string().trim_end_matches("Z\"").to_owned(), entry["Id"].to_string())
            })
            .collect();
        assert!(keys.is_sorted_by(|newer, older| newer > older), "{size}");
    }
    for size in ["0", "101", "-1", "", "x"] {
        let refused = operator().get(&format!("{path}&PageSize={size}")).await;
        refused.expect_refusal(INVALID, "/PageSize", "out_of_range");
    }
}

/// RULE-IDN-033: a forged cursor, an empty one, and a cursor of another log return 400.
#[tokio::test]
async fn foreign_forged_or_empty_cursor_is_refused() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    tenant.employee().await;
    other.employee().await;
    let page = tenant.outside_admin().get(&format!("{COMPANY_AUDIT}?PageSize=1")).await.expect(200);
    let issued = text(&page["NextCursor"]);
    let mut forged: Vec<String> =
        ["", "x", "%00", "=", "bnVsbA", "e30", "W10", "MQ"].map(str::to_owned).into();
    forged.push(format!("{issued}="));
    forged.push(format!("{issued}{issued}"));
    forged.push(issued[..issued.len() - 3].to_owned());
    forged.push("A".repeat(10_000));
    // Forged positions: an unknown entry, and an entry with another time.
    let position: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(issued).unwrap()).unwrap();
    for (member, value) in [("id", json!(guid())), ("at", json!("2001-01-01T00:00:00Z"))] {
        let mut forged_position = position.clone();
        forged_position[member] = value;
        forged.push(BASE64_URL_SAFE_NO_PAD.encode(forged_position.to_string()));
    }
    for cursor in &forged {
        for (by, path) in [(operator(), AUDIT), (tenant.outside_admin(), COMPANY_AUDIT)] {
            let refused = by.get(&format!("{path}?PageSize=1&Cursor={cursor}")).await;
            refused.expect_refusal(INVALID, "/Cursor", "unknown_value");
        }
    }
    // The service refuses a cursor of another company's log, too.
    let refused = other.outside_admin().get(&format!("{COMPANY_AUDIT}?PageSize=1&Cursor={issued}")).await;
    refused.expect_refusal(INVALID, "/Cursor", "unknown_value");
    let next =
        tenant.outside_admin().get(&format!("{COMPANY_AUDIT}?PageSize=1&Cursor={issued}")).await.expect(200);
    assert_eq!(each(&next["Items"], "Action"), [&json!("TenantCreated")]);
}

/// INV-IDN-010: the database rejects update, delete and truncate statements, even if they affect no
/// entry.
#[tokio::test]
async fn database_accepts_only_new_audit_entries() {
    let tenant = create_tenant("Agency").await;
    let sql = service().sql().await;
    for statement in [
        "update audit_entry set reason = 'x' where tenant_id = $1::text::uuid".to_owned(),
        "update audit_entry set at = at where tenant_id = $1::text::uuid and false".to_owned(),
        "delete from audit_entry where tenant_id = $1::text::uuid".to_owned(),
        "insert into audit_entry select * from audit_entry where tenant_id = $1::text::uuid on conflict (id) do update set reason = 'x'".to_owned(),
    ] {
        let refused = sql.execute(&statement, &[&tenant.0.to_string()]).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert!(refused.message().contains("append-only"), "{statement}: {refused}");
    }
    for statement in ["truncate audit_entry", "delete from audit_entry where false"] {
        sql.batch_execute(statement).await.unwrap_err();
    }
    assert_eq!(tenant.actions().await, ["TenantCreated"]);
}

/// INV-IDN-010: no-ops and refusals leave no entry, except a refused escalation.
#[tokio::test]
async fn no_op_or_refusal_leaves_no_entry() {
    let tenant = create_tenant("Developer").await;
    let (admin, user) = (tenant.admin().await, tenant.employee().await);
    let before = tenant.entries().await;
    let (own, by) = (tenant.read().await, &admin.client);
    operator().put(&tenant.path(""), json!({"Name": own["Name"], "Version": 7})).await.expect(200);
    operator()
        .put(&tenant.path(""), json!({"Name": "y", "Version": 7}))
        .await
        .expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    operator()
        .post(&tenant.path("/activate"), json!({}))
        .await
        .expect_problem(409, "IDENTITY_TENANT_INVALID_TRANSITION");
    let employee = by.get(&employee_path(user)).await.expect(200);
    by.put(&employee_path(user), json!({"Name": employee["Name"], "Email": employee["Email"]}))
        .await
        .expect(200);
    by.post(&format!("{}/activate", employee_path(user)), json!({}))
        .await
        .expect_problem(409, "IDENTITY_EMPLOYEE_INVALID_TRANSITION");
    by.delete(&employee_path(admin.id)).await.expect_problem(409, "IDENTITY_LAST_ADMIN");
    by.delete(&employee_path(guid())).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    add_role(by, admin.id, 1).await.expect(204);
    remove_role(by, user, 1).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    let taken = json!({"UserId": user, "Name": "x", "Email": email()});
    operator()
        .post(&tenant.path("/administrators"), taken)
        .await
        .expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
    assert_eq!(tenant.entries().await, before);

    // The escalation check precedes the check of the type, whose refusal writes no entry.
    let escalation = add_role(by, user, 12).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let detail = text(&escalation["detail"]);
    assert!(
        detail.contains("crm.deals.care@platform") && detail.contains("identity.tenants.read@platform"),
        "{detail}"
    );
    add_role(by, user, 8).await.expect_problem(422, "IDENTITY_ROLE_NOT_ASSIGNABLE");
    let weak = claims_with(None, &["identity.tenants.manage@platform"]);
    let weak_id = weak.sub.clone();
    let body = json!({"Name": "x", "Email": email()});
    let refused = service().caller(&weak).post(&tenant.path("/administrators"), body).await;
    refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let entries = tenant.entries().await;
    let listed: Vec<_> = entries[before.len()..]
        .iter()
        .map(|entry| {
            json!([
                entry["Action"],
                entry["SubjectId"],
                entry["ActorUserId"],
                entry["ActorCompanyId"],
                entry["RoleCode"],
                entry["From"],
                entry["To"]
            ])
        })
        .collect();
    assert_eq!(
        listed,
        [
            json!(["RoleGrantRefused", user, admin.id, tenant.0, "care-service", null, null]),
            json!(["RoleGrantRefused", tenant.0, weak_id, null, "developer-admin", null, null]),
        ]
    );
}

/// A query and the predicate of the entries that it selects.
type Filter<'f> = (String, Box<dyn Fn(&Value) -> bool + 'f>);

/// RULE-IDN-032: every filter applies alone and with the others, and an unknown value returns 400.
#[tokio::test]
async fn each_audit_filter_applies_alone_and_with_others() {
    let tenant = create_tenant("Agency").await;
    let (admin, user) = (tenant.admin().await, tenant.employee().await);
    add_role(&admin.client, user, 7).await.expect(204);
    remove_role(&admin.client, user, 7).await.expect(204);
    let entries: Vec<_> = tenant.entries().await.into_iter().rev().collect();
    let member = |entry: &Value, name: &str| text(&entry[name]).to_owned();
    let own = format!("TenantId={}", tenant.0);
    let at = |index: usize| member(&entries[index], "At");
    let by_role = |entry: &Value| entry["Action"] == "RoleAssigned" || entry["Action"] == "RoleRemoved";
    let filters: Vec<Filter> = vec![
        (own.clone(), Box::new(|_| true)),
        (format!("SubjectId={user}"), Box::new(move |entry| entry["SubjectId"] == json!(user))),
        (format!("ActorUserId={}", admin.id), Box::new(|entry| entry["ActorUserId"] == json!(admin.id))),
        (format!("{own}&Actions=RoleAssigned,RoleRemoved"), Box::new(by_role)),
        (format!("{own}&From={}", at(1)), Box::new(|entry| entry == &entries[0] || entry == &entries[1])),
        (format!("{own}&To={}", at(1)), Box::new(|entry| entry != &entries[0] && entry != &entries[1])),
        (
            format!(
                "{own}&From={}&To={}&Actions=RoleAssigned&SubjectId={user}&ActorUserId={}",
                at(1),
                at(0),
                admin.id
            ),
            Box::new(|entry| entry == &entries[1]),
        ),
        (format!("{own}&Actions=RoleGrantRefused"), Box::new(|_| false)),
        (format!("{own}&SubjectId={}", guid()), Box::new(|_| false)),
    ];
    for (query, keeps) in &filters {
        let found = operator().get(&format!("{AUDIT}?{query}&PageSize=100")).await.expect(200);
        let expected: Vec<_> = entries.iter().filter(|entry| keeps(entry)).cloned().collect();
        assert_eq!(found["Items"], json!(expected), "{query}");
        let found =
            tenant.outside_admin().get(&format!("{COMPANY_AUDIT}?{query}&PageSize=100")).await.expect(200);
        assert_eq!(found["Items"], json!(expected), "{query}");
    }
    let nothing = operator().get(&format!("{AUDIT}?TenantId={}", guid())).await.expect(200);
    assert_eq!(nothing, json!({"Items": [], "NextCursor": null}));
    for (query, field) in [
        ("Actions=", "/Actions"),
        ("Actions=TenantCreated,", "/Actions"),
        ("Actions=tenantCreated", "/Actions"),
        ("Actions=X", "/Actions"),
        ("SubjectId=", "/SubjectId"),
        ("SubjectId=x", "/SubjectId"),
        ("ActorUserId=x", "/ActorUserId"),
        ("From=x", "/From"),
        ("To=", "/To"),
        ("From=2026-01-01T00:00:00Z&To=2026-01-01T00:00:00Z", "/To"),
        ("From=2026-01-02T00:00:00Z&To=2026-01-01T00:00:00Z", "/To"),
    ] {
        for (by, path) in [(operator(), AUDIT), (tenant.outside_admin(), COMPANY_AUDIT)] {
            let problem = by.get(&format!("{path}?{query}")).await.expect_problem(400, INVALID);
            assert_eq!(each(&problem["errors"], "field"), [&json!(field)], "{query}");
        }
    }
}
