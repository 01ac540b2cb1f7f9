//! Employments and companies of identity: former employees leave the deal chats.

use serde_json::{Value, json};
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::employment_events::{
    EMPLOYEE_STATUS_CHANGED, apply_minutes_ago, end, hire, publish, publish_company, publish_with_sequence,
    wait_until_applied, wait_until_known, wait_until_left, wait_until_settled,
};
use crate::fixture::{ConferenceFixture, state, unix_seconds};
use crate::media_service::livekit;
use crate::stream_client::Stream;
use crate::{
    Deal, STAGE_CHANGED, add, as_user, cards, chat_direct, id_of, list, next_sequence, open_chat, path, role,
    roles, send_text, service, supervisor, view, view_when,
};

/// RULE-MSG-066: a removed or suspended employee leaves every deal chat of every company, with a
/// card, and no Direct chat.
#[tokio::test]
async fn removed_or_suspended_employee_leaves_every_deal_chat() {
    for to in [None, Some("Suspended")] {
        let (deal, id) = open_chat().await;
        let second = Deal { tenant: deal.tenant, client: deal.client, ..Deal::new() };
        second.publish_created().await;
        let second_id = second.chat().await;
        let (elsewhere, elsewhere_id) = open_chat().await;
        add(&second, second_id, deal.manager).await.expect(204);
        add(&elsewhere, elsewhere_id, deal.manager).await.expect(204);
        let direct = chat_direct::open(deal.manager, deal.client).await;
        let sent = send_text(id, deal.client, "счёт").await;
        let mut stream = Stream::open(deal.manager).await;

        publish(deal.manager, deal.tenant, Some("Active"), to).await;
        for chat in [id, second_id, elsewhere_id] {
            wait_until_left(chat, deal.manager).await;
            let card = json!({"Type": "MemberRemoved", "UserId": deal.manager, "ByUserId": null});
            let reader = if chat == elsewhere_id { elsewhere.client } else { deal.client };
            assert_eq!(cards(chat, reader).await.last(), Some(&card));
        }
        let user = as_user(deal.manager);
        user.get(&path(id, "/messages")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        for (below, body) in
            [("/messages", json!({"Text": "а"})), ("/conferences", json!({"Media": "Audio"}))]
        {
            user.post(&path(id, below), body).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        }
        let message = path(id, &format!("/messages/{}", id_of(&sent["Id"])));
        let edited = user.put(&message, json!({"Text": "а"})).await;
        edited.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        assert!(role(&view(direct, deal.manager).await, deal.manager).is_some(), "the Direct chat stays");
        let mut lost = Vec::new();
        for _ in 0..3 {
            lost.push(id_of(&stream.next_of("chat-removed").await.data["ChatId"]));
        }
        lost.sort();
        let mut expected = [id, second_id, elsewhere_id];
        expected.sort();
        assert_eq!(lost, expected);
        // A new sign-in opens a new stream.
        let fresh = Stream::open(deal.manager).await;
        send_text(id, deal.client, "секрет").await;
        send_text(elsewhere_id, elsewhere.client, "секрет").await;
        send_text(direct, deal.client, "привет").await;
        for mut stream in [stream, fresh] {
            let next = stream.next_of("message").await;
            assert_eq!(next.data["Text"], "привет", "the stream has nothing of a chat that the user left");
        }
    }
}

/// RULE-MSG-066: only the Client and users without a known employment stay. The Agent leaves after
/// the end of the employment in an agency, or in the company of the chat.
#[tokio::test]
async fn client_and_users_without_employment_stay() {
    let (deal, id) = open_chat().await;
    let (second, second_id) = open_chat().await;
    second
        .publish(STAGE_CHANGED, &second.changed(2, "Application", "Application", Some(second.manager)))
        .await;
    view_when(second_id, second.client, "the manager as agent", |chat| {
        role(chat, second.manager).as_deref() == Some("Agent")
    })
    .await;
    let (added, former) = (guid(), guid());
    for user in [added, former] {
        add(&deal, id, user).await.expect(204);
    }
    let agency = guid();
    hire(deal.client, agency).await;
    for (user, company) in
        [(deal.client, deal.tenant), (deal.client, agency), (deal.agent(), agency), (former, guid())]
    {
        end(user, company).await;
    }
    end(second.manager, second.tenant).await;
    for user in [deal.agent(), former] {
        wait_until_left(id, user).await;
    }
    wait_until_left(second_id, second.manager).await;
    for company in [deal.tenant, agency] {
        wait_until_known(deal.client, company, true).await;
    }
    wait_until_settled(deal.client).await;
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, deal.client).as_deref(), Some("Client"));
    assert_eq!(role(&chat, added).as_deref(), Some("Member"));
    assert_eq!(role(&chat, deal.manager).as_deref(), Some("Manager"));

    // The former employee does not return as the Manager when the deal gets another agent.
    second.publish(STAGE_CHANGED, &second.changed(3, "Application", "Application", None)).await;
    second.publish(STAGE_CHANGED, &second.changed(4, "Application", "Application", Some(added))).await;
    let chat = view_when(second_id, second.client, "the new agent", |chat| role(chat, added).is_some()).await;
    assert_eq!(role(&chat, second.manager), None);
}

