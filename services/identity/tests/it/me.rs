//! The caller's own data.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;

use crate::{ROLES, add_role, create_tenant, each, employee_path, list, remove_role, service, sign_in};

/// RULE-IDN-015: `me` returns the stored data and the current permissions, regardless of the token.
#[tokio::test]
async fn me_returns_the_stored_data() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    let response = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!(
        (&response["UserId"], &response["Name"], &response["Status"]),
        (&json!(bob), &json!("Борис"), &json!("Active"))
    );
    assert!(response["Email"].as_str().is_some_and(|address| address.ends_with("@example.org")));
    let reference = json!({"Id": tenant.0, "Name": "Ромашка", "Type": "Agency", "Status": "Active"});
    assert_eq!(response["Company"], reference);
    assert_eq!(each(&response["Roles"], "Code"), [&json!("agent")]);
    assert_eq!(response["Permissions"], json!(["agent.cabinet.use", "news.posts.manage-own"]));

    remove_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    tenant.transition("suspend").await;
    let response = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!((&response["Company"]["Status"], list(&response["Roles"]).len()), (&json!("Suspended"), 0));
    assert_eq!(response["Permissions"], json!(["news.posts.manage-own"]));
}

/// RULE-IDN-015: a suspended employee reads their roles, but has no permissions, not even the
/// baseline.
#[tokio::test]
async fn suspended_employee_sees_roles_without_permissions() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    tenant.outside_admin().post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    let response = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!((&response["Status"], &response["Company"]["Id"]), (&json!("Suspended"), &json!(tenant.0)));
    assert_eq!(
        (each(&response["Roles"], "Code"), &response["Permissions"]),
        (vec![&json!("agent")], &json!([]))
    );
}

/// RULE-IDN-012: the names of the caller's roles follow `Accept-Language`.
#[tokio::test]
async fn own_roles_are_named_in_the_callers_language() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    for (path, member) in
        [("/api/identity/me".to_owned(), "Roles"), (format!("{ROLES}/{bob}/roles"), "Items")]
    {
        for (language, name) in [("ru", "Агент"), ("en", "Agent")] {
            let request = me.client.request(Method::GET, &path).header("accept-language", language);
            let response = send(request).await.expect(200);
            assert_eq!(each(&response[member], "Name"), [&json!(name)], "{path}");
        }
    }
}

/// RULE-IDN-015: a user who is not an employee has the baseline and no other data.
#[tokio::test]
async fn user_without_employment_reads_the_baseline() {
    let (id, client) = service().user();
    let response = client.get("/api/identity/me").await.expect(200);
    let expected = json!({
        "UserId": id, "Name": Value::Null, "Email": Value::Null, "Status": Value::Null, "Company": Value::Null,
        "Roles": [], "Permissions": ["news.posts.manage-own"],
    });
    assert_eq!(response, expected);
}
