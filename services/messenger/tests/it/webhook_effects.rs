//! Effects of LiveKit's webhooks on participants.

use futures_util::future::join_all;
use serde_json::json;
use testkit::{eventually, guid};

use crate::fixture::{ConferenceFixture, participant, state, unix_seconds};
use crate::media_service::livekit;
use crate::{count, service};

/// Waits until LiveKit has received at least `times` commands to remove the user.
async fn wait_for_removals(id: uuid::Uuid, user: uuid::Uuid, times: usize) {
    let calls = || livekit().calls("RemoveParticipant", &id.to_string()).into_iter();
    let of_user = || calls().filter(|call| call.body["identity"] == json!(user)).count();
    eventually("RemoveParticipant", async || (of_user() >= times).then_some(())).await;
}

/// RULE-MSG-038, RULE-MSG-055: `participant_joined` makes the participant Joined, and a Ringing
/// conference Active unless the participant is the host.
#[tokio::test]
async fn connected_participant_is_joined() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    fixture.send_participant_webhook("participant_joined", id, client, "PA_0", unix_seconds(0)).await;
    assert_eq!(
        (&fixture.conference(id).await["Status"], &fixture.conference(id).await["Version"]),
        (&json!("Ringing"), &json!(1))
    );
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", unix_seconds(0)).await;
    let conference = fixture.conference(id).await;
    assert_eq!(
        (&conference["Status"], state(&conference, agent), &conference["Version"]),
        (&json!("Active"), "Joined", &json!(2))
    );
    assert_eq!(conference["ActiveAt"], participant(&conference, agent)["JoinedAt"]);
    // A Declined or Left participant becomes Joined too.
    fixture.act(manager, id, "decline").await.expect(200);
    fixture.send_participant_webhook("participant_joined", id, manager, "PA_2", unix_seconds(0)).await;
    assert_eq!(state(&fixture.conference(id).await, manager), "Joined");
    fixture.act(manager, id, "leave").await.expect(200);
    fixture.send_participant_webhook("participant_joined", id, manager, "PA_3", unix_seconds(0)).await;
    assert_eq!(state(&fixture.conference(id).await, manager), "Joined");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-056: `participant_left` makes the participant Left at its `createdAt`. Webhooks about a
/// replaced connection, or about the start of an ended one, have no effect.
#[tokio::test]
async fn disconnected_participant_is_left() {
    let fixture = ConferenceFixture::new().await;
    let [_, agent, _] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", unix_seconds(0)).await;
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_2", unix_seconds(1)).await;
    fixture.send_participant_webhook("participant_left", id, agent, "PA_1", unix_seconds(1)).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Joined", "the connection was replaced");
    let at = unix_seconds(5);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_2", at).await;
    let conference = fixture.conference(id).await;
    let left = time::OffsetDateTime::from_unix_timestamp(at).unwrap();
    let left = left.format(&time::format_description::well_known::Rfc3339).unwrap();
    assert_eq!(
        (state(&conference, agent), &participant(&conference, agent)["LeftAt"]),
        ("Left", &json!(left))
    );
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_2", unix_seconds(0)).await;
    assert_eq!(fixture.conference(id).await, conference, "the connection has ended");
    fixture.send_participant_webhook("participant_left", id, agent, "PA_2", unix_seconds(9)).await;
    assert_eq!(fixture.conference(id).await, conference);

    // The start of a connection may arrive after its end.
    fixture.act(agent, id, "join").await.expect(200);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_3", unix_seconds(10)).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Left");
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_3", unix_seconds(10)).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Left");
    // A participant who is not Joined does not change.
    let [_, _, manager] = fixture.users();
    let before = fixture.conference(id).await;
    fixture.send_participant_webhook("participant_left", id, manager, "PA_4", unix_seconds(0)).await;
    assert_eq!(fixture.conference(id).await, before);
}

/// RULE-MSG-056: webhooks of an older connection that arrive after those of a newer one have no
/// effect.
#[tokio::test]
async fn late_webhooks_of_a_replaced_connection_have_no_effect() {
    let fixture = ConferenceFixture::new().await;
    let agent = fixture.deal.agent();
    let id = fixture.ring_and_join().await;
    let began = unix_seconds(0);
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_2", began + 2).await;
    let conference = fixture.conference(id).await;
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", began).await;
    fixture.send_participant_webhook("participant_left", id, agent, "PA_1", began + 2).await;
    assert_eq!(fixture.conference(id).await, conference);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_2", began + 4).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Left");
}

