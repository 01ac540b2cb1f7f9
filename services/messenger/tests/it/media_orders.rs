//! What LiveKit is told, and asked.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::faults::Fault;
use testkit::livekit::{KEY, LiveKit, SECRET};
use testkit::{eventually, guid};
use tokio::time::sleep;

use crate::calls::{Line, livekit, start, state};

async fn calls(
    livekit: &LiveKit,
    method: &str,
    room: uuid::Uuid,
    count: usize,
) -> Vec<testkit::faults::Call> {
    let calls = || livekit.calls(method, &room.to_string());
    eventually(method, async || (calls().len() >= count).then_some(())).await;
    calls()
}

/// The claims of a call's token.
fn grants(call: &testkit::faults::Call) -> Value {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};
    let token = call.headers["authorization"].strip_prefix("Bearer ").unwrap();
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let claims =
        jsonwebtoken::decode::<Value>(token, &key, &Validation::new(Algorithm::HS256)).unwrap().claims;
    assert_eq!(claims["iss"], KEY);
    claims["video"].clone()
}

/// Section 5, told: `RemoveParticipant` of who was Removed or has left by request, `DeleteRoom` at the end, once each.
#[tokio::test]
async fn livekit_is_told_who_goes_and_what_ends() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    line.act(agent, id, "leave").await.expect(200);
    let removed = calls(livekit(), "RemoveParticipant", id, 1).await;
    assert_eq!(removed[0].body, json!({"room": id, "identity": agent}));
    assert_eq!(grants(&removed[0]), json!({"roomAdmin": true, "room": id}));
    line.remove(client, id, manager).await.expect(200);
    let removed = calls(livekit(), "RemoveParticipant", id, 2).await;
    assert_eq!(removed[1].body["identity"], json!(manager));
    line.act(client, id, "end").await.expect(200);
    let closed = calls(livekit(), "DeleteRoom", id, 1).await;
    assert_eq!((&closed[0].body, grants(&closed[0])), (&json!({"room": id}), json!({"roomCreate": true})));
    assert_eq!(closed[0].headers["content-type"], "application/json");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(livekit().calls("RemoveParticipant", &id.to_string()).len(), 2);
    assert_eq!(livekit().calls("DeleteRoom", &id.to_string()).len(), 1);
}

/// Section 5, told: it is repeated until LiveKit has heard; `not_found` is success; no request waits for it.
#[tokio::test]
async fn livekit_is_told_until_it_has_heard() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    let id = line.talk().await;
    livekit.refuse(2, "RemoveParticipant", 503, "unavailable");
    livekit.refuse(1, "DeleteRoom", 404, "not_found");
    line.act(agent, id, "leave").await.expect(200);
    calls(&livekit, "RemoveParticipant", id, 3).await;
    line.act(client, id, "end").await.expect(200);
    calls(&livekit, "DeleteRoom", id, 1).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(livekit.calls("RemoveParticipant", &id.to_string()).len(), 3);
    assert_eq!(livekit.calls("DeleteRoom", &id.to_string()).len(), 1);

    // An unknown method, say, is 404, too, and is no such success.
    let id = line.ring(None).await;
    livekit.refuse(1, "DeleteRoom", 404, "bad_route");
    line.act(client, id, "end").await.expect(200);
    calls(&livekit, "DeleteRoom", id, 2).await;
}

/// Section 5, told: it is repeated for 24 h, whatever LiveKit answers, and then given up.
#[tokio::test]
async fn livekit_is_told_for_a_day_and_no_longer() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let line = Line::of(&own).await;
    let id = line.ring(None).await;
    livekit.refuse(10_000, "DeleteRoom", 503, "unavailable");
    line.act(line.deal.client, id, "end").await.expect(200);
    calls(&livekit, "DeleteRoom", id, 2).await;
    let sql = own.sql().await;
    // The pauses between its attempts have grown long by then.
    let next = async || {
        let now = "update job set due_at = clock_timestamp() where kind = 'media-order' and run is null";
        sql.execute(now, &[]).await.unwrap();
        let left = "select count(*) from job where kind = 'media-order'";
        sql.query_one(left, &[]).await.unwrap().get::<_, i64>(0)
    };
    let ended = async |ago: &str| {
        let end = "update conference set ended_at = clock_timestamp() - $1::text::interval";
        sql.execute(end, &[&ago]).await.unwrap();
    };
    ended("23 hours 59 minutes").await;
    let told = livekit.calls("DeleteRoom", &id.to_string()).len();
    eventually("another attempt", async || {
        assert_eq!(next().await, 1, "it is kept");
        (livekit.calls("DeleteRoom", &id.to_string()).len() > told + 1).then_some(())
    })
    .await;
    ended("24 hours 1 minute").await;
    eventually("no further attempt", async || (next().await == 0).then_some(())).await;
    let told = livekit.calls("DeleteRoom", &id.to_string()).len();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(livekit.calls("DeleteRoom", &id.to_string()).len(), told);
    assert_eq!(line.card(id).await["EndReason"], "EndedByHost");
}

