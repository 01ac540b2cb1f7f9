//! The actor check of changes (INV-IDN-009).

use serde_json::{Value, json};

use crate::{
    EMPLOYEES, add_role, claims_of, claims_with, create_tenant, email, employee_path, guid, remove_role,
    service, sign_in, text,
};

fn employee_body() -> Value {
    json!({"Name": "x", "Email": email()})
}

/// INV-IDN-009: a change looks up role and status, while a read trusts the token.
#[tokio::test]
async fn lost_role_or_suspension_takes_effect_at_once() {
    let tenant = create_tenant("Developer").await;
    let partner = tenant.partner();
    for loss in ["role", "suspension"] {
        let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
        admin.client.post(EMPLOYEES, employee_body()).await.expect(201);
        match loss {
            "role" => remove_role(&partner, admin.id, 1).await.expect(204),
            _ => partner.post(&format!("{}/suspend", employee_path(admin.id)), json!({})).await.expect(200),
        };
        admin.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
        admin.client.get(EMPLOYEES).await.expect(200);
    }
}

/// INV-IDN-009: the token alone decides for a removed administrator, of a company and of the
/// platform.
#[tokio::test]
async fn removed_administrator_keeps_the_permissions_of_the_token() {
    let (tenant, platform) = (create_tenant("Developer").await, create_tenant("Platform").await);
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    tenant.partner().delete(&employee_path(admin.id)).await.expect(204);
    let bob = text(&admin.client.post(EMPLOYEES, employee_body()).await.expect(201)["Id"]).parse().unwrap();
    add_role(&admin.client, bob, 1).await.expect(204);
    admin.client.get(EMPLOYEES).await.expect(200);

    let (_remaining, admin) = (platform.admin().await, platform.admin().await);
    platform.partner().delete(&employee_path(admin.id)).await.expect(204);
    admin.client.post(&tenant.path("/suspend"), json!({})).await.expect(200);
    // A new token grants nothing.
    let fresh = sign_in(admin.id).await;
    fresh.client.post(&tenant.path("/activate"), json!({})).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-009: the present claims of a suspended company's employee name no company, so each
/// change is 403.
#[tokio::test]
async fn employees_of_a_suspended_company_are_forbidden_changes() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.admin().await;
    tenant.transition("suspend").await;
    admin.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
    tenant.partner().post(EMPLOYEES, employee_body()).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    tenant.transition("activate").await;
    admin.client.post(EMPLOYEES, employee_body()).await.expect(201);
}

/// INV-IDN-009: token and present claims must name one company, and both must have the permission.
#[tokio::test]
async fn change_needs_the_token_and_the_present_claims() {
    let (tenant, other) = (create_tenant("Developer").await, create_tenant("Developer").await);
    let admin = tenant.admin().await;
    let present = claims_of(admin.id).await;
    // A token of another company, one with fewer and one with more permissions than the claims.
    let mut elsewhere = present.clone();
    elsewhere.company_id = Some(other.0);
    service().caller(&elsewhere).post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
    let bob = tenant.employee().await;
    let mut reduced = present.clone();
    reduced.permissions.retain(|permission| permission != "crm.deals.manage-own");
    let refused = add_role(&service().caller(&reduced), bob, 3).await;
    refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let extended = present.permission("agent.cabinet.use").permission("identity.tenants.manage@platform");
    let extended = service().caller(&extended);
    extended.post(&other.path("/suspend"), json!({})).await.expect_problem(403, "FORBIDDEN");
    add_role(&extended, bob, 7).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&extended, bob, 3).await.expect(204);
}

/// INV-IDN-009: the order is 400, then the actor check, then 404.
#[tokio::test]
async fn actor_check_follows_the_body_and_precedes_the_stored_state() {
    let tenant = create_tenant("Developer").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    remove_role(&tenant.partner(), admin.id, 1).await.expect(204);
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
async fn unemployed_actor_holds_the_permissions_of_the_token() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let wide = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage@platform"]));
    wide.post(EMPLOYEES, employee_body()).await.expect(201);
    wide.delete(&employee_path(other.employee().await)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    let (_, fresh) = (tenant.admin().await, sign_in(guid()).await);
    fresh.client.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
}
