//! The order of refusals: if two neighbouring checks fail, the response reports the first.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use uuid::Uuid;

use crate::{
    EMPLOYEES, ROLES, TENANTS, Tenant, add_role, claims_with, create_tenant, email, employee_path, guid,
    operator, remove_role, role, service, tax_number, text,
};

const INVALID: (u16, &str) = (400, "VALIDATION_FAILED");
const FORBIDDEN: (u16, &str) = (403, "FORBIDDEN");
const NO_TENANT: (u16, &str) = (404, "IDENTITY_TENANT_NOT_FOUND");
const NO_USER: (u16, &str) = (404, "IDENTITY_USER_NOT_FOUND");
const NO_ROLE: (u16, &str) = (404, "IDENTITY_ROLE_NOT_FOUND");
const NOT_ASSIGNED: (u16, &str) = (404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
const ARCHIVED: (u16, &str) = (409, "IDENTITY_TENANT_ARCHIVED");
const NOT_ACTIVE: (u16, &str) = (409, "IDENTITY_TENANT_NOT_ACTIVE");
const OWN_TENANT: (u16, &str) = (409, "IDENTITY_OWN_TENANT");
const SAME_TENANT_STATUS: (u16, &str) = (409, "IDENTITY_TENANT_INVALID_TRANSITION");
const SAME_EMPLOYEE_STATUS: (u16, &str) = (409, "IDENTITY_EMPLOYEE_INVALID_TRANSITION");
const CONFLICT: (u16, &str) = (409, "IDENTITY_CONCURRENCY_CONFLICT");
const NUMBER_TAKEN: (u16, &str) = (409, "IDENTITY_TENANT_TAX_NUMBER_TAKEN");
const EMAIL_TAKEN: (u16, &str) = (409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
const EMPLOYED: (u16, &str) = (409, "IDENTITY_USER_ALREADY_EMPLOYED");
const LAST_ADMIN: (u16, &str) = (409, "IDENTITY_LAST_ADMIN");
const ESCALATION: (u16, &str) = (403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");

#[track_caller]
fn assert_refused(response: Response, (status, code): (u16, &str)) {
    response.expect_problem(status, code);
}

/// Returns a tenant and its former administrator, whose token still has the lost permissions.
async fn former_admin(kind: &str) -> (Tenant, Client) {
    let tenant = create_tenant(kind).await;
    let (_remaining, former) = (tenant.admin().await, tenant.admin().await);
    let admin_role = role(match kind {
        "Developer" => 1,
        "Agency" => 6,
        "Partner" => 8,
        _ => 10,
    });
    let path = tenant.path(&format!("/employees/{}/roles/{admin_role}", former.id));
    operator().delete(&path).await.expect(204);
    (tenant, former.client)
}

fn update_body(tenant: &Value) -> Value {
    json!({"Name": tenant["Name"], "LegalName": tenant["LegalName"], "TaxNumber": tenant["TaxNumber"]})
}

fn employee_body() -> Value {
    json!({"Name": "x", "Email": email()})
}

/// Returns a valid request for every change of the tenant and the user.
fn changes(tenant: Uuid, user: Uuid) -> Vec<(Method, String, Value)> {
    let (post, put, delete) = (Method::POST, Method::PUT, Method::DELETE);
    let employee = employee_path(user);
    vec![
        (post.clone(), TENANTS.to_owned(), json!({"Name": "x", "Type": "Agency"})),
        (put.clone(), format!("{TENANTS}/{tenant}"), json!({"Name": "x"})),
        (post.clone(), format!("{TENANTS}/{tenant}/suspend"), json!({})),
        (post.clone(), format!("{TENANTS}/{tenant}/activate"), json!({})),
        (post.clone(), format!("{TENANTS}/{tenant}/archive"), json!({})),
        (post.clone(), format!("{TENANTS}/{tenant}/administrators"), employee_body()),
        (delete.clone(), format!("{TENANTS}/{tenant}/employees/{user}"), Value::Null),
        (delete.clone(), format!("{TENANTS}/{tenant}/employees/{user}/roles/{}", role(7)), Value::Null),
        (post.clone(), EMPLOYEES.to_owned(), employee_body()),
        (put, employee.clone(), employee_body()),
        (post.clone(), format!("{employee}/suspend"), json!({})),
        (post.clone(), format!("{employee}/activate"), json!({})),
        (delete.clone(), employee, Value::Null),
        (post, format!("{ROLES}/{user}/roles/{}/add", role(9)), Value::Null),
        (delete, format!("{ROLES}/{user}/roles/{}", role(7)), Value::Null),
    ]
}

async fn call(by: &Client, (method, path, body): &(Method, String, Value)) -> Response {
    let request = by.request(method.clone(), path);
    send(if body.is_null() { request } else { request.json(body) }).await
}

/// RULE-IDN-023: 403 of the token precedes path and body.
#[tokio::test]
async fn missing_permission_precedes_path_and_body() {
    let tenant = create_tenant("Agency").await;
    let stranger = service()
        .caller(&claims_with(Some(tenant.0), &["identity.tenants.manage", "news.posts.manage@platform"]));
    for (method, path, _) in changes(tenant.0, guid()) {
        for (kind, body) in
            [("application/json", "{"), ("text/plain", "x"), ("application/json", "{\"Name\":1}")]
        {
            let request = stranger.request(method.clone(), &path).header("content-type", kind).body(body);
            assert_refused(send(request).await, FORBIDDEN);
        }
    }
    let unparsable = format!("{TENANTS}/x/suspend");
    assert_refused(stranger.post(&unparsable, json!({"Version": "x"})).await, FORBIDDEN);
    operator().post(&unparsable, json!({"Version": "x"})).await.expect_problem(404, "NOT_FOUND");
    for list in ["search?Page=0", "lookup?Limit=0", "x", "lookup/x", "x/employees?Page=0"] {
        assert_refused(stranger.get(&format!("{TENANTS}/{list}")).await, FORBIDDEN);
    }
}

/// RULE-IDN-023: 400 precedes the actor check of every change, and its 403 precedes the stored
/// state. Nothing is written.
#[tokio::test]
async fn actor_without_the_role_is_forbidden_every_change() {
    let (_, former) = former_admin("Platform").await;
    let tenant = create_tenant("Agency").await;
    let user = tenant.employee().await;
    add_role(&tenant.outside_admin(), user, 7).await.expect(204);
    let (entries, before) = (tenant.entries().await, tenant.read().await);
    for (tenant, user) in [(tenant.0, user), (guid(), guid()), (Uuid::nil(), Uuid::nil())] {
        for change in changes(tenant, user) {
            assert_refused(call(&former, &change).await, FORBIDDEN);
            if !change.2.is_null() {
                let invalid = (change.0.clone(), change.1.clone(), json!({"Name": 1, "Version": "x"}));
                assert_refused(call(&former, &invalid).await, INVALID);
            }
        }
    }
    assert_eq!((tenant.entries().await, tenant.read().await), (entries, before));

    let (own, former) = former_admin("Agency").await;
    let user = own.employee().await;
    let entries = own.entries().await;
    for user in [user, guid()] {
        for change in changes(own.0, user) {
            assert_refused(call(&former, &change).await, FORBIDDEN);
        }
    }
    assert_eq!(own.entries().await, entries);
}

/// RULE-IDN-024: `POST` of a tenant: 400, actor check, 409.
#[tokio::test]
async fn create_tenant_with_several_faults_reports_the_first() {
    let (_, former) = former_admin("Platform").await;
    let number = tax_number();
    let taken = json!({"Name": "x", "Type": "Agency", "TaxNumber": number});
    operator().post(TENANTS, taken.clone()).await.expect(201);
    assert_refused(
        former.post(TENANTS, json!({"Name": "", "Type": "Agency", "TaxNumber": number})).await,
        INVALID,
    );
    assert_refused(
        operator().post(TENANTS, json!({"Name": "", "Type": "Agency", "TaxNumber": number})).await,
        INVALID,
    );
    assert_refused(former.post(TENANTS, taken.clone()).await, FORBIDDEN);
    assert_refused(operator().post(TENANTS, taken).await, NUMBER_TAKEN);
}

/// RULE-IDN-024: `PUT` of a tenant: 400, actor check, 404, archived, 200 without a change,
/// conflict, tax number.
#[tokio::test]
async fn update_tenant_with_several_faults_reports_the_first() {
    let (taken, operator) = (tax_number(), operator());
    operator.post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": taken})).await.expect(201);
    let stale = |mut body: Value| {
        body["Version"] = json!(99);
        body
    };
    assert_refused(operator.put(&format!("{TENANTS}/{}", guid()), json!({"Name": ""})).await, INVALID);
    assert_refused(
        operator.put(&format!("{TENANTS}/{}", guid()), stale(json!({"Name": "x", "TaxNumber": taken}))).await,
        NO_TENANT,
    );

    let tenant = create_tenant("Agency").await;
    let (path, same) = (tenant.path(""), update_body(&tenant.read().await));
    let before = tenant.read().await;
    assert_eq!(operator.put(&path, stale(same.clone())).await.expect(200), before);
    assert_refused(operator.put(&path, stale(json!({"Name": "x", "TaxNumber": taken}))).await, CONFLICT);
    assert_refused(operator.put(&path, json!({"Name": "x", "TaxNumber": taken})).await, NUMBER_TAKEN);
    assert_eq!(tenant.read().await, before);

    let archived = tenant.transition("archive").await;
    assert_refused(operator.put(&path, same).await, ARCHIVED);
    assert_refused(operator.put(&path, stale(json!({"Name": "x", "TaxNumber": taken}))).await, ARCHIVED);
    assert_eq!(tenant.read().await, archived);
}

/// RULE-IDN-024: transitions of a tenant: 400, actor check, 404, own tenant, invalid transition,
/// conflict.
#[tokio::test]
async fn transition_of_tenant_with_several_faults_reports_the_first() {
    let stale = || json!({"Version": 99});
    let tenant = create_tenant("Platform").await;
    let own = service().caller(&claims_with(Some(tenant.0), &["identity.tenants.manage@platform"]));
    let nowhere = guid();
    let of_nowhere = service().caller(&claims_with(Some(nowhere), &["identity.tenants.manage@platform"]));
    for to in ["suspend", "archive"] {
        let missing = format!("{TENANTS}/{nowhere}/{to}");
        assert_refused(of_nowhere.post(&missing, json!({"Version": "x"})).await, INVALID);
        assert_refused(of_nowhere.post(&missing, stale()).await, NO_TENANT);
        assert_refused(own.post(&tenant.path(&format!("/{to}")), json!({"Reason": ""})).await, INVALID);
        assert_refused(own.post(&tenant.path(&format!("/{to}")), stale()).await, OWN_TENANT);
    }
    assert_refused(own.post(&tenant.path("/activate"), stale()).await, SAME_TENANT_STATUS);
    tenant.transition("suspend").await;
    assert_refused(own.post(&tenant.path("/suspend"), stale()).await, OWN_TENANT);
    assert_refused(operator().post(&tenant.path("/suspend"), stale()).await, SAME_TENANT_STATUS);
    for to in ["activate", "archive"] {
        assert_refused(operator().post(&tenant.path(&format!("/{to}")), stale()).await, CONFLICT);
    }
    own.post(&tenant.path("/activate"), json!({})).await.expect(200);
    tenant.transition("archive").await;
    for to in ["suspend", "activate", "archive"] {
        assert_refused(operator().post(&tenant.path(&format!("/{to}")), stale()).await, ARCHIVED);
    }
    for to in ["suspend", "archive"] {
        assert_refused(own.post(&tenant.path(&format!("/{to}")), json!({})).await, OWN_TENANT);
    }
}

/// RULE-IDN-024: `administrators`: 400, actor check, 404, not active, escalation, employed,
/// address.
#[tokio::test]
async fn create_administrator_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let address = email();
    let employed = operator()
        .post(&tenant.path("/administrators"), json!({"Name": "x", "Email": address}))
        .await
        .expect(201);
    let all_wrong = json!({"UserId": employed["Id"], "Name": "x", "Email": address});
    let path = tenant.path("/administrators");
    // Permissions at organization scope do not cover the administrator role.
    let mut weak = claims_with(Some(tenant.0), &["identity.tenants.manage@platform"]);
    for permission in [
        "agent.cabinet.use",
        "identity.employee-roles.manage",
        "news.posts.create-company",
        "news.posts.manage-own",
    ] {
        weak = weak.permission(permission);
    }
    let weak = service().caller(&weak);
    assert_refused(
        weak.post(&format!("{TENANTS}/{}/administrators", guid()), json!({"UserId": "x"})).await,
        INVALID,
    );
    assert_refused(
        weak.post(&format!("{TENANTS}/{}/administrators", guid()), all_wrong.clone()).await,
        NO_TENANT,
    );
    let escalation = weak.post(&path, all_wrong.clone()).await.expect_problem(ESCALATION.0, ESCALATION.1);
    for missing in [
        "agent.cabinet.use",
        "identity.employee-roles.manage",
        "news.posts.create-company",
        "news.posts.manage-own",
    ] {
        assert!(text(&escalation["detail"]).contains(missing), "{escalation}");
    }
    assert_refused(operator().post(&path, all_wrong.clone()).await, EMPLOYED);
    let elsewhere = create_tenant("Agency").await.employee().await;
    assert_refused(
        operator().post(&path, json!({"UserId": elsewhere, "Name": "x", "Email": address})).await,
        EMPLOYED,
    );
    assert_refused(
        operator().post(&path, json!({"UserId": guid(), "Name": "x", "Email": address.to_uppercase()})).await,
        EMAIL_TAKEN,
    );
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        assert_refused(weak.post(&path, all_wrong.clone()).await, NOT_ACTIVE);
    }
}

/// RULE-IDN-025: `POST` of an employee: 400, actor check, 404 of the company, not active, address.
#[tokio::test]
async fn create_employee_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, address) = (tenant.outside_admin(), email());
    let taken = json!({"Name": "x", "Email": address});
    outside_admin.post(EMPLOYEES, taken.clone()).await.expect(201);
    assert_refused(Tenant(guid()).outside_admin().post(EMPLOYEES, json!({"Name": ""})).await, INVALID);
    assert_refused(Tenant(guid()).outside_admin().post(EMPLOYEES, taken.clone()).await, NO_TENANT);
    let mut elsewhere = crate::claims_of(tenant.admin().await.id).await;
    elsewhere.company_id = Some(guid());
    assert_refused(service().caller(&elsewhere).post(EMPLOYEES, taken.clone()).await, FORBIDDEN);
    assert_refused(outside_admin.post(EMPLOYEES, taken.clone()).await, EMAIL_TAKEN);
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        assert_refused(outside_admin.post(EMPLOYEES, taken.clone()).await, NOT_ACTIVE);
        assert_refused(outside_admin.post(EMPLOYEES, json!({"Name": "x"})).await, INVALID);
    }
}

