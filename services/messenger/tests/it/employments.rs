//! Employments of identity: former employees leave the chats of the company.

use serde_json::{Value, json};
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::fixture::{ConferenceFixture, state, unix_seconds};
use crate::media_service::livekit;
use crate::stream_client::Stream;
use crate::{
    Deal, STAGE_CHANGED, add, as_user, cards, chat_direct, id_of, list, messages, next_sequence, open_chat,
    path, remove, role, send_text, service, supervisor, view, view_when,
};

const EMPLOYEE_STATUS_CHANGED: &str = "platform.identity.employee-status-changed.v1";

/// Publishes a change of an employment with this `ce_sequence`.
async fn publish_at(sequence: i64, user: Uuid, company: Uuid, from: Option<&str>, to: Option<&str>) {
    let event = json!({
        "UserId": user, "CompanyId": company, "From": from, "To": to, "ByUserId": guid(),
        "At": "2026-11-22T12:00:00Z",
    });
    service().bus().publish(EMPLOYEE_STATUS_CHANGED, user, sequence, &event).await;
}

/// Publishes the next change of an employment.
pub async fn publish(user: Uuid, company: Uuid, from: Option<&str>, to: Option<&str>) {
    publish_at(next_sequence(), user, company, from, to).await;
}

/// Ends an employment.
pub async fn end(user: Uuid, company: Uuid) {
    publish(user, company, Some("Active"), None).await;
}

/// Waits until the user has lost the chat.
pub async fn wait_until_left(chat: Uuid, user: Uuid) {
    let has_left = async || (as_user(user).get(&path(chat, "")).await.status == 404).then_some(());
    eventually("the user to leave the chat", has_left).await;
}

/// Waits until the service knows whether the employment has ended.
async fn wait_until_known(user: Uuid, company: Uuid, has_ended: bool) {
    let sql = service().sql().await;
    let query = "select count(*) from ended_employment where user_id = $1::text::uuid \
                 and company_id = $2::text::uuid";
    eventually("the employment", async || {
        let row = sql.query_one(query, &[&user.to_string(), &company.to_string()]).await.unwrap();
        ((row.get::<_, i64>(0) == 1) == has_ended).then_some(())
    })
    .await;
}

/// RULE-MSG-066: a removed or suspended Manager or Member leaves every deal chat of the company,
/// with a card, and no other chat.
#[tokio::test]
async fn removed_or_suspended_employee_leaves_the_chats_of_the_company() {
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
        for chat in [id, second_id] {
            wait_until_left(chat, deal.manager).await;
            let card = json!({"Type": "MemberRemoved", "UserId": deal.manager, "ByUserId": null});
            assert_eq!(cards(chat, deal.client).await.last(), Some(&card));
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
        for chat in [elsewhere_id, direct] {
            assert!(role(&view(chat, deal.manager).await, deal.manager).is_some(), "another chat stays");
        }
        let mut lost = Vec::new();
        for _ in 0..2 {
            lost.push(id_of(&stream.next_of("chat-removed").await.data["ChatId"]));
        }
        lost.sort();
        let mut expected = [id, second_id];
        expected.sort();
        assert_eq!(lost, expected);
        send_text(id, deal.client, "секрет").await;
        send_text(direct, deal.client, "привет").await;
        let next = stream.next_of("message").await;
        assert_eq!(next.data["Text"], "привет", "the stream has nothing of a chat that the user left");
    }
}

