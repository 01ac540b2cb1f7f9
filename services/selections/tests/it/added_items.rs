//! The limit of items that a user adds in an hour.

use std::sync::OnceLock;

use futures_util::future::join_all;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::service::Running;

use crate::{
    FROM_FAVORITES, SELECTIONS, create_selection, guid, guids, item_path, items, items_of, items_path, mark,
    objects, path,
};

const CODE: &str = "SELECTIONS_ADDED_ITEMS_LIMIT_EXCEEDED";

/// Returns a service where a user adds at most six items in an hour.
fn limited_service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE
        .get_or_init(|| Running::start::<Service>(&[("SELECTIONS_MAX_ADDED_ITEMS_PER_PERSON_PER_HOUR", "6")]))
}

/// Checks a refusal with the rest of the hour as `Retry-After`.
#[track_caller]
fn check_refusal(refused: Response) {
    let wait = refused.header("retry-after").parse::<u64>().unwrap();
    assert!((3_500..=3_601).contains(&wait), "{wait}");
    assert!(refused.text.contains("at most 6 property objects"), "{}", refused.text);
    refused.expect_problem(429, CODE);
}

/// RULE-SEL-060: a user at the limit adds no item by any operation. Items that stay in a list,
/// removals and other users do not count.
#[tokio::test]
async fn user_at_the_limit_adds_no_item() {
    let (_, owner) = limited_service().user();
    let selection = create_selection(&owner).await;
    let first = objects(&selection)[0];
    let list = [vec![first], guids(2)].concat();
    owner.put(&items_path(&selection), json!({"Items": items_of(&list)})).await.expect(200);
    owner.put(&item_path(&selection, guid()), Value::Null).await.expect(200);
    mark(&owner, guid()).await;

    check_refusal(owner.put(&item_path(&selection, guid()), Value::Null).await);
    check_refusal(owner.put(&items_path(&selection), json!({"Items": items(1)})).await);
    check_refusal(owner.post(&format!("{}/duplicate", path(&selection)), json!({})).await);
    check_refusal(owner.post(FROM_FAVORITES, json!({})).await);
    check_refusal(owner.post(SELECTIONS, json!({"Title": "Spring", "Items": items(1)})).await);

    let unchanged = owner.put(&item_path(&selection, first), Value::Null).await.expect(200);
    assert_eq!(objects(&unchanged).len(), 4, "a refusal adds no item");
    owner.put(&items_path(&selection), json!({"Items": items_of(&[first])})).await.expect(200);
    owner.post(SELECTIONS, json!({"Title": "Empty"})).await.expect(201);
    let own = owner.get(SELECTIONS).await.expect(200);
    assert_eq!(own["TotalCount"], 2, "a refusal creates no selection");
    create_selection(&limited_service().user().1).await;
}

/// RULE-SEL-060: concurrent additions do not exceed the limit, and the next hour begins with no
/// items.
#[tokio::test]
async fn concurrent_additions_do_not_exceed_the_limit() {
    let (id, owner) = limited_service().user();
    let selection = owner.post(SELECTIONS, json!({"Title": "Spring"})).await.expect(201);
    let paths: Vec<_> = (0..10).map(|_| item_path(&selection, guid())).collect();
    let responses = join_all(paths.iter().map(|path| owner.put(path, Value::Null))).await;
    let added = responses.iter().filter(|response| response.status == 200).count();
    assert_eq!(added, 6);
    responses.into_iter().filter(|response| response.status != 200).for_each(check_refusal);

    let sql = limited_service().cached_sql().await;
    let earlier = "update owner set added_items_since = added_items_since - interval '1 hour' where user_id = $1::text::uuid";
    sql.execute(earlier, &[&id.to_string()]).await.unwrap();
    owner.put(&item_path(&selection, guid()), Value::Null).await.expect(200);
}
