//! The number of statements of each read.

use serde_json::{Value, json};
use testkit::database;
use testkit::deployed::Deployed;
use testkit::issuer::CLIENTS;
use testkit::statements::StatementCounter;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::rows::{LONG_AGO, deal_row, insert_with, seconds_later};
use crate::{MANAGE, OWN, PLATFORM, READ_OWN, guid, id_of, list, selections_proxy, user_with, with};

/// A developer, its first step and the first deal in it.
struct Filled {
    developer: Uuid,
    step: Uuid,
    deal: Uuid,
}

/// Inserts `count` rows of each kind that is read.
///
/// A developer gets `count` steps, at most 50, and `count` deals in the first step. Each deal has a
/// booked object. The first deal has `count` timeline rows, stages and overrides.
async fn fill(sql: &Client, count: usize) -> Filled {
    let developer = guid();
    let row = json!({"id": developer, "name": "Ромашка", "version": 1, "pipeline_version": 1});
    insert_with(sql, "developer", &[row]).await;
    let step = |at: usize| {
        json!({
            "id": guid(), "tenant_id": developer, "group": "Booking", "name": at.to_string(), "sort_order": at,
            "is_default": at == 0, "archived_at": null,
        })
    };
    let steps: Vec<Value> = (0..count.min(50)).map(step).collect();
    insert_with(sql, "step", &steps).await;
    let first = &steps[0]["id"];
    let step = json!({"Id": first, "TenantId": developer, "Group": "Booking"});
    let deals: Vec<Value> =
        (0..count).map(|at| with(deal_row(&step), "step_entered_at", seconds_later(at))).collect();
    let object = |deal: &Value| {
        json!({
            "id": deal["property_object_id"], "tenant_id": developer, "project_name": "Лесной", "building_name": "1",
            "number": "12", "price": 100, "currency": "RUB", "status": "Available", "version": 1,
            "folded_project_name": "лесной", "folded_number": "12",
        })
    };
    let booking = |deal: &Value| {
        json!({
            "id": guid(), "deal_id": deal["id"], "property_object_id": deal["property_object_id"], "status": "Active",
            "expires_at": "2099-01-01T00:00:00Z", "created_at": LONG_AGO, "ended_at": null, "row_version": 1,
            "is_expiry_suspended": false,
        })
    };
    let deal = &deals[0]["id"];
    let note = |at: usize| {
        json!({
            "id": guid(), "deal_id": deal, "kind": "ManualNote", "payload": {"Text": "x"}, "actor_user_id": guid(),
            "actor_role": "CareService", "created_at": seconds_later(at), "row_version": 1, "amount": 1, "currency": "RUB",
        })
    };
    let stage = |at: usize| {
        json!({
            "deal_id": deal, "row_version": at + 1, "step_id": first, "status": "Booking", "entered_at": seconds_later(at),
            "left_at": if at + 1 < count { json!(seconds_later(at + 1)) } else { Value::Null },
        })
    };
    let status_override = |at: usize| {
        json!({
            "id": guid(), "deal_id": deal, "tenant_id": developer, "actor_user_id": guid(), "from_status": "Sale",
            "to_status": "Booking", "comment": "x", "created_at": seconds_later(at), "row_version": at + 2,
        })
    };
    insert_with(sql, "deal", &deals).await;
    insert_with(sql, "status_override", &(0..count).map(status_override).collect::<Vec<_>>()).await;
    insert_with(sql, "property_object", &deals.iter().map(object).collect::<Vec<_>>()).await;
    insert_with(sql, "booking", &deals.iter().map(booking).collect::<Vec<_>>()).await;
    insert_with(sql, "timeline", &(0..count).map(note).collect::<Vec<_>>()).await;
    insert_with(sql, "stage", &(0..count).map(stage).collect::<Vec<_>>()).await;
    Filled { developer, step: id_of(first), deal: id_of(deal) }
}

/// Returns reads of deals, overrides, boards and the pipeline, each with the JSON pointer to its
/// rows. The rows of a read without a pointer are not counted.
fn reads(filled: &Filled) -> Vec<(String, &'static str)> {
    let Filled { developer, step, deal } = filled;
    let of_tenant = format!("TenantId={developer}&PageSize=100");
    let filtered = "CreatedFrom=2000-01-01T00:00:00Z&PageSize=100";
    vec![
        (format!("{PLATFORM}/deals?{of_tenant}"), "/Items"),
        (format!("{PLATFORM}/deals?{of_tenant}&Statuses=Booking&Sort=UpdatedAt"), "/Items"),
        (format!("{OWN}/deals?StepId={step}&PageSize=100"), "/Items"),
        (
            format!("{OWN}/deals?ProjectName=лес&ObjectNumber=12&BookingExpiresFrom={LONG_AGO}&PageSize=100"),
            "/Items",
        ),
        (format!("{PLATFORM}/status-overrides?{of_tenant}"), "/Items"),
        (format!("{PLATFORM}/exports/deals?TenantId={developer}"), ""),
        (format!("{PLATFORM}/exports/status-overrides?DealId={deal}"), ""),
        (format!("{PLATFORM}/deals/{deal}"), ""),
        (format!("{PLATFORM}/deals/{deal}/timeline?PageSize=100"), "/Items"),
        (format!("{PLATFORM}/deals/{deal}/stages?PageSize=100"), "/Items"),
        (format!("{PLATFORM}/board?{of_tenant}"), "/Columns/0/Items"),
        (format!("{OWN}/board?{filtered}"), "/Columns/0/Items"),
        (format!("{PLATFORM}/board/columns/{step}?PageSize=100"), "/Items"),
        (format!("{OWN}/board/columns/{step}?{filtered}"), "/Items"),
        (format!("{PLATFORM}/pipeline-steps?TenantId={developer}"), ""),
    ]
}

/// RULE-CRM-051: a read of 100 rows takes as many statements as a read of one, at most three.
#[tokio::test]
async fn read_of_100_rows_takes_as_many_statements_as_of_one() {
    let url = database::create().await.unwrap();
    let statements = StatementCounter::start(&url).await;
    let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
    let selections = selections_proxy().url();
    let settings =
        [("DATABASE_URL", statements.url()), ("SELECTIONS_URL", &selections), ("CLIENT_SECRET", secret)];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_crm"), &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = crm").await.unwrap();
    let mut executed = Vec::new();
    for count in [1, 100] {
        let filled = fill(&sql, count).await;
        let by = serve.caller(&user_with(Some(filled.developer), &[MANAGE, READ_OWN]));
        for (path, pointer) in reads(&filled) {
            let mut least = usize::MAX;
            // New connections of the pool also run statements, so the minimum counts.
            for _ in 0..4 {
                let before = statements.executed();
                let response = by.get(&path).await.expect(200);
                least = least.min(statements.executed() - before);
                if !pointer.is_empty() {
                    assert_eq!(
                        list(response.pointer(pointer).unwrap_or(&Value::Null)).len(),
                        count,
                        "{path}"
                    );
                }
            }
            executed.push(least);
        }
    }
    let (one, hundred) = executed.split_at(executed.len() / 2);
    assert_eq!(one, hundred);
    assert!(one.iter().all(|executed| (1..=3).contains(executed)), "{one:?}");
}
