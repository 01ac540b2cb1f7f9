//! Lists of one's own chats.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::calls::Line;
use crate::{CHATS, Deal, MANAGE, chat_direct, each, holder, list, person, say, service, supervisor, view};

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

/// Conventions, paging: chats of one moment are in the order of their ids, whichever way they are sorted and wherever pages are cut; for
/// members and for supervisors.
#[tokio::test]
async fn chats_of_one_moment_are_in_the_order_of_their_ids() {
    let (me, tenant) = (guid(), guid());
    let mut chats = Vec::new();
    for _ in 0..5 {
        let deal = Deal { client: me, tenant, ..Deal::new() };
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
    for (caller, scope) in [(person(me), ""), (supervisor(tenant), "&Scope=Tenant")] {
        for sort in ["LastActivityAt", "-LastActivityAt", "CreatedAt", "-CreatedAt"] {
            for size in [1, 2, 5] {
                let mut met = Vec::new();
                for page in 1..=5_usize.div_ceil(size) {
                    let asked = format!("{CHATS}?Sort={sort}&PageSize={size}&Page={page}{scope}");
                    let page = caller.get(&asked).await.expect(200);
                    met.extend(each(list(&page["Items"]), "Id").into_iter().cloned());
                }
                assert_eq!(met, expected, "{sort} by {size}{scope}");
            }
        }
    }
}

/// Section 1: chats with a live call are found by it, while it is live.
#[tokio::test]
async fn a_live_call_is_found_by_its_chat() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    let quiet = Deal { client, ..Deal::new() };
    quiet.tell_created().await;
    quiet.chat().await;
    let (chat, none) = (json!(line.chat), [Value::Null; 0]);
    assert_eq!(ids(client, "Live=true").await, none);
    let id = line.ring(None).await;
    for user in [client, agent] {
        assert_eq!(ids(user, "Live=true").await, std::slice::from_ref(&chat));
    }
    assert_eq!(ids(client, "Live=false").await.len(), 2);
    assert_eq!(ids(client, "Live=true&Kind=Direct").await, none);
    assert_eq!(ids(client, &format!("Live=true&DealId={}", quiet.id)).await, none);
    let boss = service().caller(&holder(agent, Some(line.deal.tenant), &[MANAGE]));
    let page = boss.get(&format!("{CHATS}?Scope=Tenant&Live=true")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&chat], "of those that are their own");
    line.act(client, id, "end").await.expect(200);
    assert_eq!(ids(client, "Live=true").await, none);
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
        ("Page=101&PageSize=100", "/Page", "out_of_range"),
        ("Scope=Tenant&Scope=Tenant", "/Scope", "duplicate"),
    ] {
        me.get(&format!("{CHATS}?{query}")).await.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}
