//! Who comes and goes by hand.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::{
    CHATS, Deal, MANAGE, MANAGE_ALL, add, cards, chat_direct, each, holder, list, messages, open_chat, path,
    person, put, remove, role, roles, say, service, supervisor, view,
};

/// Section 1, Member: added by a supervisor, with a card that all see; a repeat changes nothing.
#[tokio::test]
async fn a_supervisor_adds_and_removes_members() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let by = guid();
    let boss = service().caller(&holder(by, Some(deal.tenant), &[MANAGE]));
    let place = path(id, &format!("/members/{user}"));
    for _ in 0..2 {
        put(&boss, &place).await.expect(204);
    }
    let chat = view(id, user).await;
    assert_eq!(role(&chat, user).as_deref(), Some("Member"));
    assert_eq!(cards(id, user).await, [json!({"Type": "MemberAdded", "UserId": user, "ByUserId": by})]);
    assert_eq!(
        (&chat["ReadSequence"], &chat["UnreadCount"]),
        (&json!(1), &json!(0)),
        "who was added has read it"
    );
    assert_eq!(view(id, deal.client).await["UnreadCount"], 1, "the others have not");

    boss.delete(&place).await.expect(204);
    boss.delete(&place).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    person(user).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    let removed = json!({"Type": "MemberRemoved", "UserId": user, "ByUserId": by});
    assert_eq!(cards(id, deal.client).await[1], removed);
    let page = person(user).get(CHATS).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "the chat is lost at once");
}

/// Section 1: the supervisor of the tenant and of the platform; nobody else, and to strangers there is no chat.
#[tokio::test]
async fn members_are_changed_by_supervisors_alone() {
    let (deal, id) = open_chat().await;
    let place = path(id, &format!("/members/{}", guid()));
    let own = path(id, &format!("/members/{}", deal.agent()));
    let elsewhere = service().caller(&holder(guid(), Some(guid()), &[MANAGE]));
    let nowhere = service().caller(&holder(guid(), None, &[MANAGE]));
    for stranger in [person(guid()), elsewhere, nowhere] {
        put(&stranger, &place).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        stranger.delete(&own).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let colleague = service().caller(&holder(deal.manager, Some(guid()), &[MANAGE]));
    for member in [person(deal.client), person(deal.agent()), colleague] {
        put(&member, &place).await.expect_problem(403, "FORBIDDEN");
        member.delete(&place).await.expect_problem(403, "FORBIDDEN");
        put(&member, &own).await.expect_problem(403, "FORBIDDEN");
    }
    assert_eq!(messages(id, deal.client).await, [Value::Null; 0]);
    put(&service().caller(&holder(guid(), None, &[MANAGE_ALL])), &place).await.expect(204);
    put(&service().caller(&holder(guid(), Some(guid()), &[MANAGE_ALL])), &own).await.expect(204);
    assert_eq!(roles(&view(id, deal.client).await).len(), 4);
}

/// Section 1: the Client stays, an Agent cannot leave, a Manager and a Member can; a supervisor removes all but the Client.
#[tokio::test]
async fn who_may_leave_and_who_may_be_removed() {
    let (deal, id) = open_chat().await;
    let added = guid();
    add(&deal, id, added).await.expect(204);
    let leave = async |user: Uuid| person(user).delete(&path(id, &format!("/members/{user}"))).await;
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
    let told = cards(id, deal.client).await;
    assert_eq!(each(&told, "Type"), ["MemberAdded", "MemberRemoved", "MemberRemoved", "MemberRemoved"]);
    assert_eq!(each(&told[1..3], "ByUserId"), [&json!(added), &json!(deal.manager)], "by themselves");
    add(&deal, id, deal.manager).await.expect(204);
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, deal.manager).as_deref(), Some("Member"), "a Manager comes with the chat alone");
}

