//! Comparisons of the service with the model.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::world::{Deal, Developer, World};
use crate::{PLATFORM, list, without};

/// Returns a value with its times in one format.
pub fn normalize_times(value: &Value) -> Value {
    match value {
        Value::String(text) => OffsetDateTime::parse(text, &Rfc3339)
            .map_or_else(|_| value.clone(), |time| json!(format!("{}", time.unix_timestamp_nanos()))),
        Value::Array(items) => items.iter().map(normalize_times).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), normalize_times(value))).collect()
        }
        _ => value.clone(),
    }
}

#[track_caller]
pub fn assert_same(found: &Value, expected: &Value, what: &str) {
    let (found, expected) = (normalize_times(found), normalize_times(expected));
    assert!(found == expected, "{what}:\n   found {found}\nexpected {expected}");
}

/// Compares everything about a deal, its events included.
pub async fn deal(service: &Running, by: &Client, world: &World, deal: &Deal) {
    deal_with_notes(service, by, world, deal, &BTreeSet::new()).await;
}

/// Compares a deal whose timeline also has `notes`, which the model does not have.
pub async fn deal_with_notes(
    service: &Running,
    by: &Client,
    world: &World,
    deal: &Deal,
    notes: &BTreeSet<Uuid>,
) {
    view(by, world, deal).await;
    rows(by, deal, notes).await;
    stages(by, world, deal).await;
    bookings(service, deal).await;
    events(service, deal);
}

async fn view(by: &Client, world: &World, deal: &Deal) {
    let path = format!("{PLATFORM}/deals/{}", deal.id);
    let found = by.get(&path).await.expect(200);
    let expected = deal.view();
    for (member, value) in expected.as_object().unwrap() {
        assert_same(&found[member], value, member);
    }
    if deal.row_version > 1 {
        assert_eq!(found["UpdatedByUserId"], json!(deal.updated_by), "{deal:?}");
    }
    let developer = world.developer(deal.tenant);
    let mut steps = developer.live.iter().chain(&developer.archived);
    let name = steps.find(|step| step.id == deal.step).map(|step| &step.name);
    assert_eq!(found["StepName"], json!(name));
    assert_same(
        &by.get(&format!("{path}/contract")).await.expect(200),
        &deal.contract_view(),
        "contract data",
    );
    // A list shows the same values as the view.
    let listed = by.get(&format!("{PLATFORM}/deals?PropertyObjectId={}", deal.object)).await.expect(200);
    let summary = list(&listed["Items"]).iter().find(|item| item["DealId"] == json!(deal.id)).unwrap();
    for (member, value) in summary.as_object().unwrap() {
        assert_eq!(value, &found[member], "{member} of the list");
    }
}

/// Reads all rows of a list in pages of three.
async fn walk(by: &Client, path: &str) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = by.get(&format!("{path}?PageSize=3{cursor}")).await.expect(200);
        rows.extend(list(&page["Items"]).iter().cloned());
        match page["NextCursor"].as_str() {
            Some(next) => cursor = format!("&Cursor={next}"),
            None => return rows,
        }
    }
}

async fn rows(by: &Client, deal: &Deal, notes: &BTreeSet<Uuid>) {
    let found = walk(by, &format!("{PLATFORM}/deals/{}/timeline", deal.id)).await;
    let expected = deal.rows.iter().rev().map(|row| {
        json!({
            "DealId": deal.id, "Kind": row.kind, "Payload": row.payload, "ActorUserId": row.actor,
            "ActorRole": row.role, "CreatedAt": row.at, "RowVersion": row.row_version, "Audience": "Everyone",
        })
    });
    let found = found.into_iter().filter(|row| !notes.contains(&crate::id_of(&row["Id"])));
    let found: Vec<_> = found.map(|row| without(row, "Id")).collect();
    assert_same(&json!(found), &expected.collect(), "the timeline");
}

async fn stages(by: &Client, world: &World, deal: &Deal) {
    let found = walk(by, &format!("{PLATFORM}/deals/{}/stages", deal.id)).await;
    let developer = world.developer(deal.tenant);
    let left = deal.stages.iter().skip(1).map(|next| Some(&next.entered_at)).chain([None]);
    let mut expected: Vec<_> = std::iter::zip(&deal.stages, left)
        .map(|(stage, left)| {
            let mut steps = developer.live.iter().chain(&developer.archived);
            let name = steps.find(|step| step.id == stage.step).map(|step| &step.name);
            json!({
                "StepId": stage.step, "StepName": name, "StepGroup": stage.group,
                "Status": super::world::status_of(stage.group), "EnteredAt": stage.entered_at, "LeftAt": left,
            })
        })
        .collect();
    expected.reverse();
    let found: Vec<_> = found.into_iter().map(|row| without(row, "Seconds")).collect();
    assert_same(&json!(found), &json!(expected), "the stages");
}

