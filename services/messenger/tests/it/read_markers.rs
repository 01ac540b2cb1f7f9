//! Read markers and unread counts.

use serde_json::json;
use testkit::guid;

use crate::{as_user, chat_direct, open_chat, path, send_text, view, with};

/// INV-MSG-5, RULE-MSG-006: the marker rises up to the newest message, and `UnreadCount` counts
/// the later messages.
#[tokio::test]
async fn read_marker_only_rises() {
    let (deal, id) = open_chat().await;
    for _ in 0..5 {
        send_text(id, deal.client, "а").await;
    }
    let reader = as_user(deal.agent());
    for (sequence, read) in [(0, 0), (2, 2), (1, 2), (3, 3), (i64::MAX, 5), (4, 5), (5, 5)] {
        let marker = reader.put(&path(id, "/read"), json!({"Sequence": sequence})).await.expect(200);
        let expected = json!({"ChatId": id, "ReadSequence": read, "UnreadCount": 5 - read});
        assert_eq!(marker, expected, "after {sequence}");
    }
    let seen = view(id, deal.agent()).await;
    assert_eq!((&seen["ReadSequence"], &seen["UnreadCount"]), (&json!(5), &json!(0)));
    let members = view(id, deal.client).await["Members"].clone();
    let agent = members.as_array().unwrap().iter().find(|member| member["UserId"] == json!(deal.agent()));
    assert_eq!(agent.unwrap()["ReadSequence"], 5, "every member sees the marker");
}

/// RULE-MSG-006: an invalid `Sequence` is 400 before the chat is looked up.
#[tokio::test]
async fn invalid_read_marker_is_refused() {
    let (deal, id) = open_chat().await;
    let (member, stranger) = (as_user(deal.client), as_user(guid()));
    for (sequence, reason) in [
        (json!(-1), "out_of_range"),
        (json!(1.5), "invalid_type"),
        (json!("1"), "invalid_type"),
        (json!(null), "invalid_type"),
        (json!(9_223_372_036_854_775_808_u64), "out_of_range"),
        (json!(u64::MAX), "out_of_range"),
    ] {
        let body = with(json!({}), "Sequence", sequence);
        for caller in [&member, &stranger] {
            let refused = caller.put(&path(id, "/read"), body.clone()).await;
            refused.expect_refusal("VALIDATION_FAILED", "/Sequence", reason);
        }
    }
    member.put(&path(id, "/read"), json!({})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Sequence",
        "required",
    );
    for chat in [id, guid()] {
        let refused = stranger.put(&path(chat, "/read"), json!({"Sequence": 1})).await;
        refused.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
}

/// RULE-MSG-006: the count covers the unread messages of all own chats, of any kind.
#[tokio::test]
async fn unread_count_covers_all_own_chats() {
    let (deal, id) = open_chat().await;
    let unread = async || as_user(deal.client).get("/api/messenger/unread").await.expect(200);
    assert_eq!(unread().await, json!({"ChatsCount": 0, "MessagesCount": 0}));
    send_text(id, deal.agent(), "раз").await;
    send_text(id, deal.agent(), "два").await;
    let direct = chat_direct::open(deal.manager, deal.client).await;
    send_text(direct, deal.manager, "три").await;
    assert_eq!(unread().await, json!({"ChatsCount": 2, "MessagesCount": 3}));
    send_text(direct, deal.client, "кто пишет, тот прочёл").await;
    assert_eq!(unread().await, json!({"ChatsCount": 1, "MessagesCount": 2}));
    as_user(deal.client).put(&path(id, "/read"), json!({"Sequence": 1})).await.expect(200);
    assert_eq!(unread().await, json!({"ChatsCount": 1, "MessagesCount": 1}));
    let stranger = as_user(guid()).get("/api/messenger/unread").await.expect(200);
    assert_eq!(stranger, json!({"ChatsCount": 0, "MessagesCount": 0}));
}
