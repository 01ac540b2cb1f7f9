//! Direct chats.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::guid;
use uuid::Uuid;

use crate::{CHATS, add, as_user, id_of, open_chat, path, remove, role, roles, send_text, service, view};

/// Opens the Direct chat of two members of one deal chat.
pub async fn open(one: Uuid, other: Uuid) -> Uuid {
    let response = as_user(one).post(CHATS, json!({"UserId": other})).await;
    assert!([200, 201].contains(&response.status), "{}", response.text);
    id_of(&response.body["Id"])
}

/// RULE-MSG-005: two members of one deal chat open a Direct chat. The first opening is 201, and
/// each repeat is 200 from either side.
#[tokio::test]
async fn users_of_one_deal_chat_open_one_direct_chat() {
    let (deal, _) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let chat = as_user(one).post(CHATS, json!({"UserId": other})).await.expect(201);
    assert_eq!(chat["Kind"], "Direct");
    for field in ["DealId", "TenantId", "PropertyObjectId", "LastMessage", "LiveConferenceId"] {
        assert_eq!(chat[field], Value::Null, "{field}");
    }
    assert_eq!(
        (role(&chat, one).as_deref(), role(&chat, other).as_deref()),
        (Some("Member"), Some("Member"))
    );
    assert_eq!(roles(&chat).len(), 2);
    let again = as_user(one).post(CHATS, json!({"UserId": other})).await.expect(200);
    let back = as_user(other).post(CHATS, json!({"UserId": one})).await.expect(200);
    assert_eq!((&again["Id"], &back["Id"]), (&chat["Id"], &chat["Id"]));
    let id = id_of(&chat["Id"]);
    assert_eq!(send_text(id, other, "привет").await["Sequence"], 1);
    assert_eq!(view(id, one).await["UnreadCount"], 1);
    as_user(deal.agent()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// RULE-MSG-005, RULE-ALL-081: the response with an existing chat is not stored, because it has a
/// message of the other user.
#[tokio::test]
async fn existing_chat_leaves_no_stored_response() {
    let (deal, _) = open_chat().await;
    let chat = open(deal.client, deal.manager).await;
    send_text(chat, deal.manager, "привет").await;
    let (me, key) = (as_user(deal.client), guid().to_string());
    for _ in 0..2 {
        let request = me.request(Method::POST, CHATS).header("Idempotency-Key", &key);
        let found = send(request.json(&json!({"UserId": deal.manager}))).await.expect(200);
        assert_eq!((id_of(&found["Id"]), &found["LastMessage"]["Text"]), (chat, &json!("привет")));
    }
    let stored = "select from idempotent_response where key = $1";
    assert!(service().sql().await.query(stored, &[&key]).await.unwrap().is_empty());
}

/// RULE-MSG-005, RULE-MSG-019: a Direct chat with a user who shares no deal chat is 404, and with
/// oneself is 400. An existing Direct chat stays.
#[tokio::test]
async fn direct_chat_with_a_stranger_is_refused() {
    let ((deal, chat), (other, _)) = (open_chat().await, open_chat().await);
    let me = as_user(deal.client);
    for user in [other.client, guid(), Uuid::nil()] {
        let refused = me.post(CHATS, json!({"UserId": user})).await;
        refused.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    }
    let oneself = me.post(CHATS, json!({"UserId": deal.client})).await;
    oneself.expect_refusal("VALIDATION_FAILED", "/UserId", "oneself");
    for (body, reason) in [
        (json!({"UserId": "x"}), "invalid_type"),
        (json!({"UserId": null}), "invalid_type"),
        (json!({}), "required"),
    ] {
        me.post(CHATS, body).await.expect_refusal("VALIDATION_FAILED", "/UserId", reason);
    }
    let added = guid();
    add(&deal, chat, added).await.expect(204);
    let direct = open(deal.client, added).await;
    remove(&deal, chat, added).await.expect(204);
    let again = me.post(CHATS, json!({"UserId": added})).await.expect(200);
    assert_eq!(id_of(&again["Id"]), direct, "a Direct chat stays");
    send_text(direct, added, "мы ещё здесь").await;
    // The remaining Direct chat with the client permits no new one with other members of the deal
    // chat.
    let refused = as_user(added).post(CHATS, json!({"UserId": deal.manager})).await;
    refused.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    as_user(added)
        .post(CHATS, json!({"UserId": deal.agent()}))
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}
