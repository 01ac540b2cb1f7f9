//! Editing and deleting.

use serde_json::{Value, json};
use testkit::{guid, text};
use uuid::Uuid;

use crate::{
    Deal, STAGE_CHANGED, chat_direct, messages, open_chat, path, person, say, service, view, view_when,
};

fn place(chat: Uuid, message: &Value) -> String {
    path(chat, &format!("/messages/{}", text(&message["Id"])))
}

/// As if a message had been sent so much earlier.
async fn age_by(message: &Value, interval: &str) {
    let aged = "update message set created_at = created_at - $2::text::interval where id = $1::text::uuid";
    let aged = service().sql().await.execute(aged, &[&text(&message["Id"]), &interval]).await;
    assert_eq!(aged.unwrap(), 1);
}

/// As if a message had been sent a day ago.
async fn age(message: &Value) {
    age_by(message, "24 hours").await;
}

/// Section 2: own texts can be edited; the same text again changes nothing; neither marker nor order move.
#[tokio::test]
async fn an_edit_changes_the_text_and_no_order() {
    let (deal, id) = open_chat().await;
    let first = say(id, deal.client, "раз").await;
    say(id, deal.agent(), "два").await;
    let before = view(id, deal.manager).await;
    let me = person(deal.client);
    let edited = me.put(&place(id, &first), json!({"Text": " Раз! "})).await.expect(200);
    assert_eq!((&edited["Text"], &edited["Version"]), (&json!(" Раз! "), &json!(2)));
    assert_ne!(edited["EditedAt"], Value::Null);
    for member in ["Id", "Sequence", "CreatedAt", "SenderUserId", "DeletedAt"] {
        assert_eq!(edited[member], first[member], "{member}");
    }
    assert_eq!(me.put(&place(id, &first), json!({"Text": " Раз! "})).await.expect(200), edited);
    assert_eq!(messages(id, deal.manager).await[0], edited);
    assert_eq!(view(id, deal.manager).await, before);
}

/// Section 2: a deleted message keeps its place; its text is erased, from the database too. A repeat is 204.
#[tokio::test]
async fn a_deleted_message_keeps_its_place_without_its_text() {
    let (deal, id) = open_chat().await;
    let said = say(id, deal.client, "лишнее").await;
    let me = person(deal.client);
    for _ in 0..2 {
        me.delete(&place(id, &said)).await.expect(204);
    }
    let kept = messages(id, deal.agent()).await;
    assert_eq!((&kept[0]["Text"], &kept[0]["Version"]), (&Value::Null, &json!(2)));
    assert_ne!(kept[0]["DeletedAt"], Value::Null);
    assert_eq!(view(id, deal.agent()).await["UnreadCount"], 1);
    assert_eq!(view(id, deal.agent()).await["LastMessage"], kept[0]);
    let row = service().sql().await;
    let row =
        row.query_one("select text from message where id = $1::text::uuid", &[&text(&said["Id"])]).await;
    assert_eq!(row.unwrap().get::<_, Option<String>>(0), None);
    me.put(&place(id, &said), json!({"Text": "снова"}))
        .await
        .expect_problem(409, "MESSENGER_MESSAGE_DELETED");
}

/// Section 2: for 24 h; a repeat and the same text are no changes, and so never too late.
#[tokio::test]
async fn after_a_day_a_message_stays_as_it_is() {
    let (deal, id) = open_chat().await;
    let me = person(deal.client);
    let (old, gone) = (say(id, deal.client, "старое").await, say(id, deal.client, "лишнее").await);
    me.delete(&place(id, &gone)).await.expect(204);
    age(&old).await;
    age(&gone).await;
    me.put(&place(id, &old), json!({"Text": "новое"})).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.delete(&place(id, &old)).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.put(&place(id, &old), json!({"Text": "старое"})).await.expect(200);
    me.delete(&place(id, &gone)).await.expect(204);
    me.put(&place(id, &gone), json!({"Text": "а"})).await.expect_problem(409, "MESSENGER_MESSAGE_DELETED");
}

