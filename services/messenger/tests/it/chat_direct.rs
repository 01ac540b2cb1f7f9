//! Chats of two.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{CHATS, add, id_of, open_chat, path, person, remove, role, roles, say, view};

/// Opens the Direct chat of two who share a deal.
pub async fn open(one: Uuid, other: Uuid) -> Uuid {
    let answer = person(one).post(CHATS, json!({"UserId": other})).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text);
    id_of(&answer.body["Id"])
}

/// Section 1: of two who are both members of some deal's chat; 201, and 200 if it is there, from either side.
#[tokio::test]
async fn two_who_share_a_deal_have_a_chat_of_their_own() {
    let (deal, _) = open_chat().await;
    let (one, other) = (deal.client, deal.manager);
    let chat = person(one).post(CHATS, json!({"UserId": other})).await.expect(201);
    assert_eq!(chat["Kind"], "Direct");
    for member in ["DealId", "TenantId", "PropertyObjectId", "LastMessage", "LiveConferenceId"] {
        assert_eq!(chat[member], Value::Null, "{member}");
    }
    assert_eq!(
        (role(&chat, one).as_deref(), role(&chat, other).as_deref()),
        (Some("Member"), Some("Member"))
    );
    assert_eq!(roles(&chat).len(), 2);
    let again = person(one).post(CHATS, json!({"UserId": other})).await.expect(200);
    let back = person(other).post(CHATS, json!({"UserId": one})).await.expect(200);
    assert_eq!((&again["Id"], &back["Id"]), (&chat["Id"], &chat["Id"]));
    let id = id_of(&chat["Id"]);
    assert_eq!(say(id, other, "привет").await["Sequence"], 1);
    assert_eq!(view(id, one).await["UnreadCount"], 1);
    person(deal.agent()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// Section 1: with anybody else, known or not, there is none; with oneself 400; once there, it stays.
#[tokio::test]
async fn strangers_cannot_be_written_to() {
    let ((deal, chat), (other, _)) = (open_chat().await, open_chat().await);
    let me = person(deal.client);
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
    assert_eq!(id_of(&again["Id"]), direct, "it stays");
    say(direct, added, "мы ещё здесь").await;
    let agent = person(added).post(CHATS, json!({"UserId": deal.manager})).await;
    agent.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    // To have met in a Direct chat is not enough: it is a deal that people share.
    person(added)
        .post(CHATS, json!({"UserId": deal.agent()}))
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}
