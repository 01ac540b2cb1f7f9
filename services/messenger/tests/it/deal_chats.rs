//! Chats of deals.

use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::{
    CHATS, DEAL_CREATED, Deal, STAGE_CHANGED, as_user, cards, each, list, messages, next_sequence, open_chat,
    path, role, roles, service, view, view_when, with, without,
};

/// RULE-MSG-001: the chat of a deal has its client, its agent and its creator.
#[tokio::test]
async fn created_deal_gets_a_chat_with_its_members() {
    let (deal, id) = open_chat().await;
    let chat = view(id, deal.client).await;
    assert_eq!(chat["Kind"], "Deal");
    assert_eq!(chat["DealId"], json!(deal.id));
    assert_eq!(chat["TenantId"], json!(deal.tenant));
    assert_eq!(chat["PropertyObjectId"], json!(deal.object));
    assert_eq!(
        (&chat["LastSequence"], &chat["ReadSequence"], &chat["UnreadCount"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!((&chat["LastMessage"], &chat["LiveConferenceId"]), (&Value::Null, &Value::Null));
    assert_eq!(chat["LastActivityAt"], chat["CreatedAt"]);
    assert_eq!(role(&chat, deal.client).as_deref(), Some("Client"));
    assert_eq!(role(&chat, deal.agent()).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, deal.manager).as_deref(), Some("Manager"));
    assert_eq!(roles(&chat).len(), 3);
    assert_eq!(messages(id, deal.client).await, [Value::Null; 0], "the first members make no card");
    for user in [deal.agent(), deal.manager] {
        assert_eq!(view(id, user).await["Id"], json!(id));
    }
    as_user(guid()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// RULE-MSG-001: a user has one entry, with the first role of Client, Agent, Manager that fits.
#[tokio::test]
async fn user_with_several_roles_has_one_entry() {
    let new = Deal::new();
    for (deal, expected) in [
        (Deal { agent: Some(new.client), ..new }, vec![(new.client, "Client"), (new.manager, "Manager")]),
        (Deal { agent: Some(new.manager), ..new }, vec![(new.client, "Client"), (new.manager, "Agent")]),
        (Deal { manager: new.client, agent: None, ..new }, vec![(new.client, "Client")]),
        (Deal { manager: new.client, agent: Some(new.client), ..new }, vec![(new.client, "Client")]),
    ] {
        let deal = Deal { id: guid(), ..deal };
        deal.publish_created().await;
        let chat = view(deal.chat().await, deal.client).await;
        let mut found = roles(&chat);
        found.sort();
        let mut expected: Vec<_> = expected.iter().map(|(id, role)| (*id, (*role).to_owned())).collect();
        expected.sort();
        assert_eq!(found, expected, "{deal:?}");
    }
}

/// INV-MSG-1, RULE-MSG-009: a repeat has no effect, whatever its id and sequence. A deal has one
/// chat and one card for each version.
#[tokio::test]
async fn repeated_deal_event_has_no_effect() {
    let (deal, id) = open_chat().await;
    let change = deal.changed(2, "Application", "Booking", deal.agent);
    for _ in 0..3 {
        deal.publish(STAGE_CHANGED, &change).await;
        deal.publish_created().await;
    }
    // A repeat with the same headers has no effect either.
    let sequence = next_sequence();
    for _ in 0..2 {
        service().bus().publish(STAGE_CHANGED, deal.id, sequence, &change).await;
    }
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the last card", |chat| chat["LastSequence"] == 2).await;
    let page = as_user(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
    assert_eq!(page["TotalCount"], 1);
    let cards = cards(id, deal.client).await;
    assert_eq!(each(&cards, "ToStatus"), ["Booking", "Sale"]);
}

/// RULE-MSG-009: each change of the status posts one card, also a change to a status that the
/// service does not know.
#[tokio::test]
async fn status_change_posts_a_card() {
    let (deal, id) = open_chat().await;
    let change = with(
        deal.changed(7, "Application", "UnderReview", deal.agent),
        "ChangedAt",
        "2026-11-22T14:00:00.1234567+03:00",
    );
    deal.publish(STAGE_CHANGED, &change).await;
    // A change of step within a status and an older version post no card.
    deal.publish(STAGE_CHANGED, &deal.changed(8, "UnderReview", "UnderReview", deal.agent)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(6, "Sale", "Booking", deal.agent)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(9, "UnderReview", "Cancelled", deal.agent)).await;
    let chat = view_when(id, deal.client, "the second card", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(chat["UnreadCount"], 2, "a new card is unread");
    let all = messages(id, deal.client).await;
    assert_eq!(each(&all, "Sequence"), [1, 2]);
    assert_eq!(
        all[0]["Card"],
        json!({
            "Type": "DealStatusChanged", "FromStatus": "Application", "ToStatus": "UnderReview",
            "ChangedByUserId": deal.manager, "ChangedAt": "2026-11-22T11:00:00.123456Z",
        })
    );
    assert_eq!(all[1]["Card"]["ToStatus"], "Cancelled");
    for message in &all {
        assert_eq!(message["Kind"], "System");
        for field in ["SenderUserId", "ClientMessageId", "Text", "EditedAt", "DeletedAt"] {
            assert_eq!(message[field], Value::Null, "{field}");
        }
        assert_eq!(message["Version"], 1);
    }
    assert_eq!(chat["LastMessage"], all[1]);
    assert_eq!(chat["LastActivityAt"], all[1]["CreatedAt"]);
}

/// RULE-MSG-009: if a failover of CRM loses a change, a later change posts a card from the lost
/// status to the present one.
#[tokio::test]
async fn change_after_a_lost_status_posts_a_card_with_the_present_status() {
    let (deal, id) = open_chat().await;
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", deal.agent)).await;
    // CRM loses version 3, and numbers another change with it.
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Cancelled", deal.agent)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Application", deal.agent)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(4, "Application", "Application", deal.agent)).await;
    view_when(id, deal.client, "the third card", |chat| chat["LastSequence"] == 3).await;
    let cards: Vec<_> =
        messages(id, deal.client).await.iter().map(|message| message["Card"].clone()).collect();
    assert_eq!(each(&cards, "FromStatus"), ["Application", "Booking", "Cancelled"]);
    assert_eq!(each(&cards, "ToStatus"), ["Booking", "Cancelled", "Application"]);
}

/// RULE-MSG-001: the end of a deal does not close its chat.
#[tokio::test]
async fn ended_deal_keeps_its_chat_open() {
    let (deal, id) = open_chat().await;
    for (version, from, to) in [(2, "Application", "Completed"), (3, "Completed", "Cancelled")] {
        deal.publish(STAGE_CHANGED, &deal.changed(version, from, to, deal.agent)).await;
    }
    view_when(id, deal.client, "the end", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(crate::send_text(id, deal.client, "и всё же").await["Sequence"], 3);
}

/// RULE-MSG-009, RULE-EVT-025: a change of an unknown deal makes no chat. It is deferred and
/// applied in the order of versions.
#[tokio::test]
async fn change_before_its_deal_is_deferred() {
    let deal = Deal::new();
    let late = guid();
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(late))).await;
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", deal.agent)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(late))).await;
    let sql = service().sql().await;
    let deferred = async || {
        let count = "select count(*) from deferred_message where entity = $1";
        let row = sql.query_one(count, &[&deal.id.to_string()]).await.unwrap();
        (row.get::<_, i64>(0) == 3).then_some(())
    };
    eventually("the deferred changes", deferred).await;
    let page = as_user(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "a change makes no chat");

    deal.publish_created().await;
    let id = deal.chat().await;
    let cards = cards(id, deal.client).await;
    assert_eq!(
        each(&cards, "ToStatus"),
        ["Booking", "Sale"],
        "one card for each version, in order, and no card for the agent"
    );
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, late).as_deref(), Some("Agent"), "the agent of the higher version from the start");
    assert_eq!(role(&chat, deal.agent()), None);
    as_user(deal.agent()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let row = sql
        .query_one("select count(*) from deferred_message where entity = $1", &[&deal.id.to_string()])
        .await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 0);
}

/// RULE-MSG-009: a deferred change that is not above the deal's version has no effect.
#[tokio::test]
async fn deferred_change_of_an_old_version_has_no_effect() {
    let deal = Deal::new();
    for version in [2, 3] {
        deal.publish(STAGE_CHANGED, &deal.changed(version, "Application", "Booking", Some(guid()))).await;
    }
    let sql = service().sql().await;
    let deferred = async || {
        let count = "select count(*) from deferred_message where entity = $1";
        let row = sql.query_one(count, &[&deal.id.to_string()]).await.unwrap();
        (row.get::<_, i64>(0) == 2).then_some(())
    };
    eventually("the deferred changes", deferred).await;
    deal.publish(DEAL_CREATED, &with(deal.created(), "RowVersion", 3)).await;
    let id = deal.chat().await;
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Application", "Sale", None)).await;
    deal.publish(STAGE_CHANGED, &deal.changed(4, "Sale", "Completed", deal.agent)).await;
    let is_last = |chat: &Value| chat["LastMessage"]["Card"]["ToStatus"] == "Completed";
    let chat = view_when(id, deal.client, "the card", is_last).await;
    assert_eq!(chat["LastSequence"], 1);
    assert_eq!(role(&chat, deal.agent()).as_deref(), Some("Agent"));
    assert_eq!(roles(&chat).len(), 3);
}

/// RULE-MSG-009: a message without a required field is a dead letter. Fields that the service
/// does not read may be absent.
#[tokio::test]
async fn undecodable_message_becomes_a_dead_letter() {
    let deal = Deal::new();
    deal.publish(DEAL_CREATED, &without(deal.created(), "ClientUserId")).await;
    let sql = service().sql().await;
    let dead_letter = async || {
        let row =
            sql.query_opt("select error from dead_letter where key = $1", &[&deal.id.to_string()]).await;
        row.unwrap().map(|row| row.get::<_, String>(0))
    };
    let reason = eventually("the dead letter", dead_letter).await;
    assert!(reason.starts_with("does not decode"), "{reason}");

    let plain = Deal { agent: None, ..Deal::new() };
    let minimal = ["Amount", "AgentUserId", "CreatedAt"].into_iter().fold(plain.created(), without);
    plain.publish(DEAL_CREATED, &minimal).await;
    assert_eq!(list(&view(plain.chat().await, plain.client).await["Members"]).len(), 2);
}
