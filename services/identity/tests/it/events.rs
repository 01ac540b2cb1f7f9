//! Events of companies and employments, and their order.

use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::service::Running;
use uuid::Uuid;

use crate::{
    ACCESS_REVOKED, EMPLOYEES, ROLE_ASSIGNED, ROLE_REMOVED, STATUS_CHANGED, SUSPENDED, TENANTS, UPSERTED,
    add_role, create_tenant, email, employee_path, guid, operator, published, role, service, tax_number,
    text, topics,
};

/// Returns the events of a key in the order of their sequence, which has no duplicates.
async fn events_of(key: Uuid) -> Vec<Published> {
    let events = published(service(), key).await;
    assert!(events.is_sorted_by(|one, other| one.sequence() < other.sequence()), "{events:?}");
    events
}

/// RULE-IDN-019, RULE-EVT-002, RULE-EVT-003, RULE-EVT-022, RULE-ALL-058: each version has one
/// `company-upserted`, and a suspension one `company-suspended` after it.
#[tokio::test]
async fn each_company_version_is_published_once() {
    let body = json!({"Name": "x", "LegalName": "y", "Type": "Developer", "TaxNumber": tax_number()});
    let created = operator().post(TENANTS, body.clone()).await.expect(201);
    let id: Uuid = text(&created["Id"]).parse().unwrap();
    let tenant = crate::Tenant(id);
    operator().put(&tenant.path(""), body.clone()).await.expect(200);
    let suspended = operator().post(&tenant.path("/suspend"), json!({"Reason": "debts"})).await.expect(200);
    operator().put(&tenant.path(""), crate::with(body, "Name", "z")).await.expect(200);
    tenant.transition("activate").await;
    tenant.transition("suspend").await;
    tenant.transition("archive").await;
    let events = events_of(id).await;
    assert_eq!(
        topics(&events),
        [
            UPSERTED,
            UPSERTED,
            SUSPENDED,
            ACCESS_REVOKED,
            UPSERTED,
            UPSERTED,
            UPSERTED,
            SUSPENDED,
            ACCESS_REVOKED,
            UPSERTED,
            ACCESS_REVOKED
        ]
    );
    assert_eq!(
        events[0].payload,
        json!({"CompanyId": id, "Type": "Developer", "Status": "Active", "Name": "x", "LegalName": "y", "Version": 1})
    );
    assert_eq!(
        events[2].payload,
        json!({
            "CompanyId": id, "Type": "Developer", "Status": "Suspended", "Name": "x", "LegalName": "y", "Version": 2,
            "SuspendedAt": suspended["SuspendedAt"], "Reason": "debts",
        })
    );
    assert_eq!(events[7].payload["Reason"], Value::Null);
    let upserted = |member: &str| -> Vec<Value> {
        events
            .iter()
            .filter(|event| event.topic == UPSERTED)
            .map(|event| event.payload[member].clone())
            .collect()
    };
    assert_eq!(upserted("Version"), [1, 2, 3, 4, 5, 6].map(Value::from));
    assert_eq!(
        upserted("Status"),
        ["Active", "Suspended", "Suspended", "Active", "Suspended", "Archived"].map(Value::from)
    );
    assert_eq!(
        (&*events[0].headers["aggregatetype"], &*events[0].headers["contractversion"]),
        ("Company", "1")
    );
}

