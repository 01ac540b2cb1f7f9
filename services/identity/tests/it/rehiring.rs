//! The second employment of a former employee under the old id (RULE-IDN-057).

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    EMPLOYEES, add_role, claims_of, create_tenant, email, employee_path, guid, operator, service, sign_in,
    text,
};

fn body(user: impl Into<Option<Uuid>>) -> Value {
    json!({"UserId": user.into(), "Name": "x", "Email": email()})
}

/// RULE-IDN-057, RULE-IDN-010: a company employs its former employee under the old id, without the
/// former roles.
#[tokio::test]
async fn former_employee_is_employed_again_under_the_old_id() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    add_role(&outside_admin, bob, 7).await.expect(204);
    outside_admin.delete(&employee_path(bob)).await.expect(204);
    let again = outside_admin.post(EMPLOYEES, body(bob)).await.expect(201);
    assert_eq!((text(&again["Id"]), &again["RoleCodes"]), (&*bob.to_string(), &json!([])));
    assert_eq!((&again["Version"], &again["Status"]), (&json!(1), &json!("Active")));
    let me = sign_in(bob).await.client.get("/api/identity/me").await.expect(200);
    assert_eq!(text(&me["Company"]["Id"]), tenant.0.to_string());
    assert_eq!(tenant.actions().await.last().map(String::as_str), Some("EmployeeCreated"));
    // The user can leave and be employed a second time.
    outside_admin.delete(&employee_path(bob)).await.expect(204);
    outside_admin.post(EMPLOYEES, body(bob)).await.expect(201);
}

/// RULE-IDN-057: a company names only its own former employees, so it cannot employ any other
/// user under an existing id.
#[tokio::test]
async fn user_who_never_worked_for_the_company_is_refused() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let (outside_admin, left_other) = (tenant.outside_admin(), other.employee().await);
    other.outside_admin().delete(&employee_path(left_other)).await.expect(204);
    for stranger in [guid(), left_other, Uuid::nil()] {
        let response = outside_admin.post(EMPLOYEES, body(stranger)).await;
        response.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    }
    let bob = tenant.employee().await;
    outside_admin.post(EMPLOYEES, body(bob)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    outside_admin.delete(&employee_path(bob)).await.expect(204);
    tenant.transition("suspend").await;
    outside_admin.post(EMPLOYEES, body(guid())).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    outside_admin.post(EMPLOYEES, body(bob)).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    tenant.transition("activate").await;
    // Another company has employed the user in between.
    operator().post(&other.path("/administrators"), body(bob)).await.expect(201);
    let taken = outside_admin.post(EMPLOYEES, body(bob)).await;
    taken.expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
}

/// INV-IDN-009, RULE-IDN-055: a token that was issued before the removal grants nothing, even after
/// the second employment.
#[tokio::test]
async fn token_from_before_the_removal_stays_without_rights() {
    let tenant = create_tenant("Agency").await;
    let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
    let issued = runtime::clock::now().unix_timestamp() - 10;
    let claims = claims_of(admin.id).await;
    let old = service().bearer(&testkit::service::issuer().token_issued_at(&claims, issued).unwrap());
    old.post(EMPLOYEES, body(None)).await.expect(201);
    tenant.outside_admin().delete(&employee_path(admin.id)).await.expect(204);
    operator().post(&tenant.path("/administrators"), body(admin.id)).await.expect(201);
    old.post(EMPLOYEES, body(None)).await.expect_problem(403, "FORBIDDEN");
    sign_in(admin.id).await.client.post(EMPLOYEES, body(None)).await.expect(201);
}
