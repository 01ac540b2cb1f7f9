//! Section 6: what chessboard and identity tell of, in whatever order it comes.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::eventually;
use uuid::Uuid;

use crate::fill::{deal_in, put_deals};
use crate::{
    COMPANY_UPSERTED, DEVELOPER_UPSERTED, OBJECT_UPSERTED, PLATFORM, company, create_developer,
    create_object, developer, guid, next, object, platform, rub, service, steps, taken, tell, tell_company,
    tell_developer, tell_object, with, without,
};

/// A row of a replica, if there is one.
async fn row(table: &str, id: Uuid) -> Option<Value> {
    let sql = service().sql().await;
    let select = format!("select to_json(of)::text from {table} as of where id = $1::text::uuid");
    let row = sql.query_opt(&select, &[&id.to_string()]).await.unwrap()?;
    Some(serde_json::from_str(&row.get::<_, String>(0)).unwrap())
}

/// Publishes a message and waits until so many of its key have been put aside.
async fn put_aside(topic: &str, key: Uuid, payload: &Value, count: i64) {
    service().bus().publish(topic, key, next(), payload).await;
    let (sql, key) = (service().sql().await, key.to_string());
    let letters = "select count(*) from dead_letter where topic = $1 and key = $2";
    eventually("the dead letter", async || {
        let row = sql.query_one(letters, &[&topic, &key]).await.unwrap();
        (row.get::<_, i64>(0) == count).then_some(())
    })
    .await;
}

/// The highest `Version` of a thing decides; what is not higher is dropped, repeats among it.
#[tokio::test]
async fn the_highest_version_decides() {
    let (developer_id, object_id, company_id) = (guid(), guid(), guid());
    for (version, name) in
        [(5, "five"), (4, "four"), (5, "five again"), (7, "seven"), (6, "six"), (0, "zero")]
    {
        let told = with(with(developer(developer_id), "Version", version), "Name", name);
        tell_developer(&told).await;
        let told =
            with(with(object(object_id, developer_id, "Available"), "Version", version), "ProjectName", name);
        tell_object(&told).await;
        let status = if version == 7 { "Archived" } else { "Suspended" };
        tell_company(&with(company(company_id, status), "Version", version)).await;
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
    assert_eq!(steps(developer_id).await.len(), 7, "the pipeline was made once");
}

/// An object is told of whole: tenant, names, price and status; deals show its names, and keep tenant and amount.
#[tokio::test]
async fn an_object_is_replaced_whole_and_deals_keep_what_they_have() {
    let (developer_id, other) = (create_developer().await, guid());
    let object_id = create_object(developer_id).await;
    let deal = with(deal_in(&steps(developer_id).await[0]), "property_object_id", json!(object_id));
    let id = put_deals(&[deal]).await[0];
    let mut told = object(object_id, other, "Sold");
    for (member, value) in [
        ("ProjectName", json!("Другой")),
        ("BuildingName", json!("2")),
        ("Number", json!("13А")),
        ("Price", json!({"AmountMinor": 5, "Currency": "USD"})),
    ] {
        told[member] = value;
    }
    tell_object(&told).await;
    let row = row("property_object", object_id).await.unwrap();
    let expected = json!({
        "id": object_id, "tenant_id": other, "project_name": "Другой", "building_name": "2", "number": "13А", "price": 5,
        "currency": "USD", "status": "Sold", "version": told["Version"],
    });
    assert_eq!(row, expected);
    let view = platform().get(&format!("{PLATFORM}/deals/{id}")).await.expect(200);
    assert_eq!((&view["ProjectName"], &view["Number"]), (&json!("Другой"), &json!("13А")));
    assert_eq!((&view["TenantId"], &view["Amount"]), (&json!(developer_id), &rub(100)));
}

/// The three come in any order and wait for nothing.
#[tokio::test]
async fn nothing_waits_for_another() {
    let (tenant, object_id) = (guid(), guid());
    tell_object(&object(object_id, tenant, "Available")).await;
    assert!(row("property_object", object_id).await.is_some());
    tell_company(&company(tenant, "Active")).await;
    assert_eq!(row("company", tenant).await.unwrap()["status"], "Active");
    let unknown = platform().get(&format!("{PLATFORM}/board?TenantId={tenant}")).await;
    unknown.expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    tell_developer(&developer(tenant)).await;
    assert_eq!(steps(tenant).await.len(), 7);
}

/// Companies of another Type are none of ours.
#[tokio::test]
async fn only_developers_are_followed() {
    for kind in ["Agency", "Partner", "Platform", "SomethingNew"] {
        let id = guid();
        tell_company(&with(with(company(id, "Suspended"), "Type", kind), "Status", "Whatever")).await;
        assert_eq!(row("company", id).await, None, "{kind}");
    }
}

/// Members and words that nobody knows yet are no obstacle: contracts grow.
#[tokio::test]
async fn what_is_new_is_lived_with() {
    let (developer_id, object_id) = (guid(), guid());
    tell_developer(&with(with(developer(developer_id), "Status", "Paused"), "New", json!({"a": 1}))).await;
    assert!(row("developer", developer_id).await.is_some());
    let told = with(with(object(object_id, developer_id, "Auctioned"), "Kind", "Houseboat"), "New", 1);
    tell_object(&told).await;
    assert_eq!(row("property_object", object_id).await.unwrap()["status"], "Other");
}

/// What cannot be read goes to the dead letters and stops its own key alone.
#[tokio::test]
async fn what_cannot_be_read_stops_its_own_key_alone() {
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
    ] {
        let id = if topic == COMPANY_UPSERTED { &bad["CompanyId"] } else { &bad["Id"] };
        let id = crate::id_of(id);
        put_aside(topic, id, &bad, 1).await;
        let [(_, later)] =
            good(id).into_iter().filter(|(of, _)| *of == topic).collect::<Vec<_>>().try_into().unwrap();
        put_aside(topic, id, &later, 2).await;
        assert_eq!(row(table, id).await, None, "behind what was put aside {topic}");
    }
    let id = guid();
    for (topic, told) in good(id) {
        tell(service(), topic, if topic == COMPANY_UPSERTED { "CompanyId" } else { "Id" }, &told).await;
    }
    assert!(row("developer", id).await.is_some() && row("company", id).await.is_some());
}

