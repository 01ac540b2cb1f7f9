//! Machine accounts: creation, changes, revocation and their entries in the audit log.

mod issuer;
mod tokens;

use futures_util::future::join;
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use uuid::Uuid;

use crate::{
    TENANTS, add_role, claims_of, claims_with, count, create_tenant, each, email, guid, list, operator, role,
    service, text,
};

const ACCOUNTS: &str = "/api/identity/machine-accounts";

/// Creates a machine account with the roles of these numbers.
pub(crate) async fn create(by: &Client, roles: &[u8]) -> Uuid {
    text(&post(by, roles).await.expect(201)["Id"]).parse().unwrap()
}

async fn post(by: &Client, roles: &[u8]) -> Response {
    by.post(ACCOUNTS, body("Выгрузка", roles)).await
}

fn body(name: &str, roles: &[u8]) -> Value {
    json!({"Name": name, "RoleIds": roles.iter().map(|number| role(*number)).collect::<Vec<_>>()})
}

fn path(account: Uuid) -> String {
    format!("{ACCOUNTS}/{account}")
}

async fn revoke(by: &Client, account: Uuid) -> Response {
    by.post(&format!("{}/revoke", path(account)), Value::Null).await
}

async fn request_secret(by: &Client, account: Uuid) -> Response {
    by.post(&format!("{}/secret", path(account)), Value::Null).await
}

/// RULE-IDN-059: an account has the name and the roles of its request, sorted and distinct.
#[tokio::test]
async fn created_account_is_read_and_listed() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let created = admin.post(ACCOUNTS, body(" Выгрузка ", &[9, 3, 9])).await;
    let id: Uuid = text(&created.body["Id"]).parse().unwrap();
    assert_eq!(created.header("location"), path(id));
    let created = created.expect(201);
    let expected = json!({
        "Id": id, "CompanyId": tenant.0, "Name": "Выгрузка", "Status": "Active", "RoleIds": [role(3), role(9)],
        "SecretRequestedAt": null, "CreatedAt": created["CreatedAt"], "UpdatedAt": created["CreatedAt"],
        "Version": 1,
    });
    assert_eq!(created, expected);
    assert_eq!(admin.get(&path(id)).await.expect(200), expected);
    assert_eq!(admin.get(ACCOUNTS).await.expect(200)["Items"], json!([expected]));
    assert_eq!(operator().get(&tenant.path(&format!("/machine-accounts/{id}"))).await.expect(200), expected);
}

