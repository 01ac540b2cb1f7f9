//! Reads of boards and columns.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::rows::{deal_ids, deal_row, insert_deals, insert_with, seconds_later};
use crate::{
    DEVELOPER_UPSERTED, OWN, PIPELINE_OWN, PLATFORM, READ_OWN, create_developer, developer, each, guid,
    id_of, list, manager, platform, publish, service, start, steps, text, user_with, with,
};

fn reader(developer: Uuid) -> Client {
    service().caller(&user_with(Some(developer), &[READ_OWN]))
}

async fn board(developer: Uuid, query: &str) -> Value {
    let all = platform().get(&format!("{PLATFORM}/board?TenantId={developer}&{query}")).await.expect(200);
    let own = reader(developer).get(&format!("{OWN}/board?{query}")).await.expect(200);
    assert_eq!(all, own, "both route families return the same");
    all
}

/// Reads a page of a column.
async fn column(step: &Value, query: &str) -> Value {
    platform().get(&format!("{PLATFORM}/board/columns/{}?{query}", text(step))).await.expect(200)
}

/// Replaces the live steps of a developer.
async fn put_steps(developer: Uuid, steps: &[Value]) -> Value {
    manager(developer).put(&format!("{OWN}/pipeline-steps"), json!({"Steps": steps})).await.expect(200)
}

/// RULE-CRM-049: a board without deals has all live steps in order.
#[tokio::test]
async fn board_has_a_column_for_each_live_step() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let board = board(developer, "").await;
    let empty = |step: &Value| {
        json!({
            "StepId": step["Id"], "Name": step["Name"], "Group": step["Group"], "SortOrder": step["SortOrder"],
            "IsDefault": step["IsDefault"], "ArchivedAt": null, "TotalCount": 0, "Totals": [], "Items": [],
            "NextCursor": null,
        })
    };
    let columns: Vec<Value> = steps.iter().map(empty).collect();
    assert_eq!(board, json!({"TenantId": developer, "PipelineVersion": 1, "Columns": columns}));
    assert_eq!(column(&steps[2]["Id"], "").await, columns[2], "a single column is the same");
}

/// RULE-CRM-049: deals are sorted by `StepEnteredAt`, newest first, ties by `DealId` descending.
/// `PageSize` applies to each column.
#[tokio::test]
async fn column_shows_its_newest_deals() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let deals: Vec<Value> = (0..25)
        .map(|at: usize| with(deal_row(&steps[0]), "step_entered_at", seconds_later(at / 4)))
        .chain((0..3).map(|at| with(deal_row(&steps[3]), "step_entered_at", seconds_later(at))))
        .collect();
    insert_deals(&deals).await;
    let expected = |step: &Value| {
        let of_step = deals.iter().filter(|deal| deal["step_id"] == step["Id"]);
        let mut keys: Vec<_> =
            of_step.map(|deal| (text(&deal["step_entered_at"]), id_of(&deal["id"]))).collect();
        keys.sort_unstable();
        keys.into_iter().rev().map(|(_, id)| id).collect::<Vec<_>>()
    };
    for (query, size) in
        [("", 20), ("PageSize=1", 1), ("PageSize=24", 24), ("PageSize=25", 25), ("PageSize=100", 100)]
    {
        let board = board(developer, query).await;
        let columns = list(&board["Columns"]);
        for (column, step) in columns.iter().zip(&steps) {
            let mut all = expected(step);
            assert_eq!(column["TotalCount"], all.len());
            assert_eq!(column["NextCursor"].is_null(), all.len() <= size, "{query}");
            all.truncate(size);
            assert_eq!(deal_ids(&column["Items"]), all, "{query}");
        }
    }
    let summary =
        platform().get(&format!("{PLATFORM}/deals?TenantId={developer}&PageSize=100")).await.expect(200);
    let board = board(developer, "PageSize=100").await;
    for item in list(&board["Columns"][0]["Items"]) {
        assert!(list(&summary["Items"]).contains(item), "a card is the summary of a list");
    }
}

