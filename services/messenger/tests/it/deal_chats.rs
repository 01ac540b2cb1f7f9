//! Chats that deals make.

use serde_json::{Value, json};
use testkit::{eventually, guid};

use crate::{
    CHATS, DEAL_CREATED, Deal, STAGE_CHANGED, cards, each, list, messages, next, open_chat, path, person,
    role, roles, service, view, view_when, with, without,
};

/// Section 1: the chat of a deal, with its client, its agent and who made it.
#[tokio::test]
async fn a_deal_has_a_chat_of_its_people() {
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
    person(guid()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// Section 1: one person has one entry, with the first role that fits.
#[tokio::test]
async fn one_person_has_one_entry_with_the_first_role_that_fits() {
    let new = Deal::new();
    for (deal, expected) in [
        (Deal { agent: Some(new.client), ..new }, vec![(new.client, "Client"), (new.manager, "Manager")]),
        (Deal { agent: Some(new.manager), ..new }, vec![(new.client, "Client"), (new.manager, "Agent")]),
        (Deal { manager: new.client, agent: None, ..new }, vec![(new.client, "Client")]),
        (Deal { manager: new.client, agent: Some(new.client), ..new }, vec![(new.client, "Client")]),
    ] {
        let deal = Deal { id: guid(), ..deal };
        deal.tell_created().await;
        let chat = view(deal.chat().await, deal.client).await;
        let mut found = roles(&chat);
        found.sort();
        let mut expected: Vec<_> = expected.iter().map(|(id, role)| (*id, (*role).to_owned())).collect();
        expected.sort();
        assert_eq!(found, expected, "{deal:?}");
    }
}

/// Section 3: a repeat has no effect, whatever its id and sequence: a deal has one chat, and one card for each version.
#[tokio::test]
async fn a_repeat_has_no_effect() {
    let (deal, id) = open_chat().await;
    let change = deal.changed(2, "Application", "Booking", deal.agent);
    for _ in 0..3 {
        deal.tell(STAGE_CHANGED, &change).await;
        deal.tell_created().await;
    }
    // A repeat with the very same headers, too.
    let sequence = next();
    for _ in 0..2 {
        service().bus().publish(STAGE_CHANGED, deal.id, sequence, &change).await;
    }
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", deal.agent)).await;
    view_when(id, deal.client, "the last card", |chat| chat["LastSequence"] == 2).await;
    let page = person(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
    assert_eq!(page["TotalCount"], 1);
    let told = cards(id, deal.client).await;
    assert_eq!(each(&told, "ToStatus"), ["Booking", "Sale"]);
}

/// Section 2, cards: one for each change of the status, with what was told; unknown statuses pass through.
#[tokio::test]
async fn a_change_of_the_status_makes_a_card() {
    let (deal, id) = open_chat().await;
    let change = with(
        deal.changed(7, "Application", "UnderReview", deal.agent),
        "ChangedAt",
        "2026-11-22T14:00:00.1234567+03:00",
    );
    deal.tell(STAGE_CHANGED, &change).await;
    // A step within a status, and what is older than what was followed.
    deal.tell(STAGE_CHANGED, &deal.changed(8, "UnderReview", "UnderReview", deal.agent)).await;
    deal.tell(STAGE_CHANGED, &deal.changed(6, "Sale", "Booking", deal.agent)).await;
    deal.tell(STAGE_CHANGED, &deal.changed(9, "UnderReview", "Cancelled", deal.agent)).await;
    let chat = view_when(id, deal.client, "the second card", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(chat["UnreadCount"], 2, "nobody has read them");
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
        for member in ["SenderUserId", "ClientMessageId", "Text", "EditedAt", "DeletedAt"] {
            assert_eq!(message[member], Value::Null, "{member}");
        }
        assert_eq!(message["Version"], 1);
    }
    assert_eq!(chat["LastMessage"], all[1]);
    assert_eq!(chat["LastActivityAt"], all[1]["CreatedAt"]);
}

/// Section 1: no end of a deal closes a chat.
#[tokio::test]
async fn an_ended_deal_keeps_its_chat() {
    let (deal, id) = open_chat().await;
    for (version, from, to) in [(2, "Application", "Completed"), (3, "Completed", "Cancelled")] {
        deal.tell(STAGE_CHANGED, &deal.changed(version, from, to, deal.agent)).await;
    }
    view_when(id, deal.client, "the end", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(crate::say(id, deal.client, "и всё же").await["Sequence"], 3);
}

/// Section 3: what comes before its deal is kept, makes no chat, and is applied in the order of versions.
#[tokio::test]
async fn what_comes_before_its_deal_is_kept() {
    let deal = Deal::new();
    let late = guid();
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(late))).await;
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", deal.agent)).await;
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(late))).await;
    let sql = service().sql().await;
    let kept = async || {
        let count = "select count(*) from thing_waiting where thing = $1";
        let row = sql.query_one(count, &[&deal.id.to_string()]).await.unwrap();
        (row.get::<_, i64>(0) == 3).then_some(())
    };
    eventually("what is kept", kept).await;
    let page = person(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "no chat is made of it");

    deal.tell_created().await;
    let id = deal.chat().await;
    let told = cards(id, deal.client).await;
    assert_eq!(
        each(&told, "ToStatus"),
        ["Booking", "Sale"],
        "by version, each once, and no card of the agent"
    );
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, late).as_deref(), Some("Agent"), "the agent of the higher version from the start");
    assert_eq!(role(&chat, deal.agent()), None);
    person(deal.agent()).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let row =
        sql.query_one("select count(*) from thing_waiting where thing = $1", &[&deal.id.to_string()]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 0);
}

