//! Lobbies: members without an invitation knock, and the host decides.

use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::fixture::{
    CONFERENCES, ConferenceFixture, ENDED, INVITED, STARTED, act_as, knocks, participant, published_events,
    state, topics,
};
use crate::stream_client::Stream;
use crate::{id_of, list, put};

/// Waits for the next conference on a stream.
async fn next_conference(stream: &mut Stream) -> Value {
    stream.next_of("conference").await.data
}

/// RULE-MSG-086: without `Lobby: true` every member joins without a knock.
#[tokio::test]
async fn conference_without_a_lobby_is_open_to_all_members() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    for lobby in [None, Some(Value::Null), Some(json!(false))] {
        let mut body = json!({"Media": "Audio", "InviteUserIds": [agent]});
        if let Some(lobby) = lobby {
            body["Lobby"] = lobby;
        }
        let conference = fixture.start(client, body).await.expect(201);
        assert_eq!((&conference["Lobby"], &conference["Knocks"]), (&json!(false), &json!([])));
        let id = id_of(&conference["Id"]);
        assert_eq!(fixture.act(manager, id, "knock").await.expect(200), conference, "nothing to knock at");
        fixture.admit(client, id, manager).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        fixture.act(manager, id, "join").await.expect(200);
        fixture.act(client, id, "end").await.expect(200);
    }
    let refused = fixture.start(client, json!({"Media": "Audio", "Lobby": "yes"})).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Lobby", "invalid_type");
}

