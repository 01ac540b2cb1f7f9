//! Hand-over of a conference to another host.

use serde_json::{Value, json};
use testkit::guid;

use crate::fixture::{
    CONFERENCES, ConferenceFixture, ENDED, HOST_CHANGED, MODERATE, STARTED, participant, published_events,
    state, topics,
};
use crate::stream_client::Stream;
use crate::{claims_with, list};

/// RULE-MSG-092: the host names a Joined participant, who gets the rights of the host. The stream,
/// the event and the log have the change.
#[tokio::test]
async fn host_hands_over_to_a_joined_participant() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    let before = fixture.conference(id).await;
    let mut stream = Stream::open(agent).await;
    let handed = fixture.hand_over(client, id, agent).await.expect(200);
    let role = |user| participant(&handed, user)["Role"].clone();
    assert_eq!((role(client), role(agent)), (json!("Member"), json!("Host")));
    assert_eq!((state(&handed, client), state(&handed, agent)), ("Joined", "Joined"));
    assert_eq!(list(&handed["Participants"])[0]["UserId"], json!(agent), "the host is first");
    assert_eq!(handed["StartedByUserId"], json!(client));
    assert_eq!(handed["Version"], json!(before["Version"].as_i64().unwrap() + 1));
    assert_eq!(stream.next_of("conference").await.data, handed);

    for response in [
        fixture.act(client, id, "end").await,
        fixture.remove_participant(client, id, manager).await,
        fixture.hand_over(client, id, agent).await,
    ] {
        response.expect_problem(403, "FORBIDDEN");
    }
    // The former host is a participant like any other.
    let removed = fixture.remove_participant(agent, id, client).await.expect(200);
    assert_eq!(state(&removed, client), "Removed");
    fixture.act(client, id, "join").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.invite(agent, id, &[client]).await.expect(200);
    fixture.act(client, id, "join").await.expect(200);
    fixture.remove_participant(agent, id, agent).await.expect_problem(403, "FORBIDDEN");
    let ended = fixture.act(agent, id, "end").await.expect(200);
    assert_eq!((&ended["EndReason"], &ended["EndedByUserId"]), (&json!("EndedByHost"), &json!(agent)));

    assert_eq!(fixture.log(id).await, [("HostChanged".to_owned(), agent, client)]);
    let events = published_events(fixture.service, id).await;
    let without_invitations: Vec<_> =
        topics(&events).into_iter().filter(|topic| !topic.contains("invited")).collect();
    assert_eq!(without_invitations, [STARTED, HOST_CHANGED, ENDED]);
    let changed = &events[1].payload;
    let expected = json!({
        "ConferenceId": id, "ChatId": fixture.chat, "DealId": fixture.deal.id, "TenantId": fixture.deal.tenant,
        "FromUserId": client, "ToUserId": agent, "At": changed["At"],
    });
    assert_eq!((changed, events[1].headers["aggregatetype"].as_str()), (&expected, "Conference"));
    assert_eq!(events.last().unwrap().payload["ParticipantUserIds"], json!([agent, client]));
}

/// RULE-MSG-092: an absent host may hand over, and the new host decides about the lobby.
#[tokio::test]
async fn new_host_decides_about_the_lobby() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(manager, id, "knock").await.expect(200);
    fixture.act(client, id, "leave").await.expect(200);
    let handed = fixture.hand_over(client, id, agent).await.expect(200);
    assert_eq!((&participant(&handed, client)["Role"], state(&handed, client)), (&json!("Member"), "Left"));
    fixture.admit(client, id, manager).await.expect_problem(403, "FORBIDDEN");
    fixture.admit(agent, id, manager).await.expect(200);
    // The former host was in the conference, and returns without a knock.
    fixture.act(client, id, "join").await.expect(200);
    fixture.act(agent, id, "end").await.expect(200);
}

/// RULE-MSG-092: the refusals of a hand-over have the order of their table.
#[tokio::test]
async fn hand_over_refusals_follow_the_order_of_the_table() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    let path = format!("{CONFERENCES}/{id}/hand-over");
    let not_found = "MESSENGER_PARTICIPANT_NOT_FOUND";
    fixture.hand_over(client, id, agent).await.expect_problem(404, not_found);
    fixture.act(agent, id, "join").await.expect(200);
    for (body, field, reason) in [
        (json!({}), "/UserId", "required"),
        (json!({"UserId": "x"}), "/UserId", "invalid_type"),
        (json!({"UserId": client}), "/UserId", "oneself"),
    ] {
        let response = fixture.as_user(client).post(&path, body).await;
        response.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    let stranger = fixture.as_user(guid()).post(&path, json!({"UserId": agent})).await;
    stranger.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    let moderating = fixture.service.caller(&claims_with(manager, Some(fixture.deal.tenant), &[MODERATE]));
    for other in [fixture.moderator(), moderating, fixture.as_user(agent)] {
        let response = other.post(&path, json!({"UserId": guid()})).await;
        response.expect_problem(403, "FORBIDDEN");
    }
    for absent in [manager, guid(), uuid::Uuid::nil()] {
        fixture.hand_over(client, id, absent).await.expect_problem(404, not_found);
    }
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.hand_over(client, id, agent).await.expect_problem(404, not_found);
    let ended = fixture.act(client, id, "end").await.expect(200);
    assert_eq!(participant(&ended, client)["Role"], "Host");
    fixture.hand_over(client, id, agent).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    fixture.hand_over(agent, id, client).await.expect_problem(403, "FORBIDDEN");
}

/// RULE-MSG-093: the conference ends when the present host stops being a member, and goes on when a
/// former host does.
#[tokio::test]
async fn only_the_present_host_ends_the_conference_by_leaving_the_chat() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let start = async || {
        let started = fixture.start(manager, json!({"Media": "Audio"})).await.expect(201);
        let id = crate::id_of(&started["Id"]);
        for user in [client, agent] {
            fixture.act(user, id, "join").await.expect(200);
        }
        id
    };
    let id = start().await;
    fixture.hand_over(manager, id, client).await.expect(200);
    fixture.remove_member(manager).await;
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], state(&conference, manager)), (&json!("Active"), "Removed"));
    fixture.hand_over(client, id, agent).await.expect(200);
    fixture.remove_member(agent).await;
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["EndReason"], &conference["Status"]), (&json!("EndedByHost"), &json!("Ended")));
    assert_ne!(conference["EndedByUserId"], Value::Null);
}
