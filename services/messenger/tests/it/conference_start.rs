//! Starts of conferences, and their refusals.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::livekit::LiveKit;
use testkit::service::Running;
use testkit::{guid, text};

use crate::fixture::{
    CONFERENCES, ConferenceFixture, STARTED, act_as, participant, published_events, state, topics,
};
use crate::media_service::start;
use crate::{CHATS, as_user, id_of, list, service};

/// RULE-MSG-029, RULE-MSG-046, RULE-EVT-018: a start returns the Ringing conference with the host
/// Joined and all others Invited, and publishes the event.
#[tokio::test]
async fn start_without_invitees_invites_all_other_members() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let conference = fixture.start(client, json!({"Media": "Audio"})).await.expect(201);
    let id = id_of(&conference["Id"]);
    for (field, value) in [
        ("ChatId", json!(fixture.chat)),
        ("DealId", json!(fixture.deal.id)),
        ("TenantId", json!(fixture.deal.tenant)),
        ("Status", json!("Ringing")),
        ("Media", json!("Audio")),
        ("StartedByUserId", json!(client)),
        ("ActiveAt", Value::Null),
        ("EndedAt", Value::Null),
        ("EndReason", Value::Null),
        ("EndedByUserId", Value::Null),
        ("Version", json!(1)),
    ] {
        assert_eq!(conference[field], value, "{field}");
    }
    let host = json!({
        "UserId": client, "Role": "Host", "State": "Joined", "InvitedAt": null, "JoinedAt": conference["CreatedAt"],
        "LeftAt": null,
    });
    assert_eq!(conference["Participants"][0], host);
    for invited in [agent, manager] {
        let invited = participant(&conference, invited);
        assert_eq!((&invited["Role"], &invited["State"]), (&json!("Member"), &json!("Invited")));
        assert_eq!((&invited["InvitedAt"], &invited["JoinedAt"]), (&conference["CreatedAt"], &Value::Null));
    }
    assert_eq!(list(&conference["Participants"]).len(), 3);
    assert_eq!(fixture.conference(id).await, conference);
    let chat = fixture.as_user(agent).get(&fixture.path("")).await.expect(200);
    assert_eq!(chat["LiveConferenceId"], json!(id));

    let events = published_events(service(), id).await;
    assert_eq!(topics(&events), [STARTED]);
    let mut payload = events[0].payload.clone();
    let mut invited: Vec<_> = list(&payload["InvitedUserIds"]).iter().map(id_of).collect();
    invited.sort();
    let mut others = vec![agent, manager];
    others.sort();
    assert_eq!(invited, others);
    payload["InvitedUserIds"] = json!([]);
    let expected = json!({
        "ConferenceId": id, "ChatId": fixture.chat, "DealId": fixture.deal.id, "TenantId": fixture.deal.tenant,
        "Media": "Audio", "StartedByUserId": client, "InvitedUserIds": [], "CreatedAt": conference["CreatedAt"],
    });
    assert_eq!((payload, events[0].headers["aggregatetype"].as_str()), (expected, "Conference"));
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-029: without `InviteUserIds` the first twenty other members by `JoinedAt` are Invited.
#[tokio::test]
async fn start_in_a_large_chat_invites_the_first_twenty() {
    let fixture = ConferenceFixture::new().await;
    let added = fixture.add_members(20).await;
    let conference =
        fixture.start(added[19], json!({"Media": "Video", "InviteUserIds": null})).await.expect(201);
    assert_eq!(list(&conference["Participants"]).len(), 21);
    let is_participant =
        |user| list(&conference["Participants"]).iter().any(|one| one["UserId"] == json!(user));
    assert!(fixture.users().into_iter().chain(added[..17].iter().copied()).all(is_participant));
    assert!(!added[17..19].iter().copied().any(is_participant));

    let named = ConferenceFixture::new().await;
    let conference =
        named.start(named.deal.client, json!({"Media": "Audio", "InviteUserIds": [named.deal.manager]}));
    assert_eq!(list(&conference.await.expect(201)["Participants"]).len(), 2);
}