/// RULE-IDN-019, RULE-EVT-004, RULE-EVT-005, RULE-EVT-022: the events of a user have one sequence
/// over four topics. An employment publishes no event of the company.
#[tokio::test]
async fn employment_is_published_in_one_sequence() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.admin().await;
    let created = admin.client.post(EMPLOYEES, json!({"Name": "x", "Email": email()})).await.expect(201);
    let bob: Uuid = text(&created["Id"]).parse().unwrap();
    let path = employee_path(bob);
    add_role(&admin.client, bob, 9).await.expect(204);
    add_role(&admin.client, bob, 9).await.expect(204);
    admin.client.put(&path, json!({"Name": "y", "Email": email()})).await.expect(200);
    admin.client.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    admin.client.post(&format!("{path}/activate"), json!({})).await.expect(200);
    add_role(&admin.client, bob, 2).await.expect(204);
    admin.client.delete(&path).await.expect(204);
    let events = events_of(bob).await;
    assert_eq!(
        topics(&events),
        [
            STATUS_CHANGED,
            ROLE_ASSIGNED,
            STATUS_CHANGED,
            ACCESS_REVOKED,
            STATUS_CHANGED,
            ROLE_ASSIGNED,
            ROLE_REMOVED,
            ROLE_REMOVED,
            STATUS_CHANGED,
            ACCESS_REVOKED
        ]
    );
    let moved = |from: Value, to: Value, at: &Value| json!({"UserId": bob, "CompanyId": tenant.0, "From": from, "To": to, "ByUserId": admin.id, "At": at});
    for (at, from, to) in [
        (0, Value::Null, json!("Active")),
        (2, json!("Active"), json!("Suspended")),
        (4, json!("Suspended"), json!("Active")),
        (8, json!("Active"), Value::Null),
    ] {
        assert_eq!(events[at].payload, moved(from, to, &events[at].payload["At"]));
    }
    assert_eq!(events[0].payload["At"], created["CreatedAt"]);
    for (at, number, code) in [
        (1, 9, "content-editor"),
        (5, 2, "developer-manager"),
        (6, 2, "developer-manager"),
        (7, 9, "content-editor"),
    ] {
        let payload = &events[at].payload;
        let expected = json!({"UserId": bob, "CompanyId": tenant.0, "RoleId": role(number), "RoleCode": code, "ByUserId": admin.id, "At": payload["At"]});
        assert_eq!(*payload, expected);
    }
    assert_eq!(&*events[0].headers["aggregatetype"], "Employee");
    assert_eq!(topics(&events_of(tenant.0).await), [UPSERTED]);
}

/// RULE-IDN-019, RULE-EVT-005: `administrators` publishes the employment, then the role. A
/// transition of the tenant publishes no employee event.
#[tokio::test]
async fn administrator_is_published_before_the_role() {
    let tenant = create_tenant("Partner").await;
    let admin = tenant.admin().await.id;
    tenant.transition("suspend").await;
    assert_eq!(topics(&events_of(admin).await), [STATUS_CHANGED, ROLE_ASSIGNED]);
    assert_eq!(topics(&events_of(tenant.0).await), [UPSERTED, UPSERTED, SUSPENDED, ACCESS_REVOKED]);
}

/// RULE-IDN-008, RULE-EVT-005: removals by the platform have events and entries with the actor,
/// even in an archived tenant.
#[tokio::test]
async fn platform_removals_are_published_and_recorded() {
    let tenant = create_tenant("Developer").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    add_role(&outside_admin, bob, 2).await.expect(204);
    add_role(&outside_admin, bob, 9).await.expect(204);
    outside_admin.post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    tenant.transition("archive").await;
    let actor_company = guid();
    let claims = crate::claims_with(Some(actor_company), &crate::ADMIN_PERMISSIONS);
    let (by, path) = (service().caller(&claims), tenant.path(&format!("/employees/{bob}")));
    by.delete(&format!("{path}/roles/{}", role(2))).await.expect(204);
    by.delete(&path).await.expect(204);
    let mut events = events_of(bob).await;
    assert_eq!(events.iter().filter(|event| event.topic == ACCESS_REVOKED).count(), 3);
    events.retain(|event| event.topic != ACCESS_REVOKED);
    let given = [STATUS_CHANGED, ROLE_ASSIGNED, ROLE_ASSIGNED, STATUS_CHANGED];
    assert_eq!(topics(&events), [&given[..], &[ROLE_REMOVED, ROLE_REMOVED, STATUS_CHANGED]].concat());
    for (event, number, code) in [(&events[4], 2, "developer-manager"), (&events[5], 9, "content-editor")] {
        let expected = json!({
            "UserId": bob, "CompanyId": tenant.0, "RoleId": role(number), "RoleCode": code, "ByUserId": claims.sub,
            "At": event.payload["At"],
        });
        assert_eq!(event.payload, expected);
    }
    let left = &events[6].payload;
    let expected = json!({
        "UserId": bob, "CompanyId": tenant.0, "From": "Suspended", "To": null, "ByUserId": claims.sub, "At": left["At"],
    });
    assert_eq!(*left, expected);
    let entries = tenant.entries().await;
    let listed: Vec<_> = entries[entries.len() - 3..]
        .iter()
        .zip(&events[4..])
        .map(|(entry, event)| {
            assert_eq!((&entry["At"], &entry["SubjectId"]), (&event.payload["At"], &json!(bob)));
            json!([
                entry["Action"],
                entry["RoleCode"],
                entry["From"],
                entry["To"],
                entry["ActorUserId"],
                entry["ActorCompanyId"]
            ])
        })
        .collect();
    assert_eq!(
        listed,
        [
            json!(["RoleRemoved", "developer-manager", null, null, claims.sub, actor_company]),
            json!(["RoleRemoved", "content-editor", null, null, claims.sub, actor_company]),
            json!(["EmployeeRemoved", null, "Suspended", null, claims.sub, actor_company]),
        ]
    );
    // One event each for the creation and the archiving of the company, and the end of its tokens.
    assert_eq!(topics(&events_of(tenant.0).await), [UPSERTED, UPSERTED, ACCESS_REVOKED]);
}

