//! The command `restored --since`, which publishes the state of a restored database to consumers.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::bus::payloads;
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use testkit::service::issuer;
use tokio::process::Command;
use uuid::Uuid;

use crate::{EMPLOYEES, STATUS_CHANGED, TENANTS, UPSERTED, claims_with, email, employee_path, text};

/// The tables that the test restores to an earlier state.
const TABLES: [&str; 4] = ["audit_entry", "employee_role", "employee", "tenant"];

async fn create_company(by: &Client) -> Uuid {
    let created = by.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);
    text(&created["Id"]).parse().unwrap()
}

async fn hire(by: &Client) -> Uuid {
    let created = by.post(EMPLOYEES, json!({"Name": "x", "Email": email()})).await.expect(201);
    text(&created["Id"]).parse().unwrap()
}

/// RULE-EVT-048, RULE-IDN-019: a company with a lower version than before is published above the
/// lost versions, and a lost company is Archived. The current status of an employee is published
/// again, and a lost employee has left.
#[tokio::test]
async fn companies_and_employees_follow_a_restored_database() {
    let own = DedicatedService::start::<identity::Service>(&[]);
    let by = own.caller(&claims_with(None, &crate::ADMIN_PERMISSIONS));
    let kept = create_company(&by).await;
    let outside_admin = own.caller(&claims_with(Some(kept), &["identity.employee-roles.manage"]));
    let active = hire(&outside_admin).await;
    let sql = own.sql().await;
    let copies = TABLES.map(|table| format!("create table {table}_backup as table {table};"));
    sql.batch_execute(&copies.concat()).await.unwrap();

    by.put(&format!("{TENANTS}/{kept}"), json!({"Name": "y"})).await.expect(200);
    let lost = create_company(&by).await;
    outside_admin.post(&format!("{}/suspend", employee_path(active)), json!({})).await.expect(200);
    let gone = hire(&outside_admin).await;
    for key in [kept, lost, active, gone] {
        own.published(key).await;
    }
    let replace =
        TABLES.map(|table| format!("delete from {table}; insert into {table} table {table}_backup;"));
    // Without triggers, the audit log can be changed.
    let back = format!("set session_replication_role = replica; {}", replace.concat());
    sql.batch_execute(&back).await.unwrap();

    let mut command = Command::new(env!("CARGO_BIN_EXE_identity"));
    command.args(["restored", "--since", "2020-01-01T00:00:00Z"]).env("DATABASE_URL", &own.database_url);
    command.env("KAFKA_BROKERS", own.broker().servers()).env("AUTH_ISSUER", issuer().url()).env("LOG", "off");
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");

    let newest =
        async |key: Uuid, topic: &str| -> Value { payloads(own.published(key).await, topic).pop().unwrap() };
    let company = newest(kept, UPSERTED).await;
    assert_eq!((&company["Name"], &company["Version"]), (&json!("x"), &json!(3)));
    let read = by.get(&format!("{TENANTS}/{kept}")).await.expect(200);
    assert_eq!((&read["Name"], &read["Version"]), (&json!("x"), &json!(3)));
    let company = newest(lost, UPSERTED).await;
    assert_eq!((&company["Status"], &company["Version"]), (&json!("Archived"), &json!(2)));
    let employee = newest(active, STATUS_CHANGED).await;
    assert_eq!((&employee["To"], &employee["CompanyId"]), (&json!("Active"), &json!(kept)));
    let employee = newest(gone, STATUS_CHANGED).await;
    assert_eq!((&employee["To"], &employee["CompanyId"]), (&Value::Null, &json!(kept)));
}
