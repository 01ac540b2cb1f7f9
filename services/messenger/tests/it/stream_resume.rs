//! Resuming of streams.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{eventually, guid, text};

use crate::stream_client::Stream;
use crate::{Deal, add, as_user, each, id_of, open_chat, path, remove, send_text, service};

/// Time without an event after which a test expects no further one.
const QUIET_PERIOD: Duration = Duration::from_millis(1500);

/// RULE-MSG-024: `Last-Event-ID: n` sends the events after n, and then continues live.
#[tokio::test]
async fn stream_resumes_after_the_last_event_id() {
    let (deal, id) = open_chat().await;
    let mut stream = Stream::open(deal.client).await;
    let first = send_text(id, deal.client, "1").await;
    let event = stream.next().await;
    assert_eq!(event.data, first);
    drop(stream);
    for content in ["2", "3"] {
        send_text(id, deal.agent(), content).await;
    }
    let (mut again, ready) = Stream::resume(deal.client, event.id).await;
    assert_eq!((ready.name.as_str(), ready.id, &ready.data), ("ready", event.id, &json!({"Resumed": true})));
    for (content, number) in [("2", 1), ("3", 2)] {
        let missed = again.next().await;
        assert_eq!((&missed.data["Text"], missed.id), (&json!(content), event.id + number));
    }
    send_text(id, deal.agent(), "4").await;
    assert_eq!(again.next().await.data["Text"], "4");
    // The id of `ready` and position 0 can be resumed too.
    let (mut from_ready, _) = Stream::resume(deal.client, ready.id).await;
    assert_eq!(from_ready.next().await.data["Text"], "2");
    let (mut all, ready) = Stream::resume(deal.client, 0).await;
    assert_eq!(ready.data, json!({"Resumed": true}));
    assert_eq!(all.next().await.name, "chat");
}

/// RULE-MSG-024: an unknown or malformed position gets `reset`, whose id is the present position.
#[tokio::test]
async fn unknown_position_is_reset() {
    let (deal, id) = open_chat().await;
    send_text(id, deal.client, "1").await;
    let greatest = ["9223372036854775806", "9223372036854775807", "9223372036854775808"];
    for requested in ["3", "-1", "1.0", "+1", " ", "0x1"].into_iter().chain(greatest) {
        let (_, reset) = Stream::resume(deal.client, requested).await;
        assert_eq!((reset.name.as_str(), reset.id, &reset.data), ("reset", 2, &json!({})), "{requested}");
    }
    let (mut stream, reset) = Stream::resume(deal.client, "x").await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 2));
    send_text(id, deal.client, "2").await;
    assert_eq!(stream.next().await.id, 3, "the stream continues live");
    let (_, ready) = Stream::resume(deal.client, reset.id).await;
    assert_eq!((ready.name.as_str(), ready.id), ("ready", 2));
}

/// RULE-MSG-024: a user without events is at position 0.
#[tokio::test]
async fn user_without_events_starts_at_zero() {
    let user = guid();
    let mut stream = Stream::request(&as_user(user), None).await;
    assert_eq!(stream.next().await.id, 0);
    let (_, ready) = Stream::resume(user, 0).await;
    assert_eq!((ready.name.as_str(), &ready.data), ("ready", &json!({"Resumed": true})));
    let (_, reset) = Stream::resume(user, 1).await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 0));
}

/// RULE-MSG-026: a stream never sends a deleted text or a chat that the user has left.
#[tokio::test]
async fn content_is_read_at_the_moment_of_sending() {
    let (deal, id) = open_chat().await;
    let user = guid();
    add(&deal, id, user).await.expect(204);
    let secret = send_text(id, deal.client, "секрет").await;
    let target = path(id, &format!("/messages/{}", text(&secret["Id"])));
    as_user(deal.client).put(&target, json!({"Text": "иначе"})).await.expect(200);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    let texts: Vec<_> =
        events.iter().filter(|event| event.name == "message").map(|event| &event.data["Text"]).collect();
    // The card of the addition has no text. The events of the sending and of the edit both have the
    // present text.
    assert_eq!(texts, [&Value::Null, &json!("иначе"), &json!("иначе")]);
    as_user(deal.client).delete(&target).await.expect(204);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    assert!(!events.iter().any(|event| event.data.to_string().contains("иначе")), "{events:?}");

    remove(&deal, id, user).await.expect(204);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((events[0].name.as_str(), &events[0].data), ("chat-removed", &json!({"ChatId": id})));
}

