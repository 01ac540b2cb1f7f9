//! Wake-ups of streams between replicas.

use std::time::Duration;

use testkit::eventually;
use tokio::time::timeout;
use uuid::Uuid;

use crate::media_service::replica;
use crate::stream_client::{Event, Stream};
use crate::{open_chat, send_text, service};

/// A poll interval that no test reaches, so that streams depend on wake-ups.
const NO_POLL: (&str, &str) = ("MESSENGER_STREAM_POLL_MS", "3600000");
/// Time in which a replica connects for wake-ups after its start or after a lost connection. The
/// replica misses the wake-ups of this time.
const RECONNECT_TIME: Duration = Duration::from_secs(3);

/// Sends messages at the shared service until the stream receives an event. Returns the first
/// event and the number of messages.
async fn send_until_received(chat: Uuid, author: Uuid, stream: &mut Stream) -> (Event, usize) {
    for sent in 1..20 {
        send_text(chat, author, "привет").await;
        if let Ok(event) = timeout(RECONNECT_TIME, stream.next()).await {
            return (event, sent);
        }
    }
    panic!("no wake-up arrives");
}

/// RULE-MSG-027: a commit wakes the streams of another replica, which does not poll. After the
/// connection of the wake-ups broke, the stream receives every event.
#[tokio::test]
async fn commit_wakes_streams_of_another_replica() {
    let (deal, id) = open_chat().await;
    let other = replica(&[NO_POLL]);
    let (mut stream, ready) = Stream::open_at(&other, deal.client).await;
    let (event, sent) = send_until_received(id, deal.agent(), &mut stream).await;
    assert_eq!((event.name.as_str(), event.id), ("message", ready.id + 1));
    let mut last = ready.id + i64::try_from(sent).unwrap();
    for expected in event.id + 1..=last {
        assert_eq!(stream.next().await.id, expected);
    }

    let sql = other.sql().await;
    // The last query of the connection is a wake-up if the replica has changed chats since then.
    let end_listeners = "select pg_terminate_backend(pid) from pg_stat_activity \
                     where datname = current_database() and query ~ '^(listen|select pg_notify)'";
    eventually("the end of the connection", async || {
        (sql.execute(end_listeners, &[]).await.unwrap() >= 1).then_some(())
    })
    .await;
    let (event, sent) = send_until_received(id, deal.agent(), &mut stream).await;
    assert_eq!(event.id, last + 1);
    last += i64::try_from(sent).unwrap();
    for expected in event.id + 1..=last {
        assert_eq!(stream.next().await.id, expected);
    }
}

/// RULE-MSG-027: a poll finds the events of a process that ended between commit and wake-up.
#[tokio::test]
async fn poll_finds_events_without_a_wake_up() {
    let (deal, id) = open_chat().await;
    let mut stream = Stream::open(deal.client).await;
    let sent = send_text(id, deal.agent(), "привет").await;
    let first = stream.next().await;
    assert_eq!(first.data, sent);
    let append = format!(
        "with next as (\
             update stream set last_event = last_event + 1 where user_id = '{}' returning user_id, last_event\
         ) \
         insert into stream_event (user_id, event, kind, chat_id, subject_id, at) \
         select user_id, last_event, kind, chat_id, subject_id, now() \
         from next join stream_event using (user_id) where event = last_event - 1",
        deal.client
    );
    service().sql().await.batch_execute(&append).await.unwrap();
    let second = stream.next().await;
    assert_eq!((second.id, second.data), (first.id + 1, sent));
}