/// RULE-IDN-025: `PUT` of an employee: 400, actor check, 404, not active, 200 without a change,
/// conflict, address.
#[tokio::test]
async fn update_employee_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, address) = (tenant.outside_admin(), email());
    let taken = json!({"Name": "x", "Email": address, "Version": 99});
    outside_admin.post(EMPLOYEES, taken.clone()).await.expect(201);
    let user = tenant.employee().await;
    let path = employee_path(user);
    let before = outside_admin.get(&path).await.expect(200);
    let same = json!({"Name": before["Name"], "Email": before["Email"], "Version": 99});
    assert_refused(outside_admin.put(&employee_path(guid()), json!({"Name": "x"})).await, INVALID);
    assert_eq!(outside_admin.put(&path, same.clone()).await.expect(200), before);
    assert_refused(outside_admin.put(&path, taken.clone()).await, CONFLICT);
    assert_refused(outside_admin.put(&path, json!({"Name": "x", "Email": address})).await, EMAIL_TAKEN);
    assert_eq!(outside_admin.get(&path).await.expect(200), before);
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        assert_refused(outside_admin.put(&employee_path(guid()), taken.clone()).await, NO_USER);
        assert_refused(outside_admin.put(&path, same.clone()).await, NOT_ACTIVE);
        assert_refused(outside_admin.put(&path, taken.clone()).await, NOT_ACTIVE);
    }
}

