//! Lists of one's own chats.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{CHATS, Deal, chat_direct, each, list, person, say, service, view};

async fn ids(user: Uuid, query: &str) -> Vec<Value> {
    let page = person(user).get(&format!("{CHATS}?{query}")).await.expect(200);
    each(list(&page["Items"]), "Id").into_iter().cloned().collect()
}

/// Section 1: own chats by the newest activity, or by when they were made; filters by kind, deal and what is unread.
#[tokio::test]
async fn own_chats_are_sorted_and_filtered() {
    let first = Deal::new();
    first.tell_created().await;
    let one = first.chat().await;
    let second = Deal { client: first.client, ..Deal::new() };
    second.tell_created().await;
    let two = second.chat().await;
    let me = first.client;
    let three = chat_direct::open(me, second.manager).await;
    let (one_id, two_id, three_id) = (json!(one), json!(two), json!(three));
    assert_eq!(ids(me, "").await, [three_id.clone(), two_id.clone(), one_id.clone()]);
    say(one, first.agent(), "новое").await;
    assert_eq!(ids(me, "").await, [one_id.clone(), three_id.clone(), two_id.clone()]);
    assert_eq!(ids(me, "Sort=LastActivityAt").await, [two_id.clone(), three_id.clone(), one_id.clone()]);
    assert_eq!(ids(me, "Sort=CreatedAt").await, [one_id.clone(), two_id.clone(), three_id.clone()]);
    assert_eq!(ids(me, "Kind=Direct").await, std::slice::from_ref(&three_id));
    assert_eq!(ids(me, "Kind=Deal&Sort=CreatedAt").await, [one_id.clone(), two_id.clone()]);
    assert_eq!(ids(me, "Kind=Deal,Direct").await.len(), 3);
    assert_eq!(ids(me, &format!("DealId={}", second.id)).await, std::slice::from_ref(&two_id));
    assert_eq!(ids(me, &format!("DealId={}", guid())).await, [Value::Null; 0]);
    assert_eq!(ids(me, "Unread=true").await, std::slice::from_ref(&one_id));
    assert_eq!(ids(me, "Unread=false").await.len(), 3);
    assert_eq!(ids(me, "Live=true").await, [Value::Null; 0]);
    let page = person(me).get(&format!("{CHATS}?Page=2&PageSize=2&Sort=CreatedAt")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&three_id]);
    assert_eq!((&page["TotalCount"], &page["Page"], &page["PageSize"]), (&json!(3), &json!(2), &json!(2)));
    assert_eq!(page["Items"][0], view(three, me).await, "an item is the chat as its reader sees it");
}

/// Conventions, paging: chats of one moment are in the order of their ids, whichever way they are sorted and wherever pages are cut.
#[tokio::test]
async fn chats_of_one_moment_are_in_the_order_of_their_ids() {
    let me = guid();
    let mut chats = Vec::new();
    for _ in 0..5 {
        let deal = Deal { client: me, ..Deal::new() };
        deal.tell_created().await;
        chats.push(deal.chat().await);
    }
    chats.sort_unstable();
    let ids: Vec<_> = chats.iter().map(|id| format!("'{id}'")).collect();
    let moment = "timestamptz '2026-01-01 00:00:00+00'";
    let of_one_moment = format!(
        "update chat set created_at = {moment}, last_activity_at = {moment} where id in ({})",
        ids.join(",")
    );
    service().sql().await.batch_execute(&of_one_moment).await.unwrap();
    let expected: Vec<Value> = chats.iter().map(|id| json!(id)).collect();
    for sort in ["LastActivityAt", "-LastActivityAt", "CreatedAt", "-CreatedAt"] {
        for size in [1, 2, 5] {
            let mut met = Vec::new();
            for page in 1..=5_usize.div_ceil(size) {
                met.extend(self::ids(me, &format!("Sort={sort}&PageSize={size}&Page={page}")).await);
            }
            assert_eq!(met, expected, "{sort} by {size}");
        }
    }
}

/// Conventions, paging: what is wrong with a query is 400.
#[tokio::test]
async fn a_query_that_is_wrong_is_refused() {
    let me = person(guid());
    for (query, field, reason) in [
        ("Kind=Group", "/Kind", "unknown_value"),
        ("Kind=", "/Kind", "unknown_value"),
        ("Sort=Id", "/Sort", "unknown_value"),
        ("Scope=Platform", "/Scope", "unknown_value"),
        ("DealId=x", "/DealId", "invalid_type"),
        ("Unread=yes", "/Unread", "invalid_type"),
        ("Live=1", "/Live", "invalid_type"),
        ("PageSize=101", "/PageSize", "out_of_range"),
        ("Page=0", "/Page", "out_of_range"),
        ("Scope=Tenant&Scope=Tenant", "/Scope", "duplicate"),
    ] {
        me.get(&format!("{CHATS}?{query}")).await.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}