/// RULE-IDN-019, RULE-EVT-004: a second employment of a user continues the sequence.
#[tokio::test]
async fn second_employment_continues_the_sequence() {
    let (first, second) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let bob = guid();
    for tenant in [first, second] {
        let body = json!({"UserId": bob, "Name": "x", "Email": email()});
        operator().post(&tenant.path("/administrators"), body).await.expect(201);
        tenant.admin().await;
        tenant.outside_admin().delete(&employee_path(bob)).await.expect(204);
    }
    let once = [STATUS_CHANGED, ROLE_ASSIGNED, ROLE_REMOVED, STATUS_CHANGED, ACCESS_REVOKED];
    assert_eq!(topics(&events_of(bob).await), [once, once].concat());
}

/// RULE-IDN-019, RULE-IDN-054, RULE-EVT-002, RULE-EVT-027: `republish Company` publishes each
/// company under its current version, and `republish AccessRevocation` each revocation.
#[tokio::test]
async fn republish_publishes_each_company_under_its_version() {
    let identity = Running::start::<identity::Service>(&[]);
    let by = identity.caller(&crate::claims_with(None, &crate::ADMIN_PERMISSIONS));
    let created = by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    let id: Uuid = text(&created["Id"]).parse().unwrap();
    by.post(&format!("{TENANTS}/{id}/suspend"), json!({})).await.expect(200);
    assert_eq!(topics(&published(&identity, id).await), [UPSERTED, UPSERTED, SUSPENDED, ACCESS_REVOKED]);
    crate::bootstrap::run(&identity.database_url, &["republish", "Company"]).await.unwrap();
    let events = published(&identity, id).await;
    assert_eq!(topics(&events), [UPSERTED, UPSERTED, SUSPENDED, ACCESS_REVOKED, UPSERTED]);
    assert_eq!(events[4].payload, events[1].payload);
    crate::bootstrap::run(&identity.database_url, &["republish", "AccessRevocation"]).await.unwrap();
    let events = published(&identity, id).await;
    assert_eq!(topics(&events)[5..], [ACCESS_REVOKED]);
    assert_eq!(events[5].payload, events[3].payload);
}

/// RULE-IDN-019, RULE-EVT-027: `republish Employee` publishes the last status change of each
/// employee again, and nothing of a former employee.
#[tokio::test]
async fn republish_publishes_the_last_status_change_of_each_employee() {
    let identity = Running::start::<identity::Service>(&[]);
    let by = identity.caller(&crate::claims_with(None, &crate::ADMIN_PERMISSIONS));
    let company = by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    let company: Uuid = text(&company["Id"]).parse().unwrap();
    let outside_admin = crate::claims_with(Some(company), &["identity.employee-roles.manage"]);
    let outside_admin = identity.caller(&outside_admin);
    let hire = async || {
        let created = outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": email()})).await.expect(201);
        text(&created["Id"]).parse::<Uuid>().unwrap()
    };
    let (stays, leaves) = (hire().await, hire().await);
    let path = employee_path(stays);
    outside_admin.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    outside_admin.put(&path, json!({"Name": "renamed", "Email": email()})).await.expect(200);
    outside_admin.delete(&employee_path(leaves)).await.expect(204);
    let before = published(&identity, stays).await;
    let gone = published(&identity, leaves).await.len();

    crate::bootstrap::run(&identity.database_url, &["republish", "Employee"]).await.unwrap();
    let events = published(&identity, stays).await;
    assert_eq!(events.len(), before.len() + 1, "{events:?}");
    let last = before.iter().rfind(|event| event.topic == STATUS_CHANGED).unwrap();
    let again = events.last().unwrap();
    assert_eq!((&again.topic, &again.payload), (&last.topic, &last.payload));
    assert_eq!(again.payload["To"], "Suspended");
    assert_eq!(published(&identity, leaves).await.len(), gone);
}
