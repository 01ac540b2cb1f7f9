//! New messages and their texts.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{as_user, messages, open_chat, path, service, view, with};

/// RULE-MSG-007: a text is stored as sent, gets the next sequence, and is read by its sender.
#[tokio::test]
async fn message_is_stored_as_sent() {
    let (deal, id) = open_chat().await;
    let content = " Привет 🏠\n\t\"да\" \\ \u{1}\u{2028} ";
    let message =
        as_user(deal.client).post(&path(id, "/messages"), json!({"Text": content})).await.expect(201);
    assert_eq!(message["Text"], content);
    assert_eq!((&message["Kind"], &message["Sequence"]), (&json!("Text"), &json!(1)));
    assert_eq!((&message["SenderUserId"], &message["ChatId"]), (&json!(deal.client), &json!(id)));
    for field in ["ClientMessageId", "Card", "EditedAt", "DeletedAt"] {
        assert_eq!(message[field], Value::Null, "{field}");
    }
    assert_eq!(message["Version"], 1);
    assert_eq!(messages(id, deal.agent()).await, std::slice::from_ref(&message));
    let chat = view(id, deal.client).await;
    assert_eq!(
        (&chat["ReadSequence"], &chat["UnreadCount"]),
        (&json!(1), &json!(0)),
        "the sender has read the message"
    );
    assert_eq!(chat["LastMessage"], message);
    assert_eq!(chat["LastActivityAt"], message["CreatedAt"]);
    assert_eq!(view(id, deal.agent()).await["UnreadCount"], 1);
}

/// RULE-MSG-007: a text has 1 to 4,000 characters, at least one of them neither white space nor
/// invisible, and no NUL. 400 precedes 404.
#[tokio::test]
async fn invalid_text_is_refused() {
    let (deal, id) = open_chat().await;
    let (member, stranger) = (as_user(deal.client), as_user(guid()));
    for (content, reason) in [
        (json!(""), "too_short"),
        (json!(" \n\t\u{a0}\u{2003}"), "too_short"),
        (json!("\u{feff}"), "too_short"),
        (json!("\u{200b}\u{2060}"), "too_short"),
        (json!("я".repeat(4001)), "too_long"),
        (json!("a\0b"), "forbidden_character"),
        (json!(7), "invalid_type"),
        (json!(null), "invalid_type"),
    ] {
        for caller in [&member, &stranger] {
            let refused = caller.post(&path(id, "/messages"), with(json!({}), "Text", content.clone())).await;
            assert!(!refused.text.contains("яя"), "a problem has no text of the request");
            refused.expect_refusal("VALIDATION_FAILED", "/Text", reason);
        }
    }
    for (given, reason) in [(json!(Uuid::nil()), "empty_id"), (json!("x"), "invalid_type")] {
        let refused =
            member.post(&path(id, "/messages"), json!({"Text": "а", "ClientMessageId": given})).await;
        refused.expect_refusal("VALIDATION_FAILED", "/ClientMessageId", reason);
    }
    for content in ["🏠".repeat(4000), "a".to_owned(), "a\u{200b}".to_owned()] {
        member
            .post(&path(id, "/messages"), json!({"Text": content, "ClientMessageId": null}))
            .await
            .expect(201);
    }
    stranger
        .post(&path(id, "/messages"), json!({"Text": "а"}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    member
        .post(&path(Uuid::nil(), "/messages"), json!({"Text": "а"}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    service().guest().post(&path(id, "/messages"), json!({})).await.expect_problem(401, "UNAUTHORIZED");
    assert_eq!(messages(id, deal.client).await.len(), 3);
}

/// RULE-MSG-007, RULE-ALL-006: every Unicode scalar value counts and stays unchanged. A broken
/// surrogate is refused.
#[tokio::test]
async fn text_is_counted_in_unicode_scalar_values() {
    let (deal, id) = open_chat().await;
    let (me, target) = (as_user(deal.client), path(id, "/messages"));
    // Combining marks, a family of seven scalar values, a change of direction, and a byte order
    // mark.
    for content in [
        "e\u{301}".repeat(2000),
        "👨\u{200d}👩\u{200d}👧\u{200d}👦".to_owned(),
        "שלום \u{202e}abc\u{202c}".to_owned(),
        "\u{feff}a".to_owned(),
    ] {
        let sent = me.post(&target, json!({"Text": content})).await.expect(201);
        assert_eq!(sent["Text"], content);
        let read = as_user(deal.agent()).get(&path(id, "/messages?PageSize=1")).await.expect(200);
        assert_eq!(read["Items"][0]["Text"], content);
    }
    me.post(&target, json!({"Text": format!("{}x", "e\u{301}".repeat(2000))})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Text",
        "too_long",
    );
    for broken in [r#"{"Text": "\ud800"}"#, r#"{"Text": "a\udc00\ud800"}"#, r#"{"Text": "\u0000"}"#] {
        let request = me.request(reqwest::Method::POST, &target).header("content-type", "application/json");
        let response = testkit::client::send(request.body(broken)).await;
        response.expect_problem(400, "VALIDATION_FAILED");
    }
    let escaped = me.request(reqwest::Method::POST, &target).header("content-type", "application/json");
    let response = testkit::client::send(escaped.body(r#"{"Text": "\ud83c\udfe0"}"#)).await;
    assert_eq!(response.expect(201)["Text"], "🏠");
}

/// INV-MSG-4: a repeat of a sender's `ClientMessageId` in one chat returns the stored message,
/// whatever the text of the repeat.
#[tokio::test]
async fn repeated_client_message_id_sends_nothing() {
    let ((deal, id), (other, elsewhere)) = (open_chat().await, open_chat().await);
    let client_message_id = guid();
    let body = |content: &str| json!({"Text": content, "ClientMessageId": client_message_id});
    let sent = as_user(deal.client).post(&path(id, "/messages"), body("раз")).await.expect(201);
    assert_eq!(sent["ClientMessageId"], json!(client_message_id));
    for content in ["раз", "другое"] {
        let again = as_user(deal.client).post(&path(id, "/messages"), body(content)).await.expect(200);
        assert_eq!(again, sent);
    }
    as_user(deal.agent()).post(&path(id, "/messages"), body("чужое")).await.expect(201);
    as_user(other.client).post(&path(elsewhere, "/messages"), body("в другом чате")).await.expect(201);
    let upper = json!({"Text": "раз", "ClientMessageId": client_message_id.to_string().to_uppercase()});
    as_user(deal.client).post(&path(id, "/messages"), upper).await.expect(200);

    let target = path(id, &format!("/messages/{}", sent["Id"].as_str().unwrap()));
    as_user(deal.client).delete(&target).await.expect(204);
    let deleted = as_user(deal.client).post(&path(id, "/messages"), body("раз")).await.expect(200);
    assert_eq!(
        (&deleted["Id"], &deleted["Text"]),
        (&sent["Id"], &Value::Null),
        "the stored message is deleted now"
    );
    assert_eq!(messages(id, deal.client).await.len(), 2);
}