/// RULE-CRM-049: `Totals` has one exact sum for each currency, sorted by code. A sum may exceed a
/// signed integer of 64 bits.
#[tokio::test]
async fn totals_are_exact_beyond_64_bits() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let of =
        |amount: i64, currency: &str| with(with(deal_row(&steps[0]), "amount", amount), "currency", currency);
    let most = 1_000_000_000_000_000;
    let mut deals = vec![of(1, "USD"), of(2, "EUR"), of(3, "USD"), of(most, "RUB"), of(1, "RUB")];
    deals.push(with(deal_row(&steps[1]), "amount", 7));
    insert_deals(&deals).await;
    let board = board(developer, "PageSize=1").await;
    let total = |amount: i64, currency: &str| json!({"AmountMinor": amount, "Currency": currency});
    assert_eq!(
        board["Columns"][0]["Totals"],
        json!([total(2, "EUR"), total(most + 1, "RUB"), total(4, "USD")])
    );
    assert_eq!(board["Columns"][0]["TotalCount"], 5);
    assert_eq!(board["Columns"][1]["Totals"], json!([total(7, "RUB")]));
    assert_eq!(board["Columns"][2]["Totals"], json!([]));

    let many: Vec<Value> = (0..9_300).map(|_| with(deal_row(&steps[2]), "amount", most)).collect();
    insert_deals(&many).await;
    let response = platform().get(&format!("{PLATFORM}/board/columns/{}", text(&steps[2]["Id"]))).await;
    assert!(
        response.text.contains(r#""Totals":[{"AmountMinor":9300000000000000000,"Currency":"RUB"}]"#),
        "{}",
        response.text
    );
    assert_eq!(response.expect(200)["TotalCount"], 9_300);
}

/// RULE-CRM-049: after concurrent changes of many deals, the stored totals equal the counted ones.
/// A board with a filter counts the deals, and the filter of this test matches every deal.
#[tokio::test]
async fn totals_follow_every_change() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    insert_deals(&(0..40).map(|_| deal_row(&steps[0])).collect::<Vec<_>>()).await;
    let (one, other) = (text(&steps[0]["Id"]).to_owned(), text(&steps[1]["Id"]).to_owned());
    let change = async || {
        let sql = service().sql().await;
        let change = "update deal set amount = 1 + (random() * 100)::bigint, \
            currency = case when random() < 0.5 then 'RUB' else 'USD' end, \
            step_id = case when random() < 0.5 then $1::text::uuid else $2::text::uuid end \
            where id in (select id from deal where tenant_id = $3::text::uuid order by id for update) and random() < 0.3";
        for _ in 0..25 {
            sql.execute(change, &[&one, &other, &developer.to_string()]).await.unwrap();
        }
    };
    futures_util::future::join4(change(), change(), change(), change()).await;
    let counted = board(developer, "CreatedFrom=2000-01-01T00:00:00Z").await;
    let count = |at: usize| counted["Columns"][at]["TotalCount"].as_i64().unwrap();
    assert_eq!(count(0) + count(1), 40);
    assert_eq!(board(developer, "").await, counted);

    let sql = service().sql().await;
    let left = "select count(*) from step_total_change where step_id in ($1::text::uuid, $2::text::uuid)";
    testkit::eventually("the job", async || {
        let left: i64 = sql.query_one(left, &[&one, &other]).await.unwrap().get(0);
        (left == 0).then_some(())
    })
    .await;
    assert_eq!(board(developer, "").await, counted, "the totals are the same after the job");
    assert_eq!(column(&steps[0]["Id"], "").await, counted["Columns"][0]);
}