/// Section 1: one who is no member reads the entry and no message; to read, one adds oneself, and all see the card.
#[tokio::test]
async fn a_supervisor_reads_the_entry_and_has_to_come_in_to_read_on() {
    let (deal, id) = open_chat().await;
    say(id, deal.client, "секрет").await;
    let me = guid();
    let boss = service().caller(&holder(me, Some(deal.tenant), &[MANAGE]));
    let listed = boss.get(&format!("{CHATS}?Scope=Tenant&DealId={}", deal.id)).await.expect(200);
    assert_eq!(listed["TotalCount"], 1);
    let entry = boss.get(&path(id, "")).await.expect(200);
    assert_eq!(listed["Items"][0], entry);
    assert_eq!(entry["LastMessage"], Value::Null);
    assert_eq!((&entry["ReadSequence"], &entry["UnreadCount"]), (&json!(0), &json!(0)));
    assert_eq!(entry["LastSequence"], 1);
    assert_eq!(list(&entry["Members"]).len(), 3);
    boss.get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    boss.post(&path(id, "/messages"), json!({"Text": "а"}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    boss.put(&path(id, "/read"), json!({"Sequence": 1}))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    assert_eq!(boss.get(CHATS).await.expect(200)["TotalCount"], 0, "it is not one's own");

    put(&boss, &path(id, &format!("/members/{me}"))).await.expect(204);
    let page = boss.get(&path(id, "/messages?AfterSequence=0")).await.expect(200);
    assert_eq!(page["Items"][0]["Text"], "секрет");
    assert_eq!(page["Items"][1]["Card"], json!({"Type": "MemberAdded", "UserId": me, "ByUserId": me}));
    assert_eq!(boss.get(&path(id, "")).await.expect(200)["LastMessage"], page["Items"][1]);
}

/// Section 2: whoever had read all before a card has read it, too, if they added or removed somebody.
#[tokio::test]
async fn who_adds_or_removes_somebody_has_read_the_card() {
    let (deal, id) = open_chat().await;
    let boss = service().caller(&holder(deal.manager, Some(deal.tenant), &[MANAGE]));
    let user = guid();
    let place = path(id, &format!("/members/{user}"));
    put(&boss, &place).await.expect(204);
    boss.delete(&place).await.expect(204);
    assert_eq!(view(id, deal.manager).await["UnreadCount"], 0);
    say(id, deal.client, "а").await;
    put(&boss, &place).await.expect(204);
    assert_eq!(
        view(id, deal.manager).await["UnreadCount"],
        2,
        "who has not read all before it has not read it either"
    );
    assert_eq!(view(id, user).await["UnreadCount"], 0);
}

/// Section 1, order for members: 401, 400, 404 chat, 403, 422, no-op, 409 full; 404 entry, 409 of the deal.
#[tokio::test]
async fn refusals_come_in_their_order() {
    let (deal, id) = open_chat().await;
    let boss = supervisor(deal.tenant);
    let nil = Uuid::nil();
    service().guest().delete(&path(id, &format!("/members/{nil}"))).await.expect_problem(401, "UNAUTHORIZED");
    for caller in [&boss, &person(guid()), &person(deal.client)] {
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
    put(&boss, &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    person(deal.client)
        .delete(&path(direct, &format!("/members/{}", deal.manager)))
        .await
        .expect_problem(403, "FORBIDDEN");
    put(&person(deal.client), &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(403, "FORBIDDEN");
    person(deal.client)
        .delete(&path(direct, &format!("/members/{}", deal.client)))
        .await
        .expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    let everywhere = service().caller(&holder(deal.client, None, &[MANAGE_ALL]));
    put(&everywhere, &path(direct, &format!("/members/{}", guid())))
        .await
        .expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    boss.delete(&path(id, &format!("/members/{}", guid())))
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// INV-MSG-6: at most 50, each once; who is in it already is no further one.
#[tokio::test]
async fn a_chat_holds_fifty() {
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

/// Section 1: a supervisor of one company finds the deal chats of that company and no other.
#[tokio::test]
async fn supervisors_list_what_they_supervise() {
    let (deal, id) = open_chat().await;
    let other = Deal { tenant: deal.tenant, ..Deal::new() };
    other.tell_created().await;
    let second = other.chat().await;
    open_chat().await;
    let boss = supervisor(deal.tenant);
    let page = boss.get(&format!("{CHATS}?Scope=Tenant&Sort=CreatedAt")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id), &json!(second)]);
    say(id, deal.client, "а").await;
    let page = boss.get(&format!("{CHATS}?Scope=Tenant")).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id), &json!(second)], "the newest activity first");
    let everywhere = service().caller(&holder(guid(), None, &[MANAGE_ALL]));
    let page = everywhere.get(&format!("{CHATS}?Scope=Tenant&DealId={}", other.id)).await.expect(200);
    assert_eq!(each(list(&page["Items"]), "Id"), [&json!(second)]);
    for query in ["Unread=true", "Live=true", "Kind=Direct"] {
        let page = boss.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], 0, "{query}: what is not shown is not found");
    }
    // Of their own chats, as far as these are the company's.
    let user = guid();
    let member = service().caller(&holder(user, Some(deal.tenant), &[MANAGE]));
    let elsewhere = Deal::new();
    elsewhere.tell_created().await;
    for (of, chat) in [(&deal, id), (&elsewhere, elsewhere.chat().await)] {
        add(of, chat, user).await.expect(204);
        say(chat, of.client, "б").await;
    }
    for query in ["Unread=true", "Unread=true&Kind=Deal", "Unread=true&Sort=CreatedAt"] {
        let page = member.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(each(list(&page["Items"]), "Id"), [&json!(id)], "{query}");
    }
    for query in ["Unread=true&Kind=Direct", "Live=true"] {
        let page = member.get(&format!("{CHATS}?Scope=Tenant&{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], 0, "{query}");
    }
    for nobody in [person(deal.client), service().caller(&holder(guid(), None, &[MANAGE]))] {
        // Before the rest of the query is looked at, as a permission is before a body.
        for query in ["", "&PageSize=0", "&DealId=x&Kind=Deal,Deal,&Page=2"] {
            let refused = nobody.get(&format!("{CHATS}?Scope=Tenant{query}")).await;
            refused.expect_problem(403, "FORBIDDEN");
        }
        for query in ["Scope=tenant&PageSize=0", "Scope=Tenant&Scope=Tenant"] {
            let refused = nobody.get(&format!("{CHATS}?{query}")).await;
            refused.expect_problem(400, "VALIDATION_FAILED");
        }
    }
    let refused = boss.get(&format!("{CHATS}?Scope=Tenant&PageSize=0")).await;
    refused.expect_problem(400, "VALIDATION_FAILED");
}
