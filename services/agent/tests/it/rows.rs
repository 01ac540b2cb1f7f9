//! Rows that tests insert directly: many rows at once, with any time and currency.

use serde_json::{Value, json};
use testkit::service::Running;
use uuid::Uuid;

use crate::{guid, id_of, list, next, service, with};

/// The default creation time of rows.
pub const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// Creates the row of a deal of an agent.
pub fn deal(agent: Uuid, status: &str) -> Value {
    json!({
        "id": guid(), "developer_company_id": guid(), "property_object_id": guid(), "created_at": LONG_AGO,
        "status": status, "status_row_version": 1, "agent_user_id": agent, "agent_row_version": 1, "amount": 100,
        "currency": "RUB", "amount_row_version": 1,
        "cancelled_at": if status == "Cancelled" { json!(LONG_AGO) } else { Value::Null },
        "known_row_version": 1, "held_since": null, "applied_row_version": 1, "sale_row_version": null, "sold_at": null,
        "sale_agent_user_id": null, "sale_amount": null, "sale_currency": null, "completed_at": null,
        "completed_amount": null, "is_unrated": false,
    })
}

/// Creates the row of a deal with an active sale.
pub fn sold(agent: Uuid, status: &str, sold_at: &str) -> Value {
    let mut row = deal(agent, status);
    let sale = json!({
        "sale_row_version": 1, "sold_at": sold_at, "sale_agent_user_id": agent, "sale_amount": 1, "sale_currency": "RUB",
    });
    row.as_object_mut().unwrap().append(&mut sale.as_object().unwrap().clone());
    row
}

/// Creates the row of a Pending Base. Each one has a sale of its own.
pub fn accrual(agent: Uuid, deal: Uuid) -> Value {
    json!({
        "id": guid(), "agent_user_id": agent, "deal_id": deal, "sale_row_version": next(), "property_object_id": guid(),
        "developer_company_id": guid(), "kind": "Base", "base_amount": 1_000, "rate_bps": 1_000, "amount": 100,
        "currency": "RUB", "status": "Pending", "payout_id": null, "reverses_accrual_id": null,
        "adjusts_accrual_id": null, "earned_at": LONG_AGO, "approved_at": null, "paid_at": null,
        "created_at": LONG_AGO, "updated_at": LONG_AGO, "is_self_rated": false, "awaits_release": false,
        "released_by_user_id": null, "decided_by_user_id": null, "decision_comment": null, "version": 1,
    })
}

/// Creates the row of an open request about an accrual.
pub fn request(agent: Uuid, accrual: Uuid) -> Value {
    json!({
        "id": guid(), "accrual_id": accrual, "agent_user_id": agent, "reason": "Other", "requested_amount": 7,
        "comment": "мало", "status": "Open", "granted_amount": null, "decision_comment": null,
        "result_accrual_id": null, "created_at": LONG_AGO, "decided_at": null, "decided_by_user_id": null, "version": 1,
    })
}

/// Creates the rows of a run and of its Scheduled payout.
pub fn payout(agent: Uuid) -> (Value, Value) {
    let run = guid();
    let (from, to) = ("2025-12-01T00:00:00Z", LONG_AGO);
    let run_row = json!({
        "id": run, "run_key": run, "period_from": from, "period_to": to, "agent_user_ids": null, "withholding_bps": 0,
        "status": "Completed", "created_at": LONG_AGO,
        "created_by_user_id": guid(), "completed_at": LONG_AGO,
    });
    let payout = json!({
        "id": guid(), "run_id": run, "agent_user_id": agent, "period_from": from, "period_to": to, "currency": "RUB",
        "gross": 100, "withholding_bps": 0, "withheld": 0, "net": 100, "accruals_count": 1, "status": "Scheduled",
        "reference": null, "failure_reason": null, "created_at": LONG_AGO, "sent_at": null, "paid_at": null,
        "updated_at": LONG_AGO, "updated_by_user_id": guid(), "version": 1,
    });
    (run_row, payout)
}

/// Inserts rows into a table of the shared service.
pub async fn insert(table: &str, rows: &[Value]) {
    insert_into(service(), table, rows).await;
}

/// Inserts rows into a table of a service.
pub async fn insert_into(service: &Running, table: &str, rows: &[Value]) {
    let sql = service.cached_sql().await;
    let columns: Vec<_> = rows[0].as_object().unwrap().keys().map(|name| format!("\"{name}\"")).collect();
    let columns = columns.join(", ");
    let insert = format!(
        "insert into {table} ({columns}) select {columns} from json_populate_recordset(null::{table}, $1::text::json)"
    );
    sql.execute(&insert, &[&json!(rows).to_string()]).await.unwrap();
}

/// Inserts a deal with accruals, and adds them to their accounts. Returns the accruals.
///
/// `change` gets the index and the row of each accrual, and returns the row to insert.
pub async fn insert_accruals(
    agent: Uuid,
    change: impl Fn(usize, Value) -> Value,
    count: usize,
) -> Vec<Value> {
    let deal = deal(agent, "Application");
    insert("deal", std::slice::from_ref(&deal)).await;
    let id = id_of(&deal["id"]);
    let rows: Vec<Value> = (0..count).map(|index| change(index, accrual(agent, id))).collect();
    insert("accrual", &rows).await;
    count_in_accounts(service(), &rows).await;
    rows
}

/// Adds accruals to their accounts, so that the ledger is consistent.
pub async fn count_in_accounts(service: &Running, rows: &[Value]) {
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let count = "\
        insert into account (agent_user_id, currency, entries, pending, approved, in_payout, paid) \
        select agent_user_id, currency, count(*), coalesce(sum(amount) filter (where status = 'Pending'), 0), \
            coalesce(sum(amount) filter (where status = 'Approved' and payout_id is null), 0), \
            coalesce(sum(amount) filter (where status = 'Approved' and payout_id is not null), 0), \
            coalesce(sum(amount) filter (where status = 'Paid'), 0) \
        from accrual where id = any($1::text[]::uuid[]) group by agent_user_id, currency \
        on conflict (agent_user_id, currency) do update set entries = account.entries + excluded.entries, \
            pending = account.pending + excluded.pending, approved = account.approved + excluded.approved, \
            in_payout = account.in_payout + excluded.in_payout, paid = account.paid + excluded.paid";
    service.cached_sql().await.execute(count, &[&ids]).await.unwrap();
}

/// Inserts a payout with one accrual and its line. Returns the payout and the accrual.
pub async fn insert_payout(agent: Uuid, change: impl Fn(Value) -> Value) -> (Value, Value) {
    let (run, row) = payout(agent);
    let row = change(row);
    insert("payout_run", &[run]).await;
    insert("payout", std::slice::from_ref(&row)).await;
    let of_payout = |_, accrual: Value| {
        let approved = with(with(accrual, "status", "Approved"), "approved_at", LONG_AGO);
        with(approved, "payout_id", row["id"].clone())
    };
    let accrual = insert_accruals(agent, of_payout, 1).await.remove(0);
    let line = json!({"payout_id": row["id"], "accrual_id": accrual["id"], "developer_name": null});
    insert("payout_line", &[line]).await;
    (row, accrual)
}

/// Returns the ids of listed items.
pub fn ids_of(items: &Value) -> Vec<Uuid> {
    list(items).iter().map(|item| id_of(&item["Id"])).collect()
}

/// Returns the time `seconds` after [`LONG_AGO`].
pub fn after(seconds: usize) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
