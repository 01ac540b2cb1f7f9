//! Copies of entities of chessboard and identity.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::eventually;
use uuid::Uuid;

use crate::rows::{deal_row, insert_deals};
use crate::{
    COMPANY_UPSERTED, DEVELOPER_UPSERTED, EMPLOYMENT, OBJECT_UPSERTED, PLATFORM, agency, company,
    create_developer, create_object, developer, employment, guid, next_number, object, platform, publish,
    publish_company, publish_developer, publish_object, rub, service, steps, wait_until_applied, with,
    without,
};

/// Reads a row of a copy.
async fn row(table: &str, id: Uuid) -> Option<Value> {
    let sql = service().sql().await;
    let select = format!("select to_json(of)::text from {table} as of where id = $1::text::uuid");
    let row = sql.query_opt(&select, &[&id.to_string()]).await.unwrap()?;
    Some(serde_json::from_str(&row.get::<_, String>(0)).unwrap())
}

/// Publishes a message and waits until it is a dead letter.
async fn publish_unreadable(topic: &str, key: Uuid, payload: &Value) {
    service().bus().publish(topic, key, next_number(), payload).await;
    let (sql, key) = (service().sql().await, key.to_string());
    let letters = "select 1 from dead_letter where topic = $1 and key = $2";
    eventually("the dead letter", async || sql.query_opt(letters, &[&topic, &key]).await.unwrap()).await;
}

/// RULE-CRM-057: the highest `Version` of an entity wins. A version that is not higher is dropped,
/// repeats included.
#[tokio::test]
async fn highest_version_wins() {
    let (developer_id, object_id, company_id) = (guid(), guid(), guid());
    for (version, name) in
        [(5, "five"), (4, "four"), (5, "five again"), (7, "seven"), (6, "six"), (0, "zero")]
    {
        let event = with(with(developer(developer_id), "Version", version), "Name", name);
        publish_developer(&event).await;
        let event =
            with(with(object(object_id, developer_id, "Available"), "Version", version), "ProjectName", name);
        publish_object(&event).await;
        let status = if version == 7 { "Archived" } else { "Suspended" };
        publish_company(&with(company(company_id, status), "Version", version)).await;
        let highest =
            if version > 5 || name == "zero" { (7, "seven", "Archived") } else { (5, "five", "Suspended") };
        let developer = row("developer", developer_id).await.unwrap();
        assert_eq!((&developer["name"], &developer["version"]), (&json!(highest.1), &json!(highest.0)));
        let object = row("property_object", object_id).await.unwrap();
        assert_eq!((&object["project_name"], &object["version"]), (&json!(highest.1), &json!(highest.0)));
        let company = row("company", company_id).await.unwrap();
        assert_eq!((&company["status"], &company["version"]), (&json!(highest.2), &json!(highest.0)));
    }
    assert_eq!(row("developer", developer_id).await.unwrap()["pipeline_version"], 1);
    assert_eq!(steps(developer_id).await.len(), 7, "the pipeline was created once");
}

/// RULE-CRM-057: an event replaces tenant, names, price and status of an object. Deals show the new
/// names and keep tenant and amount.
#[tokio::test]
async fn object_event_replaces_the_copy_and_keeps_deals() {
    let (developer_id, other) = (create_developer().await, guid());
    let object_id = create_object(developer_id).await;
    let deal = with(deal_row(&steps(developer_id).await[0]), "property_object_id", json!(object_id));
    let id = insert_deals(&[deal]).await[0];
    let mut event = object(object_id, other, "Sold");
    for (member, value) in [
        ("ProjectName", json!("Другой")),
        ("BuildingName", json!("2")),
        ("Number", json!("13А")),
        ("Price", json!({"AmountMinor": 5, "Currency": "USD"})),
    ] {
        event[member] = value;
    }
    publish_object(&event).await;
    let row = row("property_object", object_id).await.unwrap();
    let expected = json!({
        "id": object_id, "tenant_id": other, "project_name": "Другой", "building_name": "2", "number": "13А", "price": 5,
        "currency": "USD", "status": "Sold", "version": event["Version"], "folded_project_name": "другой",
        "folded_number": "13а",
    });
    assert_eq!(row, expected);
    let view = platform().get(&format!("{PLATFORM}/deals/{id}")).await.expect(200);
    assert_eq!((&view["ProjectName"], &view["Number"]), (&json!("Другой"), &json!("13А")));
    assert_eq!((&view["TenantId"], &view["Amount"]), (&json!(developer_id), &rub(100)));
}

