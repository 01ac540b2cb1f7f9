//! Rows that tests insert directly: many deals at once, with any time and currency.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::{guid, id_of, list, service, text};

/// The default time of every inserted row.
pub const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// Returns the row of a deal in a step. crm has no copy of the deal's object.
pub fn deal_row(step: &Value) -> Value {
    let group = text(&step["Group"]);
    let status = if group == "Contract" { "Sale" } else { group };
    let at = |is: &str| if status == is { json!(LONG_AGO) } else { Value::Null };
    json!({
        "id": guid(), "tenant_id": step["TenantId"], "property_object_id": guid(), "client_user_id": guid(),
        "agent_user_id": null, "selection_id": null, "amount": 100, "currency": "RUB", "status": status,
        "step_id": step["Id"], "step_group": group, "step_entered_at": LONG_AGO,
        "contract_type": if group == "Contract" { json!("Ddu") } else { Value::Null },
        "payment_method": if group == "Contract" { json!("Cash") } else { Value::Null },
        "contract_number": null, "folded_contract_number": null, "escrow_account_number": null, "fixation_data": null, "cancelled_at": at("Cancelled"),
        "cancel_reason": if status == "Cancelled" { json!("x") } else { Value::Null },
        "completed_at": at("Completed"), "created_at": LONG_AGO, "created_by_user_id": guid(),
        "updated_at": LONG_AGO, "updated_by_user_id": null, "row_version": 1,
    })
}

/// Inserts rows into a table.
pub async fn insert(table: &str, rows: &[Value]) {
    insert_with(&service().sql().await, table, rows).await;
}

/// Inserts rows through a connection of the test.
pub async fn insert_with(sql: &Client, table: &str, rows: &[Value]) {
    let columns: Vec<_> = rows[0].as_object().unwrap().keys().map(|name| format!("\"{name}\"")).collect();
    let columns = columns.join(", ");
    let insert = format!(
        "insert into {table} ({columns}) select {columns} from json_populate_recordset(null::{table}, $1::text::json)"
    );
    sql.execute(&insert, &[&json!(rows).to_string()]).await.unwrap();
}

/// Inserts deals and returns their ids.
pub async fn insert_deals(deals: &[Value]) -> Vec<Uuid> {
    insert("deal", deals).await;
    deals.iter().map(|deal| id_of(&deal["id"])).collect()
}

/// Returns the ids of listed deals.
pub fn deal_ids(items: &Value) -> Vec<Uuid> {
    list(items).iter().map(|item| id_of(&item["DealId"])).collect()
}

/// Returns the time `seconds` after [`LONG_AGO`].
pub fn seconds_later(seconds: usize) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