/// RULE-IDN-025: transitions and removals of an employee: 404, not active, repeated transition,
/// conflict, last administrator.
#[tokio::test]
async fn transition_of_employee_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let (admin, outside_admin) = (tenant.admin().await, tenant.outside_admin());
    let path = employee_path(admin.id);
    let (suspend, activate) = (format!("{path}/suspend"), format!("{path}/activate"));
    let stale = || json!({"Version": 99});
    assert_refused(outside_admin.post(&suspend, json!({"Version": []})).await, INVALID);
    assert_refused(outside_admin.post(&activate, stale()).await, SAME_EMPLOYEE_STATUS);
    assert_refused(outside_admin.post(&suspend, stale()).await, CONFLICT);
    assert_refused(outside_admin.post(&suspend, json!({"Version": 1})).await, LAST_ADMIN);
    assert_refused(outside_admin.delete(&path).await, LAST_ADMIN);
    let user = tenant.employee().await;
    let suspended =
        outside_admin.post(&format!("{}/suspend", employee_path(user)), json!({})).await.expect(200);
    assert_eq!(suspended["Version"], 2);
    assert_refused(
        outside_admin.post(&format!("{}/suspend", employee_path(user)), stale()).await,
        SAME_EMPLOYEE_STATUS,
    );
    assert_refused(
        outside_admin.post(&format!("{}/activate", employee_path(user)), json!({"Version": 1})).await,
        CONFLICT,
    );
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        for to in ["suspend", "activate"] {
            assert_refused(
                outside_admin.post(&format!("{}/{to}", employee_path(guid())), stale()).await,
                NO_USER,
            );
            assert_refused(outside_admin.post(&format!("{path}/{to}"), stale()).await, NOT_ACTIVE);
        }
        assert_refused(outside_admin.delete(&employee_path(guid())).await, NO_USER);
        assert_refused(outside_admin.delete(&path).await, NOT_ACTIVE);
    }
}

