//! Commands for LiveKit, its probes, and the comparison with its rooms.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::faults::Fault;
use testkit::livekit::{KEY, LiveKit, SECRET};
use testkit::{eventually, guid};
use tokio::time::sleep;

use crate::fixture::{ConferenceFixture, state};
use crate::media_service::{livekit, start};

/// Waits until LiveKit received at least `count` calls of a method for a room, and returns them.
async fn wait_for_calls(
    livekit: &LiveKit,
    method: &str,
    room: uuid::Uuid,
    count: usize,
) -> Vec<testkit::faults::Call> {
    let calls = || livekit.calls(method, &room.to_string());
    eventually(method, async || (calls().len() >= count).then_some(())).await;
    calls()
}

/// Returns the grants of a call's token.
fn grants(call: &testkit::faults::Call) -> Value {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};
    let token = call.headers["authorization"].strip_prefix("Bearer ").unwrap();
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let claims =
        jsonwebtoken::decode::<Value>(token, &key, &Validation::new(Algorithm::HS256)).unwrap().claims;
    assert_eq!(claims["iss"], KEY);
    claims["video"].clone()
}

/// RULE-MSG-050: a participant who was Removed or left by request is removed once, and the end
/// deletes the room once.
#[tokio::test]
async fn removal_and_end_send_one_command_each() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.act(agent, id, "leave").await.expect(200);
    let removed = wait_for_calls(livekit(), "RemoveParticipant", id, 1).await;
    assert_eq!(removed[0].body, json!({"room": id, "identity": agent}));
    assert_eq!(grants(&removed[0]), json!({"roomAdmin": true, "room": id}));
    fixture.remove_participant(client, id, manager).await.expect(200);
    let removed = wait_for_calls(livekit(), "RemoveParticipant", id, 2).await;
    assert_eq!(removed[1].body["identity"], json!(manager));
    fixture.act(client, id, "end").await.expect(200);
    let closed = wait_for_calls(livekit(), "DeleteRoom", id, 1).await;
    assert_eq!((&closed[0].body, grants(&closed[0])), (&json!({"room": id}), json!({"roomCreate": true})));
    assert_eq!(closed[0].headers["content-type"], "application/json");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(livekit().calls("RemoveParticipant", &id.to_string()).len(), 2);
    assert_eq!(livekit().calls("DeleteRoom", &id.to_string()).len(), 1);
}

/// RULE-MSG-050: a command is repeated until LiveKit accepts it, and `not_found` is a success. No
/// request waits for the command.
#[tokio::test]
async fn failed_command_is_repeated_until_accepted() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring_and_join().await;
    livekit.refuse(2, "RemoveParticipant", 503, "unavailable");
    livekit.refuse(1, "DeleteRoom", 404, "not_found");
    fixture.act(agent, id, "leave").await.expect(200);
    wait_for_calls(&livekit, "RemoveParticipant", id, 3).await;
    fixture.act(client, id, "end").await.expect(200);
    wait_for_calls(&livekit, "DeleteRoom", id, 1).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(livekit.calls("RemoveParticipant", &id.to_string()).len(), 3);
    assert_eq!(livekit.calls("DeleteRoom", &id.to_string()).len(), 1);

    // A 404 with another code, for example of an unknown method, is not a success.
    let id = fixture.ring(None).await;
    livekit.refuse(1, "DeleteRoom", 404, "bad_route");
    fixture.act(client, id, "end").await.expect(200);
    wait_for_calls(&livekit, "DeleteRoom", id, 2).await;
}

/// RULE-MSG-050: a command is repeated for 24 h after the end of the conference and then given up.
#[tokio::test]
async fn failed_command_is_repeated_for_a_day_at_most() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let fixture = ConferenceFixture::of(&own).await;
    let id = fixture.ring(None).await;
    livekit.refuse(10_000, "DeleteRoom", 503, "unavailable");
    fixture.act(fixture.deal.client, id, "end").await.expect(200);
    wait_for_calls(&livekit, "DeleteRoom", id, 2).await;
    let sql = own.sql().await;
    // The pauses between attempts grow, so the test makes the job due.
    let attempt = async || {
        let make_due =
            "update job set due_at = clock_timestamp() where kind = 'media-command' and run is null";
        sql.execute(make_due, &[]).await.unwrap();
        let left = "select count(*) from job where kind = 'media-command'";
        sql.query_one(left, &[]).await.unwrap().get::<_, i64>(0)
    };
    let set_end = async |ago: &str| {
        let end = "update conference set ended_at = clock_timestamp() - $1::text::interval";
        sql.execute(end, &[&ago]).await.unwrap();
    };
    set_end("23 hours 59 minutes").await;
    let sent = livekit.calls("DeleteRoom", &id.to_string()).len();
    eventually("another attempt", async || {
        assert_eq!(attempt().await, 1, "the job is kept");
        // The first of these calls may have begun before the change of the end.
        (livekit.calls("DeleteRoom", &id.to_string()).len() > sent + 1).then_some(())
    })
    .await;
    set_end("24 hours 1 minute").await;
    eventually("no further attempt", async || (attempt().await == 0).then_some(())).await;
    let sent = livekit.calls("DeleteRoom", &id.to_string()).len();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(livekit.calls("DeleteRoom", &id.to_string()).len(), sent);
    assert_eq!(fixture.conference(id).await["EndReason"], "EndedByHost");
}

