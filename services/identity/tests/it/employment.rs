//! Tokens that differ from the current employment of their user (INV-IDN-009).

use serde_json::{Value, json};
use testkit::client::Client;

use crate::{
    EMPLOYEES, TENANTS, add_role, claims_of, claims_with, create_tenant, email, employee_path, guid,
    operator, remove_role, service, sign_in, text,
};

fn employee_body() -> Value {
    json!({"Name": "x", "Email": email()})
}

async fn may_employ(by: &Client) -> bool {
    let response = by.post(EMPLOYEES, employee_body()).await;
    if response.status == 403 {
        response.expect_problem(403, "FORBIDDEN");
        return false;
    }
    response.expect(201);
    true
}

/// INV-IDN-009: a suspended actor changes nothing until the activation.
#[tokio::test]
async fn suspended_actor_is_forbidden_until_activated() {
    let tenant = create_tenant("Agency").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    let path = employee_path(admin.id);
    tenant.outside_admin().post(&format!("{path}/suspend"), json!({})).await.expect(200);
    assert!(!may_employ(&admin.client).await);
    admin.client.post(&format!("{path}/activate"), json!({})).await.expect_problem(403, "FORBIDDEN");
    admin.client.get(&path).await.expect(200);
    tenant.outside_admin().post(&format!("{path}/activate"), json!({})).await.expect(200);
    assert!(may_employ(&admin.client).await, "the same token works again after the activation");
}

/// INV-IDN-009: an actor of a suspended or archived company changes nothing.
#[tokio::test]
async fn actor_of_an_inactive_company_is_forbidden() {
    let tenant = create_tenant("Agency").await;
    let admin = tenant.admin().await;
    tenant.transition("suspend").await;
    assert!(!may_employ(&admin.client).await);
    admin.client.delete(&employee_path(admin.id)).await.expect_problem(403, "FORBIDDEN");
    tenant.transition("activate").await;
    assert!(may_employ(&admin.client).await);
    tenant.transition("archive").await;
    assert!(!may_employ(&admin.client).await);

    let platform = create_tenant("Platform").await;
    let admin = platform.admin().await.client;
    let other = create_tenant("Agency").await;
    admin.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    for inactive in ["suspend", "archive"] {
        platform.transition(inactive).await;
        admin.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect_problem(403, "FORBIDDEN");
        admin.post(&other.path("/suspend"), json!({})).await.expect_problem(403, "FORBIDDEN");
        admin.get(&other.path("")).await.expect(200);
    }
}

/// INV-IDN-009: a token of the former company changes nothing, regardless of the roles in the
/// new one.
#[tokio::test]
async fn token_of_the_former_company_is_forbidden() {
    let (before, after) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let (_remaining, moved) = (before.admin().await, before.admin().await);
    before.outside_admin().delete(&employee_path(moved.id)).await.expect(204);
    let body = json!({"UserId": moved.id, "Name": "x", "Email": email()});
    operator().post(&after.path("/administrators"), body).await.expect(201);
    assert!(!may_employ(&moved.client).await);
    moved.client.delete(&employee_path(moved.id)).await.expect_problem(403, "FORBIDDEN");
    assert!(may_employ(&sign_in(moved.id).await.client).await);
}

/// INV-IDN-009: a token without a company, or with another company than the employer, changes
/// nothing.
#[tokio::test]
async fn token_with_another_company_is_forbidden() {
    let (tenant, other) = (create_tenant("Platform").await, create_tenant("Platform").await);
    let current = claims_of(tenant.admin().await.id).await;
    let mut of_none = current.clone();
    of_none.company_id = None;
    let mut of_another = current.clone();
    of_another.company_id = Some(other.0);
    let mut of_unknown = current.clone();
    of_unknown.company_id = Some(guid());
    for claims in [of_none, of_another, of_unknown] {
        let by = service().caller(&claims);
        by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect_problem(403, "FORBIDDEN");
        by.post(&create_tenant("Agency").await.path("/archive"), json!({}))
            .await
            .expect_problem(403, "FORBIDDEN");
    }
    service().caller(&current).post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
}

