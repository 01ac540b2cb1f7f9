//! What is kept of the person who asks.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;

use crate::{ROLES, add_role, create_tenant, each, employee_path, list, service, sign_in, take_role};

/// `me`: what is kept now, whatever the token says; permissions as a token would have them now.
#[tokio::test]
async fn me_is_what_is_kept_now() {
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

/// Whoever is suspended sees what they were given, and that it gives nothing, the baseline neither.
#[tokio::test]
async fn a_suspended_employee_holds_nothing() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    add_role(&tenant.partner(), bob, 7).await.expect(204);
    let me = sign_in(bob).await;
    tenant.partner().post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    let told = me.client.get("/api/identity/me").await.expect(200);
    assert_eq!((&told["Status"], &told["Company"]["Id"]), (&json!("Suspended"), &json!(tenant.0)));
    assert_eq!((each(&told["Roles"], "Code"), &told["Permissions"]), (vec![&json!("agent")], &json!([])));
}

/// The names of one's roles follow `Accept-Language`.
#[tokio::test]
async fn ones_roles_are_named_in_ones_language() {
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

#[tokio::test]
async fn nobodys_employee_is_somebody_all_the_same() {
    let (id, client) = service().user();
    let told = client.get("/api/identity/me").await.expect(200);
    let expected = json!({
        "UserId": id, "Name": Value::Null, "Email": Value::Null, "Status": Value::Null, "Company": Value::Null,
        "Roles": [], "Permissions": ["news.posts.manage-own"],
    });
    assert_eq!(told, expected);
}
