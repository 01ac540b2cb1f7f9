//! Sending.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{messages, open_chat, path, person, service, view, with};

/// Section 2: a text is stored as it was sent, numbered, and read by who wrote it.
#[tokio::test]
async fn a_message_is_kept_as_it_was_sent() {
    let (deal, id) = open_chat().await;
    let said = " Привет 🏠\n\t\"да\" \\ \u{1}\u{2028} ";
    let message = person(deal.client).post(&path(id, "/messages"), json!({"Text": said})).await.expect(201);
    assert_eq!(message["Text"], said);
    assert_eq!((&message["Kind"], &message["Sequence"]), (&json!("Text"), &json!(1)));
    assert_eq!((&message["SenderUserId"], &message["ChatId"]), (&json!(deal.client), &json!(id)));
    for member in ["ClientMessageId", "Card", "EditedAt", "DeletedAt"] {
        assert_eq!(message[member], Value::Null, "{member}");
    }
    assert_eq!(message["Version"], 1);
    assert_eq!(messages(id, deal.agent()).await, std::slice::from_ref(&message));
    let chat = view(id, deal.client).await;
    assert_eq!((&chat["ReadSequence"], &chat["UnreadCount"]), (&json!(1), &json!(0)), "who writes has read");
    assert_eq!(chat["LastMessage"], message);
    assert_eq!(chat["LastActivityAt"], message["CreatedAt"]);
    assert_eq!(view(id, deal.agent()).await["UnreadCount"], 1);
}

/// Section 2, Text: 1 to 4,000 characters, not white space alone, no NUL. 400 comes before 404.
#[tokio::test]
async fn what_is_no_text_is_refused() {
    let (deal, id) = open_chat().await;
    let (member, stranger) = (person(deal.client), person(guid()));
    for (said, reason) in [
        (json!(""), "too_short"),
        (json!(" \n\t\u{a0}\u{2003}"), "too_short"),
        (json!("\u{feff}"), "too_short"),
        (json!("я".repeat(4001)), "too_long"),
        (json!("a\0b"), "forbidden_character"),
        (json!(7), "invalid_type"),
        (json!(null), "invalid_type"),
    ] {
        for caller in [&member, &stranger] {
            let refused = caller.post(&path(id, "/messages"), with(json!({}), "Text", said.clone())).await;
            assert!(!refused.text.contains("яя"), "no value is repeated");
            refused.expect_refusal("VALIDATION_FAILED", "/Text", reason);
        }
    }
    for (given, reason) in [(json!(Uuid::nil()), "empty_id"), (json!("x"), "invalid_type")] {
        let refused =
            member.post(&path(id, "/messages"), json!({"Text": "а", "ClientMessageId": given})).await;
        refused.expect_refusal("VALIDATION_FAILED", "/ClientMessageId", reason);
    }
    for said in ["🏠".repeat(4000), "a".to_owned(), "\u{200b}".to_owned()] {
        member.post(&path(id, "/messages"), json!({"Text": said, "ClientMessageId": null})).await.expect(201);
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

/// Section 2, Text: every character counts by itself, and none is changed; a broken one is no text.
#[tokio::test]
async fn characters_are_counted_and_kept_one_by_one() {
    let (deal, id) = open_chat().await;
    let (me, place) = (person(deal.client), path(id, "/messages"));
    // Combining marks, a family of seven characters, right to left and back, and a mark of byte order.
    for said in [
        "e\u{301}".repeat(2000),
        "👨\u{200d}👩\u{200d}👧\u{200d}👦".to_owned(),
        "שלום \u{202e}abc\u{202c}".to_owned(),
        "\u{feff}a".to_owned(),
    ] {
        let sent = me.post(&place, json!({"Text": said})).await.expect(201);
        assert_eq!(sent["Text"], said);
        let read = person(deal.agent()).get(&path(id, "/messages?PageSize=1")).await.expect(200);
        assert_eq!(read["Items"][0]["Text"], said);
    }
    me.post(&place, json!({"Text": format!("{}x", "e\u{301}".repeat(2000))})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Text",
        "too_long",
    );
    for broken in [r#"{"Text": "\ud800"}"#, r#"{"Text": "a\udc00\ud800"}"#, r#"{"Text": "\u0000"}"#] {
        let request = me.request(reqwest::Method::POST, &place).header("content-type", "application/json");
        let answer = testkit::client::send(request.body(broken)).await;
        answer.expect_problem(400, "VALIDATION_FAILED");
    }
    let escaped = me.request(reqwest::Method::POST, &place).header("content-type", "application/json");
    let answer = testkit::client::send(escaped.body(r#"{"Text": "\ud83c\udfe0"}"#)).await;
    assert_eq!(answer.expect(201)["Text"], "🏠");
}

/// INV-MSG-4: 200 with the stored one if this sender used that id in this chat, whatever the text.
#[tokio::test]
async fn a_repeated_id_sends_nothing() {
    let ((deal, id), (other, elsewhere)) = (open_chat().await, open_chat().await);
    let given = guid();
    let body = |said: &str| json!({"Text": said, "ClientMessageId": given});
    let sent = person(deal.client).post(&path(id, "/messages"), body("раз")).await.expect(201);
    assert_eq!(sent["ClientMessageId"], json!(given));
    for said in ["раз", "другое"] {
        let again = person(deal.client).post(&path(id, "/messages"), body(said)).await.expect(200);
        assert_eq!(again, sent);
    }
    person(deal.agent()).post(&path(id, "/messages"), body("чужое")).await.expect(201);
    person(other.client).post(&path(elsewhere, "/messages"), body("в другом чате")).await.expect(201);
    let upper = json!({"Text": "раз", "ClientMessageId": given.to_string().to_uppercase()});
    person(deal.client).post(&path(id, "/messages"), upper).await.expect(200);

    let place = path(id, &format!("/messages/{}", sent["Id"].as_str().unwrap()));
    person(deal.client).delete(&place).await.expect(204);
    let deleted = person(deal.client).post(&path(id, "/messages"), body("раз")).await.expect(200);
    assert_eq!((&deleted["Id"], &deleted["Text"]), (&sent["Id"], &Value::Null), "as it is now");
    assert_eq!(messages(id, deal.client).await.len(), 2);
}