/// RULE-MSG-066: the Client stays, and so does the Agent, who loses only the role from before.
#[tokio::test]
async fn client_and_agent_stay_after_the_end_of_an_employment() {
    let (deal, id) = open_chat().await;
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Application", Some(deal.manager))).await;
    view_when(id, deal.client, "the manager as agent", |chat| {
        role(chat, deal.manager).as_deref() == Some("Agent")
    })
    .await;
    let marker = guid();
    add(&deal, id, marker).await.expect(204);
    for user in [deal.client, deal.manager, marker] {
        end(user, deal.tenant).await;
    }
    wait_until_left(id, marker).await;
    for user in [deal.client, deal.manager] {
        wait_until_known(user, deal.tenant, true).await;
    }
    let sql = service().sql().await;
    let fallback = "select count(*) from member where user_id = $1::text::uuid and fallback_role is not null";
    eventually("the agent to lose the former role", async || {
        let row = sql.query_one(fallback, &[&deal.manager.to_string()]).await.unwrap();
        (row.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let chat = view(id, deal.client).await;
    assert_eq!(role(&chat, deal.client).as_deref(), Some("Client"));
    assert_eq!(role(&chat, deal.manager).as_deref(), Some("Agent"));
    deal.publish(STAGE_CHANGED, &deal.changed(3, "Application", "Application", None)).await;
    wait_until_left(id, deal.manager).await;
}

/// RULE-MSG-067: the participation of a leaving employee in a live call ends, and an old media
/// token gives no lasting access.
#[tokio::test]
async fn end_of_an_employment_ends_the_part_in_a_live_call() {
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

/// RULE-MSG-068: a repeated or late event neither removes a user who works for the company again,
/// nor brings back a user who left.
#[tokio::test]
async fn repeated_and_late_events_change_nothing() {
    let (deal, id) = open_chat().await;
    let (user, company) = (deal.manager, deal.tenant);
    let (other, other_id) = open_chat().await;
    let [hired, suspended] = std::array::from_fn(|_| next_sequence());
    publish_at(suspended, user, company, Some("Active"), Some("Suspended")).await;
    wait_until_left(id, user).await;
    // The late event about the hiring does not allow an addition.
    publish_at(hired, user, company, None, Some("Active")).await;
    add(&other, other_id, user).await.expect(204);
    end(user, other.tenant).await;
    wait_until_left(other_id, user).await;
    add(&deal, id, user).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");

    publish(user, company, Some("Suspended"), Some("Active")).await;
    wait_until_known(user, company, false).await;
    as_user(user).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    add(&deal, id, user).await.expect(204);
    publish_at(suspended, user, company, Some("Active"), Some("Suspended")).await;
    // The end of another employment shows that the repeat was consumed.
    let (third, third_id) = open_chat().await;
    add(&third, third_id, user).await.expect(204);
    end(user, third.tenant).await;
    wait_until_left(third_id, user).await;
    assert_eq!(role(&view(id, user).await, user).as_deref(), Some("Member"));
}

/// RULE-MSG-068: the job keeps a user who was hired again before it reached the chat.
#[tokio::test]
async fn job_keeps_a_user_who_was_hired_again() {
    let (deal, id) = open_chat().await;
    let mut sql = service().sql().await;
    let held = sql.transaction().await.unwrap();
    let lock = "select id from chat where id = $1::text::uuid for update";
    held.query_one(lock, &[&id.to_string()]).await.unwrap();
    end(deal.manager, deal.tenant).await;
    wait_until_known(deal.manager, deal.tenant, true).await;
    publish(deal.manager, deal.tenant, None, Some("Active")).await;
    wait_until_known(deal.manager, deal.tenant, false).await;
    held.commit().await.unwrap();
    let key = format!("{}/{}", deal.tenant, deal.manager);
    let jobs = "select count(*) from job where kind = 'employment-end' and key = $1";
    eventually("the job to end", async || {
        (sql.query_one(jobs, &[&key]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    assert_eq!(role(&view(id, deal.manager).await, deal.manager).as_deref(), Some("Manager"));
}

/// RULE-MSG-069: a user does not become a member after the end of the employment, neither by a
/// supervisor nor by a new deal.
#[tokio::test]
async fn ended_employment_prevents_an_addition() {
    let (deal, id) = open_chat().await;
    end(deal.manager, deal.tenant).await;
    wait_until_left(id, deal.manager).await;
    add(&deal, id, deal.manager).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");
    let late = Deal { tenant: deal.tenant, manager: deal.manager, ..Deal::new() };
    late.publish_created().await;
    let late_id = late.chat().await;
    assert_eq!(role(&view(late_id, late.client).await, deal.manager), None);
    as_user(deal.manager).get(&path(late_id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    assert_eq!(messages(late_id, late.client).await, [Value::Null; 0], "the first members make no card");
    let theirs = format!("/api/messenger/supervision/members/{}/chats", deal.manager);
    let page = supervisor(deal.tenant).get(&theirs).await.expect(200);
    assert_eq!(page["TotalCount"], 2, "the supervisor finds both chats");
    let agent = Deal { tenant: deal.tenant, manager: deal.manager, agent: Some(deal.manager), ..Deal::new() };
    agent.publish_created().await;
    let agent_id = agent.chat().await;
    assert_eq!(role(&view(agent_id, agent.client).await, deal.manager).as_deref(), Some("Agent"));
    agent.publish(STAGE_CHANGED, &agent.changed(2, "Application", "Application", None)).await;
    wait_until_left(agent_id, deal.manager).await;
}

/// RULE-MSG-066: an employee of many chats loses all of them within 60 s.
#[tokio::test]
async fn many_chats_are_left_in_time() {
    const CHATS: usize = 230;
    let first = Deal::new();
    let deals: Vec<_> = (0..CHATS)
        .map(|_| Deal { tenant: first.tenant, manager: first.manager, client: first.client, ..Deal::new() })
        .collect();
    for deal in &deals {
        deal.publish_created().await;
    }
    let count = async || {
        let page = as_user(first.manager).get("/api/messenger/chats?PageSize=1").await.expect(200);
        page["TotalCount"].as_u64().unwrap()
    };
    eventually("all chats", async || (count().await == CHATS as u64).then_some(())).await;
    end(first.manager, first.tenant).await;
    eventually("the end of all memberships", async || (count().await == 0).then_some(())).await;
    let page = as_user(first.client).get("/api/messenger/chats?PageSize=100").await.expect(200);
    for chat in list(&page["Items"]) {
        assert_eq!(chat["LastMessage"]["Card"]["Type"], "MemberRemoved");
    }
}

/// RULE-MSG-069: an addition and the end of the employment at the same time leave no member.
#[tokio::test]
async fn concurrent_addition_and_end_leave_no_member() {
    let (deal, id) = open_chat().await;
    for _ in 0..10 {
        let user = guid();
        let (added, ()) = tokio::join!(add(&deal, id, user), end(user, deal.tenant));
        assert!([204, 422].contains(&added.status), "{}", added.text);
        wait_until_known(user, deal.tenant, true).await;
        wait_until_left(id, user).await;
    }
    remove(&deal, id, guid()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}