/// RULE-IDN-026: addition of a role: 404 of the user, 404 of the role, not active, 204 if assigned,
/// escalation, not assignable.
#[tokio::test]
async fn add_role_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, user) = (tenant.outside_admin(), tenant.employee().await);
    let weak = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    assert_refused(add_role(&weak, guid(), 99).await, NO_USER);
    assert_refused(add_role(&weak, user, 99).await, NO_ROLE);
    add_role(&outside_admin, user, 7).await.expect(204);
    add_role(&weak, user, 7).await.expect(204);
    for not_for_agencies in [1, 4, 10, 11] {
        assert_refused(add_role(&weak, user, not_for_agencies).await, ESCALATION);
    }
    add_role(&outside_admin, user, 4).await.expect_problem(422, "IDENTITY_ROLE_NOT_ASSIGNABLE");
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        assert_refused(add_role(&weak, guid(), 7).await, NO_USER);
        assert_refused(add_role(&weak, user, 99).await, NO_ROLE);
        for role in [7, 9, 10] {
            assert_refused(add_role(&weak, user, role).await, NOT_ACTIVE);
        }
    }
}

/// RULE-IDN-026: removal of a role: 404 of the user, of the role, of the assignment, not active,
/// last administrator.
#[tokio::test]
async fn remove_role_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Agency").await;
    let (admin, outside_admin) = (tenant.admin().await, tenant.outside_admin());
    assert_refused(remove_role(&outside_admin, guid(), 99).await, NO_USER);
    assert_refused(remove_role(&outside_admin, admin.id, 99).await, NO_ROLE);
    assert_refused(remove_role(&outside_admin, admin.id, 7).await, NOT_ASSIGNED);
    assert_refused(remove_role(&outside_admin, admin.id, 6).await, LAST_ADMIN);
    for inactive in ["suspend", "archive"] {
        tenant.transition(inactive).await;
        assert_refused(remove_role(&outside_admin, guid(), 99).await, NO_USER);
        assert_refused(remove_role(&outside_admin, admin.id, 99).await, NO_ROLE);
        assert_refused(remove_role(&outside_admin, admin.id, 7).await, NOT_ASSIGNED);
        assert_refused(remove_role(&outside_admin, admin.id, 6).await, NOT_ACTIVE);
    }
}

