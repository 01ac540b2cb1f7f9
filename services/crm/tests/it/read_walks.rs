//! Pages of timelines and stages, read by their cursors.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::rows::{deal_row, insert, insert_deals, seconds_later};
use crate::{
    OWN, PLATFORM, READ_OWN, create_developer, each, guid, list, platform, service, steps, text, user_with,
    with,
};

/// The two lists of a deal that are read page by page with a cursor.
const WALKS: [&str; 2] = ["timeline", "stages"];

/// Returns the row of a note, `at` seconds after the creation of its deal.
fn note(deal: Uuid, at: usize) -> Value {
    json!({
        "id": guid(), "deal_id": deal, "kind": "ManualNote", "payload": {"Text": at.to_string()}, "actor_user_id": guid(),
        "actor_role": "CareService", "created_at": seconds_later(at), "row_version": 1, "amount": 1, "currency": "RUB",
    })
}

/// Inserts a deal with `rows` notes and `rows` stages, one second apart.
async fn insert_deal_with_rows(rows: usize) -> (Uuid, Uuid) {
    let developer = create_developer().await;
    let step = steps(developer).await[0].clone();
    let deal = insert_deals(&[deal_row(&step)]).await[0];
    for at in 0..rows {
        insert("timeline", &[note(deal, at)]).await;
        let left_at = if at + 1 < rows { json!(seconds_later(at + 1)) } else { Value::Null };
        let stage = json!({
            "deal_id": deal, "row_version": at + 1, "step_id": step["Id"], "status": "Application",
            "entered_at": seconds_later(at), "left_at": left_at,
        });
        insert("stage", &[stage]).await;
    }
    (deal, developer)
}

/// Returns the times of the rows of a page.
fn times(items: &Value) -> Vec<String> {
    let at =
        |row: &Value| row.get("CreatedAt").or_else(|| row.get("EnteredAt")).map(|at| text(at).to_owned());
    list(items).iter().filter_map(at).collect()
}

/// RULE-CRM-048: a walk returns each row once, newest first, with every page size. `NextCursor` is
/// null at the end.
#[tokio::test]
async fn walk_returns_each_row_once_newest_first() {
    let (deal, developer) = insert_deal_with_rows(7).await;
    let expected: Vec<String> = (0..7).rev().map(seconds_later).collect();
    let own = service().caller(&user_with(Some(developer), &[READ_OWN]));
    for (by, family) in [(platform(), PLATFORM), (own, OWN)] {
        for walk in WALKS {
            for (size, pages) in [(1, 7), (3, 3), (6, 2), (7, 1), (100, 1)] {
                let (mut met, mut cursor, mut read) = (Vec::new(), String::new(), 0);
                loop {
                    let path = format!("{family}/deals/{deal}/{walk}?PageSize={size}{cursor}");
                    let page = by.get(&path).await.expect(200);
                    (met, read) = ([met, times(&page["Items"])].concat(), read + 1);
                    match &page["NextCursor"] {
                        Value::Null => break,
                        next => cursor = format!("&Cursor={}", text(next)),
                    }
                }
                assert_eq!((&met, read), (&expected, pages), "{walk} {size}");
            }
        }
    }
}

/// RULE-CRM-048: a walk returns each existing row once while rows are added.
#[tokio::test]
async fn walk_returns_each_row_once_while_rows_are_added() {
    let (deal, _) = insert_deal_with_rows(5).await;
    let (mut met, mut cursor) = (Vec::new(), String::new());
    for at in 0.. {
        insert("timeline", &[note(deal, 100 + at)]).await;
        let page =
            platform().get(&format!("{PLATFORM}/deals/{deal}/timeline?PageSize=2{cursor}")).await.expect(200);
        met.extend(times(&page["Items"]));
        match &page["NextCursor"] {
            Value::Null => break,
            next => cursor = format!("&Cursor={}", text(next)),
        }
    }
    let expected: Vec<String> = [100].into_iter().chain((0..5).rev()).map(seconds_later).collect();
    assert_eq!(met, expected);
}