/// RULE-MSG-025: the last 1,000 events of a user are stored for 24 h. An older position
/// gets `reset`.
#[tokio::test]
async fn deleted_position_is_reset() {
    let (deal, id) = open_chat().await;
    let sql = service().sql().await;
    // Adds 998 events to the one of the chat.
    let fill = "with numbered as (update stream set last_event = 999 where user_id = $1::text::uuid returning user_id) \
        insert into stream_event (user_id, event, kind, chat_id, at) \
        select user_id, n, 'chat-removed', gen_random_uuid(), now() from numbered, generate_series(2, 999) as n";
    sql.execute(fill, &[&deal.client.to_string()]).await.unwrap();
    let (mut all, ready) = Stream::resume(deal.client, 0).await;
    assert_eq!(ready.name, "ready");
    assert_eq!(all.read_until_quiet(QUIET_PERIOD).await.len(), 999, "every stored event is sent");
    send_text(id, deal.client, "тысяча").await;
    send_text(id, deal.client, "и одно").await;
    let (_, reset) = Stream::resume(deal.client, 0).await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 1001));
    let (mut stream, ready) = Stream::resume(deal.client, 1).await;
    assert_eq!(ready.name, "ready");
    assert_eq!(stream.read_until_quiet(QUIET_PERIOD).await.len(), 1000);
    let stored = "select count(*) from stream_event where user_id = $1::text::uuid";
    let stored = sql.query_one(stored, &[&deal.client.to_string()]).await.unwrap();
    assert_eq!(stored.get::<_, i64>(0), 1000);

    let age = "update stream_event set at = at - interval '25 hours' where user_id = $1::text::uuid and event <= 900";
    sql.execute(age, &[&deal.client.to_string()]).await.unwrap();
    let (_, reset) = Stream::resume(deal.client, 899).await;
    assert_eq!(reset.name, "reset");
    let (_, ready) = Stream::resume(deal.client, 900).await;
    assert_eq!(ready.name, "ready");
    // The job deletes expired events.
    sql.execute("update job set due_at = now() where kind = 'stream-retention'", &[]).await.unwrap();
    let deleted = async || {
        let left = "select min(event) from stream_event where user_id = $1::text::uuid";
        let row = sql.query_one(left, &[&deal.client.to_string()]).await.unwrap();
        (row.get::<_, Option<i64>>(0) == Some(901)).then_some(())
    };
    eventually("the deletion of old events", deleted).await;
    let (_, ready) = Stream::resume(deal.client, 1001).await;
    assert_eq!(ready.name, "ready", "the newest position can always be resumed");
}

/// RULE-MSG-009: a deferred change whose deal stays unknown is deleted after 30 days.
#[tokio::test]
async fn deferred_change_is_deleted_after_thirty_days() {
    let sql = service().sql().await;
    let (old, young) = (Deal::new(), Deal::new());
    for deal in [old, young] {
        deal.publish(crate::STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    }
    let deferred = async |deal: Deal| {
        let row = sql
            .query_one("select count(*) from deferred_message where entity = $1", &[&deal.id.to_string()])
            .await;
        row.unwrap().get::<_, i64>(0)
    };
    let both = async || (deferred(old).await + deferred(young).await == 2).then_some(());
    eventually("both deferred changes", both).await;
    for (deal, days) in [(old, "30 days 1 second"), (young, "29 days 23 hours")] {
        let age = format!(
            "update deferred_message set deferred_at = deferred_at - interval '{days}' where entity = $1"
        );
        sql.execute(&age, &[&deal.id.to_string()]).await.unwrap();
    }
    sql.execute("update job set due_at = now() where kind = 'deferred-change-retention'", &[]).await.unwrap();
    eventually("the deletion of the old change", async || (deferred(old).await == 0).then_some(())).await;
    assert_eq!(deferred(young).await, 1);
}

/// RULE-MSG-024: a reader who reconnects during concurrent sends misses no event.
#[tokio::test]
async fn resumed_stream_misses_no_event() {
    let (deal, id) = open_chat().await;
    let writing = async {
        for at in 0..60 {
            send_text(id, [deal.client, deal.manager][at % 2], &at.to_string()).await;
        }
    };
    let reading = async {
        let (mut seen, mut last) = (Vec::new(), 1);
        while seen.len() < 60 {
            let (mut stream, ready) = Stream::resume(deal.agent(), last).await;
            assert_eq!(ready.name, "ready");
            for _ in 0..7.min(60 - seen.len()) {
                let event = stream.next().await;
                assert_eq!(event.id, last + 1, "positions have no gap");
                last = event.id;
                seen.push(event.data["Id"].clone());
            }
        }
        seen
    };
    let ((), seen) = futures_util::future::join(writing, reading).await;
    let all = crate::messages(id, deal.client).await;
    assert_eq!(
        seen.iter().map(id_of).collect::<Vec<_>>(),
        each(&all, "Id").into_iter().map(id_of).collect::<Vec<_>>()
    );
}
