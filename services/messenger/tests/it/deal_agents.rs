//! Changes of the deal's agent.

use serde_json::{Value, json};
use testkit::guid;

use crate::{
    Deal, STAGE_CHANGED, add, as_user, cards, each, open_chat, path, remove, role, roles, send_text, view,
    view_when, without,
};

/// RULE-MSG-002: a change with a higher version replaces the agent, with `MemberRemoved` before
/// `MemberAdded`.
#[tokio::test]
async fn new_agent_replaces_the_old_agent() {
    let (deal, id) = open_chat().await;
    let (old, new) = (deal.agent(), guid());
    send_text(id, deal.client, "здравствуйте").await;
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(new))).await;
    let chat = view_when(id, deal.client, "the new agent", |chat| role(chat, new).is_some()).await;
    assert_eq!(role(&chat, new).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, old), None);
    let cards = cards(id, deal.client).await;
    assert_eq!(each(&cards, "Type"), ["DealStatusChanged", "MemberRemoved", "MemberAdded"]);
    assert_eq!(cards[1], json!({"Type": "MemberRemoved", "UserId": old, "ByUserId": null}));
    assert_eq!(cards[2], json!({"Type": "MemberAdded", "UserId": new, "ByUserId": null}));
    as_user(old).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    as_user(old).get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let seen = view(id, new).await;
    assert_eq!(
        (&seen["ReadSequence"], &seen["UnreadCount"]),
        (&json!(4), &json!(0)),
        "the history counts as read"
    );
    let page = as_user(new).get(&path(id, "/messages?AfterSequence=0")).await.expect(200);
    assert_eq!(page["Items"][0]["Text"], "здравствуйте", "the new agent reads the whole history");
}

/// RULE-MSG-002: `AgentUserId` null removes the agent, and an absent `AgentUserId` keeps the agent.
/// The status need not change.
#[tokio::test]
async fn null_removes_the_agent_and_absence_keeps_it() {
    let (deal, id) = open_chat().await;
    let without_agent = without(deal.changed(2, "Application", "Booking", None), "AgentUserId");
    deal.publish(STAGE_CHANGED, &without_agent).await;
    let chat = view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 1).await;
    assert_eq!(role(&chat, deal.agent()).as_deref(), Some("Agent"));
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Booking", None)).await;
    let chat = view_when(id, deal.client, "the removal", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(role(&chat, deal.agent()), None);
    let next = guid();
    deal.publish(STAGE_CHANGED, &deal.changed(4, "Booking", "Booking", Some(next))).await;
    view_when(id, deal.client, "another agent", |chat| role(chat, next).as_deref() == Some("Agent")).await;
    assert_eq!(
        each(&cards(id, deal.client).await, "Type"),
        ["DealStatusChanged", "MemberRemoved", "MemberAdded"]
    );
}

/// RULE-MSG-002: an agent whom a supervisor removed returns only after the deal named another
/// agent.
#[tokio::test]
async fn removed_agent_does_not_return_while_the_deal_names_the_same_agent() {
    let (deal, id) = open_chat().await;
    let (agent, other) = (deal.agent(), guid());
    remove(&deal, id, agent).await.expect(204);
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(agent))).await;
    let chat = view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(role(&chat, agent), None);
    add(&deal, id, agent).await.expect(204);
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(agent))).await;
    let chat = view_when(id, deal.client, "the next card", |chat| chat["LastSequence"] == 4).await;
    assert_eq!(role(&chat, agent).as_deref(), Some("Member"), "an added user is a Member");
    deal.publish(STAGE_CHANGED, &deal.changed(4, "Sale", "Sale", Some(other))).await;
    let chat = view_when(id, deal.client, "the other agent", |chat| role(chat, other).is_some()).await;
    assert_eq!(role(&chat, other).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, agent).as_deref(), Some("Member"), "a Member is not replaced");
}

/// RULE-MSG-002: a user has one entry, with the first role of Client, Agent, Manager, Member that
/// fits. The user gets the earlier role back after losing another. A change of role makes no card.
#[tokio::test]
async fn former_agent_gets_the_earlier_role_back() {
    let (deal, id) = open_chat().await;
    let added = guid();
    add(&deal, id, added).await.expect(204);
    remove(&deal, id, deal.agent()).await.expect(204);
    let changes = [
        (Some(deal.manager), "Agent", "Member"),
        (Some(added), "Manager", "Agent"),
        (Some(deal.client), "Manager", "Member"),
        (None, "Manager", "Member"),
    ];
    let before = cards(id, deal.client).await.len();
    for (version, (agent, manager_role, added_role)) in (2..).zip(changes) {
        deal.publish(STAGE_CHANGED, &deal.changed(version, "Sale", "Sale", agent)).await;
        let is_expected = |chat: &Value| {
            role(chat, deal.manager).as_deref() == Some(manager_role)
                && role(chat, added).as_deref() == Some(added_role)
        };
        let chat = view_when(id, deal.client, "the roles", is_expected).await;
        assert_eq!(role(&chat, deal.client).as_deref(), Some("Client"));
        assert_eq!(roles(&chat).len(), 3, "each user has one entry");
        assert_eq!(cards(id, deal.client).await.len(), before);
    }
}

/// RULE-MSG-002: a removed Manager returns as the agent, and has access only in that role.
#[tokio::test]
async fn removed_manager_has_access_only_as_the_agent() {
    let (deal, id) = open_chat().await;
    remove(&deal, id, deal.manager).await.expect(204);
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(deal.manager))).await;
    let is_agent = |chat: &Value| role(chat, deal.manager).as_deref() == Some("Agent");
    view_when(id, deal.client, "the agent", is_agent).await;
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Sale", "Sale", None)).await;
    view_when(id, deal.client, "the manager to leave", |chat| role(chat, deal.manager).is_none()).await;
}

/// INV-MSG-6: the seat of the agent is kept in a full chat.
#[tokio::test]
async fn agent_fits_into_a_full_chat() {
    let deal = Deal { agent: None, ..Deal::new() };
    deal.publish_created().await;
    let id = deal.chat().await;
    let mut count = 2;
    while add(&deal, id, guid()).await.status == 204 {
        count += 1;
        assert!(count <= 50);
    }
    add(&deal, id, guid()).await.expect_problem(409, "MESSENGER_CHAT_FULL");
    let agent = guid();
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(agent))).await;
    let chat = view_when(id, deal.client, "the agent", |chat| role(chat, agent).is_some()).await;
    assert_eq!(roles(&chat).len(), count + 1);
    assert_eq!(count + 1, 50);
}