/// Section 5, told: who was asked back or has Joined again since is left alone.
#[tokio::test]
async fn who_is_there_again_is_not_sent_away() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[]);
    let line = Line::of(&own).await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    livekit.faults().refuse();
    line.act(agent, id, "leave").await.expect(200);
    line.remove(client, id, manager).await.expect(200);
    line.act(agent, id, "join").await.expect(200);
    line.invite(client, id, &[manager]).await.expect(200);
    sleep(Duration::from_millis(1500)).await;
    livekit.faults().listen();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(livekit.calls("RemoveParticipant", &id.to_string()).len(), 0);
    line.act(client, id, "end").await.expect(200);
    calls(&livekit, "DeleteRoom", id, 1).await;
}

/// Section 5: nobody's phone rings in vain: 503 after three probes that failed, until one succeeds.
#[tokio::test]
async fn nobody_is_rung_while_livekit_is_away() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "1")]);
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    let id = line.ring(None).await;
    livekit.faults().on("/", Fault::Answer(503, String::new()));
    let refused = eventually("a refusal", async || {
        let answer = line.act(agent, id, "join").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    line.act(client, id, "media-token").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    let version = line.card(id).await["Version"].clone();
    line.act(agent, id, "join").await.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    assert_eq!(line.card(id).await["Version"], version, "nothing is written");
    line.act(client, id, "end").await.expect(200);
    let answer = line.start(client, json!({"Media": "Audio"})).await;
    answer.expect_problem(503, "MESSENGER_MEDIA_UNAVAILABLE");
    livekit.faults().heal();
    livekit.faults().on("/", Fault::Answer(200, "OK".to_owned()));
    let start = async || {
        let answer = line.start(client, json!({"Media": "Audio"})).await;
        (answer.status == 201).then_some(())
    };
    eventually("a call", start).await;
}

/// Section 5: it is the last three probes that count: two that failed keep nobody out, and one that did not has them counted anew.
#[tokio::test]
async fn two_probes_that_failed_keep_nobody_out() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "2")]);
    let line = Line::of(&own).await;
    let agent = line.deal.agent();
    let id = line.ring(None).await;
    let probes = || livekit.faults().calls("/").iter().filter(|call| call.path == "/").count();
    let so_many = async |count: usize| {
        eventually("the probes", async || {
            line.act(agent, id, "join").await.expect(200);
            sleep(Duration::from_millis(100)).await;
            (probes() >= count).then_some(())
        })
        .await;
    };
    // Right after a probe there is time until the next one.
    so_many(probes() + 1).await;
    let before = probes();
    // Two that fail and one that does not, twice: what is named last comes first.
    for _ in 0..2 {
        livekit.faults().next(1, "/", Fault::Answer(200, "OK".to_owned()));
        livekit.faults().next(2, "/", Fault::Answer(503, String::new()));
    }
    // All that is no probe succeeds.
    livekit.faults().on("/twirp/", Fault::Answer(200, "{}".to_owned()));
    so_many(before + 7).await;
}

/// Section 5: where a probe runs, rooms are compared: none is Joined for hours because a webhook was lost.
#[tokio::test]
async fn rooms_are_compared_with_who_is_said_to_be_there() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("MESSENGER_MEDIA_PROBE_SECONDS", "1")]);
    let line = Line::of(&own).await;
    let [client, agent, manager] = line.people();
    let stranger = guid();
    let id = line.talk().await;
    // Somebody may be on their way yet.
    sleep(Duration::from_secs(11)).await;
    let seated = [(client, "PA_1"), (manager, "PA_2"), (stranger, "PA_3")];
    livekit.seat(&seated.map(|(user, sid)| (user.to_string(), sid)));
    let before = line.card(id).await;
    assert_eq!((state(&before, agent), state(&before, manager)), ("Joined", "Invited"));
    let sql = own.sql().await;
    let now = "update job set due_at = clock_timestamp() where kind = 'media-reconciliation' and run is null";
    eventually("a comparison", async || {
        sql.execute(now, &[]).await.unwrap();
        (state(&line.card(id).await, agent) == "Left").then_some(())
    })
    .await;
    let card = line.card(id).await;
    assert_eq!((state(&card, client), state(&card, manager)), ("Joined", "Joined"));
    let sent_away = calls(&livekit, "RemoveParticipant", id, 1).await;
    assert_eq!(sent_away[0].body["identity"], json!(stranger));
}
