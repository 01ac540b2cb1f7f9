//! Roles and their assignments.

use reqwest::Method;
use serde_json::json;
use testkit::client::send;

use crate::{
    ADMIN_PERMISSIONS, ROLES, add_role, claims_of, claims_with, create_tenant, each, guid, list, operator,
    remove_role, role, service, sign_in, text,
};

const ROLE_LIST: &str = "/api/identity/roles";

/// RULE-IDN-012: ids, codes, types and permissions of the roles equal the table of the
/// specification.
#[tokio::test]
async fn roles_equal_the_table() {
    let news = ["news.posts.create-company", "news.posts.manage-own"];
    let admin = "identity.employee-roles.manage";
    let table: [(&str, &[&str], Vec<&str>); 17] = [
        (
            "developer-admin",
            &["Developer"],
            vec![
                "chessboard.developers.manage",
                "crm.deals.manage-own",
                "crm.deals.read-own",
                "crm.pipeline.manage-own",
                admin,
                "messenger.chats.manage",
                "messenger.conferences.moderate",
                news[0],
                news[1],
            ],
        ),
        ("developer-manager", &["Developer"], vec!["chessboard.developers.manage"]),
        ("sales-manager", &["Developer"], vec!["crm.deals.manage-own"]),
        ("sales-observer", &["Developer"], vec!["crm.deals.read-own"]),
        (
            "sales-head",
            &["Developer"],
            vec![
                "crm.deals.manage-own",
                "crm.pipeline.manage-own",
                "messenger.chats.manage",
                "messenger.conferences.moderate",
            ],
        ),
        ("agency-admin", &["Agency"], vec!["agent.cabinet.use", admin, news[0], news[1]]),
        ("agent", &["Agency"], vec!["agent.cabinet.use"]),
        ("partner-admin", &["Partner"], vec![admin, news[0], news[1]]),
        ("content-editor", &["Developer", "Agency", "Partner"], news.to_vec()),
        ("platform-admin", &["Platform"], ADMIN_PERMISSIONS.to_vec()),
        (
            "deal-arbiter",
            &["Platform"],
            vec![
                "crm.deals.manage@platform",
                "messenger.chats.manage@platform",
                "messenger.conferences.moderate@platform",
            ],
        ),
        ("care-service", &["Platform"], vec!["crm.deals.care@platform", "identity.tenants.read@platform"]),
        ("catalog-manager", &["Platform"], vec!["chessboard.developers.manage@platform"]),
        ("news-moderator", &["Platform"], vec!["news.posts.manage@platform"]),
        ("commission-manager", &["Platform"], vec!["agent.commissions.manage@platform"]),
        ("payout-manager", &["Platform"], vec!["agent.payouts.manage@platform"]),
        ("chat-moderator", &["Platform"], vec!["messenger.direct-chats.moderate@platform"]),
    ];
    let response = operator().get(ROLE_LIST).await.expect(200);
    assert_eq!(list(&response["Items"]).len(), table.len());
    for (at, (response, (code, types, permissions))) in list(&response["Items"]).iter().zip(table).enumerate()
    {
        assert_eq!(text(&response["Id"]), role(u8::try_from(at + 1).unwrap()).to_string());
        assert_eq!((text(&response["Code"]), &response["AssignableTo"]), (code, &json!(types)));
        assert_eq!(response["Permissions"], json!(permissions), "{code}");
        assert!(permissions.is_sorted());
    }
}

/// RULE-IDN-012: names of roles follow `Accept-Language`.
#[tokio::test]
async fn role_name_follows_accept_language() {
    for (language, name) in [("ru", "Редактор материалов"), ("en", "Content editor")] {
        let request = operator().request(Method::GET, ROLE_LIST).header("accept-language", language);
        let response = send(request).await.expect(200);
        assert_eq!(response["Items"][8]["Name"], name);
        let names = each(&response["Items"], "Name");
        assert!(
            names.iter().zip(each(&response["Items"], "Code")).all(|(name, code)| *name != code),
            "{names:?}"
        );
    }
}

