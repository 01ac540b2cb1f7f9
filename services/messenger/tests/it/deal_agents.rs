//! The agent, who follows the deal.

use serde_json::{Value, json};
use testkit::guid;

use crate::{
    Deal, STAGE_CHANGED, add, cards, each, open_chat, path, person, remove, role, roles, say, view,
    view_when, without,
};

/// Section 1, Agent: a change of a higher version replaces them, with `MemberRemoved` before `MemberAdded`.
#[tokio::test]
async fn another_agent_takes_the_place_of_the_old_one() {
    let (deal, id) = open_chat().await;
    let (old, new) = (deal.agent(), guid());
    say(id, deal.client, "здравствуйте").await;
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(new))).await;
    let chat = view_when(id, deal.client, "the new agent", |chat| role(chat, new).is_some()).await;
    assert_eq!(role(&chat, new).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, old), None);
    let told = cards(id, deal.client).await;
    assert_eq!(each(&told, "Type"), ["DealStatusChanged", "MemberRemoved", "MemberAdded"]);
    assert_eq!(told[1], json!({"Type": "MemberRemoved", "UserId": old, "ByUserId": null}));
    assert_eq!(told[2], json!({"Type": "MemberAdded", "UserId": new, "ByUserId": null}));
    person(old).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    person(old).get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let seen = view(id, new).await;
    assert_eq!((&seen["ReadSequence"], &seen["UnreadCount"]), (&json!(4), &json!(0)), "the history as read");
    let page = person(new).get(&path(id, "/messages?AfterSequence=0")).await.expect(200);
    assert_eq!(page["Items"][0]["Text"], "здравствуйте", "the whole of it");
}

/// Section 1, Agent: null removes them, an absent member leaves them; the status need not change.
#[tokio::test]
async fn null_removes_the_agent_and_silence_does_not() {
    let (deal, id) = open_chat().await;
    let silent = without(deal.changed(2, "Application", "Booking", None), "AgentUserId");
    deal.tell(STAGE_CHANGED, &silent).await;
    let chat = view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 1).await;
    assert_eq!(role(&chat, deal.agent()).as_deref(), Some("Agent"));
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Booking", "Booking", None)).await;
    let chat = view_when(id, deal.client, "the removal", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(role(&chat, deal.agent()), None);
    let back = guid();
    deal.tell(STAGE_CHANGED, &deal.changed(4, "Booking", "Booking", Some(back))).await;
    view_when(id, deal.client, "another agent", |chat| role(chat, back).as_deref() == Some("Agent")).await;
    assert_eq!(
        each(&cards(id, deal.client).await, "Type"),
        ["DealStatusChanged", "MemberRemoved", "MemberAdded"]
    );
}

/// Section 1, Agent: a supervisor may remove them, and only a change that names another agent brings one again.
#[tokio::test]
async fn an_agent_who_was_removed_comes_back_only_as_another() {
    let (deal, id) = open_chat().await;
    let (agent, other) = (deal.agent(), guid());
    remove(&deal, id, agent).await.expect(204);
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(agent))).await;
    let chat = view_when(id, deal.client, "the card", |chat| chat["LastSequence"] == 2).await;
    assert_eq!(role(&chat, agent), None);
    add(&deal, id, agent).await.expect(204);
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Booking", "Sale", Some(agent))).await;
    let chat = view_when(id, deal.client, "the next card", |chat| chat["LastSequence"] == 4).await;
    assert_eq!(role(&chat, agent).as_deref(), Some("Member"), "one who was added is no agent");
    deal.tell(STAGE_CHANGED, &deal.changed(4, "Sale", "Sale", Some(other))).await;
    let chat = view_when(id, deal.client, "the other agent", |chat| role(chat, other).is_some()).await;
    assert_eq!(role(&chat, other).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, agent).as_deref(), Some("Member"), "nobody took them away");
}

/// Section 1: one entry with the first role that fits, now or after losing another; a role alone makes no card.
#[tokio::test]
async fn whoever_loses_a_role_has_the_next_that_fits() {
    let (deal, id) = open_chat().await;
    let added = guid();
    add(&deal, id, added).await.expect(204);
    remove(&deal, id, deal.agent()).await.expect(204);
    let steps: [(Option<_>, &str, &str, usize); 4] = [
        (Some(deal.manager), "Agent", "Member", 0),
        (Some(added), "Manager", "Agent", 0),
        (Some(deal.client), "Manager", "Member", 0),
        (None, "Manager", "Member", 0),
    ];
    let before = cards(id, deal.client).await.len();
    for (version, (agent, manager_is, added_is, further)) in (2..).zip(steps) {
        deal.tell(STAGE_CHANGED, &deal.changed(version, "Sale", "Sale", agent)).await;
        let is_there = |chat: &Value| {
            role(chat, deal.manager).as_deref() == Some(manager_is)
                && role(chat, added).as_deref() == Some(added_is)
        };
        let chat = view_when(id, deal.client, "the roles", is_there).await;
        assert_eq!(role(&chat, deal.client).as_deref(), Some("Client"));
        assert_eq!(roles(&chat).len(), 3, "each once");
        assert_eq!(cards(id, deal.client).await.len(), before + further);
    }
}

/// Section 1, Manager: whoever was removed must not read on; as the deal's agent they come, and go as one.
#[tokio::test]
async fn a_manager_who_was_removed_is_none_any_more() {
    let (deal, id) = open_chat().await;
    remove(&deal, id, deal.manager).await.expect(204);
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(deal.manager))).await;
    let agent = |chat: &Value| role(chat, deal.manager).as_deref() == Some("Agent");
    view_when(id, deal.client, "the agent", agent).await;
    deal.tell(STAGE_CHANGED, &deal.changed(3, "Sale", "Sale", None)).await;
    view_when(id, deal.client, "nobody", |chat| role(chat, deal.manager).is_none()).await;
}

/// INV-MSG-6: a chat holds at most 50, and the deal's own always fit.
#[tokio::test]
async fn an_agent_fits_into_a_full_chat() {
    let deal = Deal { agent: None, ..Deal::new() };
    deal.tell_created().await;
    let id = deal.chat().await;
    let mut count = 2;
    while add(&deal, id, guid()).await.status == 204 {
        count += 1;
        assert!(count <= 50);
    }
    add(&deal, id, guid()).await.expect_problem(409, "MESSENGER_CHAT_FULL");
    let agent = guid();
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(agent))).await;
    let chat = view_when(id, deal.client, "the agent", |chat| role(chat, agent).is_some()).await;
    assert_eq!(roles(&chat).len(), count + 1);
    assert_eq!(count + 1, 50);
}