/// RULE-CRM-057: events of the three topics may arrive in any order, and none waits for another.
#[tokio::test]
async fn events_of_three_topics_are_independent() {
    let (tenant, object_id) = (guid(), guid());
    publish_object(&object(object_id, tenant, "Available")).await;
    assert!(row("property_object", object_id).await.is_some());
    publish_company(&company(tenant, "Active")).await;
    assert_eq!(row("company", tenant).await.unwrap()["status"], "Active");
    let unknown = platform().get(&format!("{PLATFORM}/board?TenantId={tenant}")).await;
    unknown.expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    publish_developer(&developer(tenant)).await;
    assert_eq!(steps(tenant).await.len(), 7);
}

/// RULE-CRM-057: companies whose `Type` is neither Developer nor Agency are ignored.
#[tokio::test]
async fn companies_of_other_types_are_ignored() {
    for kind in ["Partner", "Platform", "SomethingNew"] {
        let id = guid();
        publish_company(&with(with(company(id, "Suspended"), "Type", kind), "Status", "Whatever")).await;
        assert_eq!(row("company", id).await, None, "{kind}");
    }
}

/// RULE-CRM-072: a user has the company of the newest employment event, in any order and with
/// repeats. Suspended employees and users who have left have none. Employments do not wait for
/// their company, which this test never publishes.
#[tokio::test]
async fn newest_employment_event_wins() {
    let (first, second) = (guid(), guid());
    let employments = [
        (first, Some("Active")),
        (first, Some("Suspended")),
        (first, None),
        (second, Some("Active")),
        (second, None),
    ];
    for (delivered, expected) in [
        (vec![0], Some(first)),
        (vec![1, 0], None),
        (vec![0, 2, 1, 0], None),
        (vec![0, 3, 2, 1], Some(second)),
        (vec![3, 3, 0], Some(second)),
        (vec![4, 3, 0], None),
        (vec![0, 1, 2, 3, 4, 3], None),
    ] {
        let user = guid();
        let sequences: Vec<i64> = employments.iter().map(|_| next_number()).collect();
        for at in &delivered {
            let (company, to) = employments[*at];
            let event = employment(user, company, to);
            service().bus().publish(EMPLOYMENT, user, sequences[*at], &event).await;
        }
        // The last message of the key becomes a dead letter after all others were handled.
        publish_unreadable(EMPLOYMENT, user, &json!({"UserId": user})).await;
        let sql = service().sql().await;
        let select = "select company_id::text from active_employee where user_id = $1::text::uuid";
        let row = sql.query_opt(select, &[&user.to_string()]).await.unwrap();
        let found: Option<String> = row.map(|row| row.get(0));
        assert_eq!(found, expected.map(|company| company.to_string()), "{delivered:?}");
    }
}

/// RULE-CRM-072: a company with the id of a developer does not change the developer unless its
/// `Type` is Developer.
#[tokio::test]
async fn agency_with_the_id_of_a_developer_changes_no_developer() {
    let developer_id = create_developer().await;
    let flat = create_object(developer_id).await;
    publish_company(&agency(developer_id, "Suspended")).await;
    let body = json!({"PropertyObjectId": flat, "ClientUserId": guid()});
    platform().post(&format!("{PLATFORM}/deals"), body).await.expect(201);
    assert_eq!(row("company", developer_id).await.unwrap()["kind"], "Agency");
}

/// RULE-CRM-057: unknown members and unknown object statuses are accepted, since contracts grow.
#[tokio::test]
async fn unknown_members_and_values_are_accepted() {
    let (developer_id, object_id) = (guid(), guid());
    publish_developer(&with(with(developer(developer_id), "Status", "Paused"), "New", json!({"a": 1}))).await;
    assert!(row("developer", developer_id).await.is_some());
    let event = with(with(object(object_id, developer_id, "Auctioned"), "Kind", "Houseboat"), "New", 1);
    publish_object(&event).await;
    assert_eq!(row("property_object", object_id).await.unwrap()["status"], "Other");
}

