//! Roles: which there are, who has which, who may give which.

use reqwest::Method;
use serde_json::json;
use testkit::client::send;

use crate::{
    ALL, ROLES, add_role, claims_of, create_tenant, each, guid, holder, list, operator, role, service,
    sign_in, take_role, text,
};

const ROLE_LIST: &str = "/api/identity/roles";

/// The table of roles: ids, codes, types, permissions.
#[tokio::test]
async fn the_roles_are_those_of_the_table() {
    let news = ["news.posts.create-company", "news.posts.manage-own"];
    let admin = "identity.employee-roles.manage";
    let table: [(&str, &[&str], Vec<&str>); 16] = [
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
        ("platform-admin", &["Platform"], ALL.to_vec()),
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
    ];
    let told = operator().get(ROLE_LIST).await.expect(200);
    assert_eq!(list(&told["Items"]).len(), table.len());
    for (at, (told, (code, types, permissions))) in list(&told["Items"]).iter().zip(table).enumerate() {
        assert_eq!(text(&told["Id"]), role(u8::try_from(at + 1).unwrap()).to_string());
        assert_eq!((text(&told["Code"]), &told["AssignableTo"]), (code, &json!(types)));
        assert_eq!(told["Permissions"], json!(permissions), "{code}");
        assert!(permissions.is_sorted());
    }
}

/// Names follow `Accept-Language`.
#[tokio::test]
async fn a_role_is_named_in_the_callers_language() {
    for (language, name) in [("ru", "Редактор материалов"), ("en", "Content editor")] {
        let request = operator().request(Method::GET, ROLE_LIST).header("accept-language", language);
        let told = send(request).await.expect(200);
        assert_eq!(told["Items"][8]["Name"], name);
        let names = each(&told["Items"], "Name");
        assert!(
            names.iter().zip(each(&told["Items"], "Code")).all(|(name, code)| *name != code),
            "{names:?}"
        );
    }
}

/// Administrators of the platform see all, or those of a type; others those of their company's type, whatever they ask.
#[tokio::test]
async fn one_sees_the_roles_for_ones_company() {
    let codes = async |by: &testkit::client::Client, query: &str| -> Vec<String> {
        let told = by.get(&format!("{ROLE_LIST}{query}")).await.expect(200);
        each(&told["Items"], "Code").into_iter().map(|code| text(code).to_owned()).collect()
    };
    let agencys = ["agency-admin", "agent", "content-editor"];
    assert_eq!(codes(&operator(), "?TenantType=Agency").await, agencys);
    let partner = create_tenant("Agency").await.partner();
    assert_eq!(codes(&partner, "").await, agencys);
    assert_eq!(codes(&partner, "?TenantType=Platform").await, agencys);
    let both = ["identity.employee-roles.manage", "identity.tenants.read@platform"];
    let both = service().caller(&holder(Some(guid()), &both));
    assert_eq!(codes(&both, "").await.len(), 16, "who is both administers the platform");
    assert_eq!(codes(&both, "?TenantType=Agency").await, agencys);
    for wrong in ["", "agency", "Agency,Partner"] {
        let answer = operator().get(&format!("{ROLE_LIST}?TenantType={wrong}")).await;
        answer.expect_refusal("VALIDATION_FAILED", "/TenantType", "unknown_value");
    }
}

/// A role is given once, and a repeat is as good; taken once, and a repeat is 404.
#[tokio::test]
async fn a_role_is_given_and_taken() {
    let tenant = create_tenant("Developer").await;
    let (admin, bob) = (tenant.admin().await, tenant.employee().await);
    add_role(&admin.client, bob, 9).await.expect(204);
    let before = tenant.actions().await.len();
    add_role(&admin.client, bob, 9).await.expect(204);
    add_role(&admin.client, bob, 3).await.expect(204);
    let held = admin.client.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
    assert_eq!(each(&held["Items"], "Code"), [&json!("sales-manager"), &json!("content-editor")], "by id");
    let first = &held["Items"][0];
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
    assert_eq!(employee["RoleCodes"], json!(["content-editor", "sales-manager"]), "sorted");
    assert_eq!(employee["Version"], 1, "roles leave the version alone");

    take_role(&admin.client, bob, 9).await.expect(204);
    take_role(&admin.client, bob, 9).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    assert_eq!(tenant.actions().await[before..], ["RoleAssigned", "RoleRemoved"]);
}