/// RULE-MSG-066, RULE-MSG-068: an employment in another company ends the earlier one, and the chats
/// of the new company stay. The late event about the earlier end changes nothing.
#[tokio::test]
async fn new_employment_ends_the_former_one_and_keeps_the_chats_of_the_new_company() {
    let (former, former_id) = open_chat().await;
    let (new, new_id) = open_chat().await;
    let (third, third_id) = open_chat().await;
    let user = former.manager;
    hire(user, former.tenant).await;
    add(&new, new_id, user).await.expect(204);
    add(&third, third_id, user).await.expect(204);
    let late = next_sequence();
    publish(user, new.tenant, None, Some("Active")).await;
    for chat in [former_id, third_id] {
        wait_until_left(chat, user).await;
    }
    assert_eq!(role(&view(new_id, user).await, user).as_deref(), Some("Member"));
    add(&former, former_id, user).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");
    add(&third, third_id, user).await.expect(204);

    publish_with_sequence(late, user, former.tenant, Some("Active"), None).await;
    // Identity republishes the present state as a new event.
    let repeated = next_sequence();
    publish_with_sequence(repeated, user, new.tenant, None, Some("Active")).await;
    wait_until_applied(EMPLOYEE_STATUS_CHANGED, user, repeated).await;
    wait_until_settled(user).await;
    for chat in [new_id, third_id] {
        assert_eq!(role(&view(chat, user).await, user).as_deref(), Some("Member"));
    }
    end(user, new.tenant).await;
    for chat in [new_id, third_id] {
        wait_until_left(chat, user).await;
    }
}

/// RULE-MSG-068: a user who was added after the end of an employment elsewhere stays, also after a
/// repeat of that end.
#[tokio::test]
async fn user_who_was_added_after_the_end_stays() {
    let (deal, id) = open_chat().await;
    let (user, company) = (guid(), guid());
    end(user, company).await;
    wait_until_known(user, company, true).await;
    add(&deal, id, user).await.expect(204);
    let repeated = next_sequence();
    publish_with_sequence(repeated, user, company, Some("Suspended"), None).await;
    wait_until_applied(EMPLOYEE_STATUS_CHANGED, user, repeated).await;
    wait_until_settled(user).await;
    assert_eq!(role(&view(id, user).await, user).as_deref(), Some("Member"));
}

/// RULE-MSG-079: all employees of a suspended or archived company leave their deal chats and
/// conferences. A user with an employment in another company, and the Client, stay.
#[tokio::test]
async fn employees_of_a_suspended_or_archived_company_leave() {
    for status in ["Suspended", "Archived"] {
        let fixture = ConferenceFixture::new().await;
        let (deal, id) = (fixture.deal, fixture.chat);
        let (elsewhere, elsewhere_id) = open_chat().await;
        let (agency, added) = (guid(), guid());
        hire(deal.manager, deal.tenant).await;
        hire(deal.agent(), agency).await;
        hire(added, elsewhere.tenant).await;
        add(&deal, id, added).await.expect(204);
        add(&elsewhere, elsewhere_id, deal.manager).await.expect(204);
        let conference = fixture.ring_and_join().await;
        fixture.act(deal.manager, conference, "join").await.expect(200);

        publish_company(deal.tenant, status).await;
        for chat in [id, elsewhere_id] {
            wait_until_left(chat, deal.manager).await;
        }
        fixture.conference_when(conference, "Removed", |shown| state(shown, deal.manager) == "Removed").await;
        let card = json!({"Type": "MemberRemoved", "UserId": deal.manager, "ByUserId": null});
        assert_eq!(cards(id, deal.client).await.last(), Some(&card));
        add(&deal, id, deal.manager).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");
        let chat = view(id, deal.client).await;
        for user in [deal.client, deal.agent(), added] {
            assert!(role(&chat, user).is_some(), "an employee of another company stays");
        }
        publish_company(agency, status).await;
        wait_until_left(id, deal.agent()).await;
    }
}

