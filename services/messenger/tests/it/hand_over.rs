//! Supervisors who list the chats of one user and hand them over.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;
use uuid::Uuid;

use crate::employment_events::{end, wait_until_left};
use crate::{
    Deal, MANAGE, MANAGE_ALL, STAGE_CHANGED, add, as_user, cards, claims_with, each, list, open_chat, path,
    remove, role, service, supervisor, view, view_when,
};

fn chats_path(user: Uuid) -> String {
    format!("/api/messenger/supervision/members/{user}/chats")
}

async fn hand_over(caller: &Client, from: Uuid, to: Uuid) -> testkit::client::Response {
    let path = format!("/api/messenger/supervision/members/{from}/hand-over");
    caller.post(&path, json!({"ToUserId": to})).await
}

/// Publishes a further deal of the same company and manager, and waits for its chat.
async fn open_second(deal: &Deal) -> Uuid {
    let second = Deal { tenant: deal.tenant, manager: deal.manager, ..Deal::new() };
    second.publish_created().await;
    second.chat().await
}

/// RULE-MSG-070: a supervisor lists the supervised chats of a Manager or Member, also after the
/// employment ended.
#[tokio::test]
async fn supervisor_lists_the_chats_of_one_user() {
    let (deal, id) = open_chat().await;
    let second_id = open_second(&deal).await;
    let (elsewhere, elsewhere_id) = open_chat().await;
    add(&elsewhere, elsewhere_id, deal.manager).await.expect(204);
    let company_supervisor = supervisor(deal.tenant);
    let platform_supervisor = service().caller(&claims_with(guid(), None, &[MANAGE_ALL]));
    let ids = async |caller: &Client| {
        let page = caller.get(&format!("{}?Sort=CreatedAt", chats_path(deal.manager))).await.expect(200);
        each(list(&page["Items"]), "Id").into_iter().cloned().collect::<Vec<Value>>()
    };
    assert_eq!(ids(&company_supervisor).await, [json!(id), json!(second_id)]);
    assert_eq!(ids(&platform_supervisor).await, [json!(id), json!(second_id), json!(elsewhere_id)]);
    for user in [deal.client, deal.agent(), guid(), Uuid::nil()] {
        assert_eq!(company_supervisor.get(&chats_path(user)).await.expect(200)["TotalCount"], 0);
    }
    let page = company_supervisor.get(&format!("{}?PageSize=1", chats_path(deal.manager))).await.expect(200);
    assert_eq!((&page["TotalCount"], &page["Items"][0]["LastMessage"]), (&json!(2), &Value::Null));
    let (taken, taken_id) = open_chat().await;
    add(&taken, taken_id, deal.manager).await.expect(204);
    // A chat that a supervisor took away is not listed.
    remove(&taken, taken_id, deal.manager).await.expect(204);
    end(deal.manager, deal.tenant).await;
    for chat in [id, second_id, elsewhere_id] {
        wait_until_left(chat, deal.manager).await;
    }
    assert_eq!(ids(&company_supervisor).await, [json!(id), json!(second_id)]);
    assert_eq!(ids(&platform_supervisor).await, [json!(id), json!(second_id), json!(elsewhere_id)]);
    let stranger = service().caller(&claims_with(guid(), None, &[MANAGE]));
    for other in [as_user(deal.manager), as_user(guid()), stranger] {
        other.get(&chats_path(deal.manager)).await.expect_problem(403, "FORBIDDEN");
        hand_over(&other, deal.manager, guid()).await.expect_problem(403, "FORBIDDEN");
    }
}