/// RULE-CRM-057, RULE-EVT-046: an unreadable message becomes a dead letter and blocks no other. A
/// later version of its entity is applied and supersedes it.
#[tokio::test]
async fn unreadable_message_blocks_no_later_version() {
    let good = |id: Uuid| -> [(&str, Value); 3] {
        [
            (DEVELOPER_UPSERTED, developer(id)),
            (OBJECT_UPSERTED, object(id, guid(), "Available")),
            (COMPANY_UPSERTED, company(id, "Active")),
        ]
    };
    for (topic, table, bad) in [
        (DEVELOPER_UPSERTED, "developer", without(developer(guid()), "Name")),
        (DEVELOPER_UPSERTED, "developer", with(developer(guid()), "Name", "a\0b")),
        (DEVELOPER_UPSERTED, "developer", with(developer(guid()), "Version", -1)),
        (OBJECT_UPSERTED, "property_object", with(object(guid(), guid(), "Sold"), "TenantId", "x")),
        (OBJECT_UPSERTED, "property_object", with(object(guid(), guid(), "Sold"), "Price", 5)),
        (COMPANY_UPSERTED, "company", with(company(guid(), "Active"), "Status", "Asleep")),
        (COMPANY_UPSERTED, "company", with(agency(guid(), "Active"), "Status", "Asleep")),
    ] {
        let id = if topic == COMPANY_UPSERTED { &bad["CompanyId"] } else { &bad["Id"] };
        let id = crate::id_of(id);
        publish_unreadable(topic, id, &bad).await;
        assert_eq!(row(table, id).await, None);
        let other = guid();
        for key in [other, id] {
            for (_, later) in good(key).into_iter().filter(|(of, _)| *of == topic) {
                let key_member = if topic == COMPANY_UPSERTED { "CompanyId" } else { "Id" };
                publish(service(), topic, key_member, &later).await;
            }
            assert!(row(table, key).await.is_some(), "{topic}");
        }
        let superseded = "select superseded_by is not null from dead_letter where topic = $1 and key = $2";
        let sql = service().sql().await;
        let superseded = sql.query_one(superseded, &[&topic, &id.to_string()]).await.unwrap();
        assert!(superseded.get::<_, bool>(0), "the dead letter of {topic}");
    }
}

/// RULE-CRM-057, RULE-EVT-023: in any order and with repeats, each copy ends at its highest
/// `Version`.
#[tokio::test]
async fn any_delivery_ends_in_the_highest_versions() {
    // A delivery has a kind, an entity, a version and the number of times that it is published.
    let delivery = (0_usize..3, 0_usize..3, 0_i64..20, 1_usize..3);
    let deliveries = proptest::collection::vec(delivery, 40).prop_shuffle();
    let mut runner = TestRunner::deterministic();
    for _ in 0..6 {
        let deliveries = deliveries.new_tree(&mut runner).unwrap().current();
        let ids: Vec<Uuid> = (0..3).map(|_| guid()).collect();
        let (mut highest, mut last) =
            (HashMap::<(usize, usize), i64>::new(), HashMap::<(&str, Uuid), i64>::new());
        for (kind, entity, version, times) in deliveries {
            let id = ids[entity];
            let (topic, event) = match kind {
                0 => (DEVELOPER_UPSERTED, with(developer(id), "Name", format!("v{version}"))),
                1 => (OBJECT_UPSERTED, with(object(id, id, "Available"), "Number", format!("v{version}"))),
                _ => (
                    COMPANY_UPSERTED,
                    company(id, ["Active", "Suspended", "Archived"][usize::try_from(version % 3).unwrap()]),
                ),
            };
            let event = with(event, "Version", version);
            for _ in 0..times {
                let sequence = next_number();
                service().bus().publish(topic, id, sequence, &event).await;
                last.insert((topic, id), sequence);
            }
            let known = highest.entry((kind, entity)).or_insert(version);
            *known = version.max(*known);
        }
        for ((topic, id), sequence) in last {
            wait_until_applied(service(), topic, id, sequence).await;
        }
        for ((kind, entity), version) in highest {
            let (table, member, value) = match kind {
                0 => ("developer", "name", format!("v{version}")),
                1 => ("property_object", "number", format!("v{version}")),
                _ => (
                    "company",
                    "status",
                    ["Active", "Suspended", "Archived"][usize::try_from(version % 3).unwrap()].to_owned(),
                ),
            };
            let row = row(table, ids[entity]).await.unwrap();
            assert_eq!((&row["version"], &row[member]), (&json!(version), &json!(value)), "{table}");
            if kind == 0 {
                assert_eq!(steps(ids[entity]).await.len(), 7, "one pipeline");
            }
        }
    }
}