/// RULE-IDN-012: administrators of the platform list all roles or the roles of a type.
/// Administrators of a company list the roles for its type.
#[tokio::test]
async fn role_list_contains_only_roles_for_the_type_of_the_company() {
    let codes = async |by: &testkit::client::Client, query: &str| -> Vec<String> {
        let response = by.get(&format!("{ROLE_LIST}{query}")).await.expect(200);
        each(&response["Items"], "Code").into_iter().map(|code| text(code).to_owned()).collect()
    };
    let agency_roles = ["agency-admin", "agent", "content-editor"];
    assert_eq!(codes(&operator(), "?TenantType=Agency").await, agency_roles);
    let outside_admin = create_tenant("Agency").await.outside_admin();
    assert_eq!(codes(&outside_admin, "").await, agency_roles);
    assert_eq!(codes(&outside_admin, "?TenantType=Platform").await, agency_roles);
    let both = ["identity.employee-roles.manage", "identity.tenants.read@platform"];
    let both = service().caller(&claims_with(Some(guid()), &both));
    assert_eq!(codes(&both, "").await.len(), 17, "a caller with both permissions lists all roles");
    assert_eq!(codes(&both, "?TenantType=Agency").await, agency_roles);
    for wrong in ["", "agency", "Agency,Partner"] {
        let response = operator().get(&format!("{ROLE_LIST}?TenantType={wrong}")).await;
        response.expect_refusal("VALIDATION_FAILED", "/TenantType", "unknown_value");
    }
}

/// RULE-IDN-013, RULE-IDN-041: a repeated add returns 204, and a repeated removal 404.
#[tokio::test]
async fn role_is_added_and_removed_once() {
    let tenant = create_tenant("Developer").await;
    let (admin, bob) = (tenant.admin().await, tenant.employee().await);
    add_role(&admin.client, bob, 9).await.expect(204);
    let before = tenant.actions().await.len();
    add_role(&admin.client, bob, 9).await.expect(204);
    add_role(&admin.client, bob, 3).await.expect(204);
    let assigned = admin.client.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
    assert_eq!(
        each(&assigned["Items"], "Code"),
        [&json!("sales-manager"), &json!("content-editor")],
        "sorted by id"
    );
    let first = &assigned["Items"][0];
    assert_eq!(text(&first["AssignedByUserId"]), admin.id.to_string());
    assert_eq!(
        (text(&first["Id"]), &first["Permissions"]),
        (&*role(3).to_string(), &json!(["crm.deals.manage-own"]))
    );
    assert!(
        text(&first["AssignedAt"]).ends_with('Z')
            && first["Name"].is_string()
            && first["AssignableTo"].is_array()
    );
    let employee = admin.client.get(&crate::employee_path(bob)).await.expect(200);
    assert_eq!(employee["RoleCodes"], json!(["content-editor", "sales-manager"]), "sorted by code");
    assert_eq!(employee["Version"], 1, "roles do not change the version");

    remove_role(&admin.client, bob, 9).await.expect(204);
    remove_role(&admin.client, bob, 9).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    assert_eq!(tenant.actions().await[before..], ["RoleAssigned", "RoleRemoved"]);
}

/// INV-IDN-006, INV-IDN-007, RULE-IDN-013, RULE-IDN-040, RULE-IDN-052: of several faults, an
/// assignment reports the one that the specification lists first.
#[tokio::test]
async fn role_assignment_with_several_faults_reports_the_first() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let limited = service().caller(&claims_with(Some(tenant.0), &["identity.employee-roles.manage"]));
    add_role(&limited, guid(), 99).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    add_role(&limited, bob, 99).await.expect_problem(404, "IDENTITY_ROLE_NOT_FOUND");
    let refused = add_role(&limited, bob, 5).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    for missing in ["crm.deals.manage-own", "crm.pipeline.manage-own", "messenger.chats.manage"] {
        assert!(text(&refused["detail"]).contains(missing), "{refused}");
    }
    // The escalation check precedes the check of the company's type.
    add_role(&limited, bob, 7).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&tenant.outside_admin(), bob, 7).await.expect_problem(422, "IDENTITY_ROLE_NOT_ASSIGNABLE");
    add_role(&tenant.outside_admin(), bob, 9).await.expect(204);
    add_role(&limited, bob, 9).await.expect(204);
    remove_role(&limited, guid(), 99).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    remove_role(&limited, bob, 99).await.expect_problem(404, "IDENTITY_ROLE_NOT_FOUND");
    remove_role(&limited, bob, 3).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    tenant.transition("suspend").await;
    remove_role(&limited, bob, 3).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    remove_role(&limited, bob, 9).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    add_role(&limited, bob, 9).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    tenant.transition("activate").await;
    // The removal of a role does not require the permissions of the role.
    remove_role(&limited, bob, 9).await.expect(204);
}

