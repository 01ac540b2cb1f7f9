//! What is told of companies and people, in which order.

use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::eventually;
use testkit::service::Running;
use uuid::Uuid;

use crate::{
    EMPLOYEES, ROLE_ASSIGNED, ROLE_REMOVED, STATUS_CHANGED, SUSPENDED, TENANTS, UPSERTED, add_role,
    create_tenant, email, employee_path, guid, operator, role, service, tax_number, text,
};

/// Once so many events of a key are here, in the order of their one sequence.
async fn told_of(key: Uuid, count: usize) -> Vec<Published> {
    eventually("the events", async || {
        let events = service().bus().events(&key);
        (events.len() >= count).then_some(())
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let events = service().bus().events(&key);
    assert_eq!(events.len(), count, "{events:?}");
    assert!(events.is_sorted_by(|one, other| one.sequence() < other.sequence()));
    events
}

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// INV-IDN-003: each version is told by one `company-upserted`; a suspension by `company-suspended` after it.
#[tokio::test]
async fn each_version_of_a_company_is_told_once() {
    let body = json!({"Name": "x", "LegalName": "y", "Type": "Developer", "TaxNumber": tax_number()});
    let made = operator().post(TENANTS, body.clone()).await.expect(201);
    let id: Uuid = text(&made["Id"]).parse().unwrap();
    let tenant = crate::Tenant(id);
    operator().put(&tenant.path(""), body.clone()).await.expect(200);
    let suspended = operator().post(&tenant.path("/suspend"), json!({"Reason": "debts"})).await.expect(200);
    operator().put(&tenant.path(""), crate::with(body, "Name", "z")).await.expect(200);
    tenant.make("activate").await;
    tenant.make("suspend").await;
    tenant.make("archive").await;
    let events = told_of(id, 8).await;
    assert_eq!(
        topics(&events),
        [UPSERTED, UPSERTED, SUSPENDED, UPSERTED, UPSERTED, UPSERTED, SUSPENDED, UPSERTED]
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
    assert_eq!(events[6].payload["Reason"], Value::Null);
    let of = |member: &str| -> Vec<Value> {
        events
            .iter()
            .filter(|event| event.topic == UPSERTED)
            .map(|event| event.payload[member].clone())
            .collect()
    };
    assert_eq!(of("Version"), [1, 2, 3, 4, 5, 6].map(Value::from));
    assert_eq!(
        of("Status"),
        ["Active", "Suspended", "Suspended", "Active", "Suspended", "Archived"].map(Value::from)
    );
    assert_eq!(
        (&*events[0].headers["aggregatetype"], &*events[0].headers["contractversion"]),
        ("Company", "1")
    );
}

/// A person's employment is told in one sequence over three topics: who came, what they were given, what was taken, who
/// left. The company's events tell nothing of it.
#[tokio::test]
async fn an_employment_is_told_in_order() {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.admin().await;
    let made = admin.client.post(EMPLOYEES, json!({"Name": "x", "Email": email()})).await.expect(201);
    let bob: Uuid = text(&made["Id"]).parse().unwrap();
    let path = employee_path(bob);
    add_role(&admin.client, bob, 9).await.expect(204);
    add_role(&admin.client, bob, 9).await.expect(204);
    admin.client.put(&path, json!({"Name": "y", "Email": email()})).await.expect(200);
    admin.client.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    admin.client.post(&format!("{path}/activate"), json!({})).await.expect(200);
    add_role(&admin.client, bob, 2).await.expect(204);
    admin.client.delete(&path).await.expect(204);
    let events = told_of(bob, 8).await;
    assert_eq!(
        topics(&events),
        [
            STATUS_CHANGED,
            ROLE_ASSIGNED,
            STATUS_CHANGED,
            STATUS_CHANGED,
            ROLE_ASSIGNED,
            ROLE_REMOVED,
            ROLE_REMOVED,
            STATUS_CHANGED
        ]
    );
    let moved = |from: Value, to: Value, at: &Value| json!({"UserId": bob, "CompanyId": tenant.0, "From": from, "To": to, "ByUserId": admin.id, "At": at});
    for (at, from, to) in [
        (0, Value::Null, json!("Active")),
        (2, json!("Active"), json!("Suspended")),
        (3, json!("Suspended"), json!("Active")),
        (7, json!("Active"), Value::Null),
    ] {
        assert_eq!(events[at].payload, moved(from, to, &events[at].payload["At"]));
    }
    assert_eq!(events[0].payload["At"], made["CreatedAt"]);
    for (at, number, code) in [
        (1, 9, "content-editor"),
        (4, 2, "developer-manager"),
        (5, 2, "developer-manager"),
        (6, 9, "content-editor"),
    ] {
        let payload = &events[at].payload;
        let expected = json!({"UserId": bob, "CompanyId": tenant.0, "RoleId": role(number), "RoleCode": code, "ByUserId": admin.id, "At": payload["At"]});
        assert_eq!(*payload, expected);
    }
    assert_eq!(&*events[0].headers["aggregatetype"], "Employee");
    told_of(tenant.0, 1).await;
}

/// `administrators`: who came, then what they were given. A tenant's move tells nothing of its people.
#[tokio::test]
async fn an_administrator_comes_before_their_role() {
    let tenant = create_tenant("Partner").await;
    let admin = tenant.admin().await.id;
    tenant.make("suspend").await;
    assert_eq!(topics(&told_of(admin, 2).await), [STATUS_CHANGED, ROLE_ASSIGNED]);
    told_of(tenant.0, 3).await;
}

/// What the platform takes is told as what a partner takes is, by whom, and stands in the log, in an archived tenant too.
#[tokio::test]
async fn what_the_platform_takes_is_told() {
    let tenant = create_tenant("Developer").await;
    let (partner, bob) = (tenant.partner(), tenant.employee().await);
    add_role(&partner, bob, 2).await.expect(204);
    add_role(&partner, bob, 9).await.expect(204);
    partner.post(&format!("{}/suspend", employee_path(bob)), json!({})).await.expect(200);
    tenant.make("archive").await;
    let own = guid();
    let claims = crate::holder(Some(own), &crate::ALL);
    let (by, path) = (service().caller(&claims), tenant.path(&format!("/employees/{bob}")));
    by.delete(&format!("{path}/roles/{}", role(2))).await.expect(204);
    by.delete(&path).await.expect(204);
    let events = told_of(bob, 7).await;
    assert_eq!(topics(&events[4..]), [ROLE_REMOVED, ROLE_REMOVED, STATUS_CHANGED]);
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
    let taken: Vec<_> = entries[entries.len() - 3..]
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
        taken,
        [
            json!(["RoleRemoved", "developer-manager", null, null, claims.sub, own]),
            json!(["RoleRemoved", "content-editor", null, null, claims.sub, own]),
            json!(["EmployeeRemoved", null, "Suspended", null, claims.sub, own]),
        ]
    );
    // Of the company its creation and its archiving, and nothing of its people.
    told_of(tenant.0, 2).await;
}

/// Whoever is employed again is told of further on in the same sequence.
#[tokio::test]
async fn a_second_employment_goes_on_in_the_sequence() {
    let (first, second) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let bob = guid();
    for tenant in [first, second] {
        let body = json!({"UserId": bob, "Name": "x", "Email": email()});
        operator().post(&tenant.path("/administrators"), body).await.expect(201);
        tenant.admin().await;
        tenant.partner().delete(&employee_path(bob)).await.expect(204);
    }
    let once = [STATUS_CHANGED, ROLE_ASSIGNED, ROLE_REMOVED, STATUS_CHANGED];
    assert_eq!(topics(&told_of(bob, 8).await), [once, once].concat());
}

/// `republish Company`: each company is told anew as it is, under its version.
#[tokio::test]
async fn companies_are_told_anew() {
    let own = Running::start::<identity::Service>(&[]);
    let by = own.caller(&crate::holder(None, &crate::ALL));
    let made = by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    let id: Uuid = text(&made["Id"]).parse().unwrap();
    by.post(&format!("{TENANTS}/{id}/suspend"), json!({})).await.expect(200);
    told_of(id, 3).await;
    crate::bootstrap::run(&own.database_url, &["republish", "Company"]).await.expect("done");
    let events = told_of(id, 4).await;
    assert_eq!((&*events[3].topic, &events[3].payload), (UPSERTED, &events[1].payload));
}
