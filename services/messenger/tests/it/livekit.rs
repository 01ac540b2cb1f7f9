//! Tests with a real LiveKit and connected participants.
//! LiveKit and the service must read tokens, commands and webhooks alike.

use messenger::Service;
use serde_json::{Value, json};
use testkit::livekit::{KEY, Participant, RealLiveKit, SECRET};
use testkit::service::Running;
use testkit::{eventually, text};
use uuid::Uuid;

use crate::fixture::{ConferenceFixture, WEBHOOK, state};
use crate::id_of;

/// Starts a real LiveKit and a service with its key pair.
async fn start() -> (RealLiveKit, Running) {
    let mut livekit = RealLiveKit::new().unwrap();
    let url = livekit.url();
    let own = Running::start::<Service>(&[
        ("LIVEKIT_URL", &url.replace("http", "ws")),
        ("LIVEKIT_API_URL", &url),
        ("LIVEKIT_API_KEY", KEY),
        ("LIVEKIT_API_SECRET", SECRET),
        ("MESSENGER_MEDIA_PROBE_SECONDS", "1"),
    ]);
    livekit.start(&webhook_url(&own)).unwrap();
    wait_until_up(&livekit).await;
    (livekit, own)
}

fn webhook_url(own: &Running) -> String {
    format!("{}{WEBHOOK}", own.public_url())
}

async fn wait_until_up(livekit: &RealLiveKit) {
    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
    let is_up = async || {
        http.get(livekit.url()).send().await.is_ok_and(|response| response.status() == 200).then_some(())
    };
    eventually("LiveKit", is_up).await;
}

/// Starts a conference of the client as soon as the service sees LiveKit as available.
async fn ring(fixture: &ConferenceFixture<'_>, media: &str) -> Uuid {
    let start = async || {
        let response = fixture.start(fixture.deal.client, json!({"Media": media})).await;
        (response.status == 201).then(|| id_of(&response.body["Id"]))
    };
    eventually("the conference", start).await
}

/// Joins a conference and returns the access to its room.
async fn join(fixture: &ConferenceFixture<'_>, user: Uuid, id: Uuid) -> Value {
    fixture.act(user, id, "join").await.expect(200)
}

fn connect(access: &Value, source: &str) -> Participant {
    Participant::connect(text(&access["Url"]), text(&access["Token"]), source).unwrap()
}

async fn wait_for_state(fixture: &ConferenceFixture<'_>, id: Uuid, user: Uuid, expected: &str) {
    fixture.conference_when(id, expected, |conference| state(conference, user) == expected).await;
}

