//! Logs, spans, metrics and events of the service as it is deployed.

use messenger::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::skip_to_end;
use testkit::client::{Client, send};
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use testkit::livekit::{LiveKit, SECRET, sign};
use testkit::{database, eventually, guid, text};
use uuid::Uuid;

use crate::fixture::{CONFERENCES, ENDED, WEBHOOK, act_as, unix_seconds};
use crate::stream_client::Stream;
use crate::{
    CHATS, DEAL_CREATED, Deal, MESSAGE_SENT, STAGE_CHANGED, id_of, next_sequence, path, service, with,
};

/// A deal's chat in a process of its own.
struct DeployedFixture {
    service: Deployed,
    sql: tokio_postgres::Client,
    deal: Deal,
    chat: Uuid,
}

impl DeployedFixture {
    async fn start(livekit: &LiveKit, log: &str) -> Self {
        let url = database::create().await.unwrap();
        let suffix = format!(".{}", guid().simple());
        skip_to_end::<Service>(&suffix).await.unwrap();
        let media = livekit.settings();
        let own = [
            ("DATABASE_URL", url.as_str()),
            ("KAFKA_GROUP_SUFFIX", &suffix),
            ("LOG", log),
            ("MESSENGER_MEDIA_PROBE_SECONDS", "0"),
        ];
        let settings: Vec<_> =
            own.into_iter().chain(media.iter().map(|(name, value)| (*name, value.as_str()))).collect();
        let service = Deployed::start(env!("CARGO_BIN_EXE_messenger"), &[], &settings).await;
        let sql = database::connect(&url).await.unwrap();
        sql.batch_execute("set search_path = messenger").await.unwrap();
        let deal = Deal::new();
        publish(&deal, DEAL_CREATED, &deal.created()).await;
        let fixture = Self { service, sql, deal, chat: Uuid::nil() };
        let read = async || {
            let page =
                fixture.as_user(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        let chat = eventually("the chat", read).await;
        Self { chat, ..fixture }
    }

    fn as_user(&self, user: Uuid) -> Client {
        self.service.caller(&Claims::user(user))
    }

    fn path(&self, below: &str) -> String {
        path(self.chat, below)
    }

    /// Starts a conference of the deal's client.
    async fn ring(&self) -> Uuid {
        let (client, conferences) = (self.as_user(self.deal.client), self.path("/conferences"));
        id_of(&client.post(&conferences, json!({"Media": "Video"})).await.expect(201)["Id"])
    }

    /// Returns the log lines of this level.
    fn lines(&self, level: &str) -> Vec<Value> {
        self.service.log().into_iter().filter(|line| line["level"] == level).collect()
    }
}

async fn publish(deal: &Deal, topic: &str, event: &Value) {
    service().bus().publish(topic, deal.id, next_sequence(), event).await;
}

/// A word in every text that the test sends.
const MARKER: &str = "меченое";

/// Sends, edits and deletes a message, holds a conference, and provokes refusals, a failure and a
/// dead letter. Returns the id of the conference.
async fn exercise(fixture: &DeployedFixture) -> Uuid {
    let Deal { client, manager, .. } = fixture.deal;
    let (me, other) = (fixture.as_user(client), fixture.as_user(fixture.deal.agent()));
    let mut stream = Stream::request(&other, None).await;
    stream.next_of("ready").await;
    let messages = fixture.path("/messages");
    let sent = me.post(&messages, json!({"Text": MARKER, "ClientMessageId": guid()})).await.expect(201);
    assert_eq!(stream.next_of("message").await.data["Text"], MARKER);
    let target = format!("{messages}/{}", text(&sent["Id"]));
    me.put(&target, json!({"Text": format!("{MARKER} иначе")})).await.expect(200);
    me.post(CHATS, json!({"UserId": manager})).await.expect(201);
    for body in [
        json!({"Text": MARKER.repeat(1000)}),
        json!({"Text": format!("{MARKER}\0")}),
        json!({"Text": [MARKER]}),
        json!({"Text": MARKER, "ClientMessageId": MARKER}),
        json!([MARKER]),
    ] {
        for refused in [me.post(&messages, body.clone()).await, me.put(&target, edit_body(&body)).await] {
            assert_eq!(refused.status, 400, "{}", refused.text);
            assert!(!refused.text.contains(MARKER), "{}", refused.text);
        }
    }
    let truncated = me.request(Method::POST, &messages).header("content-type", "application/json");
    send(truncated.body(format!("{{\"Text\": \"{MARKER}"))).await.expect_problem(400, "VALIDATION_FAILED");
    // A statement that the database refuses with the whole row in its message.
    fixture
        .sql
        .batch_execute("alter table message add constraint refused check (false) not valid")
        .await
        .unwrap();
    let failed = me.post(&messages, json!({"Text": MARKER})).await;
    assert!(!failed.text.contains(MARKER), "{}", failed.text);
    failed.expect_problem(500, "INTERNAL_ERROR");
    fixture.sql.batch_execute("alter table message drop constraint refused").await.unwrap();
    me.delete(&target).await.expect(204);
    let malformed = with(fixture.deal.changed(2, MARKER, "Sale", None), "ChangedAt", MARKER);
    publish(&fixture.deal, STAGE_CHANGED, &malformed).await;

    let id = fixture.ring().await;
    for (caller, act) in [(&other, "join"), (&me, "media-token"), (&other, "leave")] {
        act_as(caller, id, act).await.expect(200);
    }
    let body = json!({
        "event": "participant_joined", "id": "EV_1", "createdAt": unix_seconds(0).to_string(), "room": {"name": id},
        "participant": {"sid": "PA_1", "identity": manager, "name": MARKER},
    });
    for (content, status) in [(body.to_string(), 200), (format!("{{\"{MARKER}\""), 400)] {
        let request = fixture.service.guest().request(Method::POST, WEBHOOK);
        let request = request.header("authorization", sign(content.as_bytes())).body(content);
        assert_eq!(send(request).await.status, status);
    }
    act_as(&me, id, "end").await.expect(200);
    id
}

/// Returns an invalid body of an edit: `body` itself, or another one if `body` has a
/// `ClientMessageId`, which an edit ignores.
fn edit_body(body: &Value) -> Value {
    if body["ClientMessageId"].is_null() { body.clone() } else { json!({"Text": {"x": MARKER}}) }
}

/// RULE-MSG-010, RULE-ALL-029: texts, tokens and secrets are in no log, span, metric, problem or
/// event. A token in a URL is ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_and_secrets_appear_only_in_their_chat() {
    let livekit = LiveKit::start();
    let fixture = DeployedFixture::start(&livekit, "debug").await;
    let id = exercise(&fixture).await;
    let token = testkit::service::issuer().token(&Claims::user(fixture.deal.client)).unwrap();
    for name in ["access_token", "token"] {
        let query = format!("/api/messenger/stream?{name}={token}");
        fixture.service.guest().get(&query).await.expect_problem(401, "UNAUTHORIZED");
    }
    let closed = || livekit.calls("DeleteRoom", &id.to_string());
    eventually("DeleteRoom", async || (!closed().is_empty()).then_some(())).await;

    let bus = service().bus();
    let mut events = bus.events_until(fixture.chat, MESSAGE_SENT).await;
    events.extend(bus.events_until(id, ENDED).await);
    for event in events {
        assert!(!event.payload.to_string().contains(MARKER) && !event.payload.to_string().contains("eyJ"));
    }
    // Every signed token begins with `eyJ`.
    let hidden = [MARKER, SECRET, "eyJ"];
    let find_hidden = |text: &str| hidden.iter().find(|hidden| text.contains(**hidden)).copied();
    let log = fixture.service.log();
    assert!(log.iter().any(|line| line["level"] == "ERROR"), "the failure is logged");
    for line in log {
        assert_eq!(find_hidden(&line.to_string()), None, "a line of the log: {line}");
    }
    let is_exported = async || fixture.service.collector.all().next().map(drop);
    eventually("spans", is_exported).await;
    for span in fixture.service.collector.all() {
        let shown = format!("{span:?}");
        assert_eq!(find_hidden(&shown), None, "a span: {shown}");
    }
    let metrics = fixture.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, find_hidden(&metrics.text)), (200, None));
    let stored = "select count(*) from message where text like '%' || $1 || '%'";
    let stored: i64 = fixture.sql.query_one(stored, &[&MARKER]).await.unwrap().get(0);
    assert_eq!(stored, 0, "a deleted text is erased");
}