/// RULE-CRM-048: a malformed cursor, or one of another deal or walk, is 400, also for an unknown
/// deal. So is an invalid `PageSize`.
#[tokio::test]
async fn cursor_of_another_deal_is_refused() {
    let ((one, _), (other, _)) = (insert_deal_with_rows(2).await, insert_deal_with_rows(2).await);
    for walk in WALKS {
        let path = |deal: Uuid, query: &str| format!("{PLATFORM}/deals/{deal}/{walk}?{query}");
        let page = platform().get(&path(one, "PageSize=1")).await.expect(200);
        let cursor = text(&page["NextCursor"]);
        for of in [other, guid()] {
            let refused = platform().get(&path(of, &format!("Cursor={cursor}"))).await;
            refused.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
        }
        for (query, field, code) in [
            ("Cursor=", "/Cursor", "unknown_value"),
            ("Cursor=x", "/Cursor", "unknown_value"),
            ("Cursor=e30", "/Cursor", "unknown_value"),
            ("PageSize=0", "/PageSize", "out_of_range"),
            ("PageSize=101", "/PageSize", "out_of_range"),
            ("PageSize=x", "/PageSize", "out_of_range"),
        ] {
            platform().get(&path(one, query)).await.expect_refusal("VALIDATION_FAILED", field, code);
            platform().get(&path(guid(), query)).await.expect_refusal("VALIDATION_FAILED", field, code);
        }
        let truncated = &cursor[..cursor.len() - 2];
        let refused = platform().get(&path(one, &format!("Cursor={truncated}"))).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
    }
    let page = platform().get(&format!("{PLATFORM}/deals/{one}/timeline?PageSize=1")).await.expect(200);
    let cursor = text(&page["NextCursor"]);
    let refused = platform().get(&format!("{PLATFORM}/deals/{one}/stages?Cursor={cursor}")).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
}

/// RULE-CRM-048: a row has every field. The rows of one change are in reverse order.
#[tokio::test]
async fn timeline_row_has_every_field() {
    let (deal, _) = insert_deal_with_rows(0).await;
    let (first, second) = (note(deal, 5), with(note(deal, 5), "kind", "DealCreated"));
    insert("timeline", &[first]).await;
    insert("timeline", std::slice::from_ref(&second)).await;
    let page = platform().get(&format!("{PLATFORM}/deals/{deal}/timeline")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Kind"), ["DealCreated", "ManualNote"]);
    let expected = json!({
        "Id": second["id"], "DealId": deal, "Kind": "DealCreated", "Payload": {"Text": "5"},
        "ActorUserId": second["actor_user_id"], "ActorRole": "CareService", "CreatedAt": seconds_later(5), "RowVersion": 1,
        "Audience": "Everyone",
    });
    assert_eq!(page["Items"][0], expected);
}

/// RULE-CRM-048: a stage has whole seconds. The duration of the current stage ends now.
#[tokio::test]
async fn stage_shows_its_duration_in_seconds() {
    let (deal, developer) = insert_deal_with_rows(2).await;
    let step = &steps(developer).await[0];
    let page = platform().get(&format!("{PLATFORM}/deals/{deal}/stages")).await.expect(200);
    let [current, past] = list(&page["Items"]) else { panic!("{page}") };
    let expected = json!({
        "StepId": step["Id"], "StepName": step["Name"], "StepGroup": "Application", "Status": "Application",
        "EnteredAt": seconds_later(0), "LeftAt": seconds_later(1), "Seconds": 1,
    });
    assert_eq!(*past, expected);
    let until_now =
        || (runtime::clock::now() - time::macros::datetime!(2026-01-01 00:00:01 UTC)).whole_seconds();
    assert_eq!(current["LeftAt"], Value::Null);
    let seconds = current["Seconds"].as_i64().unwrap();
    assert!((until_now() - 60..=until_now()).contains(&seconds), "{seconds}");
}
