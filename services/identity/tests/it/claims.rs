//! What goes into a token.

use serde_json::{Value, json};
use testkit::service::Running;
use uuid::Uuid;

use crate::{add_role, create_tenant, employee_path, guid, operator, service, take_role};

async fn claims(at: &Running, user: Uuid) -> Value {
    at.machine("issuer").get(&format!("/api/v1/internal/users/{user}/claims")).await.expect(200)
}

/// The employee's and the tenant's status decide; what was committed before the call is in the answer.
#[tokio::test]
async fn claims_are_what_status_and_roles_give_now() {
    let tenant = create_tenant("Developer").await;
    let bob = tenant.employee().await;
    let told = async |company: Option<Uuid>, permissions: &[&str]| {
        let expected = json!({"UserId": bob, "CompanyId": company, "Permissions": permissions});
        assert_eq!(claims(service(), bob).await, expected);
    };
    let (own, base) = (Some(tenant.0), &["news.posts.manage-own"][..]);
    let all = &["crm.deals.manage-own", "news.posts.create-company", "news.posts.manage-own"][..];
    told(own, base).await;
    add_role(&tenant.partner(), bob, 9).await.expect(204);
    add_role(&tenant.partner(), bob, 3).await.expect(204);
    told(own, all).await;
    for (to, company, permissions) in [("suspend", None, base), ("activate", own, all)] {
        tenant.make(to).await;
        told(company, permissions).await;
    }
    tenant.partner().post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    told(None, &[]).await;
    tenant.make("suspend").await;
    told(None, &[]).await;
    tenant.make("activate").await;
    tenant.partner().post(&format!("{}/activate", employee_path(bob)), json!({})).await.expect(200);
    take_role(&tenant.partner(), bob, 3).await.expect(204);
    told(own, &all[1..]).await;
    tenant.make("archive").await;
    told(None, base).await;
    operator().delete(&tenant.path(&format!("/employees/{bob}"))).await.expect(204);
    told(None, base).await;
}

/// Any Guid is answered.
#[tokio::test]
async fn nobodys_employee_has_the_baseline() {
    for nobody in [guid(), Uuid::nil()] {
        let expected = json!({"UserId": nobody, "CompanyId": null, "Permissions": ["news.posts.manage-own"]});
        assert_eq!(claims(service(), nobody).await, expected);
    }
}

/// `IDENTITY_BASELINE_PERMISSIONS`: distinct and sorted by code point, with those of roles.
#[tokio::test]
async fn the_baseline_is_configured() {
    let settings = [("IDENTITY_BASELINE_PERMISSIONS", "b.own, a.own@platform,Z.own,b.own")];
    let other = Running::start::<identity::Service>(&settings);
    assert_eq!(claims(&other, guid()).await["Permissions"], json!(["Z.own", "a.own@platform", "b.own"]));
}