/// Waits until LiveKit has accepted all commands.
async fn wait_until_all_sent(own: &Running) {
    let sql = own.sql().await;
    eventually("LiveKit to accept all commands", async || {
        let left = "select count(*) from job where kind = 'media-command'";
        (sql.query_one(left, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

/// RULE-MSG-052: participants receive each other's sound and publish only the allowed media. A
/// participant whose connection breaks becomes Left.
#[tokio::test]
#[ignore = "needs a LiveKit server: cargo dev livekit builds one"]
async fn participants_receive_sound_and_become_left() {
    let (_livekit, own) = start().await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, manager] = fixture.users();
    let id = ring(&fixture, "Audio").await;
    let (host_access, agent_access) = (join(&fixture, client, id).await, join(&fixture, agent, id).await);
    let (mut host, mut peer) = (connect(&host_access, "microphone"), connect(&agent_access, "microphone"));
    // An Audio conference has no video.
    let manager_access = join(&fixture, manager, id).await;
    let mut camera = connect(&manager_access, "camera");
    assert_eq!(host.wait_for_line("receives").await.unwrap(), agent.to_string());
    assert_eq!(peer.wait_for_line("receives").await.unwrap(), client.to_string());
    camera.wait_for_line("not published").await.unwrap();
    camera.leave().await.unwrap();
    wait_for_state(&fixture, id, manager, "Left").await;

    peer.kill().await.unwrap();
    wait_for_state(&fixture, id, agent, "Left").await;
    let mut peer = connect(&agent_access, "microphone");
    peer.wait_for_line("published").await.unwrap();
    wait_for_state(&fixture, id, agent, "Joined").await;
    assert_eq!(fixture.conference(id).await["Status"], "Active");

    fixture.act(agent, id, "leave").await.expect(200);
    peer.wait_until_disconnected().await.unwrap();
    fixture.act(client, id, "end").await.expect(200);
    host.wait_until_disconnected().await.unwrap();
    wait_until_all_sent(&own).await;
}

/// RULE-MSG-052: removal disconnects, the end closes the room, and an old token gives no lasting
/// access.
#[tokio::test]
#[ignore = "needs a LiveKit server: cargo dev livekit builds one"]
async fn removed_participant_is_disconnected_and_an_old_token_gives_no_access() {
    let (_livekit, own) = start().await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let id = ring(&fixture, "Video").await;
    let (host_access, agent_access) = (join(&fixture, client, id).await, join(&fixture, agent, id).await);
    let (mut host, mut peer) = (connect(&host_access, "camera"), connect(&agent_access, "camera"));
    assert_eq!(host.wait_for_line("receives").await.unwrap(), agent.to_string());
    peer.wait_for_line("published").await.unwrap();
    fixture.remove_participant(client, id, agent).await.expect(200);
    assert_eq!(peer.wait_for_line("disconnected:").await.unwrap(), "removed by server");
    let removed = fixture.conference(id).await;
    connect(&agent_access, "camera").wait_until_disconnected().await.unwrap();
    assert_eq!(fixture.conference(id).await, removed);

    fixture.act(client, id, "end").await.expect(200);
    host.wait_until_disconnected().await.unwrap();
    let ended = fixture.conference(id).await;
    for old in [&host_access, &agent_access] {
        connect(old, "camera").wait_until_disconnected().await.unwrap();
    }
    assert_eq!(fixture.conference(id).await, ended);
    wait_until_all_sent(&own).await;
}

/// RULE-MSG-052: during an outage media operations are 503 and commands wait. After the restart
/// clients reconnect, and the comparison finds absent participants.
#[tokio::test]
#[ignore = "needs a LiveKit server: cargo dev livekit builds one"]
async fn livekit_restart_keeps_the_conference() {
    let (mut livekit, own) = start().await;
    let (fixture, other) = (ConferenceFixture::of(&own).await, ConferenceFixture::of(&own).await);
    let [client, agent, _] = fixture.users();
    let id = ring(&fixture, "Audio").await;
    let (host_access, agent_access) = (join(&fixture, client, id).await, join(&fixture, agent, id).await);
    let (mut host, mut peer) = (connect(&host_access, "microphone"), connect(&agent_access, "microphone"));
    assert_eq!(host.wait_for_line("receives").await.unwrap(), agent.to_string());
    peer.wait_for_line("published").await.unwrap();
    let other_id = ring(&other, "Audio").await;

    livekit.kill().await.unwrap();
    peer.kill().await.unwrap();
    let refused = eventually("a refusal", async || {
        let response = fixture.act(client, id, "media-token").await;
        (response.status == 503).then_some(response)
    })
    .await;
    refused.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    fixture.act(agent, id, "join").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    fixture.as_user(agent).post(&fixture.path("/messages"), json!({"Text": "Я без звука"})).await.expect(201);
    other.act(other.deal.client, other_id, "end").await.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], state(&conference, agent)), (&json!("Active"), "Joined"));

    livekit.start(&webhook_url(&own)).unwrap();
    wait_until_up(&livekit).await;
    host.wait_for_line("reconnected").await.unwrap();
    wait_until_all_sent(&own).await;
    let sql = own.sql().await;
    let make_due =
        "update job set due_at = clock_timestamp() where kind = 'media-reconciliation' and run is null";
    eventually("the absent participant to be Left", async || {
        sql.execute(make_due, &[]).await.unwrap();
        (state(&fixture.conference(id).await, agent) == "Left").then_some(())
    })
    .await;
    assert_eq!(state(&fixture.conference(id).await, client), "Joined");
    let mut peer = connect(&join(&fixture, agent, id).await, "microphone");
    assert_eq!(peer.wait_for_line("receives").await.unwrap(), client.to_string());
    fixture.act(client, id, "end").await.expect(200);
    host.wait_until_disconnected().await.unwrap();
    peer.wait_until_disconnected().await.unwrap();
    wait_until_all_sent(&own).await;
}
