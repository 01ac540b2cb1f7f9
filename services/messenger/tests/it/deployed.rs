//! The service as it is deployed: what its log, its spans, its metrics and its events say, and what not.

use messenger::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::begin_now;
use testkit::client::{Client, send};
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use testkit::livekit::{LiveKit, SECRET, sign};
use testkit::{database, eventually, guid, text};
use uuid::Uuid;

use crate::calls::{CONFERENCES, ENDED, WEBHOOK, act_as, seconds};
use crate::streams::Stream;
use crate::{CHATS, DEAL_CREATED, Deal, MESSAGE_SENT, STAGE_CHANGED, id_of, next, path, service, with};

/// A deal's chat, in a process of its own.
struct Watched {
    service: Deployed,
    sql: tokio_postgres::Client,
    deal: Deal,
    chat: Uuid,
}

impl Watched {
    async fn start(livekit: &LiveKit, log: &str) -> Self {
        let url = database::create().await.unwrap();
        let suffix = format!(".{}", guid().simple());
        begin_now::<Service>(&suffix).await.unwrap();
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
        let watched = Self { service, sql, deal, chat: Uuid::nil() };
        let ask = async || {
            let page =
                watched.person(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        let chat = eventually("the chat", ask).await;
        Self { chat, ..watched }
    }

    fn person(&self, user: Uuid) -> Client {
        self.service.caller(&Claims::user(user))
    }

    fn path(&self, below: &str) -> String {
        path(self.chat, below)
    }

    /// A call of the client's.
    async fn ring(&self) -> Uuid {
        let (client, conferences) = (self.person(self.deal.client), self.path("/conferences"));
        id_of(&client.post(&conferences, json!({"Media": "Video"})).await.expect(201)["Id"])
    }

    /// Lines of the log with this level.
    fn lines(&self, level: &str) -> Vec<Value> {
        self.service.log().into_iter().filter(|line| line["level"] == level).collect()
    }
}

async fn publish(deal: &Deal, topic: &str, told: &Value) {
    service().bus().publish(topic, deal.id, next(), told).await;
}

/// Everything that is written, in whatever way, has this in it.
const MARK: &str = "меченое";

/// Writes, edits, deletes, calls, and fails in every way.
async fn drive(watched: &Watched) -> Uuid {
    let Deal { client, manager, .. } = watched.deal;
    let (me, other) = (watched.person(client), watched.person(watched.deal.agent()));
    let mut stream = Stream::ask(&other, None).await;
    stream.next_of("ready").await;
    let messages = watched.path("/messages");
    let said = me.post(&messages, json!({"Text": MARK, "ClientMessageId": guid()})).await.expect(201);
    assert_eq!(stream.next_of("message").await.data["Text"], MARK);
    let place = format!("{messages}/{}", text(&said["Id"]));
    me.put(&place, json!({"Text": format!("{MARK} иначе")})).await.expect(200);
    me.post(CHATS, json!({"UserId": manager})).await.expect(201);
    for body in [
        json!({"Text": MARK.repeat(1000)}),
        json!({"Text": format!("{MARK}\0")}),
        json!({"Text": [MARK]}),
        json!({"Text": MARK, "ClientMessageId": MARK}),
        json!([MARK]),
    ] {
        for refused in [me.post(&messages, body.clone()).await, me.put(&place, with_text(&body)).await] {
            assert_eq!(refused.status, 400, "{}", refused.text);
            assert!(!refused.text.contains(MARK), "{}", refused.text);
        }
    }
    let torn = me.request(Method::POST, &messages).header("content-type", "application/json");
    send(torn.body(format!("{{\"Text\": \"{MARK}"))).await.expect_problem(400, "VALIDATION_FAILED");
    // A statement that the database refuses, of which it tells the whole row.
    watched
        .sql
        .batch_execute("alter table message add constraint refused check (false) not valid")
        .await
        .unwrap();
    let failed = me.post(&messages, json!({"Text": MARK})).await;
    assert!(!failed.text.contains(MARK), "{}", failed.text);
    failed.expect_problem(500, "INTERNAL_ERROR");
    watched.sql.batch_execute("alter table message drop constraint refused").await.unwrap();
    me.delete(&place).await.expect(204);
    let garbled = with(watched.deal.changed(2, MARK, "Sale", None), "ChangedAt", MARK);
    publish(&watched.deal, STAGE_CHANGED, &garbled).await;

    let id = watched.ring().await;
    for (caller, act) in [(&other, "join"), (&me, "media-token"), (&other, "leave")] {
        act_as(caller, id, act).await.expect(200);
    }
    let body = json!({
        "event": "participant_joined", "id": "EV_1", "createdAt": seconds(0).to_string(), "room": {"name": id},
        "participant": {"sid": "PA_1", "identity": manager, "name": MARK},
    });
    for (told, status) in [(body.to_string(), 200), (format!("{{\"{MARK}\""), 400)] {
        let request = watched.service.guest().request(Method::POST, WEBHOOK);
        let request = request.header("authorization", sign(told.as_bytes())).body(told);
        assert_eq!(send(request).await.status, status);
    }
    act_as(&me, id, "end").await.expect(200);
    id
}

/// A body of a new message as that of an edit: with nothing that would be passed over.
fn with_text(body: &Value) -> Value {
    if body["ClientMessageId"].is_null() { body.clone() } else { json!({"Text": {"x": MARK}}) }
}

/// Section 8, privacy: texts, tokens and secrets are in no log, span, metric, problem or event; tokens are not taken from a URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_is_nowhere_but_in_its_chat() {
    let livekit = LiveKit::start();
    let watched = Watched::start(&livekit, "debug").await;
    let id = drive(&watched).await;
    let token = testkit::service::issuer().token(&Claims::user(watched.deal.client)).unwrap();
    for name in ["access_token", "token"] {
        let query = format!("/api/messenger/stream?{name}={token}");
        watched.service.guest().get(&query).await.expect_problem(401, "UNAUTHORIZED");
    }
    let closed = || livekit.calls("DeleteRoom", &id.to_string());
    eventually("DeleteRoom", async || (!closed().is_empty()).then_some(())).await;

    let bus = service().bus();
    let mut told = bus.events_until(watched.chat, MESSAGE_SENT).await;
    told.extend(bus.events_until(id, ENDED).await);
    for event in told {
        assert!(!event.payload.to_string().contains(MARK) && !event.payload.to_string().contains("eyJ"));
    }
    // What is signed begins like this.
    let hidden = [MARK, SECRET, "eyJ"];
    let found = |text: &str| hidden.iter().find(|hidden| text.contains(**hidden)).copied();
    let log = watched.service.log();
    assert!(log.iter().any(|line| line["level"] == "ERROR"), "the failure is logged");
    for line in log {
        assert_eq!(found(&line.to_string()), None, "a line of the log: {line}");
    }
    let is_exported = async || watched.service.collector.all().next().map(drop);
    eventually("spans", is_exported).await;
    for span in watched.service.collector.all() {
        let shown = format!("{span:?}");
        assert_eq!(found(&shown), None, "a span: {shown}");
    }
    let metrics = watched.service.operator().get("/metrics").await;
    assert_eq!((metrics.status, found(&metrics.text)), (200, None));
    let kept = "select count(*) from message where text like '%' || $1 || '%'";
    let kept: i64 = watched.sql.query_one(kept, &[&MARK]).await.unwrap().get(0);
    assert_eq!(kept, 0, "what was deleted is erased");
}

/// Section 5: the log has one line when LiveKit goes away, however many calls wait for it, and one when it is back. A refusal
/// by LiveKit has its own line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_livekit_is_logged_once() {
    let livekit = LiveKit::start();
    livekit.faults().refuse();
    let watched = Watched::start(&livekit, "info").await;
    let me = watched.person(watched.deal.client);
    for _ in 0..3 {
        let id = watched.ring().await;
        act_as(&me, id, &format!("participants/{}/remove", watched.deal.agent())).await.expect(200);
        act_as(&me, id, "end").await.expect(200);
    }
    let failed = async || {
        let metrics = watched.service.operator().get("/metrics").await.text;
        let mut lines = metrics.lines();
        let line =
            lines.find(|line| line.starts_with("jobs_failed_total") && line.contains("media-order"))?;
        line.rsplit(' ').next()?.parse::<u32>().ok().filter(|failed| *failed >= 12)
    };
    eventually("six orders to fail twice", failed).await;

