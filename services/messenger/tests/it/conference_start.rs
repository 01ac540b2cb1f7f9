//! Calls that begin: whom they ring, and what is refused.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::guid;
use testkit::livekit::LiveKit;
use testkit::service::Running;

use crate::calls::{CONFERENCES, Line, STARTED, act_as, participant, published, start, state, topics};
use crate::{CHATS, id_of, list, person, service};

/// Section 4, start: 201 with the card: Ringing, the caller Host and Joined, all others Invited; and the event.
#[tokio::test]
async fn a_call_rings_all_others() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let card = line.start(client, json!({"Media": "Audio"})).await.expect(201);
    let id = id_of(&card["Id"]);
    for (member, value) in [
        ("ChatId", json!(line.chat)),
        ("DealId", json!(line.deal.id)),
        ("TenantId", json!(line.deal.tenant)),
        ("Status", json!("Ringing")),
        ("Media", json!("Audio")),
        ("StartedByUserId", json!(client)),
        ("ActiveAt", Value::Null),
        ("EndedAt", Value::Null),
        ("EndReason", Value::Null),
        ("EndedByUserId", Value::Null),
        ("Version", json!(1)),
    ] {
        assert_eq!(card[member], value, "{member}");
    }
    let host = json!({
        "UserId": client, "Role": "Host", "State": "Joined", "InvitedAt": null, "JoinedAt": card["CreatedAt"],
        "LeftAt": null,
    });
    assert_eq!(card["Participants"][0], host);
    for invited in [agent, manager] {
        let invited = participant(&card, invited);
        assert_eq!((&invited["Role"], &invited["State"]), (&json!("Member"), &json!("Invited")));
        assert_eq!((&invited["InvitedAt"], &invited["JoinedAt"]), (&card["CreatedAt"], &Value::Null));
    }
    assert_eq!(list(&card["Participants"]).len(), 3);
    assert_eq!(line.card(id).await, card);
    let chat = line.person(agent).get(&line.path("")).await.expect(200);
    assert_eq!(chat["LiveConferenceId"], json!(id));

    let events = published(service(), id).await;
    assert_eq!(topics(&events), [STARTED]);
    let mut payload = events[0].payload.clone();
    let mut invited: Vec<_> = list(&payload["InvitedUserIds"]).iter().map(id_of).collect();
    invited.sort();
    let mut others = vec![agent, manager];
    others.sort();
    assert_eq!(invited, others);
    payload["InvitedUserIds"] = json!([]);
    let expected = json!({
        "ConferenceId": id, "ChatId": line.chat, "DealId": line.deal.id, "TenantId": line.deal.tenant,
        "Media": "Audio", "StartedByUserId": client, "InvitedUserIds": [], "CreatedAt": card["CreatedAt"],
    });
    assert_eq!((payload, events[0].headers["aggregatetype"].as_str()), (expected, "Conference"));
    line.act(client, id, "end").await.expect(200);
}

/// Section 4, start: null and absent stand for all other members, of many the first twenty by `JoinedAt`.
#[tokio::test]
async fn of_many_members_the_first_twenty_are_rung() {
    let line = Line::new().await;
    let added = line.add(20).await;
    let card = line.start(added[19], json!({"Media": "Video", "InviteUserIds": null})).await.expect(201);
    assert_eq!(list(&card["Participants"]).len(), 21);
    let rung = |user| list(&card["Participants"]).iter().any(|one| one["UserId"] == json!(user));
    assert!(line.people().into_iter().chain(added[..17].iter().copied()).all(rung));
    assert!(!added[17..19].iter().copied().any(rung));

    let named = Line::new().await;
    let card =
        named.start(named.deal.client, json!({"Media": "Audio", "InviteUserIds": [named.deal.manager]}));
    assert_eq!(list(&card.await.expect(201)["Participants"]).len(), 2);
}

/// Section 4, start: as many as twenty may be named, who take all seats beside their host.
#[tokio::test]
async fn as_many_as_twenty_may_be_named() {
    let line = Line::new().await;
    let (client, added) = (line.deal.client, line.add(20).await);
    let body = json!({"Media": "Audio", "InviteUserIds": added});
    let card = line.start(client, body).await.expect(201);
    assert_eq!(list(&card["Participants"]).len(), 21);
    assert!(added.iter().all(|user| state(&card, *user) == "Invited"), "{card}");
    let id = id_of(&card["Id"]);
    let late = line.invite(client, id, &[line.deal.agent()]).await;
    late.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    line.act(client, id, "end").await.expect(200);
}

