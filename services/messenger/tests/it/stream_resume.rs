//! Going on where a stream has ended.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{eventually, guid, text};

use crate::streams::Stream;
use crate::{Deal, add, each, id_of, open_chat, path, person, remove, say, service};

const SILENCE: Duration = Duration::from_millis(1500);

/// Section 6: `Last-Event-ID: n` gives what came after n, then goes on live.
#[tokio::test]
async fn a_stream_goes_on_after_an_event() {
    let (deal, id) = open_chat().await;
    let mut stream = Stream::open(deal.client).await;
    let first = say(id, deal.client, "1").await;
    let told = stream.next().await;
    assert_eq!(told.data, first);
    drop(stream);
    for said in ["2", "3"] {
        say(id, deal.agent(), said).await;
    }
    let (mut again, ready) = Stream::resume(deal.client, told.id).await;
    assert_eq!((ready.name.as_str(), ready.id, &ready.data), ("ready", told.id, &json!({"Resumed": true})));
    for (said, number) in [("2", 1), ("3", 2)] {
        let missed = again.next().await;
        assert_eq!((&missed.data["Text"], missed.id), (&json!(said), told.id + number));
    }
    say(id, deal.agent(), "4").await;
    assert_eq!(again.next().await.data["Text"], "4");
    // From where `ready` stands, too, and from the very beginning.
    let (mut from_ready, _) = Stream::resume(deal.client, ready.id).await;
    assert_eq!(from_ready.next().await.data["Text"], "2");
    let (mut all, ready) = Stream::resume(deal.client, 0).await;
    assert_eq!(ready.data, json!({"Resumed": true}));
    assert_eq!(all.next().await.name, "chat");
}

/// Section 6: reset if the asked position was never given or is no number; its id is where it goes on.
#[tokio::test]
async fn a_position_that_was_never_given_is_reset() {
    let (deal, id) = open_chat().await;
    say(id, deal.client, "1").await;
    for asked in ["3", "-1", "1.0", "+1", " ", "9223372036854775808", "0x1"] {
        let (_, reset) = Stream::resume(deal.client, asked).await;
        assert_eq!((reset.name.as_str(), reset.id, &reset.data), ("reset", 2, &json!({})), "{asked}");
    }
    let (mut stream, reset) = Stream::resume(deal.client, "x").await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 2));
    say(id, deal.client, "2").await;
    assert_eq!(stream.next().await.id, 3, "it goes on live");
    let (_, ready) = Stream::resume(deal.client, reset.id).await;
    assert_eq!((ready.name.as_str(), ready.id), ("ready", 2));
}

/// Section 6: somebody who was never told anything is at 0.
#[tokio::test]
async fn a_person_without_events_is_at_the_beginning() {
    let user = guid();
    let mut stream = Stream::ask(&person(user), None).await;
    assert_eq!(stream.next().await.id, 0);
    let (_, ready) = Stream::resume(user, 0).await;
    assert_eq!((ready.name.as_str(), &ready.data), ("ready", &json!({"Resumed": true})));
    let (_, reset) = Stream::resume(user, 1).await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 0));
}

/// Section 6: kept are references: neither a deleted text nor a chat that one has left comes out of it.
#[tokio::test]
async fn what_is_sent_is_read_at_that_moment() {
    let (deal, id) = open_chat().await;
    let user = guid();
    add(&deal, id, user).await.expect(204);
    let secret = say(id, deal.client, "секрет").await;
    let place = path(id, &format!("/messages/{}", text(&secret["Id"])));
    person(deal.client).put(&place, json!({"Text": "иначе"})).await.expect(200);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let told = stream.rest(SILENCE).await;
    let texts: Vec<_> =
        told.iter().filter(|event| event.name == "message").map(|event| &event.data["Text"]).collect();
    assert_eq!(texts, [&Value::Null, &json!("иначе"), &json!("иначе")]);
    person(deal.client).delete(&place).await.expect(204);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let told = stream.rest(SILENCE).await;
    assert!(!told.iter().any(|event| event.data.to_string().contains("иначе")), "{told:?}");

    remove(&deal, id, user).await.expect(204);
    let (mut stream, _) = Stream::resume(user, 0).await;
    let told = stream.rest(SILENCE).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].name.as_str(), &told[0].data), ("chat-removed", &json!({"ChatId": id})));
}