    livekit.faults().listen();
    let are_sent = async || {
        let left: i64 = watched
            .sql
            .query_one("select count(*) from job where kind = 'media-order'", &[])
            .await
            .unwrap()
            .get(0);
        (left == 0).then_some(())
    };
    eventually("all orders", are_sent).await;
    let is_back = |line: &Value| line.to_string().contains("LiveKit takes calls again");
    let is_logged = async || watched.lines("INFO").iter().any(is_back).then_some(());
    eventually("the line of the return", is_logged).await;
    // The log is in order: before this line are all lines of the outage.
    let log = watched.service.log();
    let (outage, rest) = log.split_at(log.iter().position(is_back).unwrap());
    let is_away = |line: &&Value| {
        line["level"] == "WARN" && (line.to_string().contains("LiveKit") || line["job"] == "media-order")
    };
    assert_eq!(outage.iter().filter(is_away).count(), 1, "{outage:?}");
    assert_eq!(rest.iter().filter(|line| is_back(line)).count(), 1, "{rest:?}");

    livekit.refuse(1, "DeleteRoom", 401, "unauthenticated");
    let id = watched.ring().await;
    act_as(&me, id, "end").await.expect(200);
    let calls = || livekit.calls("DeleteRoom", &id.to_string());
    eventually("DeleteRoom", async || (calls().len() == 2).then_some(())).await;
    let refusals = || watched.lines("WARN").into_iter().filter(|line| line["job"] == "media-order").count();
    eventually("the line of the refusal", async || (refusals() > 0).then_some(())).await;
    assert_eq!(refusals(), 1);
    assert_eq!(me.get(&format!("{CONFERENCES}/{id}")).await.expect(200)["Status"], "Ended");
}
