//! What somebody has read, and what not.

use serde_json::json;
use testkit::guid;

use crate::{chat_direct, open_chat, path, person, say, view, with};

/// Section 1: the marker only rises, up to the last message; `UnreadCount` is what is left.
#[tokio::test]
async fn a_marker_only_rises() {
    let (deal, id) = open_chat().await;
    for _ in 0..5 {
        say(id, deal.client, "а").await;
    }
    let reader = person(deal.agent());
    for (sequence, read) in [(0, 0), (2, 2), (1, 2), (3, 3), (i64::MAX, 5), (4, 5), (5, 5)] {
        let marker = reader.put(&path(id, "/read"), json!({"Sequence": sequence})).await.expect(200);
        let expected = json!({"ChatId": id, "ReadSequence": read, "UnreadCount": 5 - read});
        assert_eq!(marker, expected, "after {sequence}");
    }
    let seen = view(id, deal.agent()).await;
    assert_eq!((&seen["ReadSequence"], &seen["UnreadCount"]), (&json!(5), &json!(0)));
    let members = view(id, deal.client).await["Members"].clone();
    let agent = members.as_array().unwrap().iter().find(|member| member["UserId"] == json!(deal.agent()));
    assert_eq!(agent.unwrap()["ReadSequence"], 5, "all see how far one has read");
}

/// Section 1: `{Sequence}`, 0 or more, 64 bits; what is wrong is 400 before the chat is looked for.
#[tokio::test]
async fn a_marker_is_a_whole_number() {
    let (deal, id) = open_chat().await;
    let (member, stranger) = (person(deal.client), person(guid()));
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

/// Section 1: the badge counts chats and messages that were not read, of any kind.
#[tokio::test]
async fn the_badge_counts_what_was_not_read() {
    let (deal, id) = open_chat().await;
    let badge = async || person(deal.client).get("/api/messenger/unread").await.expect(200);
    assert_eq!(badge().await, json!({"ChatsCount": 0, "MessagesCount": 0}));
    say(id, deal.agent(), "раз").await;
    say(id, deal.agent(), "два").await;
    let direct = chat_direct::open(deal.manager, deal.client).await;
    say(direct, deal.manager, "три").await;
    assert_eq!(badge().await, json!({"ChatsCount": 2, "MessagesCount": 3}));
    say(direct, deal.client, "кто пишет, тот прочёл").await;
    assert_eq!(badge().await, json!({"ChatsCount": 1, "MessagesCount": 2}));
    person(deal.client).put(&path(id, "/read"), json!({"Sequence": 1})).await.expect(200);
    assert_eq!(badge().await, json!({"ChatsCount": 1, "MessagesCount": 1}));
    let nobody = person(guid()).get("/api/messenger/unread").await.expect(200);
    assert_eq!(nobody, json!({"ChatsCount": 0, "MessagesCount": 0}));
}
