//! Members who are added, are removed or leave.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{
    CHATS, Deal, MANAGE, MANAGE_ALL, add, as_user, cards, chat_direct, claims_with, each, list, messages,
    open_chat, path, put, remove, role, roles, send_text, service, supervisor, view,
};

/// RULE-MSG-003: each change by a supervisor has a card, and a repeated addition changes nothing.
#[tokio::test]
async fn supervisor_adds_and_removes_members() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let by = guid();
    let supervisor = service().caller(&claims_with(by, Some(deal.tenant), &[MANAGE]));
    let target = path(id, &format!("/members/{user}"));
    for _ in 0..2 {
        put(&supervisor, &target).await.expect(204);
    }
    let chat = view(id, user).await;
    assert_eq!(role(&chat, user).as_deref(), Some("Member"));
    assert_eq!(cards(id, user).await, [json!({"Type": "MemberAdded", "UserId": user, "ByUserId": by})]);
    assert_eq!(
        (&chat["ReadSequence"], &chat["UnreadCount"]),
        (&json!(1), &json!(0)),
        "the new member has read the card"
    );
    assert_eq!(view(id, deal.client).await["UnreadCount"], 1, "the other members have not");

    supervisor.delete(&target).await.expect(204);
    supervisor.delete(&target).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    as_user(user).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let removed = json!({"Type": "MemberRemoved", "UserId": user, "ByUserId": by});
    assert_eq!(cards(id, deal.client).await[1], removed);
    let page = as_user(user).get(CHATS).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "a removed member loses the chat at once");
}

/// RULE-MSG-003, RULE-MSG-015: only supervisors of the company or of the platform change members.
/// Other members get 403, and strangers get 404.
#[tokio::test]
async fn other_callers_cannot_change_members() {
    let (deal, id) = open_chat().await;
    let target = path(id, &format!("/members/{}", guid()));
    let existing = path(id, &format!("/members/{}", deal.agent()));
    let elsewhere = service().caller(&claims_with(guid(), Some(guid()), &[MANAGE]));
    let nowhere = service().caller(&claims_with(guid(), None, &[MANAGE]));
    for stranger in [as_user(guid()), elsewhere, nowhere] {
        put(&stranger, &target).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        stranger.delete(&existing).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let colleague = service().caller(&claims_with(deal.manager, Some(guid()), &[MANAGE]));
    for member in [as_user(deal.client), as_user(deal.agent()), colleague] {
        put(&member, &target).await.expect_problem(403, "FORBIDDEN");
        member.delete(&target).await.expect_problem(403, "FORBIDDEN");
        put(&member, &existing).await.expect_problem(403, "FORBIDDEN");
    }
    assert_eq!(messages(id, deal.client).await, [Value::Null; 0]);
    put(&service().caller(&claims_with(guid(), None, &[MANAGE_ALL])), &target).await.expect(204);
    put(&service().caller(&claims_with(guid(), Some(guid()), &[MANAGE_ALL])), &existing).await.expect(204);
    assert_eq!(roles(&view(id, deal.client).await).len(), 4);
}

/// RULE-MSG-003, RULE-MSG-018: a Manager and a Member may leave. A supervisor removes every member
/// but the Client.
#[tokio::test]
async fn leaving_and_removal_depend_on_the_role() {
    let (deal, id) = open_chat().await;
    let added = guid();
    add(&deal, id, added).await.expect(204);
    let leave = async |user: Uuid| as_user(user).delete(&path(id, &format!("/members/{user}"))).await;
    leave(deal.client).await.expect_problem(409, "MESSENGER_MEMBER_OF_DEAL");
    leave(deal.agent()).await.expect_problem(409, "MESSENGER_MEMBER_OF_DEAL");
    remove(&deal, id, deal.client).await.expect_problem(409, "MESSENGER_MEMBER_OF_DEAL");
    leave(added).await.expect(204);
    leave(added).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    leave(deal.manager).await.expect(204);
    remove(&deal, id, deal.agent()).await.expect(204);
    remove(&deal, id, deal.agent()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let chat = view(id, deal.client).await;
    assert_eq!(roles(&chat), [(deal.client, "Client".to_owned())]);
    let cards = cards(id, deal.client).await;
    assert_eq!(each(&cards, "Type"), ["MemberAdded", "MemberRemoved", "MemberRemoved", "MemberRemoved"]);
    assert_eq!(each(&cards[1..3], "ByUserId"), [&json!(added), &json!(deal.manager)], "both left");
    add(&deal, id, deal.manager).await.expect(204);
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, deal.manager).as_deref(), Some("Member"), "an added user becomes a Member");
}