/// RULE-CRM-049: the recount corrects wrong totals while deals change and while some changes are
/// not folded in. The job waits for the recount.
#[tokio::test]
async fn totals_are_recounted_while_deals_change() {
    let recount = include_str!("../../sql/recount_board_totals.sql");
    // The interval is an hour, so the job runs only when the test makes it due.
    let crm = start(&[("CRM_BOARD_TOTALS_INTERVAL_MS", "3600000")]);
    let id = guid();
    publish(&crm, DEVELOPER_UPSERTED, "Id", &developer(id)).await;
    let by = crm.caller(&user_with(Some(id), &[READ_OWN, PIPELINE_OWN]));
    let steps = by.get(&format!("{OWN}/pipeline-steps")).await.expect(200)["Steps"].clone();
    let deals: Vec<Value> = (0..40).map(|_| deal_row(&steps[0])).collect();
    let mut recounter = crm.sql().await;
    let sql = crm.sql().await;
    insert_with(&sql, "deal", &deals).await;
    let make_job_due = "update job set due_at = clock_timestamp() where kind = 'board-totals'";
    let are_folded = async || {
        let left = sql.query_opt("select 1 from step_total_change limit 1", &[]).await.unwrap();
        left.is_none().then_some(())
    };
    let assert_exact = async || {
        let board = async |query: &str| by.get(&format!("{OWN}/board?{query}")).await.expect(200);
        assert_eq!(board("").await, board("CreatedFrom=2000-01-01T00:00:00Z").await);
    };
    sql.execute(make_job_due, &[]).await.unwrap();
    testkit::eventually("the job", are_folded).await;
    let change = "update deal set amount = 1 + (random() * 100)::bigint, step_id = $1::text::uuid \
        where id in (select id from deal order by random() limit 12)";
    for number in 0..5 {
        let wrong = sql.execute("update step_total set count = count + 7, sum = sum - 1", &[]).await.unwrap();
        assert!(wrong > 0);
        let step = text(&steps[number % 2]["Id"]);
        sql.execute(change, &[&step]).await.unwrap();
        assert!(are_folded().await.is_none());
        let change = async {
            for _ in 0..5 {
                sql.execute(change, &[&step]).await.unwrap();
            }
        };
        let recount = async { recounter.batch_execute(&format!("begin; {recount}; commit")).await.unwrap() };
        tokio::join!(change, recount);
        assert_exact().await;
    }

    sql.execute(change, &[&text(&steps[0]["Id"])]).await.unwrap();
    let transaction = recounter.transaction().await.unwrap();
    transaction.batch_execute(recount).await.unwrap();
    sql.execute(make_job_due, &[]).await.unwrap();
    // The job waits for the lock on the table before it reads any change.
    let waits = "select 1 from pg_locks where not granted and relation = 'step_total'::regclass";
    testkit::eventually("the job to wait", async || sql.query_opt(waits, &[]).await.unwrap()).await;
    transaction.commit().await.unwrap();
    testkit::eventually("the job", are_folded).await;
    assert_exact().await;
}

/// RULE-CRM-049: `Groups` and the filters narrow the board. Counts and totals are those under the
/// filters.
#[tokio::test]
async fn board_is_filtered() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let (object, client, agent) = (guid(), guid(), guid());
    let mut deals: Vec<Value> =
        (0..4).map(|at: usize| with(deal_row(&steps[at % 2]), "created_at", seconds_later(at))).collect();
    deals[0]["property_object_id"] = json!(object);
    deals[1]["client_user_id"] = json!(client);
    deals[2]["agent_user_id"] = json!(agent);
    let ids = insert_deals(&deals).await;
    for (query, first, second) in [
        (String::new(), vec![0, 2], vec![1, 3]),
        (format!("PropertyObjectId={object}"), vec![0], vec![]),
        (format!("ClientUserId={client}"), vec![], vec![1]),
        (format!("AgentUserId={agent}"), vec![2], vec![]),
        (format!("AgentUserId={agent}&ClientUserId={client}"), vec![], vec![]),
        (format!("CreatedFrom={}", seconds_later(2)), vec![2], vec![3]),
        (format!("CreatedFrom={}&CreatedTo={}", seconds_later(1), seconds_later(3)), vec![2], vec![1]),
    ] {
        let board = board(developer, &query).await;
        for (at, expected) in [first, second].into_iter().enumerate() {
            let expected: Vec<Uuid> = expected.into_iter().map(|at| ids[at]).collect();
            let one = &board["Columns"][at];
            let mut items = deal_ids(&one["Items"]);
            items.sort_unstable();
            let mut sorted = expected.clone();
            sorted.sort_unstable();
            assert_eq!((items, &one["TotalCount"]), (sorted, &json!(expected.len())), "{query}");
            let totals = if expected.is_empty() {
                json!([])
            } else {
                json!([{"AmountMinor": 100 * expected.len(), "Currency": "RUB"}])
            };
            assert_eq!(one["Totals"], totals, "{query}");
            assert_eq!(column(&one["StepId"], &query).await, *one, "{query}");
        }
    }
    for (groups, count) in [("Application", 2), ("Contract,Booking", 3), ("Completed", 1)] {
        let board = board(developer, &format!("Groups={groups}")).await;
        assert_eq!(list(&board["Columns"]).len(), count);
    }
    put_steps(developer, &[json!({"Group": "Booking", "Name": "one"})]).await;
    let none = board(developer, "Groups=Contract").await;
    assert_eq!(none, json!({"TenantId": developer, "PipelineVersion": 2, "Columns": []}));
}

