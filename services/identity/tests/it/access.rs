//! Every operation with every kind of caller.

use serde_json::{Value, json};
use testkit::access::losses::Loss;
use testkit::access::{self, Case, losses, repeats};
use testkit::client::Client;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    ADMIN_PERMISSIONS, EMPLOYEES, TENANTS, Tenant, claims_with, create_tenant, email, employee_path, guid,
    role, service,
};

/// Status of each operation for each caller.
///
/// Organization scope grants nothing on the platform routes. On the routes of a company's
/// administrators, platform scope covers the caller's own company only.
///
/// `elsewhere` is an administrator of another company. `organization` has the right permissions
/// with a scope or a company that does not suffice. `colleague` has no permission.
const TABLE: &str = "
    operation                     | manager | reader | company admin | elsewhere | organization | colleague | guest | forged | news | crm | issuer | other machines
    search_tenants                |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    lookup_tenants                |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    look_up_tenant                |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_tenant                    |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    create_tenant                 |   201   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    update_tenant                 |   200   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    suspend_tenant                |   200   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    activate_tenant               |   200   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    archive_tenant                |   200   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_tenant_employees         |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_tenant_employee           |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    create_administrator          |   201   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    remove_tenant_employee        |   204   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    remove_tenant_employee_role   |   204   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_employees                |   403   |  403   |      200      |    200    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    create_employee               |   403   |  403   |      201      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_employee                  |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    update_employee               |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    suspend_employee              |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    activate_employee             |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    remove_employee               |   403   |  403   |      204      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_roles                    |   200   |  200   |      200      |    200    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_employee_roles           |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    add_role_to_employee          |   403   |  403   |      204      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    remove_role_from_employee     |   403   |  403   |      204      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_tenant_machine_accounts  |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_tenant_machine_account    |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    revoke_tenant_machine_account |   200   |  403   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_machine_accounts         |   403   |  403   |      200      |    200    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    create_machine_account        |   403   |  403   |      201      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_machine_account           |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    update_machine_account        |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    create_machine_account_secret |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    revoke_machine_account        |   403   |  403   |      200      |    404    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_audit                    |   200   |  200   |      403      |    403    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    list_company_audit            |   403   |  403   |      200      |    200    |     403      |    403    |  401  |  401   | 401  | 401 |  401   |  401
    get_me                        |   200   |  200   |      200      |    200    |     200      |    200    |  401  |  401   | 401  | 401 |  401   |  401
    get_claims                    |   401   |  401   |      401      |    401    |     401      |    401    |  401  |  401   | 403  | 403 |  200   |  403
";

/// Prepares a developer with an administrator and a content editor, and the request of `operation`.
async fn prepare(operation: &str) -> Case {
    let tenant = create_tenant("Developer").await;
    let (admin, bob, colleague) = (tenant.admin().await, tenant.employee().await, tenant.employee().await);
    let granted = if operation == "add_role_to_employee" { 2 } else { 9 };
    crate::add_role(&tenant.outside_admin(), bob, 9).await.expect(204);
    let account = crate::machine_accounts::create(&tenant.outside_admin(), &[9]).await;
    match operation {
        "activate_tenant" => drop(tenant.transition("suspend").await),
        "activate_employee" => {
            let path = format!("{}/suspend", employee_path(bob));
            tenant.outside_admin().post(&path, json!({})).await.expect(200);
        }
        _ => {}
    }
    let company = Some(tenant.0);
    let own = ADMIN_PERMISSIONS.map(|permission| permission.trim_end_matches("@platform"));
    let permissions = ["identity.employee-roles.manage", "identity.employee-roles.manage@platform"];
    let admin_claims = crate::claims_of(admin.id).await;
    Case {
        parameters: vec![
            ("tenant_id", tenant.0.to_string()),
            ("user_id", bob.to_string()),
            ("role_id", role(granted).to_string()),
            ("account_id", account.to_string()),
        ],
        body: match operation {
            "create_tenant" => json!({"Name": "Лютик", "Type": "Agency"}),
            "update_tenant" => json!({"Name": "Лютик"}),
            "create_machine_account" | "update_machine_account" => {
                json!({"Name": "Выгрузка", "RoleIds": [role(9)]})
            }
            "create_administrator" | "create_employee" | "update_employee" => {
                json!({"Name": "Вера", "Email": email()})
            }
            _ => Value::Null,
        },
        people: vec![
            ("manager", vec![claims_with(None, &ADMIN_PERMISSIONS)]),
            ("reader", vec![claims_with(None, &["identity.tenants.read@platform"])]),
            (
                "company admin",
                vec![
                    claims_with(company, &own),
                    Claims { company_id: company, ..claims_with(None, &ADMIN_PERMISSIONS[..]) },
                    admin_claims,
                ]
                .into_iter()
                // Administrators of the platform have columns of their own.
                .map(without_tenants)
                .collect(),
            ),
            ("elsewhere", permissions.map(|permission| claims_with(Some(guid()), &[permission])).to_vec()),
            (
                "organization",
                vec![
                    claims_with(company, &["identity.tenants.read", "identity.tenants.manage@organization"]),
                    // A token without a company has no permission of a company's administrator.
                    claims_with(None, &permissions),
                    claims_with(
                        company,
                        &["identity.employee-roles.manage@elsewhere", "identity.employee-roles"],
                    ),
                ],
            ),
            (
                "colleague",
                vec![crate::claims_of(colleague).await, claims_with(company, &[]), Claims::user(guid())],
            ),
        ],
    }
}