/// RULE-MSG-056: `participant_left` of a replaced connection has no effect, also after the end of
/// the newer one.
#[tokio::test]
async fn end_of_a_replaced_connection_has_no_effect() {
    let fixture = ConferenceFixture::new().await;
    let agent = fixture.deal.agent();
    let id = fixture.ring_and_join().await;
    let began = unix_seconds(0);
    // The webhooks of the two starts arrive in either order. Each has the time of its start.
    for (arrivals, replaced, newer) in
        [([("PA_1", 0), ("PA_2", 1)], "PA_1", "PA_2"), ([("PA_3", 12), ("PA_4", 11)], "PA_4", "PA_3")]
    {
        for (sid, at) in arrivals {
            fixture.send_participant_webhook("participant_joined", id, agent, sid, began + at).await;
        }
        let ended = began + arrivals[0].1 + 5;
        fixture.send_participant_webhook("participant_left", id, agent, newer, ended).await;
        assert_eq!(state(&fixture.conference(id).await, agent), "Left");
        fixture.act(agent, id, "join").await.expect(200);
        let conference = fixture.conference(id).await;
        fixture.send_participant_webhook("participant_left", id, agent, replaced, ended + 1).await;
        assert_eq!(fixture.conference(id).await, conference, "{replaced} was replaced");
    }
}

/// RULE-MSG-055: if a user who is Removed or has no entry connects, the service sends LiveKit a
/// command to remove the user. If the conference is Ended, the command closes the room.
#[tokio::test]
async fn old_token_gives_no_lasting_access() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(Some(&[agent])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.remove_participant(client, id, agent).await.expect(200);
    wait_for_removals(id, agent, 1).await;
    let conference = fixture.conference(id).await;
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", unix_seconds(0)).await;
    wait_for_removals(id, agent, 2).await;
    for stranger in [manager, guid()] {
        fixture.send_participant_webhook("participant_joined", id, stranger, "PA_2", unix_seconds(0)).await;
        wait_for_removals(id, stranger, 1).await;
    }
    assert_eq!(fixture.conference(id).await, conference, "a refused connection changes nothing");
    let ended = fixture.act(client, id, "end").await.expect(200);
    let closed = || livekit().calls("DeleteRoom", &id.to_string()).len();
    eventually("DeleteRoom", async || (closed() == 1).then_some(())).await;
    fixture.send_participant_webhook("participant_joined", id, client, "PA_3", unix_seconds(0)).await;
    eventually("DeleteRoom again", async || (closed() == 2).then_some(())).await;
    fixture.send_participant_webhook("participant_left", id, client, "PA_3", unix_seconds(0)).await;
    assert_eq!(fixture.conference(id).await, ended);
}

/// RULE-MSG-055: a Left, Declined or Missed user who connects without a free seat is removed.
#[tokio::test]
async fn connection_without_a_free_seat_is_removed() {
    let fixture = ConferenceFixture::new().await;
    let more = fixture.add_members(20).await;
    let agent = fixture.deal.agent();
    let id = fixture.ring(Some(&more[..19])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(agent, id, "leave").await.expect(200);
    wait_for_removals(id, agent, 1).await;
    fixture.act(more[19], id, "join").await.expect(200);
    fixture.send_participant_webhook("participant_joined", id, more[3], "PA_0", unix_seconds(0)).await;
    let conference = fixture.conference(id).await;
    assert_eq!(state(&conference, more[3]), "Joined", "an Invited user has a seat");
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", unix_seconds(0)).await;
    wait_for_removals(id, agent, 2).await;
    assert_eq!(fixture.conference(id).await, conference);
}

/// RULE-MSG-057: `room_finished` makes participants Left who joined before its `createdAt`.
#[tokio::test]
async fn finished_room_makes_its_participants_left() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    let finish_room = async |at: i64| {
        let event_id = format!("EV_{}", guid());
        let webhook =
            json!({"event": "room_finished", "id": event_id, "createdAt": at, "room": {"name": id}});
        fixture.send_webhook(&webhook).await.expect(200);
    };
    finish_room(unix_seconds(-5)).await;
    let conference = fixture.conference(id).await;
    assert_eq!(
        (state(&conference, client), state(&conference, agent)),
        ("Joined", "Joined"),
        "both joined after the end of this room"
    );
    // The latest join counts, here by the time of a webhook.
    let joined = unix_seconds(20);
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", joined).await;
    finish_room(unix_seconds(10)).await;
    finish_room(joined).await;
    let conference = fixture.conference(id).await;
    assert_eq!((state(&conference, client), state(&conference, agent)), ("Left", "Joined"));
    assert_eq!(state(&conference, manager), "Invited");
    finish_room(unix_seconds(30)).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Left");
    assert_eq!(
        fixture.conference(id).await["Status"],
        "Active",
        "an empty conference stays Active for its timeout"
    );
}