/// RULE-MSG-051: an outage has one line at its beginning and one at its end, however many calls
/// wait. Each refusal of LiveKit has its own line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn livekit_outage_is_logged_once() {
    let livekit = LiveKit::start();
    livekit.proxy().refuse();
    let fixture = DeployedFixture::start(&livekit, "info").await;
    let me = fixture.as_user(fixture.deal.client);
    for _ in 0..3 {
        let id = fixture.ring().await;
        act_as(&me, id, &format!("participants/{}/remove", fixture.deal.agent())).await.expect(200);
        act_as(&me, id, "end").await.expect(200);
    }
    let failed = async || {
        let metrics = fixture.service.operator().get("/metrics").await.text;
        let mut lines = metrics.lines();
        let line =
            lines.find(|line| line.starts_with("jobs_failed_total") && line.contains("media-command"))?;
        line.rsplit(' ').next()?.parse::<u32>().ok().filter(|failed| *failed >= 12)
    };
    eventually("six commands to fail twice", failed).await;

    livekit.proxy().listen();
    let are_sent = async || {
        let left: i64 = fixture
            .sql
            .query_one("select count(*) from job where kind = 'media-command'", &[])
            .await
            .unwrap()
            .get(0);
        (left == 0).then_some(())
    };
    eventually("all commands", are_sent).await;
    let is_recovery = |line: &Value| line.to_string().contains("LiveKit became reachable again");
    let is_logged = async || fixture.lines("INFO").iter().any(is_recovery).then_some(());
    eventually("the line of the recovery", is_logged).await;
    // The log is in order, so all lines of the outage precede this line.
    let log = fixture.service.log();
    let (outage, rest) = log.split_at(log.iter().position(is_recovery).unwrap());
    let is_outage = |line: &&Value| {
        line["level"] == "WARN" && (line.to_string().contains("LiveKit") || line["job"] == "media-command")
    };
    assert_eq!(outage.iter().filter(is_outage).count(), 1, "{outage:?}");
    assert_eq!(rest.iter().filter(|line| is_recovery(line)).count(), 1, "{rest:?}");

    livekit.refuse(1, "DeleteRoom", 401, "unauthenticated");
    let id = fixture.ring().await;
    act_as(&me, id, "end").await.expect(200);
    let calls = || livekit.calls("DeleteRoom", &id.to_string());
    eventually("DeleteRoom", async || (calls().len() == 2).then_some(())).await;
    let refusals = || fixture.lines("WARN").into_iter().filter(|line| line["job"] == "media-command").count();
    eventually("the line of the refusal", async || (refusals() > 0).then_some(())).await;
    assert_eq!(refusals(), 1);
    assert_eq!(me.get(&format!("{CONFERENCES}/{id}")).await.expect(200)["Status"], "Ended");
}