/// Section 2: for 24 h, and not for less; an edit gives no further time.
#[tokio::test]
async fn within_a_day_a_message_is_its_senders() {
    let (deal, id) = open_chat().await;
    let me = person(deal.client);
    let (kept, gone) = (say(id, deal.client, "старое").await, say(id, deal.client, "лишнее").await);
    for message in [&kept, &gone] {
        age_by(message, "23 hours 55 minutes").await;
    }
    let edited = me.put(&place(id, &kept), json!({"Text": "новое"})).await.expect(200);
    assert_eq!((&edited["Text"], &edited["Version"]), (&json!("новое"), &json!(2)));
    me.delete(&place(id, &gone)).await.expect(204);
    age_by(&kept, "5 minutes").await;
    me.put(&place(id, &kept), json!({"Text": "ещё"})).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
    me.delete(&place(id, &kept)).await.expect_problem(409, "MESSENGER_MESSAGE_LOCKED");
}

/// Section 2, order: 401, 400, 404 chat, 404 message, 403.
#[tokio::test]
async fn refusals_come_in_their_order() {
    let ((deal, id), (other, elsewhere)) = (open_chat().await, open_chat().await);
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 1).await;
    let card = messages(id, deal.client).await.swap_remove(0);
    let (own, foreign) = (say(id, deal.client, "моё").await, say(elsewhere, other.client, "там").await);
    let unknown = json!({"Id": guid()});
    let (me, colleague, stranger) = (person(deal.client), person(deal.agent()), person(guid()));
    let good = json!({"Text": "а"});
    service().guest().put(&place(id, &own), json!({})).await.expect_problem(401, "UNAUTHORIZED");
    stranger.put(&place(id, &own), json!({"Text": ""})).await.expect_problem(400, "VALIDATION_FAILED");
    me.put(&path(id, "/messages/x"), good.clone()).await.expect_problem(404, "NOT_FOUND");
    for (caller, message, status, code) in [
        (&stranger, &own, 404, "MESSENGER_CHAT_NOT_FOUND"),
        (&me, &foreign, 404, "MESSENGER_MESSAGE_NOT_FOUND"),
        (&me, &unknown, 404, "MESSENGER_MESSAGE_NOT_FOUND"),
        (&colleague, &own, 403, "FORBIDDEN"),
        (&me, &card, 403, "FORBIDDEN"),
    ] {
        caller.put(&place(id, message), good.clone()).await.expect_problem(status, code);
        caller.delete(&place(id, message)).await.expect_problem(status, code);
    }
    // Another's that was deleted, or is too old, is another's.
    me.delete(&place(id, &own)).await.expect(204);
    age(&own).await;
    colleague.put(&place(id, &own), good.clone()).await.expect_problem(403, "FORBIDDEN");
    colleague.delete(&place(id, &own)).await.expect_problem(403, "FORBIDDEN");
}

/// Section 1: who is in a chat no longer can change nothing in it.
#[tokio::test]
async fn who_has_left_changes_nothing() {
    let (deal, id) = open_chat().await;
    let said = say(id, deal.manager, "я ухожу").await;
    let me = person(deal.manager);
    me.delete(&path(id, &format!("/members/{}", deal.manager))).await.expect(204);
    me.put(&place(id, &said), json!({"Text": "а"})).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    me.delete(&place(id, &said)).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// Section 2: Direct chats have the same messages.
#[tokio::test]
async fn messages_of_two_are_as_any() {
    let (Deal { client, manager, .. }, _) = open_chat().await;
    let id = chat_direct::open(client, manager).await;
    let said = say(id, manager, "привет").await;
    person(manager).put(&place(id, &said), json!({"Text": "здравствуйте"})).await.expect(200);
    person(client).delete(&place(id, &said)).await.expect_problem(403, "FORBIDDEN");
    person(manager).delete(&place(id, &said)).await.expect(204);
}
