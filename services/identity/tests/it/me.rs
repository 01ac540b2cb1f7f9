//! What is kept of the person who asks.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;

use crate::{ROLES, add_role, create_tenant, each, employee_path, list, service, sign_in, take_role};

/// RULE-IDN-015: `me` returns the stored data and the present permissions, regardless of the token.
#[tokio::test]
async fn me_returns_the_stored_data() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.partner(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    let told = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!(
        (&told["UserId"], &told["Name"], &told["Status"]),
        (&json!(bob), &json!("Борис"), &json!("Active"))
    );
    assert!(told["Email"].as_str().is_some_and(|address| address.ends_with("@example.org")));
    let card = json!({"Id": tenant.0, "Name": "Ромашка", "Type": "Agency", "Status": "Active"});
    assert_eq!(told["Company"], card);
    assert_eq!(each(&told["Roles"], "Code"), [&json!("agent")]);
    assert_eq!(told["Permissions"], json!(["agent.cabinet.use", "news.posts.manage-own"]));

    take_role(&tenant.partner(), bob, 7).await.expect(204);
    tenant.make("suspend").await;
    let told = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!((&told["Company"]["Status"], list(&told["Roles"]).len()), (&json!("Suspended"), 0));
    assert_eq!(told["Permissions"], json!(["news.posts.manage-own"]));
}

/// RULE-IDN-015: a suspended employee sees the roles, but has no permissions, not even the
/// baseline.
#[tokio::test]
async fn suspended_employee_sees_roles_without_permissions() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.partner(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    tenant.partner().post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    let told = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!((&told["Status"], &told["Company"]["Id"]), (&json!("Suspended"), &json!(tenant.0)));
    assert_eq!((each(&told["Roles"], "Code"), &told["Permissions"]), (vec![&json!("agent")], &json!([])));
}

/// RULE-IDN-012: the names of the own roles follow `Accept-Language`.
#[tokio::test]
async fn own_roles_are_named_in_the_callers_language() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.partner(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    for (path, member) in
        [("/api/identity/me".to_owned(), "Roles"), (format!("{ROLES}/{bob}/roles"), "Items")]
    {
        for (language, name) in [("ru", "Агент"), ("en", "Agent")] {
            let request = me.client.request(Method::GET, &path).header("accept-language", language);
            let told = send(request).await.expect(200);
            assert_eq!(each(&told[member], "Name"), [&json!(name)], "{path}");
        }
    }
}

/// RULE-IDN-015: a user who is not an employee has the baseline and no other data.
#[tokio::test]
async fn unemployed_user_reads_me_with_the_baseline() {
    let (id, client) = service().user();
    let told = client.get("/api/identity/me").await.expect(200);
    let expected = json!({
        "UserId": id, "Name": Value::Null, "Email": Value::Null, "Status": Value::Null, "Company": Value::Null,
        "Roles": [], "Permissions": ["news.posts.manage-own"],
    });
    assert_eq!(told, expected);
}