/// RULE-MSG-086, RULE-MSG-087: an uninvited member gets no token and waits. The host and a
/// moderator see the knock in the conference, and the stream sends it.
#[tokio::test]
async fn uninvited_member_waits_without_a_token() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    let mut stream = Stream::open(client).await;
    let before = fixture.conference(id).await;
    assert_eq!(before["Lobby"], true);
    let refuse_entry = async || {
        fixture.act(manager, id, "join").await.expect_problem(403, "MESSENGER_ADMISSION_REQUIRED");
        fixture.act(manager, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        // A member without an entry invites no user.
        let invited = fixture.invite(manager, id, &[agent]).await;
        invited.expect_problem(403, "MESSENGER_ADMISSION_REQUIRED");
    };
    refuse_entry().await;
    for (user, what) in [(client, "the host"), (agent, "an invited user")] {
        assert_eq!(fixture.act(user, id, "knock").await.expect(200), before, "{what} needs no admission");
    }

    let waiting = fixture.act(manager, id, "knock").await.expect(200);
    assert_eq!(knocks(&waiting), [(manager, "Waiting")]);
    assert!(waiting["Knocks"][0]["KnockedAt"].is_string() && waiting["Version"] == 2, "{waiting}");
    assert_eq!(waiting["Participants"], before["Participants"], "a waiting user has no seat");
    assert_eq!(fixture.act(manager, id, "knock").await.expect(200), waiting, "a repeat changes nothing");
    refuse_entry().await;
    assert_eq!(next_conference(&mut stream).await, waiting);
    assert_eq!(fixture.conference(id).await, waiting, "the moderator sees it too");
    fixture.act(agent, id, "join").await.expect(200);
    assert_eq!(knocks(&fixture.conference(id).await), [(manager, "Waiting")]);

    let withdrawn = fixture.act(manager, id, "leave").await.expect(200);
    assert_eq!(withdrawn["Knocks"], json!([]));
    fixture.act(manager, id, "leave").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-088: only the host admits. An admitted user is Invited and joins. The invitation is
/// published, and the admission is logged.
#[tokio::test]
async fn admitted_member_joins() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let other = fixture.add_members(1).await[0];
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(agent, id, "join").await.expect(200);
    for user in [manager, other] {
        fixture.act(user, id, "knock").await.expect(200);
        for plain in [agent, manager] {
            fixture.admit(plain, id, user).await.expect_problem(403, "FORBIDDEN");
            fixture.deny(plain, id, user).await.expect_problem(403, "FORBIDDEN");
        }
    }
    let mut stream = Stream::open(manager).await;
    let admitted = fixture.admit(client, id, manager).await.expect(200);
    assert_eq!((state(&admitted, manager), knocks(&admitted)), ("Invited", vec![(other, "Waiting")]));
    assert!(participant(&admitted, manager)["InvitedAt"].is_string());
    assert_eq!(next_conference(&mut stream).await, admitted);
    for repeat in [fixture.admit(client, id, manager).await, fixture.deny(client, id, manager).await] {
        assert_eq!(repeat.expect(200), admitted, "a participant does not change");
    }
    fixture.act(manager, id, "join").await.expect(200);

    let moderator = fixture.moderator();
    for decision in ["admit", "deny"] {
        let path = format!("participants/{other}/{decision}");
        act_as(&moderator, id, &path).await.expect_problem(403, "FORBIDDEN");
    }
    let admitted = fixture.admit(client, id, other).await.expect(200);
    assert_eq!((state(&admitted, other), &admitted["Knocks"]), ("Invited", &json!([])));
    fixture.act(other, id, "join").await.expect(200);
    fixture.act(other, id, "leave").await.expect(200);
    fixture.act(other, id, "join").await.expect(200);
    fixture.admit(client, id, guid()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.deny(client, id, guid()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(client, id, "end").await.expect(200);

    let log = fixture.log(id).await;
    assert_eq!(log[0], ("Admitted".to_owned(), manager, client));
    assert_eq!((log.len(), log[1].1), (2, other));
    let events = published_events(fixture.service, id).await;
    assert_eq!(topics(&events), [STARTED, INVITED, INVITED, ENDED]);
    assert_eq!(
        (&events[1].payload["InvitedUserIds"], &events[1].payload["ByUserId"]),
        (&json!([manager]), &json!(client))
    );
}

/// RULE-MSG-089: a denied user neither knocks nor joins until the host invites them. The next
/// conference is open to a knock again.
#[tokio::test]
async fn denied_member_stays_outside_until_the_host_invites() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(manager, id, "knock").await.expect(200);
    let denied = fixture.deny(client, id, manager).await.expect(200);
    assert_eq!(knocks(&denied), [(manager, "Denied")]);
    assert_eq!(fixture.deny(client, id, manager).await.expect(200), denied, "a repeat changes nothing");
    for act in ["knock", "join"] {
        fixture.act(manager, id, act).await.expect_problem(403, "MESSENGER_ADMISSION_DENIED");
    }
    for act in ["media-token", "leave", "decline"] {
        fixture.act(manager, id, act).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    }
    fixture.invite(manager, id, &[agent]).await.expect_problem(403, "MESSENGER_ADMISSION_DENIED");
    fixture.invite(agent, id, &[manager]).await.expect_problem(403, "MESSENGER_ADMISSION_DENIED");
    fixture.admit(client, id, manager).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    // The denial outlasts a removal from the chat and a return.
    fixture.remove_member(manager).await;
    put(&fixture.supervisor(), &fixture.path(&format!("/members/{manager}"))).await.expect(204);
    fixture.act(manager, id, "knock").await.expect_problem(403, "MESSENGER_ADMISSION_DENIED");

    let invited = fixture.invite(client, id, &[manager]).await.expect(200);
    assert_eq!((state(&invited, manager), &invited["Knocks"]), ("Invited", &json!([])));
    let log = [("Denied".to_owned(), manager, client), ("Admitted".to_owned(), manager, client)];
    assert_eq!(fixture.log(id).await, log);
    fixture.act(manager, id, "join").await.expect(200);
    fixture.act(client, id, "end").await.expect(200);

    let id = fixture.ring_with_lobby(&[agent]).await;
    let waiting = fixture.act(manager, id, "knock").await.expect(200);
    assert_eq!(knocks(&waiting), [(manager, "Waiting")]);
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-090: an Ended conference has no waiting users, whatever ended it, and admits none.
#[tokio::test]
async fn end_of_the_conference_ends_the_waiting() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let other = fixture.add_members(1).await[0];
    for (by, act) in [(client, "end"), (client, "leave"), (agent, "decline")] {
        let id = fixture.ring_with_lobby(&[agent]).await;
        for user in [manager, other] {
            fixture.act(user, id, "knock").await.expect(200);
        }
        fixture.deny(client, id, other).await.expect(200);
        let mut stream = Stream::open(manager).await;
        let ended = fixture.act(by, id, act).await.expect(200);
        assert_eq!((&ended["Status"], knocks(&ended)), (&json!("Ended"), vec![(other, "Denied")]), "{act}");
        assert_eq!(next_conference(&mut stream).await, ended);
        for user in [manager, other] {
            for act in ["knock", "join"] {
                fixture.act(user, id, act).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
            }
        }
        fixture.admit(client, id, manager).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
        fixture.deny(client, id, manager).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
        fixture.act(manager, id, "leave").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    }
}

/// RULE-MSG-090: users wait on while the host is absent, and the host still decides.
#[tokio::test]
async fn waiting_outlasts_the_absence_of_the_host() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(manager, id, "knock").await.expect(200);
    let left = fixture.act(client, id, "leave").await.expect(200);
    assert_eq!((state(&left, client), knocks(&left)), ("Left", vec![(manager, "Waiting")]));
    let admitted = fixture.admit(client, id, manager).await.expect(200);
    assert_eq!(state(&admitted, manager), "Invited");
    fixture.act(manager, id, "join").await.expect(200);
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-090: a user who stops being a member of the chat waits no longer. If the user is the
/// host, the conference ends.
#[tokio::test]
async fn former_member_does_not_wait() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(manager, id, "knock").await.expect(200);
    fixture.remove_member(manager).await;
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Knocks"], list(&conference["Participants"]).len()), (&json!([]), 2));
    fixture.admit(client, id, manager).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(manager, id, "knock").await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    put(&fixture.supervisor(), &fixture.path(&format!("/members/{manager}"))).await.expect(204);
    fixture.act(manager, id, "join").await.expect_problem(403, "MESSENGER_ADMISSION_REQUIRED");
    fixture.act(client, id, "end").await.expect(200);

    let body = json!({"Media": "Audio", "InviteUserIds": [client], "Lobby": true});
    let own = id_of(&fixture.start(manager, body).await.expect(201)["Id"]);
    fixture.act(agent, own, "knock").await.expect(200);
    fixture.remove_member(manager).await;
    let ended = fixture.conference(own).await;
    assert_eq!((&ended["EndReason"], knocks(&ended)), (&json!("EndedByHost"), vec![]));
}