/// RULE-MSG-004: a supervisor reads the chat's entry, as in the list of chats. To read messages,
/// supervisors first add themselves, with a card.
#[tokio::test]
async fn supervisor_reads_messages_only_as_a_member() {
    let (deal, id) = open_chat().await;
    send_text(id, deal.client, "секрет").await;
    let me = guid();
    let supervisor = service().caller(&claims_with(me, Some(deal.tenant), &[MANAGE]));
    let listed = supervisor.get(&format!("{CHATS}?Scope=Tenant&DealId={}", deal.id)).await.expect(200);
    assert_eq!(listed["TotalCount"], 1);
    let entry = supervisor.get(&path(id, "")).await.expect(200);
    assert_eq!(listed["Items"][0], entry);
    assert_eq!(entry["LastMessage"], Value::Null);
    assert_eq!((&entry["ReadSequence"], &entry["UnreadCount"]), (&json!(0), &json!(0)));
    assert_eq!(entry["LastSequence"], 1);
    assert_eq!(list(&entry["Members"]).len(), 3);
    supervisor.get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    supervisor
        .post(&path(id, "/messages"), json!({"Text": "а"}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    supervisor
        .put(&path(id, "/read"), json!({"Sequence": 1}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    assert_eq!(supervisor.get(CHATS).await.expect(200)["TotalCount"], 0, "the chat is not an own chat");

    put(&supervisor, &path(id, &format!("/members/{me}"))).await.expect(204);
    let page = supervisor.get(&path(id, "/messages?AfterSequence=0")).await.expect(200);
    assert_eq!(page["Items"][0]["Text"], "секрет");
    assert_eq!(page["Items"][1]["Card"], json!({"Type": "MemberAdded", "UserId": me, "ByUserId": me}));
    assert_eq!(supervisor.get(&path(id, "")).await.expect(200)["LastMessage"], page["Items"][1]);
}

/// RULE-MSG-003: the card of a change counts as read for the supervisor who made the change, unless
/// earlier messages are unread.
#[tokio::test]
async fn member_card_is_read_for_the_supervisor_who_caused_it() {
    let (deal, id) = open_chat().await;
    let supervisor = service().caller(&claims_with(deal.manager, Some(deal.tenant), &[MANAGE]));
    let user = guid();
    let target = path(id, &format!("/members/{user}"));
    put(&supervisor, &target).await.expect(204);
    supervisor.delete(&target).await.expect(204);
    assert_eq!(view(id, deal.manager).await["UnreadCount"], 0);
    send_text(id, deal.client, "а").await;
    put(&supervisor, &target).await.expect(204);
    assert_eq!(
        view(id, deal.manager).await["UnreadCount"],
        2,
        "the card is unread for a supervisor with earlier unread messages"
    );
    assert_eq!(view(id, user).await["UnreadCount"], 0);
}

/// RULE-MSG-008, RULE-MSG-016: changes of members check 401, 400, 404, 403, 422, 409 in this order.
#[tokio::test]
async fn member_refusals_follow_the_order_of_the_table() {
    let (deal, id) = open_chat().await;
    let supervisor = supervisor(deal.tenant);
    let nil = Uuid::nil();
    service().guest().delete(&path(id, &format!("/members/{nil}"))).await.expect_problem(401, "UNAUTHORIZED");
    for caller in [&supervisor, &as_user(guid()), &as_user(deal.client)] {
        for chat in [id, guid()] {
            let refused = put(caller, &path(chat, &format!("/members/{nil}"))).await;
            refused.expect_refusal("VALIDATION_FAILED", "/UserId", "empty_id");
        }
        let refused = caller.delete(&path(nil, &format!("/members/{}", guid()))).await;
        refused.expect_refusal("VALIDATION_FAILED", "/ChatId", "empty_id");
        put(caller, &path(id, "/members/x")).await.expect_problem(404, "NOT_FOUND");
        put(caller, &path(guid(), &format!("/members/{}", guid())))
            .await
            .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let direct = chat_direct::open(deal.client, deal.manager).await;
    put(&supervisor, &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    as_user(deal.client)
        .delete(&path(direct, &format!("/members/{}", deal.manager)))
        .await
        .expect_problem(403, "FORBIDDEN");
    put(&as_user(deal.client), &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(403, "FORBIDDEN");
    as_user(deal.client)
        .delete(&path(direct, &format!("/members/{}", deal.client)))
        .await
        .expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    let everywhere = service().caller(&claims_with(deal.client, None, &[MANAGE_ALL]));
    put(&everywhere, &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    supervisor
        .delete(&path(id, &format!("/members/{}", guid())))
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// INV-MSG-6, RULE-MSG-017: a chat has at most 50 members, and the addition of an existing member
/// takes no further seat.
#[tokio::test]
async fn chat_holds_fifty_members() {
    let (deal, id) = open_chat().await;
    let users: Vec<_> = (0..47).map(|_| guid()).collect();
    for user in &users {
        add(&deal, id, *user).await.expect(204);
    }
    assert_eq!(roles(&view(id, deal.client).await).len(), 50);
    let full = add(&deal, id, guid()).await.expect_problem(409, "MESSENGER_CHAT_FULL");
    assert!(full["detail"].as_str().unwrap().contains("50"), "{full}");
    add(&deal, id, users[0]).await.expect(204);
    remove(&deal, id, users[0]).await.expect(204);
    add(&deal, id, guid()).await.expect(204);
}

/// RULE-MSG-004: a supervisor of one company lists the deal chats of that company and no other.
#[tokio::test]
async fn supervisor_lists_only_supervised_chats() {
    let (deal, id) = open_chat().await;
    let other = Deal { tenant: deal.tenant, ..Deal::new() };
    other.publish_created().await;
    let second = other.chat().await;
    open_chat().await;
    let supervisor = supervisor(deal.tenant);
    let page = supervisor.get(&format!("{CHATS}?Scope=Tenant&Sort=CreatedAt")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id), &json!(second)]);
    send_text(id, deal.client, "а").await;
    let page = supervisor.get(&format!("{CHATS}?Scope=Tenant")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id), &json!(second)], "newest activity first");
    let everywhere = service().caller(&claims_with(guid(), None, &[MANAGE_ALL]));
    let page = everywhere.get(&format!("{CHATS}?Scope=Tenant&DealId={}", other.id)).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(second)]);
    for query in ["Unread=true", "Live=true", "Kind=Direct"] {
        let page = supervisor.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], 0, "{query}: the supervisor is not a member");
    }
    // With `Unread` or `Live` the list has only the supervisor's own deal chats of the company.
    let user = guid();
    let member = service().caller(&claims_with(user, Some(deal.tenant), &[MANAGE]));
    let elsewhere = Deal::new();
    elsewhere.publish_created().await;
    for (of, chat) in [(&deal, id), (&elsewhere, elsewhere.chat().await)] {
        add(of, chat, user).await.expect(204);
        send_text(chat, of.client, "б").await;
    }
    for query in ["Unread=true", "Unread=true&Kind=Deal", "Unread=true&Sort=CreatedAt"] {
        let page = member.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id)], "{query}");
    }
    for query in ["Unread=true&Kind=Direct", "Live=true"] {
        let page = member.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], 0, "{query}");
    }
    for other in [as_user(deal.client), service().caller(&claims_with(guid(), None, &[MANAGE]))] {
        // 403 precedes the check of the rest of the query.
        for query in ["", "&PageSize=0", "&DealId=x&Kind=Deal,Deal,&Page=2"] {
            let refused = other.get(&format!("{CHATS}?Scope=Tenant{query}")).await;
            refused.expect_problem(403, "FORBIDDEN");
        }
        for query in ["Scope=tenant&PageSize=0", "Scope=Tenant&Scope=Tenant"] {
            let refused = other.get(&format!("{CHATS}?{query}")).await;
            refused.expect_problem(400, "VALIDATION_FAILED");
        }
    }
    let refused = supervisor.get(&format!("{CHATS}?Scope=Tenant&PageSize=0")).await;
    refused.expect_problem(400, "VALIDATION_FAILED");
}