/// RULE-CRM-049: archived steps that hold a deal are last in their group, newest first.
#[tokio::test]
async fn archived_step_is_shown_while_it_holds_deals() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    let deals = insert_deals(&[deal_row(&before[0]), deal_row(&before[3])]).await;
    let keep =
        |at: usize| json!({"Id": before[at]["Id"], "Group": before[at]["Group"], "Name": before[at]["Name"]});
    put_steps(developer, &[keep(1), keep(2), keep(4), json!({"Group": "Application", "Name": "later"})])
        .await;
    let columns = board(developer, "").await["Columns"].clone();
    let names: Vec<_> = each(list(&columns), "Name").into_iter().map(text).collect();
    let name = |at: usize| text(&before[at]["Name"]);
    assert_eq!(names, [name(1), "later", name(0), name(2), name(4), name(3)]);
    assert_eq!((deal_ids(&columns[2]["Items"]), &columns[2]["TotalCount"]), (vec![deals[0]], &json!(1)));
    assert!(columns[2]["ArchivedAt"].is_string() && columns[1]["ArchivedAt"].is_null());
    let filtered = board(developer, &format!("ClientUserId={}", guid())).await;
    assert_eq!(list(&filtered["Columns"]).len(), 6, "filters do not hide columns");
    assert_eq!(column(&before[0]["Id"], "").await, columns[2]);
    // An archived step without deals is a column only when it is read by its id.
    let empty = column(&before[6]["Id"], "").await;
    assert_eq!((&empty["TotalCount"], empty["ArchivedAt"].is_string()), (&json!(0), true));
}

/// RULE-CRM-050: while other deals enter and leave, a walk returns each remaining deal once.
#[tokio::test]
async fn walk_of_a_column_returns_each_staying_deal_once() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let deals: Vec<Value> = (0..30)
        .map(|at: usize| with(deal_row(&steps[0]), "step_entered_at", seconds_later(100 + at / 5)))
        .collect();
    let ids = insert_deals(&deals).await;
    let sql = service().sql().await;
    let leave = "update deal set step_id = $2::text::uuid, step_entered_at = now() where id = $1::text::uuid";
    let other = text(&steps[1]["Id"]);
    let (mut met, mut gone, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = column(&steps[0]["Id"], &format!("PageSize=7{cursor}")).await;
        met.extend(deal_ids(&page["Items"]));
        match &page["NextCursor"] {
            Value::Null => break,
            next => cursor = format!("&Cursor={}", text(next)),
        }
        // New deals enter before and after the cursor, ties included.
        // Some deals leave, among them the last one that was read.
        insert_deals(&[
            deal_row(&steps[0]),
            with(deal_row(&steps[0]), "step_entered_at", seconds_later(1_000)),
        ])
        .await;
        insert_deals(&[with(deal_row(&steps[0]), "step_entered_at", seconds_later(103))]).await;
        let last = *met.last().unwrap();
        let ahead = ids.iter().find(|id| !met.contains(id) && !gone.contains(*id)).copied();
        for id in [Some(last), ahead].into_iter().flatten() {
            sql.execute(leave, &[&id.to_string(), &other]).await.unwrap();
            gone.push(id);
        }
    }
    for id in ids {
        let times = met.iter().filter(|met| **met == id).count();
        assert!(times == 1 || times == 0 && gone.contains(&id), "{times}");
    }
}

/// Returns a cursor with a time that UTC cannot represent.
fn forged(step: &Value) -> String {
    let key = json!({"step_id": step, "entered_at": "9999-12-31T23:59:59-23:59", "id": guid()});
    BASE64_URL_SAFE_NO_PAD.encode(key.to_string())
}

/// RULE-CRM-050: a malformed cursor and one of another column are 400. The cursor of a board's
/// column continues in that column.
#[tokio::test]
async fn cursor_of_another_column_is_refused() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let deals: Vec<Value> =
        (0..3).map(|at| with(deal_row(&steps[at % 2]), "step_entered_at", seconds_later(at))).collect();
    let ids = insert_deals(&deals).await;
    let board = board(developer, "PageSize=1").await;
    let cursor = text(&board["Columns"][0]["NextCursor"]);
    let next = column(&steps[0]["Id"], &format!("Cursor={cursor}")).await;
    assert_eq!(
        (deal_ids(&next["Items"]), &next["TotalCount"]),
        (vec![ids[0]], &json!(2)),
        "counts cover the whole column"
    );
    for (step, query) in [
        (&steps[1]["Id"], format!("Cursor={cursor}")),
        (&json!(guid()), format!("Cursor={cursor}")),
        (&steps[0]["Id"], "Cursor=".to_owned()),
        (&steps[0]["Id"], "Cursor=bnVsbA".to_owned()),
        (&steps[0]["Id"], format!("Cursor={}", &cursor[1..])),
        (&steps[0]["Id"], format!("Cursor={}", forged(&steps[0]["Id"]))),
    ] {
        let refused = platform().get(&format!("{PLATFORM}/board/columns/{}?{query}", text(step))).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
    }
}

