//! The actor check of changes (INV-IDN-009).

use serde_json::{Value, json};
use testkit::issuer::Claims;
use testkit::service::issuer;

use crate::{
    EMPLOYEES, add_role, claims_of, claims_with, create_tenant, email, employee_path, guid, remove_role,
    service, sign_in,
};

fn employee_body() -> Value {
    json!({"Name": "x", "Email": email()})
}

/// INV-IDN-009, RULE-IDN-056: a change reads the current role and status, while a read trusts a
/// recent token.
#[tokio::test]
async fn lost_role_or_suspension_ends_changes_at_once() {
    let tenant = create_tenant("Developer").await;
    let outside_admin = tenant.outside_admin();
    for loss in ["role", "suspension"] {
        let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
        admin.client.post(EMPLOYEES, employee_body()).await.expect(201);
        match loss {
            "role" => remove_role(&outside_admin, admin.id, 1).await.expect(204),
            _ => outside_admin
                .post(&format!("{}/suspend", employee_path(admin.id)), json!({}))
                .await
                .expect(200),
        };
        admin.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
        admin.client.get(EMPLOYEES).await.expect(200);
    }
}

/// INV-IDN-009, RULE-IDN-055: a token that was issued before the removal changes nothing.
#[tokio::test]
async fn removed_administrator_changes_nothing_with_the_old_token() {
    let tenant = create_tenant("Developer").await;
    let (remaining, admin) = (tenant.admin().await, tenant.admin().await);
    let bob = tenant.employee().await;
    remaining.client.delete(&employee_path(admin.id)).await.expect(204);
    admin.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
    add_role(&admin.client, bob, 1).await.expect_problem(403, "FORBIDDEN");
    remove_role(&admin.client, remaining.id, 1).await.expect_problem(403, "FORBIDDEN");
    for path in [employee_path(bob), employee_path(remaining.id)] {
        admin.client.delete(&path).await.expect_problem(403, "FORBIDDEN");
    }
}

/// INV-IDN-009, RULE-IDN-055: a removed administrator of the platform creates no administrator and
/// no tenant with the old token.
#[tokio::test]
async fn removed_platform_administrator_changes_nothing_with_the_old_token() {
    let (platform, tenant) = (create_tenant("Platform").await, create_tenant("Developer").await);
    let (remaining, admin) = (platform.admin().await, platform.admin().await);
    remaining.client.delete(&employee_path(admin.id)).await.expect(204);
    for (path, body) in [
        (platform.path("/administrators"), json!({"UserId": admin.id, "Name": "x", "Email": email()})),
        (tenant.path("/administrators"), employee_body()),
        (crate::TENANTS.to_owned(), json!({"Name": "x", "Type": "Agency"})),
        (tenant.path("/suspend"), json!({})),
        (EMPLOYEES.to_owned(), employee_body()),
    ] {
        admin.client.post(&path, body).await.expect_problem(403, "FORBIDDEN");
    }
    let fresh = sign_in(admin.id).await;
    fresh.client.post(&tenant.path("/suspend"), json!({})).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-009, RULE-IDN-055: a token is valid if it was issued in a later second than the removal.
/// A token of the same second is refused.
#[tokio::test]
async fn token_is_valid_from_the_second_after_the_removal() {
    let tenant = create_tenant("Developer").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    tenant.outside_admin().delete(&employee_path(admin.id)).await.expect(204);
    let sql = service().sql().await;
    let left_at =
        "select floor(extract(epoch from left_at))::bigint from former_employee where user_id::text = $1";
    let left_at: i64 = sql.query_one(left_at, &[&admin.id.to_string()]).await.unwrap().get(0);
    for (seconds, status) in [(-1, 403), (0, 403), (1, 201)] {
        let claims = Claims::user(admin.id).company(tenant.0).permission("identity.employee-roles.manage");
        let by = service().bearer(&issuer().token_issued_at(&claims, left_at + seconds).unwrap());
        assert_eq!(by.post(EMPLOYEES, employee_body()).await.status, status, "{seconds}");
    }
}

/// INV-IDN-009, RULE-IDN-056: a read trusts a recent token, and checks the current claims for an
/// older one.
#[tokio::test]
async fn read_with_a_token_older_than_30_seconds_needs_the_current_claims() {
    let tenant = create_tenant("Developer").await;
    let outside_admin = tenant.outside_admin();
    let bob = tenant.employee().await;
    for loss in ["role", "suspension", "removal", "company"] {
        let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
        let claims = claims_of(admin.id).await;
        let issued = runtime::clock::now().unix_timestamp() - 31;
        let old = service().bearer(&issuer().token_issued_at(&claims, issued).unwrap());
        let reads = [
            EMPLOYEES.to_owned(),
            employee_path(bob),
            "/api/identity/roles".to_owned(),
            format!("{}/{bob}/roles", crate::ROLES),
            crate::COMPANY_AUDIT.to_owned(),
        ];
        for path in &reads {
            old.get(path).await.expect(200);
        }
        let path = employee_path(admin.id);
        match loss {
            "role" => remove_role(&outside_admin, admin.id, 1).await.expect(204),
            "suspension" => outside_admin.post(&format!("{path}/suspend"), json!({})).await.expect(200),
            "removal" => outside_admin.delete(&path).await.expect(204),
            _ => tenant.transition("suspend").await,
        };
        for path in &reads {
            old.get(path).await.expect_problem(403, "FORBIDDEN");
        }
        // A read of own data needs no permission.
        old.get(&format!("{}/{}/roles", crate::ROLES, admin.id)).await.expect(200);
        old.get("/api/identity/me").await.expect(200);
    }
}

/// INV-IDN-009, RULE-IDN-056: a removed administrator of the platform reads nothing with the old
/// token.
#[tokio::test]
async fn old_token_of_a_removed_platform_administrator_reads_nothing() {
    let (platform, tenant) = (create_tenant("Platform").await, create_tenant("Developer").await);
    let (remaining, admin) = (platform.admin().await, platform.admin().await);
    let issued = runtime::clock::now().unix_timestamp() - 31;
    let old = service().bearer(&issuer().token_issued_at(&claims_of(admin.id).await, issued).unwrap());
    let reads = [
        format!("{}/search", crate::TENANTS),
        format!("{}/lookup", crate::TENANTS),
        format!("{}/lookup/{}", crate::TENANTS, tenant.0),
        tenant.path(""),
        tenant.path("/employees"),
        crate::AUDIT.to_owned(),
    ];
    for path in &reads {
        old.get(path).await.expect(200);
    }
    remaining.client.delete(&employee_path(admin.id)).await.expect(204);
    for path in &reads {
        old.get(path).await.expect_problem(403, "FORBIDDEN");
    }
}

/// INV-IDN-009: the current claims of a suspended company's employee name no company, so each
/// change returns 403.
#[tokio::test]
async fn employees_of_a_suspended_company_are_forbidden_changes() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.admin().await;
    tenant.transition("suspend").await;
    admin.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
    tenant
        .outside_admin()
        .post(EMPLOYEES, employee_body())
        .await
        .expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    tenant.transition("activate").await;
    admin.client.post(EMPLOYEES, employee_body()).await.expect(201);
}