/// RULE-IDN-059: the lists filter by status, and sort by name or by time.
#[tokio::test]
async fn list_filters_and_sorts() {
    let tenant = create_tenant("Agency").await;
    let admin = tenant.outside_admin();
    let mut ids = Vec::new();
    for name in ["Б", "а"] {
        ids.push(text(&admin.post(ACCOUNTS, body(name, &[])).await.expect(201)["Id"]).to_owned());
    }
    revoke(&admin, ids[0].parse().unwrap()).await.expect(200);
    let listed = async |query: &str| {
        let page = admin.get(&format!("{ACCOUNTS}?{query}")).await.expect(200);
        let outside = operator().get(&tenant.path(&format!("/machine-accounts?{query}"))).await.expect(200);
        assert_eq!(outside, page);
        each(&page["Items"], "Name").into_iter().map(|name| text(name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ["а", "Б"]);
    assert_eq!(listed("Sort=CreatedAt").await, ["Б", "а"]);
    assert_eq!(listed("Statuses=Active").await, ["а"]);
    assert_eq!(listed("Statuses=Revoked,Active&PageSize=1&Page=2").await, ["Б"]);
    admin.get(&format!("{ACCOUNTS}?Statuses=Suspended")).await.expect_problem(400, "VALIDATION_FAILED");
    let empty = operator().get(&format!("{TENANTS}/{}/machine-accounts", guid())).await.expect(200);
    assert_eq!(empty["TotalCount"], 0);
}

/// RULE-IDN-059, RULE-IDN-035: a 400 names each invalid member.
#[tokio::test]
async fn invalid_members_are_rejected() {
    let admin = create_tenant("Agency").await.outside_admin();
    let many = vec![guid(); 21];
    for (body, field, reason) in [
        (json!({"Name": " ", "RoleIds": []}), "/Name", "too_short"),
        (json!({"Name": "x".repeat(257), "RoleIds": []}), "/Name", "too_long"),
        (json!({"Name": "x"}), "/RoleIds", "required"),
        (json!({"Name": "x", "RoleIds": many}), "/RoleIds", "too_many"),
        (json!({"Name": "x", "RoleIds": ["x"]}), "/RoleIds/0", "invalid_type"),
    ] {
        admin.post(ACCOUNTS, body).await.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}

/// INV-IDN-006, INV-IDN-007, INV-IDN-014, RULE-IDN-060: an account gets only roles that its
/// administrator may give, that the company can use and that are not for people only.
#[tokio::test]
async fn role_that_the_account_cannot_have_is_rejected() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[]).await;
    let limited = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    for (by, number, status, code) in [
        (&admin, 99, 404, "IDENTITY_ROLE_NOT_FOUND"),
        (&limited, 3, 403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN"),
        (&admin, 7, 422, "IDENTITY_ROLE_NOT_ASSIGNABLE"),
        (&admin, 1, 422, "IDENTITY_ROLE_NOT_FOR_MACHINES"),
    ] {
        post(by, &[number]).await.expect_problem(status, code);
        by.put(&path(account), body("x", &[number])).await.expect_problem(status, code);
    }
    let entries = tenant.entries().await.into_iter();
    let refusals: Vec<_> = entries.filter(|entry| entry["Action"] == "RoleGrantRefused").collect();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    for (refusal, subject) in refusals.iter().zip([tenant.0, account]) {
        let described = (&refusal["SubjectId"], &refusal["RoleCode"]);
        assert_eq!(described, (&json!(subject), &json!("sales-manager")), "{refusal}");
    }
}

/// INV-IDN-012, INV-IDN-014: an administrator knows the secret of an account, so no account has an
/// administrator role, a role that is kept apart, or one whose decisions depend on the person.
#[tokio::test]
async fn account_of_the_platform_has_no_role_that_needs_people() {
    let tenant = create_tenant("Platform").await;
    let admin = tenant.admin().await;
    for number in [10, 11, 15, 16, 17] {
        post(&admin.client, &[number]).await.expect_problem(422, "IDENTITY_ROLE_NOT_FOR_MACHINES");
    }
    post(&admin.client, &[12, 13, 14]).await.expect(201);
}

/// INV-IDN-013, RULE-IDN-061: a company has at most 20 active accounts. A revocation makes room.
#[tokio::test]
async fn twenty_first_account_is_rejected() {
    let tenant = create_tenant("Agency").await;
    let admin = tenant.outside_admin();
    let mut accounts = Vec::new();
    for _ in 0..19 {
        accounts.push(create(&admin, &[]).await);
    }
    let other = tenant.outside_admin();
    let (one, two) = join(post(&admin, &[]), post(&other, &[])).await;
    let responses = [one, two];
    assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 1));
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "IDENTITY_MACHINE_ACCOUNT_LIMIT");
    }
    revoke(&admin, accounts[0]).await.expect(200);
    create(&admin, &[]).await;
    post(&admin, &[]).await.expect_problem(409, "IDENTITY_MACHINE_ACCOUNT_LIMIT");
}

/// RULE-IDN-060: an update replaces name and roles. An identical body changes nothing, and an old
/// version is rejected.
#[tokio::test]
async fn update_replaces_name_and_roles() {
    let admin = create_tenant("Developer").await.outside_admin();
    let account = create(&admin, &[9]).await;
    let update = async |name: &str, roles: &[u8], version: i64| {
        let mut body = body(name, roles);
        body["Version"] = version.into();
        admin.put(&path(account), body).await
    };
    let same = update("Выгрузка", &[9], 7).await.expect(200);
    assert_eq!(same["Version"], 1);
    let changed = update("Сверка", &[3], 1).await.expect(200);
    assert_eq!(
        (&changed["Name"], &changed["RoleIds"], &changed["Version"]),
        (&json!("Сверка"), &json!([role(3)]), &json!(2))
    );
    update("x", &[], 1).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    assert_eq!(admin.get(&path(account)).await.expect(200), changed);
}

/// RULE-IDN-060: an account keeps a role that its present administrator could not give.
#[tokio::test]
async fn update_checks_only_new_roles() {
    let tenant = create_tenant("Developer").await;
    let account = create(&tenant.outside_admin(), &[9]).await;
    let limited = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    limited.put(&path(account), body("Сверка", &[9])).await.expect(200);
    limited
        .put(&path(account), body("Сверка", &[3, 9]))
        .await
        .expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    let entries = tenant.entries().await;
    let refused: Vec<_> = entries.iter().filter(|entry| entry["Action"] == "RoleGrantRefused").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["RoleCode"], "sales-manager");
}

/// INV-IDN-006: an administrator gets no secret of an account whose permissions they lack.
#[tokio::test]
async fn secret_of_an_account_with_more_permissions_is_rejected() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[3]).await;
    let limited = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    let refused = request_secret(&limited, account).await;
    refused.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    assert_eq!(admin.get(&path(account)).await.expect(200)["SecretRequestedAt"], Value::Null);
    request_secret(&admin, account).await.expect(200);
}