/// RULE-MSG-084: a webhook that is older than the last one of the participant or of the room
/// changes nothing.
#[tokio::test]
async fn overtaken_webhooks_have_no_effect() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    let now = unix_seconds(0);
    let room_finished = |at: i64| {
        let room = json!({"sid": "RM_1", "name": id});
        json!({"event": "room_finished", "id": format!("EV_{}", guid()), "createdAt": at, "room": room})
    };
    fixture.send_webhook(&room_finished(now + 20)).await.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!((state(&conference, client), state(&conference, agent)), ("Left", "Left"));
    for user in [client, agent, manager] {
        fixture.send_participant_webhook("participant_joined", id, user, "PA_1", now + 19).await;
    }
    assert_eq!(fixture.conference(id).await, conference, "the room had ended");
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_2", now + 21).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Joined");

    // The end of an unknown earlier connection, after the last connection has ended.
    fixture.send_participant_webhook("participant_left", id, agent, "PA_2", now + 30).await;
    fixture.act(agent, id, "join").await.expect(200);
    let conference = fixture.conference(id).await;
    fixture.send_participant_webhook("participant_left", id, agent, "PA_0", now + 29).await;
    assert_eq!(fixture.conference(id).await, conference);
    // The start of an unknown earlier connection.
    fixture.send_participant_webhook("participant_left", id, agent, "PA_3", now + 40).await;
    let conference = fixture.conference(id).await;
    assert_eq!(state(&conference, agent), "Left");
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_4", now + 39).await;
    assert_eq!(fixture.conference(id).await, conference);
}

/// RULE-MSG-058: each webhook id counts once, whatever its length, also if ten webhooks with this
/// id arrive at once.
#[tokio::test]
async fn repeated_webhook_counts_once() {
    let fixture = ConferenceFixture::new().await;
    let [_, agent, _] = fixture.users();
    let id = fixture.ring(None).await;
    let webhook = json!({
        "event": "participant_joined", "id": format!("EV_{id}{}", "x".repeat(5000)),
        "createdAt": unix_seconds(0).to_string(),
        "room": {"name": id}, "participant": {"sid": "PA_1", "identity": agent},
    });
    let responses = join_all((0..10).map(|_| fixture.send_webhook(&webhook))).await;
    assert_eq!(count(&responses, 200), 10);
    assert_eq!(fixture.conference(id).await["Version"], 2);
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.send_webhook(&webhook).await.expect(200);
    assert_eq!(state(&fixture.conference(id).await, agent), "Left");
}

/// RULE-MSG-058: ids of webhooks are deleted after 24 h, in as many transactions as needed.
#[tokio::test]
async fn old_webhook_ids_are_deleted() {
    let sql = service().sql().await;
    let fill = "insert into webhook (id, received_at) \
        select decode(md5('old' || n), 'hex'), now() - interval '25 hours' from generate_series(1, 12000) as n; \
        insert into webhook (id, received_at) values (decode(md5('new'), 'hex'), now()); \
        update job set due_at = now() where kind = 'webhook-retention'";
    sql.batch_execute(fill).await.unwrap();
    let old = "select count(*) from webhook where received_at < now() - interval '24 hours'";
    let deleted = async || (sql.query_one(old, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(());
    eventually("the deletion", deleted).await;
    let new = "select count(*) from webhook where id = decode(md5('new'), 'hex')";
    assert_eq!(sql.query_one(new, &[]).await.unwrap().get::<_, i64>(0), 1);
}