/// Section 3: what was kept for a deal and is not above its version gives nothing, as if it had come later.
#[tokio::test]
async fn what_was_kept_of_older_versions_gives_nothing() {
    let deal = Deal::new();
    for version in [2, 3] {
        deal.tell(STAGE_CHANGED, &deal.changed(version, "Application", "Booking", Some(guid()))).await;
    }
    let sql = service().sql().await;
    let kept = async || {
        let count = "select count(*) from thing_waiting where thing = $1";
        let row = sql.query_one(count, &[&deal.id.to_string()]).await.unwrap();
        (row.get::<_, i64>(0) == 2).then_some(())
    };
    eventually("what is kept", kept).await;
    deal.tell(DEAL_CREATED, &with(deal.created(), "RowVersion", 3)).await;
    let id = deal.chat().await;
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Application", "Sale", None)).await;
    deal.tell(STAGE_CHANGED, &deal.changed(4, "Sale", "Completed", deal.agent)).await;
    let is_last = |chat: &Value| chat["LastMessage"]["Card"]["ToStatus"] == "Completed";
    let chat = view_when(id, deal.client, "the card", is_last).await;
    assert_eq!(chat["LastSequence"], 1);
    assert_eq!(role(&chat, deal.agent()).as_deref(), Some("Agent"));
    assert_eq!(roles(&chat).len(), 3);
}

/// Conventions, events: members that nobody here reads may be missing; what cannot be read is put aside.
#[tokio::test]
async fn what_cannot_be_read_is_put_aside() {
    let deal = Deal::new();
    deal.tell(DEAL_CREATED, &without(deal.created(), "ClientUserId")).await;
    let sql = service().sql().await;
    let put_aside = async || {
        let row =
            sql.query_opt("select error from dead_letter where key = $1", &[&deal.id.to_string()]).await;
        row.unwrap().map(|row| row.get::<_, String>(0))
    };
    let reason = eventually("the dead letter", put_aside).await;
    assert!(reason.starts_with("does not decode"), "{reason}");

    let plain = Deal { agent: None, ..Deal::new() };
    let lean = ["Amount", "AgentUserId", "CreatedAt"].into_iter().fold(plain.created(), without);
    plain.tell(DEAL_CREATED, &lean).await;
    assert_eq!(list(&view(plain.chat().await, plain.client).await["Members"]).len(), 2);
}
