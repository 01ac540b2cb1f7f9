//! Uploads and jobs of imports that run at the same time or repeat.

use futures_util::future::join;
use serde_json::json;
use testkit::held::Held;
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::catalog_fill::execute_sql;
use crate::feed_imports::{create, feed, hex, import_path, offer, send_file, wait_for};
use crate::objects::published_house;
use crate::service;

/// Stores an uploaded file of an import, with the number of bytes that the import has.
async fn store_file(import: Uuid, content: &str, file_bytes: usize) {
    let upload = guid();
    execute_sql(
        service(),
        &format!(
            "insert into feed_chunk values ('{import}', '{upload}', 0, '\\x{}'); \
             update feed_import set state = 'Validating', upload_id = '{upload}', file_bytes = {file_bytes} \
                 where id = '{import}'",
            hex(content)
        ),
    )
    .await;
}

async fn schedule_validation(import: Uuid) {
    let job = format!("insert into job (kind, key, due_at) values ('feed-validation', '{import}', now())");
    execute_sql(service(), &job).await;
}

/// Returns the number of rows of an import in a table.
async fn rows(table: &str, import: Uuid) -> i64 {
    let count = format!("select count(*) from {table} where import_id = '{import}'");
    service().sql().await.query_one(&count, &[]).await.unwrap().get(0)
}

/// RULE-CHS-075: an upload deletes the files of older uploads in the transaction that begins it, so
/// it cannot delete the file of a later one.
#[tokio::test]
async fn upload_deletes_older_files_in_transaction_that_begins_it() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    execute_sql(service(), &format!("insert into feed_chunk values ('{import}', '{}', 0, 'x')", guid()))
        .await;
    let old = format!("select from feed_chunk where import_id = '{import}' for update");
    let held = Held::lock(service(), &old).await;
    let watched = async {
        held.wait_for(1, "delete from feed_chunk%").await;
        let before = house.manager.get(&import_path(import, "")).await.expect(200);
        assert_eq!(before["State"], "Created", "the upload has begun before it deleted the older files");
        held.release().await;
    };
    let (uploaded, ()) = join(send_file(&house, import, feed(&[offer("1", "1", 5)])), watched).await;
    uploaded.expect(200);
    let validated = wait_for(&house, import, &["Validated", "Failed"]).await;
    assert_eq!((&validated["State"], &validated["OffersCount"]), (&json!("Validated"), &json!(1)));
}

/// RULE-CHS-070: a file without one of its parts is not validated, even if the rest is whole XML.
#[tokio::test]
async fn file_with_missing_part_is_not_validated() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    let content = feed(&[offer("1", "1", 5)]);
    store_file(import, &content, content.len() + 1).await;
    schedule_validation(import).await;
    eventually("the second attempt", async || {
        let attempts =
            format!("select attempts from job where kind = 'feed-validation' and key = '{import}'");
        let row = service().sql().await.query_opt(&attempts, &[]).await.unwrap();
        let attempts: i32 = row.expect("the job is not completed").get(0);
        (attempts > 1).then_some(())
    })
    .await;
    let read = house.manager.get(&import_path(import, "")).await.expect(200);
    assert_eq!(read["State"], "Validating");
    execute_sql(
        service(),
        &format!("update feed_import set file_bytes = {} where id = '{import}'", content.len()),
    )
    .await;
    wait_for(&house, import, &["Validated"]).await;
    eventually("the deletion of the file", async || (rows("feed_chunk", import).await == 0).then_some(()))
        .await;
}

/// RULE-CHS-076: a run of a validation writes nothing after another run has begun, and keeps the
/// file for it.
#[tokio::test]
async fn validation_writes_nothing_after_another_run_has_begun() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    let content = feed(&[offer("1", "1", 5)]);
    store_file(import, &content, content.len()).await;
    let read = async || house.manager.get(&import_path(import, "")).await.expect(200);
    let before = read().await;
    // The run waits for the first part of the file.
    let held = Held::lock(service(), "lock table feed_chunk in access exclusive mode").await;
    schedule_validation(import).await;
    eventually("the run", async || (read().await["Version"] != before["Version"]).then_some(())).await;
    execute_sql(service(), &format!("update feed_import set version = version + 1 where id = '{import}'"))
        .await;
    held.release().await;
    eventually("the end of the run", async || {
        let jobs = format!("select 1 from job where kind = 'feed-validation' and key = '{import}'");
        service().sql().await.query_opt(&jobs, &[]).await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(read().await["State"], "Validating");
    assert_eq!((rows("feed_offer", import).await, rows("feed_chunk", import).await), (0, 1));
}