/// RULE-IDN-021, RULE-ALL-050: `P` never covers `P@platform`, and `P@platform` covers `P`.
#[tokio::test]
async fn organization_scope_does_not_cover_platform_scope() {
    let tenant = create_tenant("Platform").await;
    let bob = tenant.employee().await;
    let own = service().caller(&claims_with(
        Some(tenant.0),
        &["identity.employee-roles.manage", "news.posts.manage", "chessboard.developers.manage@platform"],
    ));
    add_role(&own, bob, 14).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&own, bob, 13).await.expect(204);
    let developer = create_tenant("Developer").await;
    let wide = service().caller(&claims_with(
        Some(developer.0),
        &["identity.employee-roles.manage@platform", "chessboard.developers.manage@platform"],
    ));
    add_role(&wide, developer.employee().await, 2).await.expect(204);
}

/// RULE-IDN-013: roles can be added to a suspended employee, and removed.
#[tokio::test]
async fn suspended_employee_can_gain_and_lose_roles() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    outside_admin.post(&format!("{}/suspend", crate::employee_path(bob)), json!({})).await.expect(200);
    add_role(&outside_admin, bob, 7).await.expect(204);
    assert_eq!(claims_of(bob).await.permissions, [""; 0]);
    remove_role(&outside_admin, bob, 7).await.expect(204);
}

/// RULE-IDN-013: every user reads their own roles, which are an empty list without an employment.
#[tokio::test]
async fn every_user_reads_their_own_roles() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    let assigned = me.client.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
    assert_eq!(each(&assigned["Items"], "Code"), [&json!("agent")]);
    let (stranger, client) = service().user();
    let none = client.get(&format!("{ROLES}/{stranger}/roles")).await.expect(200);
    assert_eq!(none, json!({"Items": []}));
    client.get(&format!("{ROLES}/{bob}/roles")).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-008, RULE-IDN-050: an active tenant keeps its last administrator. A role removal, a
/// suspension and a removal return 409.
#[tokio::test]
async fn active_tenant_keeps_its_last_administrator() {
    let tenant = create_tenant("Developer").await;
    let (outside_admin, first) = (tenant.outside_admin(), tenant.admin().await.id);
    let refused = async || {
        let path = crate::employee_path(first);
        for response in [
            remove_role(&outside_admin, first, 1).await,
            outside_admin.post(&format!("{path}/suspend"), json!({})).await,
            outside_admin.delete(&path).await,
        ] {
            response.expect_problem(409, "IDENTITY_LAST_ADMIN");
        }
        let stale = outside_admin.post(&format!("{path}/suspend"), json!({"Version": 7})).await;
        stale.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    };
    refused().await;
    add_role(&outside_admin, first, 9).await.expect(204);
    remove_role(&outside_admin, first, 9).await.expect(204);
    let second = tenant.admin().await.id;
    outside_admin.post(&format!("{}/suspend", crate::employee_path(second)), json!({})).await.expect(200);
    refused().await;
    // A suspended employee is not an administrator, so the role can be removed.
    remove_role(&outside_admin, second, 1).await.expect(204);
    let third = tenant.admin().await.id;
    remove_role(&outside_admin, first, 1).await.expect(204);
    outside_admin.delete(&crate::employee_path(third)).await.expect_problem(409, "IDENTITY_LAST_ADMIN");
}