/// RULE-CRM-049, RULE-CRM-059, RULE-CRM-060: unknown developers, columns of other companies and
/// invalid queries are refused.
#[tokio::test]
async fn invalid_board_request_is_refused() {
    let (developer, other) = (create_developer().await, create_developer().await);
    let foreign_step = steps(other).await[0]["Id"].clone();
    let unknown = guid();
    let board = |query: &str| format!("{PLATFORM}/board?{query}");
    platform()
        .get(&board(&format!("TenantId={unknown}")))
        .await
        .expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    reader(unknown).get(&format!("{OWN}/board")).await.expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    platform().get(&board("")).await.expect_refusal("VALIDATION_FAILED", "/TenantId", "required");
    let empty = Uuid::nil();
    platform().get(&board(&format!("TenantId={empty}"))).await.expect_refusal(
        "VALIDATION_FAILED",
        "/TenantId",
        "empty_id",
    );
    for (query, field, code) in [
        ("Groups=", "/Groups", "unknown_value"),
        ("Groups=Sale", "/Groups", "unknown_value"),
        ("PageSize=0", "/PageSize", "out_of_range"),
        ("PageSize=101", "/PageSize", "out_of_range"),
        ("ClientUserId=00000000-0000-0000-0000-000000000000", "/ClientUserId", "empty_id"),
    ] {
        let refused = platform().get(&board(&format!("TenantId={unknown}&{query}"))).await;
        refused.expect_refusal("VALIDATION_FAILED", field, code);
        reader(developer).get(&format!("{OWN}/board?{query}")).await.expect_refusal(
            "VALIDATION_FAILED",
            field,
            code,
        );
    }
    for step in [text(&foreign_step).to_owned(), guid().to_string()] {
        let refused = reader(developer).get(&format!("{OWN}/board/columns/{step}")).await;
        refused.expect_problem(404, "CRM_STEP_NOT_FOUND");
    }
    let refused = platform().get(&format!("{PLATFORM}/board/columns/{}", guid())).await;
    refused.expect_problem(404, "CRM_STEP_NOT_FOUND");
}

/// RULE-CRM-049: counts, totals and deals are from one snapshot: a deal that moves between two
/// columns is in exactly one.
#[tokio::test]
async fn board_is_read_from_one_snapshot() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    insert_deals(&(0..10).map(|_| deal_row(&steps[0])).collect::<Vec<_>>()).await;
    let (one, other) = (text(&steps[0]["Id"]).to_owned(), text(&steps[1]["Id"]).to_owned());
    let until = Instant::now() + Duration::from_secs(2);
    let move_deals = async {
        let sql = service().sql().await;
        let update = "update deal set step_id = case when step_id = $1::text::uuid then $2::text::uuid else $1::text::uuid end \
            where tenant_id = $3::text::uuid and random() < 0.5";
        while Instant::now() < until {
            sql.execute(update, &[&one, &other, &developer.to_string()]).await.unwrap();
        }
    };
    let read = async {
        let mut seen = std::collections::HashSet::new();
        while Instant::now() < until {
            let board = platform().get(&format!("{PLATFORM}/board?TenantId={developer}")).await.expect(200);
            let columns = &list(&board["Columns"])[..2];
            let mut met = Vec::new();
            for column in columns {
                let items = deal_ids(&column["Items"]);
                let total = if items.is_empty() {
                    json!([])
                } else {
                    json!([{"AmountMinor": 100 * items.len(), "Currency": "RUB"}])
                };
                assert_eq!((&column["TotalCount"], &column["Totals"]), (&json!(items.len()), &total));
                seen.insert(items.len());
                met.extend(items);
            }
            met.sort_unstable();
            met.dedup();
            assert_eq!(met.len(), 10);
        }
        seen
    };
    let ((), seen) = tokio::join!(move_deals, read);
    assert!(seen.len() > 2, "deals have moved: {seen:?}");
}