/// RULE-MSG-029: a start may name twenty users, who take all seats beside the host.
#[tokio::test]
async fn start_accepts_twenty_invitees() {
    let fixture = ConferenceFixture::new().await;
    let (client, added) = (fixture.deal.client, fixture.add_members(20).await);
    let body = json!({"Media": "Audio", "InviteUserIds": added});
    let conference = fixture.start(client, body).await.expect(201);
    assert_eq!(list(&conference["Participants"]).len(), 21);
    assert!(added.iter().all(|user| state(&conference, *user) == "Invited"), "{conference}");
    let id = id_of(&conference["Id"]);
    let late = fixture.invite(client, id, &[fixture.deal.agent()]).await;
    late.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-029: a body names 1 to 20 distinct users, not the caller, and 400 precedes 404.
#[tokio::test]
async fn invalid_start_and_invite_bodies_are_refused() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let many: Vec<_> = (0..21).map(|_| guid()).collect();
    for (body, field, reason) in [
        (json!({}), "/Media", "required"),
        (json!({"Media": "audio"}), "/Media", "unknown_value"),
        (json!({"Media": "Audio", "InviteUserIds": []}), "/InviteUserIds", "too_few"),
        (json!({"Media": "Audio", "InviteUserIds": many}), "/InviteUserIds", "too_many"),
        (json!({"Media": "Audio", "InviteUserIds": "x"}), "/InviteUserIds", "invalid_type"),
        (json!({"Media": "Audio", "InviteUserIds": ["x"]}), "/InviteUserIds/0", "invalid_type"),
        (json!({"Media": "Audio", "InviteUserIds": [agent, agent]}), "/InviteUserIds/1", "duplicate"),
        (json!({"Media": "Audio", "InviteUserIds": [agent, client]}), "/InviteUserIds/1", "oneself"),
    ] {
        fixture.start(client, body.clone()).await.expect_refusal("VALIDATION_FAILED", field, reason);
        // 400 precedes 404 for an unknown chat.
        let unknown_chat = format!("{CHATS}/{}/conferences", guid());
        let response = fixture.as_user(client).post(&unknown_chat, body).await;
        response.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    let id = fixture.ring(None).await;
    for (body, field, reason) in [
        (json!({}), "/UserIds", "required"),
        (json!({"UserIds": null}), "/UserIds", "invalid_type"),
        (json!({"UserIds": []}), "/UserIds", "too_few"),
        (json!({"UserIds": many}), "/UserIds", "too_many"),
        (json!({"UserIds": [agent, agent]}), "/UserIds/1", "duplicate"),
        (json!({"UserIds": [client]}), "/UserIds/0", "oneself"),
    ] {
        let response = fixture.as_user(client).post(&format!("{CONFERENCES}/{id}/invite"), body).await;
        response.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}

/// RULE-MSG-030, RULE-MSG-035, RULE-MSG-061: a start checks chat, kind, participants and live
/// conference in this order.
#[tokio::test]
async fn start_refusals_follow_the_order_of_the_table() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let audio = || json!({"Media": "Audio"});
    for stranger in [fixture.as_user(guid()), fixture.moderator(), fixture.supervisor()] {
        let response = stranger.post(&fixture.path("/conferences"), audio()).await;
        response.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let unknown = json!({"Media": "Audio", "InviteUserIds": [agent, guid()]});
    fixture.start(client, unknown.clone()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");

    let direct = as_user(client).post(CHATS, json!({"UserId": agent})).await.expect(201);
    let direct = format!("{CHATS}/{}/conferences", id_of(&direct["Id"]));
    // 422 precedes 404.
    let response = as_user(client).post(&direct, unknown.clone()).await;
    response.expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    let history = as_user(client).get(&direct).await.expect(200);
    assert_eq!(
        (&history["Items"], &history["TotalCount"]),
        (&json!([]), &json!(0)),
        "the history of a Direct chat is empty"
    );

    let id = fixture.ring(None).await;
    // 404 precedes 409.
    fixture.start(manager, unknown).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let problem =
        fixture.start(manager, audio()).await.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
    assert_eq!(problem["conferenceId"], json!(id));
    fixture.act(client, id, "end").await.expect(200);
    fixture.start(manager, audio()).await.expect(201);
}

/// RULE-MSG-030: a start in a chat with one member is 404.
#[tokio::test]
async fn start_without_other_members_is_refused() {
    let fixture = ConferenceFixture::new().await;
    fixture.remove_member(fixture.deal.manager).await;
    fixture.remove_member(fixture.deal.agent()).await;
    let response = fixture.start(fixture.deal.client, json!({"Media": "Audio"})).await;
    response.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// RULE-MSG-030, RULE-MSG-032, RULE-MSG-048, RULE-MSG-065: without LiveKit, start, join and
/// media-token are 503 before any write. All other operations work.
#[tokio::test]
async fn service_without_livekit_refuses_only_media_operations() {
    let own = Running::start::<messenger::Service>(&[]);
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    // Other refusals precede 503.
    let unknown = json!({"Media": "Audio", "InviteUserIds": [guid()]});
    fixture.start(client, unknown).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let response = fixture.start(client, json!({"Media": "Audio"})).await;
    assert!(response.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    response.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    let history = fixture.as_user(client).get(&fixture.path("/conferences")).await.expect(200);
    assert_eq!(history["TotalCount"], 0);
    fixture.send_webhook(&json!({"event": "room_started"})).await.expect_problem(401, "UNAUTHORIZED");

    // A replica with LiveKit starts a conference. The replica without LiveKit then refuses the
    // media operations of this conference.
    let livekit = LiveKit::start();
    let configured = start(&livekit, &[("DATABASE_URL", &own.database_url)]);
    let id = ConferenceFixture { service: &configured, ..fixture }.ring(None).await;
    drop(configured);
    fixture.act(agent, id, "join").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    assert_eq!(fixture.conference(id).await["Version"], 1, "503 precedes any write");
    fixture.act(client, id, "media-token").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    fixture.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let again = fixture.start(agent, json!({"Media": "Audio"})).await;
    again.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
    let conference = fixture.act(agent, id, "decline").await.expect(200);
    assert_eq!(state(&conference, agent), "Declined");
    assert_eq!(act_as(&fixture.moderator(), id, "end").await.expect(200)["Status"], "Ended");
    fixture.act(agent, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// RULE-MSG-037: an operation for which the contract lists no body succeeds with any body.
#[tokio::test]
async fn operation_without_a_body_ignores_any_body() {
    let fixture = ConferenceFixture::new().await;
    let id = fixture.ring(None).await;
    for act in ["join", "media-token", "decline", "leave", "end"] {
        let request =
            fixture.as_user(fixture.deal.client).request(Method::POST, &format!("{CONFERENCES}/{id}/{act}"));
        let request = request.header("content-type", "text/plain").body("{ no JSON");
        assert_eq!(send(request).await.status, 200, "{act}");
    }
}

/// RULE-MSG-097: a user starts at most ten conferences in a chat within ten minutes. Other members
/// and other chats have starts of their own.
#[tokio::test]
async fn eleventh_start_within_ten_minutes_is_refused() {
    let (fixture, other) = (ConferenceFixture::new().await, ConferenceFixture::new().await);
    let [client, agent, _] = fixture.users();
    let start = async |host| fixture.start(host, json!({"Media": "Audio"})).await;
    let end = async |host, started: Value| {
        fixture.act(host, id_of(&started["Id"]), "end").await.expect(200);
    };
    for _ in 0..10 {
        end(client, start(client).await.expect(201)).await;
    }

    let refused = start(client).await;

    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=600).contains(&wait)));
    assert!(text(&refused.body["detail"]).contains("at most 10 conferences"), "{}", refused.text);
    refused.expect_problem(429, "MESSENGER_CONFERENCES_LIMIT_EXCEEDED");
    let live = start(agent).await.expect(201);
    start(client).await.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
    end(agent, live).await;
    other.start(other.deal.client, json!({"Media": "Audio"})).await.expect(201);
    // Ten minutes after the first start the user has one more.
    let sql = service().sql().await;
    let earlier = "update conference set created_at = created_at - interval '10 minutes' where id = (\
        select id from conference where chat_id::text = $1 and started_by_user_id::text = $2 \
        order by created_at limit 1)";
    assert_eq!(sql.execute(earlier, &[&fixture.chat.to_string(), &client.to_string()]).await.unwrap(), 1);
    end(client, start(client).await.expect(201)).await;
    start(client).await.expect_problem(429, "MESSENGER_CONFERENCES_LIMIT_EXCEEDED");
}
