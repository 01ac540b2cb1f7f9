//! Changes of employees of any company by administrators of the platform.

use serde_json::{Value, json};
use testkit::client::Response;
use uuid::Uuid;

use crate::{
    EMPLOYEES, add_role, claims_with, create_tenant, email, guid, operator, role, service, sign_in, text,
};

/// RULE-IDN-007: `administrators` creates an active employee with the administrator role of the
/// tenant's type. The id is the given one or a new one.
#[tokio::test]
async fn administrator_gets_the_role_of_the_tenants_type() {
    for (kind, code) in [
        ("Developer", "developer-admin"),
        ("Agency", "agency-admin"),
        ("Partner", "partner-admin"),
        ("Platform", "platform-admin"),
    ] {
        let tenant = create_tenant(kind).await;
        let id = guid();
        let body = json!({"UserId": id, "Name": " Анна ", "Email": email()});
        let created = operator().post(&tenant.path("/administrators"), body).await;
        let location = created.header("location").to_owned();
        let admin = created.expect(201);
        assert_eq!(location, tenant.path(&format!("/employees/{id}")));
        assert_eq!(operator().get(&location).await.expect(200), admin);
        assert_eq!((text(&admin["Id"]), text(&admin["Name"])), (&*id.to_string(), "Анна"));
        assert_eq!((text(&admin["Status"]), &admin["RoleCodes"]), ("Active", &json!([code])));
        let other = tenant.admin().await;
        assert_eq!(other.client.get(EMPLOYEES).await.expect(200)["TotalCount"], 2);
    }
}

/// RULE-IDN-058: until the removal, an employee is found only in the employee's own tenant, whose
/// status does not matter.
#[tokio::test]
async fn employee_is_read_in_their_own_tenant_only() {
    let (tenant, other) = (create_tenant("Developer").await, create_tenant("Developer").await);
    let user = tenant.employee().await;
    let (path, missing) = (format!("/employees/{user}"), "IDENTITY_USER_NOT_FOUND");
    let listed = operator().get(&tenant.path("/employees")).await.expect(200);
    tenant.transition("archive").await;
    assert_eq!(operator().get(&tenant.path(&path)).await.expect(200), listed["Items"][0]);
    operator().get(&other.path(&path)).await.expect_problem(404, missing);
    operator().get(&tenant.path(&format!("/employees/{}", guid()))).await.expect_problem(404, missing);
    operator().delete(&tenant.path(&path)).await.expect(204);
    operator().get(&tenant.path(&path)).await.expect_problem(404, missing);
}

/// RULE-IDN-007: of several faults, `administrators` reports the one that the specification lists
/// first.
#[tokio::test]
async fn administrator_creation_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Developer").await;
    let taken = email();
    let employed = tenant.employee().await;
    tenant.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": taken})).await.expect(201);
    let limited = service().caller(&claims_with(None, &["identity.tenants.manage@platform"]));
    let call = async |by: &testkit::client::Client, user: Option<Uuid>, address: &str| -> Response {
        let body = json!({"UserId": user, "Name": "x", "Email": address});
        by.post(&tenant.path("/administrators"), body).await
    };
    call(&operator(), Some(employed), &taken).await.expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
    call(&operator(), None, &taken.to_uppercase()).await.expect_problem(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
    let refused = call(&limited, Some(employed), &taken)
        .await
        .expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    assert!(text(&refused["detail"]).contains("crm.deals.manage-own"), "{refused}");
    tenant.transition("suspend").await;
    call(&limited, Some(employed), &taken).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    let invalid = operator().post(&tenant.path("/administrators"), json!({"UserId": "x", "Name": ""})).await;
    let problem = invalid.expect_problem(400, "VALIDATION_FAILED");
    let mut fields: Vec<_> = crate::each(&problem["errors"], "field").into_iter().map(text).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["/Email", "/Name", "/UserId"]);
}

/// RULE-IDN-007, RULE-IDN-051: only permissions in platform scope cover the administrator role.
#[tokio::test]
async fn administrator_role_is_covered_at_platform_scope_only() {
    let tenant = create_tenant("Partner").await;
    let own = ["news.posts.create-company", "news.posts.manage-own", "identity.employee-roles.manage"];
    let mut permissions = own.to_vec();
    permissions.push("identity.tenants.manage@platform");
    let body = || json!({"Name": "x", "Email": email()});
    let holder_of = |permissions: &[&str]| service().caller(&claims_with(Some(tenant.0), permissions));
    let refused = holder_of(&permissions).post(&tenant.path("/administrators"), body()).await;
    let refused = refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    for permission in own {
        assert!(text(&refused["detail"]).contains(permission), "{refused}");
    }
    let platform: Vec<_> = own.iter().map(|permission| format!("{permission}@platform")).collect();
    let mut permissions: Vec<_> = platform.iter().map(String::as_str).collect();
    permissions.push("identity.tenants.manage@platform");
    holder_of(&permissions).post(&tenant.path("/administrators"), body()).await.expect(201);
}

/// RULE-IDN-008: the platform can remove the last administrator of an inactive tenant only.
#[tokio::test]
async fn last_administrator_is_removed_from_an_inactive_tenant_only() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.admin().await.id;
    let (employee, of_admin) =
        (format!("/employees/{admin}"), format!("/employees/{admin}/roles/{}", role(1)));
    for path in [&employee, &of_admin] {
        operator().delete(&tenant.path(path)).await.expect_problem(409, "IDENTITY_LAST_ADMIN");
    }
    tenant.transition("suspend").await;
    operator().delete(&tenant.path(&of_admin)).await.expect(204);
    operator()
        .delete(&tenant.path(&of_admin))
        .await
        .expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    let unknown = format!("/employees/{admin}/roles/{}", guid());
    operator().delete(&tenant.path(&unknown)).await.expect_problem(404, "IDENTITY_ROLE_NOT_FOUND");
    tenant.transition("archive").await;
    operator().delete(&tenant.path(&employee)).await.expect(204);
    operator().delete(&tenant.path(&employee)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
}

/// RULE-IDN-008: administrators of the platform get 404 for an employee of another tenant.
#[tokio::test]
async fn removal_in_another_tenant_returns_not_found() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    let (employee, of_bob) = (format!("/employees/{bob}"), format!("/employees/{bob}/roles/{}", role(7)));
    for path in [&of_bob, &employee] {
        operator().delete(&other.path(path)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        operator().delete(&tenant.path(path)).await.expect(204);
    }
}

/// INV-IDN-009: an administrator of the platform who lost the role can read with the old token but
/// change nothing.
#[tokio::test]
async fn platform_administrator_without_the_role_is_forbidden_changes() {
    let platform = create_tenant("Platform").await;
    let (first, second) = (platform.admin().await, platform.admin().await);
    first.client.post(crate::TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    crate::remove_role(&second.client, first.id, 10).await.expect(204);
    let refused = first.client.post(crate::TENANTS, json!({"Name": "x", "Type": "Agency"})).await;
    refused.expect_problem(403, "FORBIDDEN");
    first.client.get(&format!("{}/search", crate::TENANTS)).await.expect(200);
    let fresh = sign_in(first.id).await;
    fresh.client.get(&format!("{}/search", crate::TENANTS)).await.expect_problem(403, "FORBIDDEN");
    second
        .client
        .post(crate::TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": Value::Null}))
        .await
        .expect(201);
}
