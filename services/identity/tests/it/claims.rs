//! Claims for the token issuer.

use serde_json::{Value, json};
use testkit::service::Running;
use uuid::Uuid;

use crate::{add_role, create_tenant, employee_path, guid, operator, remove_role, service};

async fn claims(at: &Running, user: Uuid) -> Value {
    at.machine("issuer").get(&format!("/api/v1/internal/users/{user}/claims")).await.expect(200)
}

/// RULE-IDN-016: claims follow the status of employee and company, and the roles, as committed
/// before the call.
#[tokio::test]
async fn claims_follow_each_committed_change() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let expect_claims = async |company: Option<Uuid>, permissions: &[&str]| {
        let expected = json!({"UserId": bob, "CompanyId": company, "Permissions": permissions});
        assert_eq!(claims(service(), bob).await, expected);
    };
    let (own, base) = (Some(tenant.0), &["news.posts.manage-own"][..]);
    let all = &["crm.deals.manage-own", "news.posts.create-company", "news.posts.manage-own"][..];
    expect_claims(own, base).await;
    add_role(&tenant.outside_admin(), bob, 9).await.expect(204);
    add_role(&tenant.outside_admin(), bob, 3).await.expect(204);
    expect_claims(own, all).await;
    for (to, company, permissions) in [("suspend", None, base), ("activate", own, all)] {
        tenant.transition(to).await;
        expect_claims(company, permissions).await;
    }
    tenant.outside_admin().post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    expect_claims(None, &[]).await;
    tenant.transition("suspend").await;
    expect_claims(None, &[]).await;
    tenant.transition("activate").await;
    tenant.outside_admin().post(&format!("{}/activate", employee_path(bob)), json!({})).await.expect(200);
    remove_role(&tenant.outside_admin(), bob, 3).await.expect(204);
    expect_claims(own, &all[1..]).await;
    tenant.transition("archive").await;
    expect_claims(None, base).await;
    operator().delete(&tenant.path(&format!("/employees/{bob}"))).await.expect(204);
    expect_claims(None, base).await;
}

/// RULE-IDN-016, RULE-ALL-005: any user id has claims. Without an employment they contain the
/// baseline.
#[tokio::test]
async fn user_without_employment_has_the_baseline() {
    for user in [guid(), Uuid::nil()] {
        let expected = json!({"UserId": user, "CompanyId": null, "Permissions": ["news.posts.manage-own"]});
        assert_eq!(claims(service(), user).await, expected);
    }
}

/// RULE-IDN-016: `IDENTITY_BASELINE_PERMISSIONS` sets the baseline, sorted and merged with the
/// roles.
#[tokio::test]
async fn baseline_is_configurable() {
    let settings = [("IDENTITY_BASELINE_PERMISSIONS", "b.own, a.own@platform,Z.own,b.own")];
    let other = Running::start::<identity::Service>(&settings);
    assert_eq!(claims(&other, guid()).await["Permissions"], json!(["Z.own", "a.own@platform", "b.own"]));
}
