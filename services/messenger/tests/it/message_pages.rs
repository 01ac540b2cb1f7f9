//! Pages of messages.

use serde_json::{Value, json};
use testkit::guid;

use crate::{as_user, each, list, open_chat, path, send_text, service};

/// RULE-MSG-007, RULE-ALL-021: pages are newest first, or oldest first with `AfterSequence`.
/// `HasMore` is true if more messages follow in this direction.
#[tokio::test]
async fn messages_are_paged_by_sequence() {
    let (deal, id) = open_chat().await;
    for at in 1..=7 {
        send_text(id, deal.client, &at.to_string()).await;
    }
    let me = as_user(deal.agent());
    for (query, sequences, has_more) in [
        ("", vec![7, 6, 5, 4, 3, 2, 1], false),
        ("PageSize=7", vec![7, 6, 5, 4, 3, 2, 1], false),
        ("PageSize=3", vec![7, 6, 5], true),
        ("PageSize=3&BeforeSequence=5", vec![4, 3, 2], true),
        ("PageSize=3&BeforeSequence=4", vec![3, 2, 1], false),
        ("BeforeSequence=1", vec![], false),
        ("BeforeSequence=0", vec![], false),
        ("BeforeSequence=9223372036854775807&PageSize=1", vec![7], true),
        ("AfterSequence=0&PageSize=2", vec![1, 2], true),
        ("AfterSequence=5&PageSize=2", vec![6, 7], false),
        ("AfterSequence=7", vec![], false),
        ("AfterSequence=9223372036854775807", vec![], false),
    ] {
        let page = me.get(&path(id, &format!("/messages?{query}"))).await.expect(200);
        let found: Vec<_> = each(list(&page["Items"]), "Sequence").into_iter().cloned().collect();
        assert_eq!((json!(found), &page["HasMore"]), (json!(sequences), &json!(has_more)), "{query}");
        assert_eq!(page["LastSequence"], 7);
        assert_eq!(page.as_object().unwrap().len(), 3);
    }
}

/// RULE-MSG-007: a page has 1 to 100 messages, 50 by default.
#[tokio::test]
async fn message_page_has_at_most_one_hundred_messages() {
    let (deal, id) = open_chat().await;
    let sql = service().sql().await;
    let fill = "insert into message (id, chat_id, sequence, kind, sender_user_id, text, created_at, version) \
        select gen_random_uuid(), $1::text::uuid, n, 'Text', $2::text::uuid, n::text, now(), 1 \
        from generate_series(1, 120) as n";
    sql.execute(fill, &[&id.to_string(), &deal.client.to_string()]).await.unwrap();
    sql.execute("update chat set last_sequence = 120 where id = $1::text::uuid", &[&id.to_string()])
        .await
        .unwrap();
    let me = as_user(deal.client);
    for (query, count) in
        [("", 50), ("PageSize=1", 1), ("PageSize=100", 100), ("PageSize=100&BeforeSequence=21", 20)]
    {
        let page = me.get(&path(id, &format!("/messages?{query}"))).await.expect(200);
        assert_eq!(list(&page["Items"]).len(), count, "{query}");
        // Only the last query reaches the first message.
        assert_eq!(page["HasMore"], count != 20, "{query}");
    }
}

/// RULE-MSG-007: an invalid query is 400 before the chat is looked up.
#[tokio::test]
async fn invalid_message_query_is_refused() {
    let (deal, id) = open_chat().await;
    for caller in [as_user(deal.client), as_user(guid())] {
        for (query, field, reason) in [
            ("BeforeSequence=1&AfterSequence=1", "/AfterSequence", "not_together"),
            ("BeforeSequence=-1", "/BeforeSequence", "out_of_range"),
            ("AfterSequence=-1", "/AfterSequence", "out_of_range"),
            ("AfterSequence=x", "/AfterSequence", "invalid_type"),
            ("AfterSequence=9223372036854775808", "/AfterSequence", "invalid_type"),
            ("PageSize=0", "/PageSize", "out_of_range"),
            ("PageSize=101", "/PageSize", "out_of_range"),
            ("PageSize=1&PageSize=2", "/PageSize", "duplicate"),
        ] {
            let refused = caller.get(&path(id, &format!("/messages?{query}"))).await;
            refused.expect_refusal("VALIDATION_FAILED", field, reason);
        }
    }
    let stranger = as_user(guid()).get(&path(id, "/messages")).await;
    stranger.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let empty = as_user(deal.client).get(&path(id, "/messages")).await.expect(200);
    assert_eq!(empty, json!({"Items": [], "HasMore": false, "LastSequence": 0}));
    assert_eq!(empty["Items"], Value::Array(Vec::new()));
}