/// INV-IDN-009: the token and the current claims must name the same company, and both must have the
/// permission.
#[tokio::test]
async fn change_needs_the_token_and_the_current_claims() {
    let (tenant, other) = (create_tenant("Developer").await, create_tenant("Developer").await);
    let admin = tenant.admin().await;
    let current = claims_of(admin.id).await;
    // Three tokens: of another company, with fewer permissions than the claims, and with more.
    let mut of_another_company = current.clone();
    of_another_company.company_id = Some(other.0);
    service()
        .caller(&of_another_company)
        .post(EMPLOYEES, employee_body())
        .await
        .expect_problem(403, "FORBIDDEN");
    let bob = tenant.employee().await;
    let mut reduced = current.clone();
    reduced.permissions.retain(|permission| permission != "crm.deals.manage-own");
    let refused = add_role(&service().caller(&reduced), bob, 3).await;
    refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let extended = current.permission("agent.cabinet.use").permission("identity.tenants.manage@platform");
    let extended = service().caller(&extended);
    extended.post(&other.path("/suspend"), json!({})).await.expect_problem(403, "FORBIDDEN");
    add_role(&extended, bob, 7).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&extended, bob, 3).await.expect(204);
}

/// INV-IDN-009: the order of refusals is 400, the actor check, 404.
#[tokio::test]
async fn actor_check_follows_the_body_and_precedes_the_stored_state() {
    let tenant = create_tenant("Developer").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    remove_role(&tenant.outside_admin(), admin.id, 1).await.expect(204);
    admin.client.post(EMPLOYEES, json!({})).await.expect_problem(400, "VALIDATION_FAILED");
    let unknown = employee_path(guid());
    admin.client.put(&unknown, employee_body()).await.expect_problem(403, "FORBIDDEN");
    admin.client.delete(&unknown).await.expect_problem(403, "FORBIDDEN");
    add_role(&admin.client, guid(), 99).await.expect_problem(403, "FORBIDDEN");
    // A refusal writes no entry, except an escalation.
    assert_eq!(tenant.actions().await.last().map(String::as_str), Some("RoleRemoved"));
}

/// INV-IDN-009: the token alone decides for an actor who is not an employee, within the token's
/// company.
#[tokio::test]
async fn actor_without_employment_holds_the_permissions_of_the_token() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let wide = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage@platform"]));
    wide.post(EMPLOYEES, employee_body()).await.expect(201);
    wide.delete(&employee_path(other.employee().await)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    let unprivileged = sign_in(guid()).await;
    unprivileged.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
}
