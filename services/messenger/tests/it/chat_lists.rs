//! Lists of own chats.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::fixture::ConferenceFixture;
use crate::{
    CHATS, Deal, MANAGE, as_user, chat_direct, claims_with, each, list, send_text, service, supervisor, view,
};

async fn chat_ids(user: Uuid, query: &str) -> Vec<Value> {
    let page = as_user(user).get(&format!("{CHATS}?{query}")).await.expect(200);
    each(list(&page["Items"]), "Id").into_iter().cloned().collect()
}

/// RULE-MSG-006: own chats are sorted by activity or creation, and filtered by kind, deal and
/// unread messages.
#[tokio::test]
async fn own_chats_are_sorted_and_filtered() {
    let first = Deal::new();
    first.publish_created().await;
    let one = first.chat().await;
    let second = Deal { client: first.client, ..Deal::new() };
    second.publish_created().await;
    let two = second.chat().await;
    let me = first.client;
    let three = chat_direct::open(me, second.manager).await;
    let (one_id, two_id, three_id) = (json!(one), json!(two), json!(three));
    assert_eq!(chat_ids(me, "").await, [three_id.clone(), two_id.clone(), one_id.clone()]);
    send_text(one, first.agent(), "новое").await;
    assert_eq!(chat_ids(me, "").await, [one_id.clone(), three_id.clone(), two_id.clone()]);
    assert_eq!(chat_ids(me, "Sort=LastActivityAt").await, [two_id.clone(), three_id.clone(), one_id.clone()]);
    assert_eq!(chat_ids(me, "Sort=CreatedAt").await, [one_id.clone(), two_id.clone(), three_id.clone()]);
    assert_eq!(chat_ids(me, "Kind=Direct").await, std::slice::from_ref(&three_id));
    assert_eq!(chat_ids(me, "Kind=Deal&Sort=CreatedAt").await, [one_id.clone(), two_id.clone()]);
    assert_eq!(chat_ids(me, "Kind=Deal,Direct").await.len(), 3);
    assert_eq!(chat_ids(me, &format!("DealId={}", second.id)).await, std::slice::from_ref(&two_id));
    assert_eq!(chat_ids(me, &format!("DealId={}", guid())).await, [Value::Null; 0]);
    assert_eq!(chat_ids(me, "Unread=true").await, std::slice::from_ref(&one_id));
    assert_eq!(chat_ids(me, "Unread=false").await.len(), 3);
    assert_eq!(chat_ids(me, "Live=true").await, [Value::Null; 0]);
    let page = as_user(me).get(&format!("{CHATS}?Page=2&PageSize=2&Sort=CreatedAt")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&three_id]);
    assert_eq!((&page["TotalCount"], &page["Page"], &page["PageSize"]), (&json!(3), &json!(2), &json!(2)));
    assert_eq!(page["Items"][0], view(three, me).await, "an item is the chat as the caller sees it");
}

/// RULE-MSG-006: ties are sorted by id in every sort and over all pages, for members and
/// supervisors.
#[tokio::test]
async fn chats_with_equal_times_are_sorted_by_id() {
    let (me, tenant) = (guid(), guid());
    let mut chats = Vec::new();
    for _ in 0..5 {
        let deal = Deal { client: me, tenant, ..Deal::new() };
        deal.publish_created().await;
        chats.push(deal.chat().await);
    }
    chats.sort_unstable();
    let quoted: Vec<_> = chats.iter().map(|id| format!("'{id}'")).collect();
    let time = "timestamptz '2026-01-01 00:00:00+00'";
    let set_times = format!(
        "update chat set created_at = {time}, last_activity_at = {time} where id in ({})",
        quoted.join(",")
    );
    service().sql().await.batch_execute(&set_times).await.unwrap();
    let expected: Vec<Value> = chats.iter().map(|id| json!(id)).collect();
    for (caller, scope) in [(as_user(me), ""), (supervisor(tenant), "&Scope=Tenant")] {
        for sort in ["LastActivityAt", "-LastActivityAt", "CreatedAt", "-CreatedAt"] {
            for size in [1, 2, 5] {
                let mut listed = Vec::new();
                for page in 1..=5_usize.div_ceil(size) {
                    let path = format!("{CHATS}?Sort={sort}&PageSize={size}&Page={page}{scope}");
                    let page = caller.get(&path).await.expect(200);
                    listed.extend(each(list(&page["Items"]), "Id").into_iter().cloned());
                }
                assert_eq!(listed, expected, "{sort} by {size}{scope}");
            }
        }
    }
}

/// RULE-MSG-006: `Live=true` lists only chats with a live conference.
#[tokio::test]
async fn chat_with_a_live_conference_is_found() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let quiet = Deal { client, ..Deal::new() };
    quiet.publish_created().await;
    quiet.chat().await;
    let (chat, none) = (json!(fixture.chat), [Value::Null; 0]);
    assert_eq!(chat_ids(client, "Live=true").await, none);
    let id = fixture.ring(None).await;
    for user in [client, agent] {
        assert_eq!(chat_ids(user, "Live=true").await, std::slice::from_ref(&chat));
    }
    assert_eq!(chat_ids(client, "Live=false").await.len(), 2);
    assert_eq!(chat_ids(client, "Live=true&Kind=Direct").await, none);
    assert_eq!(chat_ids(client, &format!("Live=true&DealId={}", quiet.id)).await, none);
    let supervisor = service().caller(&claims_with(agent, Some(fixture.deal.tenant), &[MANAGE]));
    let page = supervisor.get(&format!("{CHATS}?Scope=Tenant&Live=true")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&chat], "only among the supervisor's own chats");
    fixture.act(client, id, "end").await.expect(200);
    assert_eq!(chat_ids(client, "Live=true").await, none);
}

/// RULE-MSG-006: an invalid query of the list is 400.
#[tokio::test]
async fn invalid_list_query_is_refused() {
    let me = as_user(guid());
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
