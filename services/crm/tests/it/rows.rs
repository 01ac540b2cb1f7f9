//! Deals put into the database as they are: many, of one moment, in any currency. What reads them cannot tell.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::{guid, id_of, list, service, text};

/// When all that is made here was made, unless a test says otherwise.
pub const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// The row of a deal in this step, of an object that nobody has told of.
pub fn deal_in(step: &Value) -> Value {
    let group = text(&step["Group"]);
    let status = if group == "Contract" { "Sale" } else { group };
    let at = |is: &str| if status == is { json!(LONG_AGO) } else { Value::Null };
    json!({
        "id": guid(), "tenant_id": step["TenantId"], "property_object_id": guid(), "client_user_id": guid(),
        "agent_user_id": null, "selection_id": null, "amount": 100, "currency": "RUB", "status": status,
        "step_id": step["Id"], "step_group": group, "step_entered_at": LONG_AGO,
        "contract_type": if group == "Contract" { json!("Ddu") } else { Value::Null },
        "payment_method": if group == "Contract" { json!("Cash") } else { Value::Null },
        "escrow_account_number": null, "fixation_data": null, "cancelled_at": at("Cancelled"),
        "cancel_reason": if status == "Cancelled" { json!("x") } else { Value::Null },
        "completed_at": at("Completed"), "created_at": LONG_AGO, "created_by_user_id": guid(),
        "updated_at": LONG_AGO, "updated_by_user_id": null, "row_version": 1,
    })
}

/// Puts rows into a table.
pub async fn put(table: &str, rows: &[Value]) {
    put_by(&service().sql().await, table, rows).await;
}

/// The same by a connection to a database of a test's own.
pub async fn put_by(sql: &Client, table: &str, rows: &[Value]) {
    let columns: Vec<_> = rows[0].as_object().unwrap().keys().map(|name| format!("\"{name}\"")).collect();
    let columns = columns.join(", ");
    let insert = format!(
        "insert into {table} ({columns}) select {columns} from json_populate_recordset(null::{table}, $1::text::json)"
    );
    sql.execute(&insert, &[&json!(rows).to_string()]).await.unwrap();
}

/// Puts deals there, and answers their ids.
pub async fn put_deals(deals: &[Value]) -> Vec<Uuid> {
    put("deal", deals).await;
    deals.iter().map(|deal| id_of(&deal["id"])).collect()
}

/// The ids of the deals that are shown.
pub fn shown(items: &Value) -> Vec<Uuid> {
    list(items).iter().map(|item| id_of(&item["DealId"])).collect()
}

/// So many seconds after [`LONG_AGO`].
pub fn after(seconds: usize) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
