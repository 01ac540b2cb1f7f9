//! Uploads and jobs of imports that run at the same time or repeat.

use std::fmt::Write as _;

use chessboard::Service;
use futures_util::future::join;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, send};
use testkit::dedicated::DedicatedService;
use testkit::held::HeldLocks;
use testkit::languages::code_in_each_language;
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::catalog_fill::{execute_sql, single_building_catalog};
use crate::feed_imports::{
    IMPORTS, apply, create, feed, import, import_path, offer, only_building, send_file, wait_for,
};
use crate::objects::{CANCELLED, book_object, deliver_deal_event, flats, published_house};
use crate::{MANAGE, id_of, service, user_claims};

/// Returns the bytes of a text as hexadecimal digits.
fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Stores `content` as the uploaded file of an import, and `file_bytes` as the size of the upload.
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

/// RULE-CHS-075: the transaction that begins an upload also deletes the files of older uploads. A
/// later deletion could delete the file of a newer upload.
#[tokio::test]
async fn upload_deletes_older_files_in_transaction_that_begins_it() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    execute_sql(service(), &format!("insert into feed_chunk values ('{import}', '{}', 0, 'x')", guid()))
        .await;
    let old = format!("select from feed_chunk where import_id = '{import}' for update");
    let held = HeldLocks::lock(service(), &old).await;
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
        let attempts: i32 = row.expect("the job of the validation").get(0);
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
    // The trigger raises the version once more, as the start of another run would.
    execute_sql(
        service(),
        &format!(
            "create function begin_another_run() returns trigger language plpgsql as \
             $$ begin new.version := new.version + 1; return new; end $$; \
             create trigger another_run before update on feed_import for each row \
             when (old.id = '{import}') execute function begin_another_run()"
        ),
    )
    .await;
    schedule_validation(import).await;
    eventually("the end of the run", async || {
        let jobs = format!("select 1 from job where kind = 'feed-validation' and key = '{import}'");
        service().sql().await.query_opt(&jobs, &[]).await.unwrap().is_none().then_some(())
    })
    .await;
    execute_sql(service(), "drop function begin_another_run cascade").await;
    let read = house.manager.get(&import_path(import, "")).await.expect(200);
    assert_eq!(read["State"], "Validating");
    assert_eq!((rows("feed_offer", import).await, rows("feed_chunk", import).await), (0, 1));
}

/// RULE-CHS-076: an interrupted validation begins again, and the first run leaves no result.
#[tokio::test]
async fn interrupted_validation_begins_again() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    let upload = guid();
    let content = feed(&[offer("g-1", "1", 5), offer("g-2", "2", 5)]);
    let (one, other) = content.split_at(content.len() / 2 + 1);
    execute_sql(
        service(),
        &format!(
            "insert into feed_chunk values ('{import}', '{upload}', 0, '\\x{}'), ('{import}', '{upload}', 1, '\\x{}'); \
             insert into feed_problem (import_id, building_id, offer_position, line, element, code) \
                 values ('{import}', '{}', 1, 1, 'x', 'required'); \
             insert into feed_offer values ('{import}', '{}', 0, 1, 'old', '{{}}'); \
             update feed_import set state = 'Validating', upload_id = '{upload}', file_bytes = {} \
                 where id = '{import}'; \
             insert into job (kind, key, due_at) values ('feed-validation', '{import}', now())",
            hex(one),
            hex(other),
            house.building,
            house.building,
            content.len()
        ),
    )
    .await;
    let validated = wait_for(&house, import, &["Validated"]).await;
    assert_eq!((&validated["OffersCount"], &validated["RejectedCount"]), (&json!(2), &json!(0)));
    assert_eq!(only_building(&house, &validated).await["CreatedCount"], 2);
    eventually("the deletion of the file", async || (rows("feed_chunk", import).await == 0).then_some(()))
        .await;
}