/// RULE-MSG-067: the participation of a leaving employee in a live conference ends, and an old
/// media token gives no lasting access.
#[tokio::test]
async fn end_of_an_employment_ends_the_participation_in_a_live_conference() {
    let fixture = ConferenceFixture::new().await;
    let [_, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.act(manager, id, "join").await.expect(200);
    end(manager, fixture.deal.tenant).await;
    fixture.conference_when(id, "Removed", |conference| state(conference, manager) == "Removed").await;
    let removals = async |count: usize| {
        let calls = || livekit().calls("RemoveParticipant", &id.to_string());
        eventually("RemoveParticipant", async || (calls().len() >= count).then_some(())).await;
        assert!(calls().iter().all(|call| call.body["identity"] == json!(manager)));
    };
    removals(1).await;
    fixture.send_participant_webhook("participant_joined", id, manager, "PA_1", unix_seconds(0)).await;
    removals(2).await;
    for act in ["join", "media-token"] {
        fixture.act(manager, id, act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    }
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], state(&conference, agent)), (&json!("Active"), "Joined"));

    let other = ConferenceFixture::new().await;
    let hosted = other.start(other.deal.manager, json!({"Media": "Audio"})).await.expect(201);
    let hosted = id_of(&hosted["Id"]);
    other.act(other.deal.client, hosted, "join").await.expect(200);
    end(other.deal.manager, other.deal.tenant).await;
    let ended = other.conference_when(hosted, "Ended", |conference| conference["Status"] == "Ended").await;
    assert_eq!((&ended["EndReason"], &ended["EndedByUserId"]), (&json!("EndedByHost"), &Value::Null));
}

/// RULE-MSG-066: a former employee leaves more chats than one query of the job reads.
#[tokio::test]
async fn former_employee_leaves_many_chats() {
    const CHAT_COUNT: usize = 230;
    let first = Deal::new();
    let deals: Vec<_> = (0..CHAT_COUNT)
        .map(|_| Deal { tenant: first.tenant, manager: first.manager, client: first.client, ..Deal::new() })
        .collect();
    for deal in &deals {
        deal.publish_created().await;
    }
    let count = async || {
        let page = as_user(first.manager).get("/api/messenger/chats?PageSize=1").await.expect(200);
        page["TotalCount"].as_u64().unwrap()
    };
    eventually("all chats", async || (count().await == CHAT_COUNT as u64).then_some(())).await;
    end(first.manager, first.tenant).await;
    eventually("the end of all memberships", async || (count().await == 0).then_some(())).await;
    let page = as_user(first.client).get("/api/messenger/chats?PageSize=100").await.expect(200);
    for chat in list(&page["Items"]) {
        assert_eq!(chat["LastMessage"]["Card"]["Type"], "MemberRemoved");
    }
}

/// Publishes that the deal has another agent.
async fn name_agent(deal: &Deal, version: i64, agent: Uuid) {
    deal.publish(STAGE_CHANGED, &deal.changed(version, "Application", "Booking", Some(agent))).await;
}

/// Waits until the user has this role in the deal's chat.
async fn wait_until_role(deal: &Deal, chat: Uuid, user: Uuid, expected: &str) {
    let has_role = |chat: &Value| role(chat, user).as_deref() == Some(expected);
    view_when(chat, deal.client, "the role", has_role).await;
}

/// RULE-MSG-082: an end of an employment removes the user as of the time of the change. Memberships
/// that began after this time stay, however late the event arrives.
#[tokio::test]
async fn late_end_keeps_memberships_that_began_after_it() {
    for has_end_event in [true, false] {
        let (deal, id) = open_chat().await;
        let (user, former, agency) = (guid(), guid(), guid());
        apply_minutes_ago(60, user, former, true).await;
        name_agent(&deal, 2, user).await;
        wait_until_role(&deal, id, user, "Agent").await;
        let (other, other_id) = open_chat().await;
        add(&other, other_id, user).await.expect(204);

        if has_end_event {
            apply_minutes_ago(30, user, former, false).await;
        }
        apply_minutes_ago(25, user, agency, true).await;
        assert_eq!(role(&view(id, deal.client).await, user).as_deref(), Some("Agent"));
        assert_eq!(role(&view(other_id, user).await, user).as_deref(), Some("Member"));
        // A repeated end keeps the time of the earliest end. A rebuild of the consumer applies the
        // older events again.
        apply_minutes_ago(0, user, former, false).await;
        apply_minutes_ago(60, user, former, true).await;
        apply_minutes_ago(30, user, former, false).await;
        assert_eq!(role(&view(id, deal.client).await, user).as_deref(), Some("Agent"));
        wait_until_known(user, agency, false).await;
        wait_until_known(user, former, true).await;

        end(user, agency).await;
        for chat in [id, other_id] {
            wait_until_left(chat, user).await;
        }
    }
}

