//! Edits and deletions of messages.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::{guid, text};
use uuid::Uuid;

use crate::{
    Deal, STAGE_CHANGED, as_user, chat_direct, messages, open_chat, path, send_text, service, view, view_when,
};

fn message_path(chat: Uuid, message: &Value) -> String {
    path(chat, &format!("/messages/{}", text(&message["Id"])))
}

/// Moves the time of a message back by `interval`.
async fn age_by(message: &Value, interval: &str) {
    let aged = "update message set created_at = created_at - $2::text::interval where id = $1::text::uuid";
    let aged = service().sql().await.execute(aged, &[&text(&message["Id"]), &interval]).await;
    assert_eq!(aged.unwrap(), 1);
}

/// Moves the time of a message back by a day.
async fn age(message: &Value) {
    age_by(message, "24 hours").await;
}

/// RULE-MSG-007: an edit changes the text, but neither markers nor the order. The same text changes
/// nothing.
#[tokio::test]
async fn edit_changes_the_text_and_keeps_the_order() {
    let (deal, id) = open_chat().await;
    let first = send_text(id, deal.client, "раз").await;
    send_text(id, deal.agent(), "два").await;
    let before = view(id, deal.manager).await;
    let me = as_user(deal.client);
    let edited = me.put(&message_path(id, &first), json!({"Text": " Раз! "})).await.expect(200);
    assert_eq!((&edited["Text"], &edited["Version"]), (&json!(" Раз! "), &json!(2)));
    assert_ne!(edited["EditedAt"], Value::Null);
    for field in ["Id", "Sequence", "CreatedAt", "SenderUserId", "DeletedAt"] {
        assert_eq!(edited[field], first[field], "{field}");
    }
    assert_eq!(me.put(&message_path(id, &first), json!({"Text": " Раз! "})).await.expect(200), edited);
    assert_eq!(messages(id, deal.manager).await[0], edited);
    assert_eq!(view(id, deal.manager).await, before);
}

/// RULE-MSG-007, RULE-MSG-021: a deleted message keeps its place, and the database erases its text.
/// A repeat is 204.
#[tokio::test]
async fn deleted_message_keeps_its_place_without_its_text() {
    let (deal, id) = open_chat().await;
    let sent = send_text(id, deal.client, "лишнее").await;
    let me = as_user(deal.client);
    for _ in 0..2 {
        me.delete(&message_path(id, &sent)).await.expect(204);
    }
    let listed = messages(id, deal.agent()).await;
    assert_eq!((&listed[0]["Text"], &listed[0]["Version"]), (&Value::Null, &json!(2)));
    assert_ne!(listed[0]["DeletedAt"], Value::Null);
    assert_eq!(view(id, deal.agent()).await["UnreadCount"], 1);
    assert_eq!(view(id, deal.agent()).await["LastMessage"], listed[0]);
    let sql = service().sql().await;
    let row =
        sql.query_one("select text from message where id = $1::text::uuid", &[&text(&sent["Id"])]).await;
    assert_eq!(row.unwrap().get::<_, Option<String>>(0), None);
    me.put(&message_path(id, &sent), json!({"Text": "снова"}))
        .await
        .expect_problem(409, "MESSENGER_MESSAGE_DELETED");
}