/// RULE-MSG-050: a participant who was Invited or Joined again is not removed.
#[tokio::test]
async fn rejoined_participant_is_not_removed() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    livekit.proxy().refuse();
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.remove_participant(client, id, manager).await.expect(200);
    fixture.act(agent, id, "join").await.expect(200);
    fixture.invite(client, id, &[manager]).await.expect(200);
    // The first attempts fail in this time. The next ones follow pauses of 1 s and 2 s.
    sleep(Duration::from_millis(1500)).await;
    livekit.proxy().listen();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(livekit.calls("RemoveParticipant", &id.to_string()).len(), 0);
    fixture.act(client, id, "end").await.expect(200);
    wait_for_calls(&livekit, "DeleteRoom", id, 1).await;
}

/// RULE-MSG-048: after three failed probes media operations are 503, until a probe succeeds.
#[tokio::test]
async fn three_failed_probes_refuse_media_operations() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "1")]);
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring(None).await;
    livekit.proxy().inject("/", Fault::Respond(503, String::new()));
    let refused = eventually("a refusal", async || {
        let response = fixture.act(agent, id, "join").await;
        (response.status == 503).then_some(response)
    })
    .await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    fixture.act(client, id, "media-token").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    let version = fixture.conference(id).await["Version"].clone();
    fixture.act(agent, id, "join").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    assert_eq!(fixture.conference(id).await["Version"], version, "503 precedes any write");
    fixture.act(client, id, "end").await.expect(200);
    let response = fixture.start(client, json!({"Media": "Audio"})).await;
    response.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    livekit.proxy().remove_faults();
    livekit.proxy().inject("/", Fault::Respond(200, "OK".to_owned()));
    let start = async || {
        let response = fixture.start(client, json!({"Media": "Audio"})).await;
        (response.status == 201).then_some(())
    };
    eventually("the conference", start).await;
}

/// RULE-MSG-048: two failed probes refuse nothing, and a successful probe resets the count.
#[tokio::test]
async fn two_failed_probes_refuse_nothing() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "2")]);
    let fixture = ConferenceFixture::of(&own).await;
    let agent = fixture.deal.agent();
    let id = fixture.ring(None).await;
    let probes = || livekit.proxy().calls("/").iter().filter(|call| call.path == "/").count();
    let wait_for_probes = async |count: usize| {
        eventually("the probes", async || {
            fixture.act(agent, id, "join").await.expect(200);
            sleep(Duration::from_millis(100)).await;
            (probes() >= count).then_some(())
        })
        .await;
    };
    // The faults are set right after a probe, well before the next one.
    wait_for_probes(probes() + 1).await;
    let before = probes();
    // Each round has two failed probes and a successful one. The last fault is used first.
    for _ in 0..2 {
        livekit.proxy().inject_next(1, "/", Fault::Respond(200, "OK".to_owned()));
        livekit.proxy().inject_next(2, "/", Fault::Respond(503, String::new()));
    }
    // Every other call succeeds.
    livekit.proxy().inject("/twirp/", Fault::Respond(200, "{}".to_owned()));
    wait_for_probes(before + 7).await;
}

/// RULE-MSG-053: where probes run, the comparison with LiveKit's rooms has the effect of lost
/// webhooks.
#[tokio::test]
async fn comparison_replaces_lost_webhooks() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "1")]);
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, manager] = fixture.users();
    let stranger = guid();
    let id = fixture.ring_and_join().await;
    // The comparison ignores participants who joined within the last 10 s.
    sleep(Duration::from_secs(11)).await;
    let connected = [(client, "PA_1"), (manager, "PA_2"), (stranger, "PA_3")];
    livekit.set_participants(&connected.map(|(user, sid)| (user.to_string(), sid)));
    let before = fixture.conference(id).await;
    assert_eq!((state(&before, agent), state(&before, manager)), ("Joined", "Invited"));
    let sql = own.sql().await;
    let make_due =
        "update job set due_at = clock_timestamp() where kind = 'media-reconciliation' and run is null";
    eventually("a comparison", async || {
        sql.execute(make_due, &[]).await.unwrap();
        (state(&fixture.conference(id).await, agent) == "Left").then_some(())
    })
    .await;
    let conference = fixture.conference(id).await;
    assert_eq!((state(&conference, client), state(&conference, manager)), ("Joined", "Joined"));
    let removals = wait_for_calls(&livekit, "RemoveParticipant", id, 1).await;
    assert_eq!(removals[0].body["identity"], json!(stranger));
}