/// RULE-MSG-082: an end with a time in the future counts from its receipt.
#[tokio::test]
async fn end_with_a_future_time_keeps_later_memberships() {
    let (deal, id) = open_chat().await;
    let (user, company) = (guid(), guid());
    apply_minutes_ago(-60, user, company, false).await;
    add(&deal, id, user).await.expect(204);
    apply_minutes_ago(-60, user, company, false).await;
    assert_eq!(role(&view(id, user).await, user).as_deref(), Some("Member"));
    // The next change counts although its time is earlier.
    apply_minutes_ago(0, user, company, true).await;
    wait_until_known(user, company, false).await;
}

/// RULE-MSG-083: a deal may name a former employee before the service knows the user's new
/// employment. The event of this employment then adds the user, unless another user has taken over.
#[tokio::test]
async fn user_of_a_deal_enters_with_the_late_event_of_the_employment() {
    let (manager, agent, tenant, agency) = (guid(), guid(), guid(), guid());
    for user in [manager, agent] {
        apply_minutes_ago(60, user, guid(), false).await;
    }
    let deal = Deal { tenant, manager, agent: Some(agent), ..Deal::new() };
    deal.publish_created().await;
    let id = deal.chat().await;
    assert_eq!(roles(&view(id, deal.client).await).len(), 1, "only the Client");
    let (changed, changed_id) = open_chat().await;
    name_agent(&changed, 2, agent).await;
    let (replaced, replaced_id) = open_chat().await;
    name_agent(&replaced, 2, agent).await;
    let (taken, taken_id) = open_chat().await;
    name_agent(&taken, 2, agent).await;
    for (deal, chat) in [(&changed, changed_id), (&replaced, replaced_id), (&taken, taken_id)] {
        view_when(chat, deal.client, "the old agent to leave", |chat| role(chat, deal.agent()).is_none())
            .await;
    }
    let successor = guid();
    name_agent(&replaced, 3, successor).await;
    wait_until_role(&replaced, replaced_id, successor, "Agent").await;
    let hand_over = format!("/api/messenger/supervision/members/{agent}/hand-over");
    let done = supervisor(taken.tenant).post(&hand_over, json!({"ToUserId": guid()})).await.expect(200);
    assert_eq!(done["HandedOverCount"], 1);

    apply_minutes_ago(1, agent, agency, true).await;
    apply_minutes_ago(1, manager, tenant, true).await;
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, agent).as_deref(), Some("Agent"));
    assert_eq!(role(&chat, manager).as_deref(), Some("Manager"));
    let card = json!({"Type": "MemberAdded", "UserId": manager, "ByUserId": null});
    assert_eq!(cards(id, manager).await.last(), Some(&card));
    assert_eq!(role(&view(changed_id, changed.client).await, agent).as_deref(), Some("Agent"));
    for (deal, chat) in [(replaced, replaced_id), (taken, taken_id)] {
        assert_eq!(role(&view(chat, deal.client).await, agent), None);
    }
    let member_chats = format!("/api/messenger/supervision/members/{agent}/chats");
    let page = supervisor(changed.tenant).get(&member_chats).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "no departure remains");
}

/// RULE-MSG-083: a user who is both creator and agent of a deal enters late as its Agent, and
/// becomes its Manager when the deal gets another agent.
#[tokio::test]
async fn late_creator_and_agent_becomes_manager_after_another_agent() {
    let (user, tenant) = (guid(), guid());
    apply_minutes_ago(60, user, guid(), false).await;
    let deal = Deal { tenant, manager: user, agent: Some(user), ..Deal::new() };
    deal.publish_created().await;
    let id = deal.chat().await;
    apply_minutes_ago(1, user, tenant, true).await;
    wait_until_role(&deal, id, user, "Agent").await;
    name_agent(&deal, 2, guid()).await;
    wait_until_role(&deal, id, user, "Manager").await;
}

/// RULE-MSG-083: an employment that began after the deal named the user does not bring in the user.
#[tokio::test]
async fn later_employment_does_not_bring_in_the_user_of_a_deal() {
    let user = guid();
    apply_minutes_ago(60, user, guid(), false).await;
    let deal = Deal { agent: Some(user), ..Deal::new() };
    deal.publish_created().await;
    let id = deal.chat().await;
    let earlier = "update departure set barred_at = barred_at - interval '10 minutes' \
                   where user_id = $1::text::uuid";
    assert_eq!(service().sql().await.execute(earlier, &[&user.to_string()]).await.unwrap(), 1);
    apply_minutes_ago(1, user, guid(), true).await;
    assert_eq!(role(&view(id, deal.client).await, user), None);
}