/// Section 6: kept are the last 1,000 of a person, for 24 h.
#[tokio::test]
async fn what_is_not_kept_is_reset() {
    let (deal, id) = open_chat().await;
    let sql = service().sql().await;
    // As if nine hundred and ninety-eight had come beside the chat's own.
    let fill = "with told as (update stream set last_event = 999 where user_id = $1::text::uuid returning user_id) \
        insert into stream_event (user_id, event, kind, chat_id, at) \
        select user_id, n, 'chat-removed', gen_random_uuid(), now() from told, generate_series(2, 999) as n";
    sql.execute(fill, &[&deal.client.to_string()]).await.unwrap();
    let (mut all, ready) = Stream::resume(deal.client, 0).await;
    assert_eq!(ready.name, "ready");
    assert_eq!(all.rest(SILENCE).await.len(), 999, "a reader who keeps up loses none");
    say(id, deal.client, "тысяча").await;
    say(id, deal.client, "и одно").await;
    let (_, reset) = Stream::resume(deal.client, 0).await;
    assert_eq!((reset.name.as_str(), reset.id), ("reset", 1001));
    let (mut stream, ready) = Stream::resume(deal.client, 1).await;
    assert_eq!(ready.name, "ready");
    assert_eq!(stream.rest(SILENCE).await.len(), 1000);
    let kept = "select count(*) from stream_event where user_id = $1::text::uuid";
    let kept = sql.query_one(kept, &[&deal.client.to_string()]).await.unwrap();
    assert_eq!(kept.get::<_, i64>(0), 1000);

    let age = "update stream_event set at = at - interval '25 hours' where user_id = $1::text::uuid and event <= 900";
    sql.execute(age, &[&deal.client.to_string()]).await.unwrap();
    let (_, reset) = Stream::resume(deal.client, 899).await;
    assert_eq!(reset.name, "reset");
    let (_, ready) = Stream::resume(deal.client, 900).await;
    assert_eq!(ready.name, "ready");
    // The job forgets them.
    sql.execute("update job set due_at = now() where kind = 'stream-retention'", &[]).await.unwrap();
    let forgotten = async || {
        let left = "select min(event) from stream_event where user_id = $1::text::uuid";
        let row = sql.query_one(left, &[&deal.client.to_string()]).await.unwrap();
        (row.get::<_, Option<i64>>(0) == Some(901)).then_some(())
    };
    eventually("what is old", forgotten).await;
    let (_, ready) = Stream::resume(deal.client, 1001).await;
    assert_eq!(ready.name, "ready", "nothing came after it");
}

/// Section 3: what no deal came for is forgotten after 30 days.
#[tokio::test]
async fn what_waits_for_a_deal_is_forgotten_after_thirty_days() {
    let sql = service().sql().await;
    let (old, young) = (Deal::new(), Deal::new());
    for deal in [old, young] {
        deal.tell(crate::STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    }
    let kept = async |deal: Deal| {
        let row = sql
            .query_one("select count(*) from thing_waiting where thing = $1", &[&deal.id.to_string()])
            .await;
        row.unwrap().get::<_, i64>(0)
    };
    eventually("what waits", async || (kept(old).await + kept(young).await == 2).then_some(())).await;
    for (deal, days) in [(old, "30 days 1 second"), (young, "29 days 23 hours")] {
        let age = format!("update thing_waiting set kept_at = kept_at - interval '{days}' where thing = $1");
        sql.execute(&age, &[&deal.id.to_string()]).await.unwrap();
    }
    sql.execute("update job set due_at = now() where kind = 'kept-deal-retention'", &[]).await.unwrap();
    eventually("the old one's end", async || (kept(old).await == 0).then_some(())).await;
    assert_eq!(kept(young).await, 1);
}

/// Section 6: at least once and in order of commits: nothing of a crowd is missed by a reader who goes away and comes back.
#[tokio::test]
async fn nothing_is_missed_between_two_streams() {
    let (deal, id) = open_chat().await;
    let writing = async {
        for at in 0..60 {
            say(id, [deal.client, deal.manager][at % 2], &at.to_string()).await;
        }
    };
    let reading = async {
        let (mut seen, mut last) = (Vec::new(), 1);
        while seen.len() < 60 {
            let (mut stream, ready) = Stream::resume(deal.agent(), last).await;
            assert_eq!(ready.name, "ready");
            for _ in 0..7.min(60 - seen.len()) {
                let event = stream.next().await;
                assert_eq!(event.id, last + 1, "no gap: nobody has left");
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