/// The order of refusals.
#[tokio::test]
async fn a_refusal_comes_in_its_order() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let few = service().caller(&holder(Some(tenant.0), &["identity.employee-roles.manage"]));
    add_role(&few, guid(), 99).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    add_role(&few, bob, 99).await.expect_problem(404, "IDENTITY_ROLE_NOT_FOUND");
    let refused = add_role(&few, bob, 5).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    for missing in ["crm.deals.manage-own", "crm.pipeline.manage-own", "messenger.chats.manage"] {
        assert!(text(&refused["detail"]).contains(missing), "{refused}");
    }
    // Escalation comes before what the role is for.
    add_role(&few, bob, 7).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&tenant.partner(), bob, 7).await.expect_problem(422, "IDENTITY_ROLE_NOT_ASSIGNABLE");
    add_role(&tenant.partner(), bob, 9).await.expect(204);
    add_role(&few, bob, 9).await.expect(204);
    take_role(&few, guid(), 99).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    take_role(&few, bob, 99).await.expect_problem(404, "IDENTITY_ROLE_NOT_FOUND");
    take_role(&few, bob, 3).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    tenant.make("suspend").await;
    take_role(&few, bob, 3).await.expect_problem(404, "IDENTITY_ROLE_ASSIGNMENT_NOT_FOUND");
    take_role(&few, bob, 9).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    add_role(&few, bob, 9).await.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
    tenant.make("activate").await;
    // Taking a role away needs no cover.
    take_role(&few, bob, 9).await.expect(204);
}

/// Coverage: what is held in organization scope never covers what a role gives at `@platform`; the reverse does.
#[tokio::test]
async fn the_organization_scope_does_not_cover_the_platforms() {
    let tenant = create_tenant("Platform").await;
    let bob = tenant.employee().await;
    let own = service().caller(&holder(
        Some(tenant.0),
        &["identity.employee-roles.manage", "news.posts.manage", "chessboard.developers.manage@platform"],
    ));
    add_role(&own, bob, 14).await.expect_problem(403, "IDENTITY_ROLE_ESCALATION_FORBIDDEN");
    add_role(&own, bob, 13).await.expect(204);
    let developer = create_tenant("Developer").await;
    let wide = service().caller(&holder(
        Some(developer.0),
        &["identity.employee-roles.manage@platform", "chessboard.developers.manage@platform"],
    ));
    add_role(&wide, developer.employee().await, 2).await.expect(204);
}

/// A suspended employee may be given roles, and lose them.
#[tokio::test]
async fn roles_come_and_go_while_one_is_suspended() {
    let tenant = create_tenant("Agency").await;
    let (partner, bob) = (tenant.partner(), tenant.employee().await);
    partner.post(&format!("{}/suspend", crate::employee_path(bob)), json!({})).await.expect(200);
    add_role(&partner, bob, 7).await.expect(204);
    assert_eq!(claims_of(bob).await.permissions, [""; 0]);
    take_role(&partner, bob, 7).await.expect(204);
}

/// One's own roles are for everybody to see, whatever they may do; nobody's employee has none.
#[tokio::test]
async fn everybody_sees_their_own_roles() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.partner(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    let held = me.client.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
    assert_eq!(each(&held["Items"], "Code"), [&json!("agent")]);
    let (stranger, client) = service().user();
    let none = client.get(&format!("{ROLES}/{stranger}/roles")).await.expect(200);
    assert_eq!(none, json!({"Items": []}));
    client.get(&format!("{ROLES}/{bob}/roles")).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-008: no role taken, suspension or removal ends the last administrator of an active tenant; one whose roles do
/// not count is none.
#[tokio::test]
async fn the_last_administrator_stays() {
    let tenant = create_tenant("Developer").await;
    let (partner, first) = (tenant.partner(), tenant.admin().await.id);
    let refused = async || {
        let path = crate::employee_path(first);
        for answer in [
            take_role(&partner, first, 1).await,
            partner.post(&format!("{path}/suspend"), json!({})).await,
            partner.delete(&path).await,
        ] {
            answer.expect_problem(409, "IDENTITY_LAST_ADMIN");
        }
        let stale = partner.post(&format!("{path}/suspend"), json!({"Version": 7})).await;
        stale.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    };
    refused().await;
    add_role(&partner, first, 9).await.expect(204);
    take_role(&partner, first, 9).await.expect(204);
    let second = tenant.admin().await.id;
    partner.post(&format!("{}/suspend", crate::employee_path(second)), json!({})).await.expect(200);
    refused().await;
    // Of the suspended one the role may go: it ends nobody.
    take_role(&partner, second, 1).await.expect(204);
    let third = tenant.admin().await.id;
    take_role(&partner, first, 1).await.expect(204);
    partner.delete(&crate::employee_path(third)).await.expect_problem(409, "IDENTITY_LAST_ADMIN");
}