/// RULE-IDN-065, INV-IDN-009: identity itself rejects a token from before a new secret, after the
/// time for which a read trusts a token.
#[tokio::test]
async fn token_from_before_a_new_secret_reads_nothing() {
    let tenant = create_tenant("Platform").await;
    let admin = tenant.admin().await.client;
    let account = create(&admin, &[12]).await;
    let claims = claims_of(account).await;
    let issued = runtime::clock::now().unix_timestamp() - 31;
    let old = service().bearer(&testkit::service::issuer().token_issued_at(&claims, issued).unwrap());
    old.get(&tenant.path("")).await.expect(200);
    request_secret(&admin, account).await.expect(200);
    old.get(&tenant.path("")).await.expect_problem(403, "FORBIDDEN");
    service().caller(&claims).get(&tenant.path("")).await.expect(200);
}

/// RULE-IDN-062: a revoked account stays readable and does not change any more.
#[tokio::test]
async fn revoked_account_cannot_be_changed() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[9]).await;
    let revoked = revoke(&admin, account).await.expect(200);
    assert_eq!((&revoked["Status"], &revoked["Version"]), (&json!("Revoked"), &json!(2)));
    assert_eq!(admin.get(&path(account)).await.expect(200), revoked);
    for response in [
        admin.put(&path(account), body("x", &[])).await,
        revoke(&admin, account).await,
        request_secret(&admin, account).await,
        operator().post(&tenant.path(&format!("/machine-accounts/{account}/revoke")), Value::Null).await,
    ] {
        response.expect_problem(409, "IDENTITY_MACHINE_ACCOUNT_REVOKED");
    }
}

/// RULE-IDN-062: an administrator of the platform revokes an account of a company of any status.
/// The company's own administrators need an Active company.
#[tokio::test]
async fn account_of_an_inactive_company_is_revoked_by_the_platform_only() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[9]).await;
    tenant.transition("archive").await;
    for response in [
        post(&admin, &[]).await,
        admin.put(&path(account), body("x", &[])).await,
        revoke(&admin, account).await,
        request_secret(&admin, account).await,
    ] {
        response.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    }
    let outside = tenant.path(&format!("/machine-accounts/{account}/revoke"));
    assert_eq!(operator().post(&outside, Value::Null).await.expect(200)["Status"], "Revoked");
}

/// RULE-IDN-063: another company's account looks like an unknown one.
#[tokio::test]
async fn account_of_another_company_looks_unknown() {
    let (own, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let foreign = create(&other.outside_admin(), &[]).await;
    let admin = own.outside_admin();
    for account in [foreign, guid()] {
        for response in [
            admin.get(&path(account)).await,
            admin.put(&path(account), body("x", &[])).await,
            revoke(&admin, account).await,
            request_secret(&admin, account).await,
            operator().get(&own.path(&format!("/machine-accounts/{account}"))).await,
            operator().post(&own.path(&format!("/machine-accounts/{account}/revoke")), Value::Null).await,
        ] {
            response.expect_problem(404, "IDENTITY_MACHINE_ACCOUNT_NOT_FOUND");
        }
    }
}

/// RULE-IDN-063: each entry about an account contains the account's name at that time.
#[tokio::test]
async fn audit_entries_name_the_account() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[9]).await;
    admin.put(&path(account), body("Сверка", &[3])).await.expect(200);
    request_secret(&admin, account).await.expect(200);
    revoke(&admin, account).await.expect(200);
    let entries = tenant.entries().await;
    let described: Vec<_> = entries[1..]
        .iter()
        .map(|entry| {
            assert_eq!(entry["SubjectId"], json!(account));
            let members = ["Action", "MachineAccountName", "RoleCode", "From", "To"];
            members.map(|member| entry[member].as_str().unwrap_or("-")).join(" ")
                + if entry["ChangedFields"] == json!(["Name"]) { " Name" } else { "" }
        })
        .collect();
    assert_eq!(
        described,
        [
            "MachineAccountCreated Выгрузка - - Active",
            "RoleAssigned Выгрузка content-editor - -",
            "MachineAccountUpdated Сверка - - - Name",
            "RoleAssigned Сверка sales-manager - -",
            "RoleRemoved Сверка content-editor - -",
            "MachineAccountSecretRequested Сверка - - -",
            "MachineAccountRevoked Сверка - Active Revoked",
        ]
    );
    assert_eq!(entries[0]["MachineAccountName"], Value::Null);
}

/// INV-IDN-004: an account is not a person, so no company employs it, and the roles of employees
/// cannot be added to it.
#[tokio::test]
async fn account_is_not_employed() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, &[9]).await;
    let employ = json!({"UserId": account, "Name": "x", "Email": email()});
    operator()
        .post(&tenant.path("/administrators"), employ)
        .await
        .expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
    add_role(&admin, account, 3).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    assert_eq!(tenant.read().await["EmployeesCount"], 0);
    assert_eq!(list(&admin.get(crate::EMPLOYEES).await.expect(200)["Items"]).len(), 0);
}
