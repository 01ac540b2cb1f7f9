//! Revocations of tokens: `access-revoked` (RULE-IDN-054).

use serde_json::json;
use testkit::bus::Published;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{
    ACCESS_REVOKED, EMPLOYEES, add_role, create_tenant, employee_path, published, remove_role, service, text,
};

/// Returns the revocations of a subject, oldest first.
async fn revocations(subject: Uuid) -> Vec<Published> {
    let events = published(service(), subject).await.into_iter();
    events.filter(|event| event.topic == ACCESS_REVOKED).collect()
}

fn not_before(event: &Published) -> OffsetDateTime {
    OffsetDateTime::parse(text(&event.payload["NotBefore"]), &Rfc3339).unwrap()
}

/// RULE-IDN-054, RULE-EVT-005: only a suspension, a removal and the loss of a role revoke the
/// tokens of an employee.
#[tokio::test]
async fn each_loss_of_rights_revokes_the_tokens_of_the_employee() {
    let tenant = create_tenant("Developer").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    let path = employee_path(bob);
    add_role(&outside_admin, bob, 9).await.expect(204);
    add_role(&outside_admin, bob, 2).await.expect(204);
    outside_admin.put(&path, json!({"Name": "y", "Email": crate::email()})).await.expect(200);
    assert_eq!(revocations(bob).await.len(), 0);

    remove_role(&outside_admin, bob, 9).await.expect(204);
    assert_eq!(revocations(bob).await.len(), 1);
    outside_admin.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    assert_eq!(revocations(bob).await.len(), 2);
    outside_admin.post(&format!("{path}/activate"), json!({})).await.expect(200);
    assert_eq!(revocations(bob).await.len(), 2);
    outside_admin.delete(&path).await.expect(204);
    // The removal publishes one revocation, however many roles it removes.
    let revoked = revocations(bob).await;
    assert_eq!(revoked.len(), 3);
    for event in &revoked {
        let expected =
            json!({"SubjectKind": "User", "SubjectId": bob, "NotBefore": event.payload["NotBefore"]});
        assert_eq!(event.payload, expected);
    }
    assert!(revoked.is_sorted_by(|one, other| not_before(one) < not_before(other)), "{revoked:?}");
    assert_eq!(&*revoked[0].headers["aggregatetype"], "AccessRevocation");
    // Refused changes revoke nothing.
    outside_admin.delete(&path).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    assert_eq!(revocations(bob).await.len(), 3);
}

/// RULE-IDN-054: suspension and archiving of a company revoke the tokens that name it. Neither
/// revokes the tokens of its employees by their ids.
#[tokio::test]
async fn inactive_company_revokes_the_tokens_that_name_it() {
    let tenant = create_tenant("Agency").await;
    let admin = tenant.admin().await;
    tenant.transition("suspend").await;
    tenant.transition("activate").await;
    assert_eq!(revocations(tenant.0).await.len(), 1);
    tenant.transition("archive").await;
    let revoked = revocations(tenant.0).await;
    assert_eq!(revoked.len(), 2);
    for event in &revoked {
        let kind = &event.payload["SubjectKind"];
        assert_eq!((kind, &event.payload["SubjectId"]), (&json!("Company"), &json!(tenant.0)));
    }
    assert_eq!(revocations(admin.id).await.len(), 0);
}

/// RULE-IDN-054: the time of a revocation never decreases, even if the clock of the database goes
/// back.
#[tokio::test]
async fn time_of_a_revocation_never_decreases() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    add_role(&outside_admin, bob, 7).await.expect(204);
    remove_role(&outside_admin, bob, 7).await.expect(204);
    let sql = service().sql().await;
    let ahead =
        "update access_revocation set not_before = now() + interval '2 minutes' where subject_id::text = $1";
    sql.execute(ahead, &[&bob.to_string()]).await.unwrap();
    add_role(&outside_admin, bob, 7).await.expect(204);
    remove_role(&outside_admin, bob, 7).await.expect(204);
    let revoked = revocations(bob).await;
    assert!(not_before(&revoked[1]) - not_before(&revoked[0]) > time::Duration::MINUTE, "{revoked:?}");
}

/// RULE-IDN-054: a revocation is committed with its loss or not at all.
#[tokio::test]
async fn refused_loss_revokes_nothing() {
    let tenant = create_tenant("Agency").await;
    let admin = tenant.admin().await;
    for response in [
        remove_role(&tenant.outside_admin(), admin.id, 6).await,
        tenant.outside_admin().delete(&employee_path(admin.id)).await,
    ] {
        response.expect_problem(409, "IDENTITY_LAST_ADMIN");
    }
    assert_eq!(revocations(admin.id).await.len(), 0);
    admin.client.get(EMPLOYEES).await.expect(200);
}