fn without_tenants(mut claims: Claims) -> Claims {
    claims.permissions.retain(|permission| !permission.starts_with("identity.tenants."));
    claims
}

/// RULE-IDN-017, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073,
/// RULE-ALL-111: each operation returns the statuses of `TABLE`, and refuses each kind of invalid
/// token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check(service(), TABLE, prepare).await;
}

/// Operations that return another status than 403 after a loss of rights.
const AFTER_LOSS: &str = "
    operation | suspended | removed | role lost | company suspended
    get_me    |    200    |   200   |    200    |        200
";

/// Prepares the request of `operation` for an administrator of the platform and one of the company,
/// who are employees and not the last administrators.
async fn prepare_employed(operation: &str) -> Case {
    let mut case = prepare(operation).await;
    let company = case.parameters[0].1.parse().unwrap();
    let (platform, tenant) = (create_tenant("Platform").await, Tenant(company));
    let (_remaining, manager) = (platform.admin().await, platform.admin().await);
    let company_admin = if operation == "activate_tenant" {
        // The company is suspended, so no administrator can join it.
        None
    } else {
        let (_remaining, admin) = (tenant.admin().await, tenant.admin().await);
        Some(admin.id)
    };
    for (column, people) in &mut case.people {
        match (*column, company_admin) {
            ("manager", _) => *people = vec![crate::claims_of(manager.id).await],
            ("company admin", Some(company_admin)) => *people = vec![crate::claims_of(company_admin).await],
            _ => {}
        }
    }
    case
}

/// Takes rights away from an administrator.
async fn take_rights_away(loss: Loss, of: &Claims) {
    let (tenant, user) = (Tenant(of.company_id.unwrap()), of.sub.parse().unwrap());
    let (outside_admin, path) = (tenant.outside_admin(), employee_path(user));
    let is_of_platform = of.permissions.iter().any(|held| held == "identity.tenants.manage@platform");
    match loss {
        Loss::Suspended => drop(outside_admin.post(&format!("{path}/suspend"), json!({})).await.expect(200)),
        Loss::Removed => drop(outside_admin.delete(&path).await.expect(204)),
        Loss::RoleLost => {
            let role = if is_of_platform { 10 } else { 1 };
            crate::remove_role(&outside_admin, user, role).await.expect(204);
        }
        Loss::CompanySuspended => drop(tenant.transition("suspend").await),
    }
}

/// INV-IDN-009, RULE-IDN-055, RULE-IDN-056, RULE-ALL-077: after each loss of rights, operations
/// refuse both the old token and a fresh one.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    // Reads trust tokens of up to 30 seconds.
    let age_seconds = 31;
    losses::check_at_source(service(), TABLE, AFTER_LOSS, age_seconds, prepare_employed, take_rights_away)
        .await;
}

/// RULE-IDN-017, RULE-ALL-030: 403 precedes 400, and 400 precedes 404.
#[tokio::test]
async fn permission_precedes_the_body_and_the_body_precedes_the_tenant() {
    let unprivileged = service().caller(&claims_with(Some(guid()), &[]));
    unprivileged.post(TENANTS, json!("x")).await.expect_problem(403, "FORBIDDEN");
    unprivileged.post(EMPLOYEES, json!("x")).await.expect_problem(403, "FORBIDDEN");
    let missing = format!("{TENANTS}/{}", guid());
    crate::operator().put(&missing, json!({"Name": ""})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Name",
        "too_short",
    );
    crate::operator()
        .put(&missing, json!({"Name": "x"}))
        .await
        .expect_problem(404, "IDENTITY_TENANT_NOT_FOUND");
}

/// RULE-IDN-017, RULE-IDN-039: another company's employee and an unknown user have the same
/// problems.
#[tokio::test]
async fn foreign_employee_returns_the_same_problems_as_an_unknown_one() {
    let (own, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let (foreign, unknown) = (other.employee().await, guid());
    let outside_admin = own.outside_admin();
    let call_all = async |user: Uuid| problems_of(&outside_admin, user).await;
    let without_ids = |problems: Vec<Value>, user: Uuid| -> Vec<String> {
        problems
            .into_iter()
            .map(|problem| {
                crate::with(problem, "traceId", Value::Null).to_string().replace(&user.to_string(), "-")
            })
            .collect()
    };
    assert_eq!(without_ids(call_all(foreign).await, foreign), without_ids(call_all(unknown).await, unknown));
}

async fn problems_of(outside_admin: &Client, user: Uuid) -> Vec<Value> {
    let path = employee_path(user);
    let body = json!({"Name": "x", "Email": email()});
    let mut problems = Vec::new();
    for response in [
        outside_admin.get(&path).await,
        outside_admin.put(&path, body).await,
        outside_admin.post(&format!("{path}/suspend"), json!({})).await,
        outside_admin.delete(&path).await,
        outside_admin.get(&format!("{}/{user}/roles", crate::ROLES)).await,
        crate::add_role(outside_admin, user, 7).await,
        crate::remove_role(outside_admin, user, 7).await,
    ] {
        problems.push(response.expect_problem(404, "IDENTITY_USER_NOT_FOUND"));
    }
    problems
}

/// RULE-ALL-081, RULE-ALL-082, RULE-ALL-095: each operation that creates accepts `Idempotency-Key`.
/// A repeat returns the first response, and another body is refused. Each response has `Location`.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    assert_eq!(repeats::check(service(), TABLE, prepare).await, [""; 0], "operations without `Location`");
}