/// Whatever is delivered how often and in which order: what is known of each thing is what its highest `Version` says.
#[tokio::test]
async fn any_delivery_ends_in_the_highest_versions() {
    // Kind, thing, version, and how often it is delivered.
    let told = (0_usize..3, 0_usize..3, 0_i64..20, 1_usize..3);
    let deliveries = proptest::collection::vec(told, 40).prop_shuffle();
    let mut runner = TestRunner::deterministic();
    for _ in 0..6 {
        let deliveries = deliveries.new_tree(&mut runner).unwrap().current();
        let ids: Vec<Uuid> = (0..3).map(|_| guid()).collect();
        let (mut highest, mut last) =
            (HashMap::<(usize, usize), i64>::new(), HashMap::<(&str, Uuid), i64>::new());
        for (kind, thing, version, times) in deliveries {
            let id = ids[thing];
            let (topic, told) = match kind {
                0 => (DEVELOPER_UPSERTED, with(developer(id), "Name", format!("v{version}"))),
                1 => (OBJECT_UPSERTED, with(object(id, id, "Available"), "Number", format!("v{version}"))),
                _ => (
                    COMPANY_UPSERTED,
                    company(id, ["Active", "Suspended", "Archived"][usize::try_from(version % 3).unwrap()]),
                ),
            };
            let told = with(told, "Version", version);
            for _ in 0..times {
                let sequence = next();
                service().bus().publish(topic, id, sequence, &told).await;
                last.insert((topic, id), sequence);
            }
            let of = highest.entry((kind, thing)).or_insert(version);
            *of = version.max(*of);
        }
        for ((topic, id), sequence) in last {
            taken(service(), topic, id, sequence).await;
        }
        for ((kind, thing), version) in highest {
            let (table, member, value) = match kind {
                0 => ("developer", "name", format!("v{version}")),
                1 => ("property_object", "number", format!("v{version}")),
                _ => (
                    "company",
                    "status",
                    ["Active", "Suspended", "Archived"][usize::try_from(version % 3).unwrap()].to_owned(),
                ),
            };
            let row = row(table, ids[thing]).await.unwrap();
            assert_eq!((&row["version"], &row[member]), (&json!(version), &json!(value)), "{table}");
            if kind == 0 {
                assert_eq!(steps(ids[thing]).await.len(), 7, "one pipeline");
            }
        }
    }
}