/// Section 4, bodies: 1 to 20, distinct, not oneself.
#[tokio::test]
async fn what_is_asked_for_must_be_possible() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
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
        line.start(client, body.clone()).await.expect_refusal("VALIDATION_FAILED", field, reason);
        // 400 comes before 404.
        let elsewhere = format!("{CHATS}/{}/conferences", guid());
        let answer = line.person(client).post(&elsewhere, body).await;
        answer.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    let id = line.ring(None).await;
    for (body, field, reason) in [
        (json!({}), "/UserIds", "required"),
        (json!({"UserIds": null}), "/UserIds", "invalid_type"),
        (json!({"UserIds": []}), "/UserIds", "too_few"),
        (json!({"UserIds": many}), "/UserIds", "too_many"),
        (json!({"UserIds": [agent, agent]}), "/UserIds/1", "duplicate"),
        (json!({"UserIds": [client]}), "/UserIds/0", "oneself"),
    ] {
        let answer = line.person(client).post(&format!("{CONFERENCES}/{id}/invite"), body).await;
        answer.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}

/// Section 4, the order of checks of start.
#[tokio::test]
async fn a_start_is_refused_in_the_order_of_the_table() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let audio = || json!({"Media": "Audio"});
    for stranger in [line.person(guid()), line.moderator(), line.supervisor()] {
        let answer = stranger.post(&line.path("/conferences"), audio()).await;
        answer.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    let unknown = json!({"Media": "Audio", "InviteUserIds": [agent, guid()]});
    line.start(client, unknown.clone()).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");

    let direct = person(client).post(CHATS, json!({"UserId": agent})).await.expect(201);
    let direct = format!("{CHATS}/{}/conferences", id_of(&direct["Id"]));
    // 422 before 404.
    let answer = person(client).post(&direct, unknown.clone()).await;
    answer.expect_problem(422, "MESSENGER_CHAT_NOT_DEAL");
    let history = person(client).get(&direct).await.expect(200);
    assert_eq!(
        (&history["Items"], &history["TotalCount"]),
        (&json!([]), &json!(0)),
        "it has an empty history"
    );

    let id = line.ring(None).await;
    // 404 before 409.
    line.start(manager, unknown).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let problem =
        line.start(manager, audio()).await.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
    assert_eq!(problem["conferenceId"], json!(id));
    line.act(client, id, "end").await.expect(200);
    line.start(manager, audio()).await.expect(201);
}

/// Section 4, start: in a chat of one there is nobody to ring.
#[tokio::test]
async fn who_is_alone_rings_nobody() {
    let line = Line::new().await;
    line.remove_member(line.deal.manager).await;
    line.remove_member(line.deal.agent()).await;
    let answer = line.start(line.deal.client, json!({"Media": "Audio"})).await;
    answer.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// Section 5: without LiveKit nobody's phone rings, and nothing is written; all that needs none works.
#[tokio::test]
async fn without_livekit_nobody_is_rung_and_all_else_works() {
    let own = Running::start::<messenger::Service>(&[]);
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    // What else stands in the way is told first.
    let unknown = json!({"Media": "Audio", "InviteUserIds": [guid()]});
    line.start(client, unknown).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let answer = line.start(client, json!({"Media": "Audio"})).await;
    assert!(answer.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    answer.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    let history = line.person(client).get(&line.path("/conferences")).await.expect(200);
    assert_eq!(history["TotalCount"], 0);
    line.hear(&json!({"event": "room_started"})).await.expect_problem(401, "UNAUTHORIZED");

    // A conference of when there was one.
    let livekit = LiveKit::start();
    let with = start(&livekit, &[("DATABASE_URL", &own.database_url)]);
    let id = Line { service: &with, ..line }.ring(None).await;
    drop(with);
    line.act(agent, id, "join").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    assert_eq!(line.card(id).await["Version"], 1, "nothing is written");
    line.act(client, id, "media-token").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    line.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let again = line.start(agent, json!({"Media": "Audio"})).await;
    again.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
    let card = line.act(agent, id, "decline").await.expect(200);
    assert_eq!(state(&card, agent), "Declined");
    assert_eq!(act_as(&line.moderator(), id, "end").await.expect(200)["Status"], "Ended");
    line.act(agent, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// Section 4: no body is read where none is listed.
#[tokio::test]
async fn what_is_sent_where_nothing_is_asked_for_is_not_read() {
    let line = Line::new().await;
    let id = line.ring(None).await;
    for act in ["join", "media-token", "decline", "leave", "end"] {
        let request =
            line.person(line.deal.client).request(Method::POST, &format!("{CONFERENCES}/{id}/{act}"));
        let request = request.header("content-type", "text/plain").body("{ no JSON");
        assert_eq!(send(request).await.status, 200, "{act}");
    }
}