/// RULE-MSG-007, RULE-ALL-081: the deletion of a message erases the stored response with its text.
/// A repeat of the request then sends nothing.
#[tokio::test]
async fn deleted_message_leaves_no_stored_response() {
    let (deal, id) = open_chat().await;
    let (me, key) = (as_user(deal.client), guid().to_string());
    let post = async || {
        let request = me.request(Method::POST, &path(id, "/messages")).header("Idempotency-Key", &key);
        send(request.json(&json!({"Text": "лишнее"}))).await
    };
    let sent = post().await.expect(201);
    assert_eq!(post().await.expect(201), sent);
    me.delete(&message_path(id, &sent)).await.expect(204);
    post().await.expect_problem(422, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(view(id, deal.client).await["LastSequence"], 1);
    let stored = "select body from idempotent_response where key = $1";
    let row = service().sql().await.query_one(stored, &[&key]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "");
}

/// RULE-MSG-007, RULE-MSG-022: after 24 h a message is locked. A repeated deletion and an edit to
/// the same text still succeed.
#[tokio::test]
async fn message_older_than_a_day_is_locked() {
    let (deal, id) = open_chat().await;
    let me = as_user(deal.client);
    let (old, deleted) =
        (send_text(id, deal.client, "старое").await, send_text(id, deal.client, "лишнее").await);
    me.delete(&message_path(id, &deleted)).await.expect(204);
    age(&old).await;
    age(&deleted).await;
    me.put(&message_path(id, &old), json!({"Text": "новое"}))
        .await
        .expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.delete(&message_path(id, &old)).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.put(&message_path(id, &old), json!({"Text": "старое"})).await.expect(200);
    me.delete(&message_path(id, &deleted)).await.expect(204);
    me.put(&message_path(id, &deleted), json!({"Text": "а"}))
        .await
        .expect_problem(409, "MESSENGER_MESSAGE_DELETED");
}

/// RULE-MSG-007: a message can be changed for 24 h, and an edit does not extend that time.
#[tokio::test]
async fn message_younger_than_a_day_can_be_changed() {
    let (deal, id) = open_chat().await;
    let me = as_user(deal.client);
    let (edited, deleted) =
        (send_text(id, deal.client, "старое").await, send_text(id, deal.client, "лишнее").await);
    for message in [&edited, &deleted] {
        age_by(message, "23 hours 55 minutes").await;
    }
    let response = me.put(&message_path(id, &edited), json!({"Text": "новое"})).await.expect(200);
    assert_eq!((&response["Text"], &response["Version"]), (&json!("новое"), &json!(2)));
    me.delete(&message_path(id, &deleted)).await.expect(204);
    age_by(&edited, "5 minutes").await;
    me.put(&message_path(id, &edited), json!({"Text": "ещё"}))
        .await
        .expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.delete(&message_path(id, &edited)).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
}

/// RULE-MSG-008, RULE-MSG-020: changes of messages check 401, 400, 404 chat, 404 message, 403 in
/// this order.
#[tokio::test]
async fn message_refusals_follow_the_order_of_the_table() {
    let ((deal, id), (other, elsewhere)) = (open_chat().await, open_chat().await);
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 1).await;
    let card = messages(id, deal.client).await.swap_remove(0);
    let (own, foreign) =
        (send_text(id, deal.client, "моё").await, send_text(elsewhere, other.client, "там").await);
    let unknown = json!({"Id": guid()});
    let (me, colleague, stranger) = (as_user(deal.client), as_user(deal.agent()), as_user(guid()));
    let good = json!({"Text": "а"});
    service().guest().put(&message_path(id, &own), json!({})).await.expect_problem(401, "UNAUTHORIZED");
    stranger.put(&message_path(id, &own), json!({"Text": ""})).await.expect_problem(400, "VALIDATION_FAILED");
    me.put(&path(id, "/messages/x"), good.clone()).await.expect_problem(404, "NOT_FOUND");
    for (caller, message, status, code) in [
        (&stranger, &own, 404, "MESSENGER_CHAT_NOT_FOUND"),
        (&me, &foreign, 404, "MESSENGER_MESSAGE_NOT_FOUND"),
        (&me, &unknown, 404, "MESSENGER_MESSAGE_NOT_FOUND"),
        (&colleague, &own, 403, "FORBIDDEN"),
        (&me, &card, 403, "FORBIDDEN"),
    ] {
        caller.put(&message_path(id, message), good.clone()).await.expect_problem(status, code);
        caller.delete(&message_path(id, message)).await.expect_problem(status, code);
    }
    // 403 precedes the checks of deletion and age.
    me.delete(&message_path(id, &own)).await.expect(204);
    age(&own).await;
    colleague.put(&message_path(id, &own), good.clone()).await.expect_problem(403, "FORBIDDEN");
    colleague.delete(&message_path(id, &own)).await.expect_problem(403, "FORBIDDEN");
}

/// RULE-MSG-013: a former member cannot edit or delete messages.
#[tokio::test]
async fn former_member_cannot_change_messages() {
    let (deal, id) = open_chat().await;
    let sent = send_text(id, deal.manager, "я ухожу").await;
    let me = as_user(deal.manager);
    me.delete(&path(id, &format!("/members/{}", deal.manager))).await.expect(204);
    me.put(&message_path(id, &sent), json!({"Text": "а"}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    me.delete(&message_path(id, &sent)).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// RULE-MSG-005: messages of a Direct chat can be edited and deleted by their sender.
#[tokio::test]
async fn direct_chat_message_can_be_edited_and_deleted() {
    let (Deal { client, manager, .. }, _) = open_chat().await;
    let id = chat_direct::open(client, manager).await;
    let sent = send_text(id, manager, "привет").await;
    as_user(manager).put(&message_path(id, &sent), json!({"Text": "здравствуйте"})).await.expect(200);
    as_user(client).delete(&message_path(id, &sent)).await.expect_problem(403, "FORBIDDEN");
    as_user(manager).delete(&message_path(id, &sent)).await.expect(204);
}