/// RULE-IDN-024: removals by the platform, in a tenant of any status: 404 of the user, of the role,
/// of the assignment, last administrator.
#[tokio::test]
async fn platform_removal_with_several_faults_reports_the_first() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let (admin, operator) = (tenant.admin().await, operator());
    let of = |tenant: Tenant, user: Uuid, below: &str| tenant.path(&format!("/employees/{user}{below}"));
    let roles = |number: u8| format!("/roles/{}", role(number));
    for (tenant, user) in [(tenant, guid()), (other, admin.id), (Tenant(guid()), admin.id)] {
        assert_refused(operator.delete(&of(tenant, user, "")).await, NO_USER);
        assert_refused(operator.delete(&of(tenant, user, &roles(99))).await, NO_USER);
        assert_refused(operator.delete(&of(tenant, user, &roles(6))).await, NO_USER);
    }
    assert_refused(operator.delete(&of(tenant, admin.id, &roles(99))).await, NO_ROLE);
    assert_refused(operator.delete(&of(tenant, admin.id, &roles(7))).await, NOT_ASSIGNED);
    assert_refused(operator.delete(&of(tenant, admin.id, &roles(6))).await, LAST_ADMIN);
    assert_refused(operator.delete(&of(tenant, admin.id, "")).await, LAST_ADMIN);
    tenant.transition("archive").await;
    operator.delete(&of(tenant, admin.id, &roles(6))).await.expect(204);
    assert_refused(operator.delete(&of(tenant, admin.id, &roles(6))).await, NOT_ASSIGNED);
    operator.delete(&of(tenant, admin.id, "")).await.expect(204);
    assert_refused(operator.delete(&of(tenant, admin.id, "")).await, NO_USER);
    // An erased user can be employed elsewhere.
    let body = json!({"UserId": admin.id, "Name": "x", "Email": email()});
    operator.post(&other.path("/administrators"), body).await.expect(201);
}