/// RULE-MSG-094: an added or returning user can read the whole history, which counts as read. A
/// deleted text stays deleted.
#[tokio::test]
async fn new_and_returning_members_read_the_whole_history() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let first = send_text(id, deal.client, "до вас").await;
    let deleted = send_text(id, deal.client, "не для вас").await;
    let target = path(id, &format!("/messages/{}", deleted["Id"].as_str().unwrap()));
    as_user(deal.client).delete(&target).await.expect(204);
    let assert_reads_all = async || {
        let (own, all) = (messages(id, user).await, messages(id, deal.client).await);
        assert_eq!(own, all, "the member reads what the first members read");
        assert_eq!((&own[0], &own[1]["Text"]), (&first, &Value::Null));
        let newest_first = as_user(user).get(&path(id, "/messages?PageSize=100")).await.expect(200);
        assert!(list(&newest_first["Items"]).iter().eq(all.iter().rev()));
        let chat = view(id, user).await;
        assert_eq!((&chat["ReadSequence"], &chat["UnreadCount"]), (&chat["LastSequence"], &json!(0)));
        assert_eq!(chat["LastMessage"], *all.last().unwrap());
        let unread = as_user(user).get("/api/messenger/unread").await.expect(200);
        assert_eq!(unread, json!({"ChatsCount": 0, "MessagesCount": 0}));
    };
    add(&deal, id, user).await.expect(204);
    assert_reads_all().await;
    remove(&deal, id, user).await.expect(204);
    send_text(id, deal.client, "без вас").await;
    as_user(user).get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    add(&deal, id, user).await.expect(204);
    assert_reads_all().await;
    let texts: Vec<_> = messages(id, user).await.iter().map(|message| message["Text"].clone()).collect();
    assert!(texts.contains(&json!("без вас")), "also what was sent in between: {texts:?}");
}