/// RULE-CHS-073: an object that the preview lists as kept stays unchanged, even if its deal ends
/// before the application.
#[tokio::test]
async fn kept_object_stays_after_its_deal_has_ended() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let object = house.id_of("1").await;
    let deal = book_object(&house, "1").await;
    let validated = import(&house, feed(&[offer("a", "1", 5), offer("b", "2", 5)])).await;
    assert_eq!(only_building(&house, &validated).await["KeptCount"], 1);
    deliver_deal_event(CANCELLED, deal, object, 2, "2026-11-22T11:00:00Z").await;
    assert_eq!(house.object("1").await["Status"], "Available");
    let applied = apply(&house, &validated, json!({})).await;
    assert_eq!(only_building(&house, &applied).await["State"], "Applied");
    let (kept, changed) = (house.object("1").await, house.object("2").await);
    assert_eq!((&kept["ExternalId"], &kept["Price"]["AmountMinor"]), (&Value::Null, &json!(1_250_000_000)));
    assert_eq!((&changed["ExternalId"], &changed["Price"]["AmountMinor"]), (&json!("b"), &json!(500)));
}

/// RULE-CHS-073: the offers of a building beyond the first 5,000 are rejected in batches, each
/// once.
#[tokio::test]
async fn offers_beyond_5000_of_a_building_are_rejected() {
    let house = published_house().await;
    let offers: Vec<_> = (0..7_100)
        .map(|n| {
            // A floor of a section has at most 1,000 positions.
            let floor = format!("<floor>{}<", n % 10 + 1);
            offer(&format!("k-{n}"), &n.to_string(), 5).replace("<floor>2<", &floor)
        })
        .collect();
    let validated = import(&house, feed(&offers)).await;
    assert_eq!(
        (&validated["State"], &validated["OffersCount"], &validated["RejectedCount"]),
        (&json!("Validated"), &json!(7_100), &json!(2_100))
    );
    let building = only_building(&house, &validated).await;
    assert_eq!(
        (&building["State"], &building["OffersCount"], &building["CreatedCount"]),
        (&json!("Blocked"), &json!(7_100), &json!(5_000))
    );
    let rejected = format!(
        "select count(*), count(distinct offer_position), min(offer_position), max(offer_position) \
         from feed_problem where import_id = '{}' and code = 'too_many_objects'",
        id_of(&validated["Id"])
    );
    let row = service().sql().await.query_one(&rejected, &[]).await.unwrap();
    let figures: [i64; 4] = std::array::from_fn(|at| row.get(at));
    assert_eq!(figures, [2_100, 2_100, 5_000, 7_099]);
}

/// RULE-CHS-077, RULE-ALL-010: an upload above the limit of an hour is refused, also for another
/// import. Another developer has a limit of its own, and the next hour has the whole limit.
#[tokio::test]
async fn upload_above_the_limit_is_refused() {
    let own = DedicatedService::start::<Service>(&[("FEED_MAX_UPLOADS_PER_HOUR", "2")]);
    let catalogs = [single_building_catalog(), single_building_catalog()];
    for catalog in &catalogs {
        catalog.fill(&own).await;
    }
    let [by, other] =
        catalogs.map(|catalog| own.caller(&user_claims(Some(catalog.developers[0].id), &[MANAGE])));
    let create = async |by: &Client| id_of(&by.post(IMPORTS, json!({})).await.expect(201)["Id"]);
    let upload = |by: &Client, import| by.request(Method::PUT, &import_path(import, "/file")).body("x");
    for _ in 0..2 {
        let import = create(&by).await;
        send(upload(&by, import)).await.expect(200);
        by.delete(&import_path(import, "")).await.expect(204);
    }
    let import = create(&by).await;
    let refused = send(upload(&by, import)).await;
    let wait = refused.header("retry-after").parse::<u64>().unwrap();
    assert!((3_500..=3_601).contains(&wait), "{wait}");
    refused.expect_problem(429, "CHESSBOARD_FEED_UPLOADS_LIMIT_EXCEEDED");
    code_in_each_language(|| upload(&by, import)).await;
    assert_eq!(by.get(&import_path(import, "")).await.expect(200)["State"], "Created");
    send(upload(&other, create(&other).await)).await.expect(200);
    let later = "update feed_upload_count set hour_began_at = hour_began_at - interval '1 hour'";
    execute_sql(&own, later).await;
    send(upload(&by, import)).await.expect(200);
}