/// RULE-MSG-087, RULE-MSG-088: a waiting user takes no seat, and an admission needs one.
#[tokio::test]
async fn admission_needs_a_seat() {
    let fixture = ConferenceFixture::new().await;
    let [client, _, manager] = fixture.users();
    let more = fixture.add_members(20).await;
    let id = fixture.ring_with_lobby(&more).await;
    let waiting = fixture.act(manager, id, "knock").await.expect(200);
    fixture.admit(client, id, manager).await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    assert_eq!(fixture.conference(id).await, waiting, "the user waits on");
    fixture.act(more[0], id, "decline").await.expect(200);
    let admitted = fixture.admit(client, id, manager).await.expect(200);
    assert_eq!(state(&admitted, manager), "Invited");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-087, RULE-MSG-088: the refusals have the order of their tables.
#[tokio::test]
async fn lobby_refusals_follow_the_order_of_their_tables() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.remove_participant(client, id, agent).await.expect(200);
    fixture.act(agent, id, "knock").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    let invited = fixture.invite(manager, id, &[guid(), agent]).await;
    invited.expect_problem(403, "MESSENGER_ADMISSION_REQUIRED");
    act_as(&fixture.moderator(), id, "knock").await.expect_problem(403, "FORBIDDEN");
    let stranger = fixture.as_user(guid());
    for act in ["knock".to_owned(), format!("participants/{manager}/admit")] {
        act_as(&stranger, id, &act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    }
    fixture.act(client, id, "end").await.expect(200);
    fixture.act(agent, id, "knock").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.act(manager, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    fixture.admit(manager, id, manager).await.expect_problem(403, "FORBIDDEN");
    fixture.admit(client, id, Uuid::nil()).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let path = format!("{CONFERENCES}/{id}/participants/no-id/admit");
    fixture.as_user(client).post(&path, Value::Null).await.expect_problem(404, "NOT_FOUND");
}

/// RULE-MSG-088: the log of admissions, denials and hand-overs is append-only.
#[tokio::test]
async fn conference_log_is_append_only() {
    let sql = crate::service().sql().await;
    for change in ["update conference_log set at = now()", "delete from conference_log"] {
        let error = sql.execute(change, &[]).await.unwrap_err();
        assert!(format!("{error:?}").contains("append-only"), "{error:?}");
    }
}