async fn bookings(service: &Running, deal: &Deal) {
    let sql = service.sql().await;
    let rows = "select id::text, status from booking where deal_id = $1::text::uuid order by created_at, id";
    let rows = sql.query(rows, &[&deal.id.to_string()]).await.unwrap();
    let found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected: Vec<_> =
        deal.bookings.iter().map(|(id, status)| (id.to_string(), (*status).to_owned())).collect();
    assert_eq!(found, expected, "the bookings");
}

/// Compares the events of a deal. The caller has waited for all events of the service.
fn events(service: &Running, deal: &Deal) {
    let events = crate::sort_by_sequence(service.bus().events(&deal.id));
    let found: Value = events.into_iter().map(|event| json!([event.topic, event.payload])).collect();
    let expected: Value = deal.events.iter().map(|(topic, payload)| json!([topic, payload])).collect();
    // All members are compared. The AsyncAPI document says which members an event has.
    assert_same(&found, &expected, "the events");
}

/// Compares the pipeline of a developer.
pub async fn pipeline(by: &Client, developer: &Developer) {
    let path = format!("{PLATFORM}/pipeline-steps?TenantId={}", developer.id);
    let found = by.get(&path).await.expect(200);
    assert_pipeline(&found, developer);
}

#[track_caller]
pub fn assert_pipeline(found: &Value, developer: &Developer) {
    assert_eq!(found["Version"], developer.pipeline_version, "{found}");
    let steps = list(&found["Steps"]).iter().cloned().map(|step| {
        // The model keeps neither `SortOrder` nor `IsDefault` of archived steps.
        let is_archived = !step["ArchivedAt"].is_null();
        let mut step = without(without(step, "TenantId"), "ArchivedAt");
        if is_archived {
            step["SortOrder"] = Value::Null;
            step["IsDefault"] = Value::Null;
        }
        step
    });
    let mut expected = developer.steps();
    for step in expected.as_array_mut().unwrap().iter_mut().filter(|step| step["SortOrder"].is_null()) {
        step["IsDefault"] = Value::Null;
    }
    assert_same(&steps.collect(), &expected, "the pipeline");
}

/// Compares the board column by column: deals, counts and totals.
pub async fn board(by: &Client, world: &World, developer: &Developer) {
    let path = format!("{PLATFORM}/board?TenantId={}&PageSize=100", developer.id);
    let found = by.get(&path).await.expect(200);
    let deals_in = |step| world.deals.iter().filter(move |deal| deal.step == step);
    let mut columns = Vec::new();
    for group in super::world::GROUPS {
        columns.extend(developer.live.iter().filter(|step| step.group == group));
        let archived = developer.archived.iter().filter(|step| step.group == group);
        let mut archived: Vec<_> = archived.filter(|step| deals_in(step.id).next().is_some()).collect();
        archived.sort_by_key(|step| step.id);
        columns.extend(archived);
    }
    let sort_key = |column: &Value| (column["ArchivedAt"].is_null(), crate::id_of(&column["StepId"]));
    let mut found: Vec<_> = list(&found["Columns"]).to_vec();
    // The model does not know when a step was archived, so archived columns are sorted by id.
    for group in super::world::GROUPS {
        let (start, end) = (
            found.iter().position(|column| column["Group"] == group && !column["ArchivedAt"].is_null()),
            found.iter().rposition(|column| column["Group"] == group && !column["ArchivedAt"].is_null()),
        );
        if let (Some(start), Some(end)) = (start, end) {
            found[start..=end].sort_by_key(sort_key);
        }
    }
    let ids: Vec<_> = found.iter().map(|column| crate::id_of(&column["StepId"])).collect();
    assert_eq!(ids, columns.iter().map(|step| step.id).collect::<Vec<_>>(), "the columns of the board");
    for (column, step) in std::iter::zip(&found, columns) {
        let mut deals: Vec<_> = deals_in(step.id).collect();
        deals.sort_by_key(|deal| {
            let entered = OffsetDateTime::parse(&deal.step_entered_at, &Rfc3339).unwrap();
            std::cmp::Reverse((entered, deal.id))
        });
        let total: i64 = deals.iter().map(|deal| deal.amount).sum();
        let totals = if deals.is_empty() { json!([]) } else { json!([crate::rub(total)]) };
        assert_eq!(
            (&column["TotalCount"], &column["Totals"]),
            (&json!(deals.len()), &totals),
            "{}",
            step.name
        );
        let found: Vec<_> = list(&column["Items"]).iter().map(|item| crate::id_of(&item["DealId"])).collect();
        assert_eq!(found, deals.iter().map(|deal| deal.id).collect::<Vec<_>>(), "{}", step.name);
    }
}