/// INV-IDN-009: an actor holds only the permissions that both the token and the current claims
/// contain.
#[tokio::test]
async fn actor_holds_the_intersection_of_token_and_roles() {
    let tenant = create_tenant("Developer").await;
    let (admin, user) = (tenant.admin().await, tenant.employee().await);
    let current = claims_of(admin.id).await;
    let only = |permissions: &[&str]| {
        let mut claims = current.clone();
        claims.permissions = permissions.iter().map(|permission| (*permission).to_owned()).collect();
        service().caller(&claims)
    };
    let narrow = only(&["identity.employee-roles.manage", "crm.deals.manage-own"]);
    add_role(&narrow, user, 3).await.expect(204);
    let refused = add_role(&narrow, user, 2).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    assert!(text(&refused["detail"]).contains("chessboard.developers.manage"));
    // A permission of the token counts, in any scope, only if a role of the actor has it.
    let wide = only(&[
        "identity.employee-roles.manage@platform",
        "identity.tenants.manage@platform",
        "agent.cabinet.use@platform",
    ]);
    wide.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect_problem(403, "FORBIDDEN");
    add_role(&wide, user, 7).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    assert!(may_employ(&wide).await, "the token's platform scope covers the organization scope of the role");
    add_role(&only(&["crm.deals.manage-own"]), user, 3).await.expect_problem(403, "FORBIDDEN");
    // A role that was added after the token was issued counts with the next token only.
    let fresh = sign_in(user).await;
    add_role(&admin.client, user, 1).await.expect(204);
    assert!(fresh.client.post(EMPLOYEES, employee_body()).await.status == 403);
    assert!(may_employ(&sign_in(user).await.client).await);
}

/// INV-IDN-006: `P@platform` covers `P`, never the reverse.
#[tokio::test]
async fn platform_scope_covers_organization_scope_only() {
    let platform = create_tenant("Platform").await;
    let user = platform.employee().await;
    let by = |permissions: &[&str]| service().caller(&claims_with(Some(platform.0), permissions));
    let organization = by(&["identity.employee-roles.manage", "news.posts.manage"]);
    add_role(&organization, user, 14).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let written_out = by(&["identity.employee-roles.manage@organization", "news.posts.manage@organization"]);
    add_role(&written_out, user, 14).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&by(&["identity.employee-roles.manage", "news.posts.manage@platform"]), user, 14)
        .await
        .expect(204);

    let agency = create_tenant("Agency").await;
    let user = agency.employee().await;
    let wide = service().caller(&claims_with(
        Some(agency.0),
        &["identity.employee-roles.manage@platform", "agent.cabinet.use@platform"],
    ));
    add_role(&wide, user, 7).await.expect(204);
    // On these routes every scope covers only the actor's own company.
    let elsewhere = create_tenant("Agency").await.employee().await;
    add_role(&wide, elsewhere, 7).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    // The removal of a role does not require the permissions of the role.
    let weak = service().caller(&claims_with(Some(agency.0), &["identity.employee-roles.manage"]));
    remove_role(&weak, user, 7).await.expect(204);
}

/// INV-IDN-009: the token alone decides for an actor who is not an employee, even if the company in
/// the token does not exist.
#[tokio::test]
async fn actor_without_employment_needs_the_token_only() {
    for company in [None, Some(guid())] {
        let by = service().caller(&claims_with(company, &["identity.tenants.manage@platform"]));
        let tenant = by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
        by.post(&format!("{TENANTS}/{}/archive", text(&tenant["Id"])), json!({})).await.expect(200);
    }
    let tenant = create_tenant("Agency").await;
    assert!(may_employ(&tenant.outside_admin()).await);
    // A token without a company has no permission of a company's administrator.
    let without_company = service().caller(&claims_with(None, &["identity.employee-roles.manage@platform"]));
    without_company.post(EMPLOYEES, employee_body()).await.expect_problem(403, "FORBIDDEN");
    without_company.get(EMPLOYEES).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-009: an administrator who removed their own role changes nothing with the old token. A
/// removed administrator is tested by
/// `actor::removed_administrator_changes_nothing_with_the_old_token`.
#[tokio::test]
async fn administrator_who_removes_their_own_role_is_forbidden() {
    let tenant = create_tenant("Agency").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    remove_role(&admin.client, admin.id, 6).await.expect(204);
    add_role(&admin.client, admin.id, 6).await.expect_problem(403, "FORBIDDEN");
    assert!(!may_employ(&admin.client).await);
}