/// RULE-MSG-071: a hand-over replaces the user in all chats, with the cards of both changes.
#[tokio::test]
async fn hand_over_replaces_the_user_in_every_chat() {
    let (deal, id) = open_chat().await;
    let second_id = open_second(&deal).await;
    let (by, to) = (guid(), guid());
    let company_supervisor = service().caller(&claims_with(by, Some(deal.tenant), &[MANAGE]));
    add(&deal, id, to).await.expect(204);
    let done = hand_over(&company_supervisor, deal.manager, to).await.expect(200);
    assert_eq!(done, json!({"HandedOverCount": 2, "FullChatCount": 0}));
    for chat in [id, second_id] {
        as_user(deal.manager).get(&path(chat, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        assert_eq!(role(&view(chat, to).await, to).as_deref(), Some("Member"));
    }
    let removed = json!({"Type": "MemberRemoved", "UserId": deal.manager, "ByUserId": by});
    let added = json!({"Type": "MemberAdded", "UserId": to, "ByUserId": by});
    assert_eq!(cards(second_id, to).await, [removed.clone(), added]);
    assert_eq!(cards(id, to).await.last(), Some(&removed), "the new user was a member already");
    let again = hand_over(&company_supervisor, deal.manager, to).await.expect(200);
    assert_eq!(again["HandedOverCount"], 0);
}

/// RULE-MSG-071: chats of a former employee are handed over once, to any user who is not a former
/// employee of the same company.
#[tokio::test]
async fn chats_of_a_former_employee_are_handed_over() {
    let (deal, id) = open_chat().await;
    let company_supervisor = supervisor(deal.tenant);
    let (gone, to) = (guid(), guid());
    end(deal.manager, deal.tenant).await;
    wait_until_left(id, deal.manager).await;
    add(&deal, id, gone).await.expect(204);
    end(gone, deal.tenant).await;
    wait_until_left(id, gone).await;
    for user in [gone, deal.manager] {
        let other = if user == gone { deal.manager } else { gone };
        hand_over(&company_supervisor, user, other).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");
    }
    assert_eq!(hand_over(&company_supervisor, deal.manager, to).await.expect(200)["HandedOverCount"], 1);
    assert_eq!(role(&view(id, to).await, to).as_deref(), Some("Member"));
    assert_eq!(cards(id, to).await.last().unwrap()["Type"], "MemberAdded");
    for (user, count) in [(deal.manager, 0), (gone, 1), (to, 1)] {
        assert_eq!(company_supervisor.get(&chats_path(user)).await.expect(200)["TotalCount"], count);
    }
    assert_eq!(hand_over(&company_supervisor, gone, to).await.expect(200)["HandedOverCount"], 1);
    assert_eq!(company_supervisor.get(&chats_path(gone)).await.expect(200)["TotalCount"], 0);
}

/// RULE-MSG-071: a hand-over leaves full chats, Agents and other companies unchanged, and rejects
/// an invalid user.
#[tokio::test]
async fn hand_over_keeps_full_chats_and_agents() {
    let (deal, id) = open_chat().await;
    let company_supervisor = supervisor(deal.tenant);
    let to = guid();
    end(deal.manager, deal.tenant).await;
    wait_until_left(id, deal.manager).await;
    // The client and 48 others take all seats except the agent's.
    for _ in 0..48 {
        add(&deal, id, guid()).await.expect(204);
    }
    let full = hand_over(&company_supervisor, deal.manager, to).await.expect(200);
    assert_eq!(full, json!({"HandedOverCount": 0, "FullChatCount": 1}));
    assert_eq!(company_supervisor.get(&chats_path(deal.manager)).await.expect(200)["TotalCount"], 1);

    let (other, other_id) = open_chat().await;
    other.publish(STAGE_CHANGED, &other.changed(2, "Application", "Application", Some(other.manager))).await;
    view_when(other_id, other.client, "the agent", |chat| {
        role(chat, other.manager).as_deref() == Some("Agent")
    })
    .await;
    for caller in [&supervisor(other.tenant), &company_supervisor] {
        let kept = hand_over(caller, other.manager, to).await.expect(200);
        assert_eq!(kept["HandedOverCount"], 0);
    }
    let refused = hand_over(&company_supervisor, to, to).await;
    refused.expect_refusal("VALIDATION_FAILED", "/ToUserId", "same_user");
    let refused = hand_over(&company_supervisor, to, Uuid::nil()).await;
    refused.expect_refusal("VALIDATION_FAILED", "/ToUserId", "empty_id");
}

/// RULE-MSG-071: one request hands over more chats than one query reads.
#[tokio::test]
async fn many_chats_are_handed_over_at_once() {
    const CHAT_COUNT: usize = 201;
    let first = Deal::new();
    for _ in 0..CHAT_COUNT {
        let deal = Deal { tenant: first.tenant, manager: first.manager, client: first.client, ..Deal::new() };
        deal.publish_created().await;
    }
    let company_supervisor = supervisor(first.tenant);
    testkit::eventually("all chats", async || {
        let page = company_supervisor.get(&chats_path(first.manager)).await.expect(200);
        (page["TotalCount"] == CHAT_COUNT).then_some(())
    })
    .await;
    let to = guid();
    for count in [CHAT_COUNT, 0] {
        let done = hand_over(&company_supervisor, first.manager, to).await.expect(200);
        assert_eq!(done, json!({"HandedOverCount": count, "FullChatCount": 0}));
    }
    assert_eq!(company_supervisor.get(&chats_path(to)).await.expect(200)["TotalCount"], CHAT_COUNT);
}
