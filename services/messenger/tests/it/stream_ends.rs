//! Ends of streams, and streams on several replicas.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::access::losses::revoke;
use testkit::issuer::Claims;
use testkit::service::issuer;
use testkit::{eventually, guid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use uuid::Uuid;

use crate::media_service::replica;
use crate::stream_client::{STREAM, Stream};
use crate::{media_service, messages, open_chat, send_text, service};

/// Maximum wait for the end of a stream, much shorter than its longest time.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// RULE-MSG-027: a commit of any replica reaches every open stream.
#[tokio::test]
async fn stream_receives_commits_of_every_replica() {
    let (deal, id) = open_chat().await;
    let other = replica(&[]);
    let (mut there, ready) = Stream::open_at(&other, deal.client).await;
    assert_eq!((ready.name.as_str(), ready.id), ("ready", 1), "all replicas share the positions of a user");
    let mut here = Stream::open(deal.client).await;
    let sent = send_text(id, deal.agent(), "привет").await;
    for stream in [&mut there, &mut here] {
        let event = stream.next().await;
        assert_eq!((event.id, &event.data), (2, &sent));
    }
    let path = crate::path(id, "/messages");
    other.caller(&Claims::user(deal.agent())).post(&path, json!({"Text": "оттуда"})).await.expect(201);
    assert_eq!(here.next().await.data["Text"], "оттуда");
    assert_eq!(messages(id, deal.client).await.len(), 2);
}

/// RULE-MSG-028: a stream sends comments as heartbeats. A stream ends when its token expires, or
/// after its longest time.
#[tokio::test]
async fn stream_has_heartbeats_and_ends_by_time_and_token() {
    let other =
        replica(&[("MESSENGER_STREAM_HEARTBEAT_SECONDS", "1"), ("MESSENGER_STREAM_MAX_SECONDS", "3")]);
    let (mut stream, _) = Stream::open_at(&other, guid()).await;
    let began = Instant::now();
    assert!(stream.ends_within(END_TIMEOUT).await);
    assert!(began.elapsed().as_secs() >= 2, "{:?}", began.elapsed());
    assert!(stream.comments >= 1);

    let short = Claims { lifetime: time::Duration::seconds(2), ..Claims::user(guid()) };
    let mut stream = Stream::request(&service().caller(&short), None).await;
    assert!(stream.ends_within(END_TIMEOUT).await);
}

/// RULE-MSG-028: a stream without events and comments outlives the deadline of an idle connection.
#[tokio::test]
async fn silent_stream_is_no_idle_connection() {
    let (deal, id) = open_chat().await;
    let settings = [("HTTP_KEEP_ALIVE_SECONDS", "1"), ("MESSENGER_STREAM_HEARTBEAT_SECONDS", "600")];
    let other = replica(&settings);
    let (mut stream, _) = Stream::open_at(&other, deal.client).await;
    // An idle connection closes 20 s after its keep-alive time.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let sent = send_text(id, deal.agent(), "привет").await;
    assert_eq!(stream.next().await.data, sent);
}

/// RULE-MSG-028: streams that read missed events leave connections of the pool to requests.
#[tokio::test]
async fn resuming_streams_use_half_of_the_pool() {
    let own = media_service::start(media_service::livekit(), &[]);
    let sql = own.sql().await;
    let users: Vec<Uuid> = (0..4).map(|_| guid()).collect();
    for user in &users {
        let missed = format!(
            "insert into stream (user_id, last_event) values ('{user}', 1); \
             insert into stream_event (user_id, event, kind, chat_id, subject_id, at) \
             values ('{user}', 1, 'message', gen_random_uuid(), gen_random_uuid(), now())"
        );
        sql.batch_execute(&missed).await.unwrap();
    }
    let locker = testkit::database::connect(&own.database_url).await.unwrap();
    locker.batch_execute("begin; lock table messenger.message in access exclusive mode").await.unwrap();
    let mut streams = Vec::new();
    // Each of the four users opens five streams, the maximum.
    for user in users.iter().cycle().take(20) {
        streams.push(Stream::request(&own.caller(&Claims::user(*user)), Some("0".to_owned())).await);
    }
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
        and application_name = 'messenger' and datname = current_database()";
    let waiting = async || sql.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0);
    eventually("eight queries", async || (waiting().await >= 8).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(waiting().await, 8, "half of the default pool");
    locker.batch_execute("rollback").await.unwrap();
    for stream in &mut streams {
        assert_eq!(stream.next().await.name, "ready");
    }
}

/// RULE-MSG-078: a stream ends when the token of its caller is revoked, by the user or by the
/// company, and no other stream ends.
#[tokio::test]
async fn stream_ends_with_the_revocation_of_its_token() {
    let (deal, id) = open_chat().await;
    let (user, company) = (guid(), guid());
    let revoked = service().caller(&Claims::user(user));
    let mut of_user = Stream::request(&revoked, None).await;
    let mut of_company =
        Stream::request(&service().caller(&Claims::user(guid()).company(company)), None).await;
    let colleague = Claims::user(deal.client).company(guid());
    let mut other = Stream::request(&service().caller(&colleague), None).await;
    revoke(service(), "User", user, runtime::clock::now()).await;
    revoke(service(), "Company", company, runtime::clock::now()).await;
    for stream in [&mut of_user, &mut of_company] {
        assert!(stream.ends_within(END_TIMEOUT).await);
    }
    revoked.get(STREAM).await.expect_problem(401, "UNAUTHORIZED");
    send_text(id, deal.agent(), "а").await;
    assert_eq!(other.next_of("message").await.data["Text"], "а");
}

/// A text of 12 KB.
fn long_text() -> String {
    "漢".repeat(4000)
}

/// Opens a stream over a connection with a small buffer, which keeps few events in flight while the
/// test does not read. Returns the head of the response.
async fn open_slowly(user: Uuid, last: Option<i64>) -> (TcpStream, String) {
    let token = issuer().token(&Claims::user(user)).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = service().public_url().strip_prefix("http://").unwrap().to_owned();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
    let request = format!(
        "GET {STREAM} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n{last}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.unwrap()));
    }
    (stream, head)
}

/// Reads a stream until an event has the message with this sequence, and returns the message.
async fn read_message(stream: &mut TcpStream, sequence: i64) -> Value {
    let mut received = Vec::new();
    let read = async {
        loop {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "the stream ended");
            // An event is one chunk of the response, so the data of an event is one line.
            while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = received.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data: ") else { continue };
                let data: Value = serde_json::from_slice(data).unwrap();
                if data["Sequence"] == sequence {
                    return data;
                }
            }
        }
    };
    timeout(END_TIMEOUT, read).await.expect("the message")
}

/// RULE-MSG-028: a stream ends when too many events wait for its reader, who can resume. A quick
/// reader loses none.
#[tokio::test]
async fn slow_reader_is_disconnected_and_resumes() {
    const SENT: usize = 700;
    let (deal, id) = open_chat().await;
    let mut quick = Stream::open(deal.client).await;
    let (mut slow, _) = open_slowly(deal.client, None).await;
    let mut received = String::new();
    while !received.contains("event: ready") {
        received.push(char::from(slow.read_u8().await.unwrap()));
    }

    // 700 of these texts exceed every buffer of the connection.
    let text = long_text();
    let send = async {
        for _ in 0..SENT {
            send_text(id, deal.agent(), &text).await;
        }
    };
    let receive = async {
        for number in 1..=SENT {
            assert_eq!(quick.next_of("message").await.data["Sequence"], number);
        }
    };
    tokio::join!(send, receive);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The server resets the connection of a client that leaves the end of a stream unread for
    // seconds.
    let mut rest = Vec::new();
    let read = async { while !matches!(slow.read_buf(&mut rest).await, Ok(0) | Err(_)) {} };
    timeout(END_TIMEOUT, read).await.expect("the stream ends");
    let rest = String::from_utf8_lossy(&rest);
    let (whole, _) = rest.rsplit_once("\n\n").unwrap_or_default();
    let ids: Vec<i64> = whole.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert!(ids.len() < SENT, "{} of {SENT}", ids.len());
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "no event is missing before the end");
    let last = ids.last().copied().unwrap_or(1);
    let (mut again, ready) = Stream::resume(deal.client, last).await;
    assert_eq!(ready.data, json!({"Resumed": true}));
    assert_eq!(again.next().await.id, last + 1);
}

/// RULE-MSG-096: streams that a user leaves unread count until their connections are closed, also
/// those that have ended.
#[tokio::test]
async fn unread_streams_of_a_user_are_limited() {
    /// More than the five open streams and the five ended ones of which the readers read nothing.
    const MAX_ATTEMPTS: usize = 40;
    let (deal, id) = open_chat().await;
    let text = long_text();
    for _ in 0..40 {
        send_text(id, deal.agent(), &text).await;
    }
    let mut unread = Vec::new();
    let refused = loop {
        let (stream, head) = open_slowly(deal.client, Some(0)).await;
        if !head.starts_with("HTTP/1.1 200 ") {
            break head;
        }
        unread.push(stream);
        assert!(unread.len() < MAX_ATTEMPTS);
        // The missed events fill the buffers of the connection.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 30"), "{refused}");
    Stream::open(deal.agent()).await;

    drop(unread);
    let opened = async || {
        let (_, head) = open_slowly(deal.client, None).await;
        head.starts_with("HTTP/1.1 200 ").then_some(())
    };
    eventually("closed connections make room for another stream", opened).await;
}

/// RULE-MSG-026: a text that is deleted while its event waits for a slow reader is not sent.
#[tokio::test]
async fn text_that_is_deleted_behind_a_slow_reader_is_not_sent() {
    const SENT: i64 = 30;
    let (deal, id) = open_chat().await;
    let (mut live, _) = open_slowly(deal.client, None).await;
    let text = long_text();
    let mut last = Value::Null;
    for _ in 0..SENT {
        last = send_text(id, deal.agent(), &text).await;
    }
    let (mut behind, _) = open_slowly(deal.client, Some(0)).await;
    // By then both streams have filled the buffers of their connections.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let message = crate::path(id, &format!("/messages/{}", testkit::text(&last["Id"])));
    crate::as_user(deal.agent()).delete(&message).await.expect(204);
    // An event that waits for 5 s is read again before it is sent.
    tokio::time::sleep(Duration::from_secs(6)).await;

    for stream in [&mut live, &mut behind] {
        let message = read_message(stream, SENT).await;
        assert_eq!((&message["Id"], &message["Text"]), (&last["Id"], &Value::Null));
    }
}

/// RULE-MSG-028: a sixth stream of one user on a replica ends the oldest.
#[tokio::test]
async fn sixth_stream_ends_the_oldest() {
    let (deal, id) = open_chat().await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(Stream::open(deal.client).await);
    }
    assert!(streams[0].ends_within(END_TIMEOUT).await);
    send_text(id, deal.agent(), "а").await;
    for stream in &mut streams[1..] {
        assert_eq!(stream.next().await.name, "message");
    }
}

/// RULE-MSG-028: open streams do not count as in-flight requests, and end with the process.
#[tokio::test]
async fn open_streams_are_not_in_flight_requests_and_end_at_shutdown() {
    let other = replica(&[("HTTP_MAX_REQUESTS_UNDER_WAY", "2")]);
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(Stream::open_at(&other, guid()).await.0);
    }
    let user = guid();
    other.caller(&Claims::user(user)).get("/api/messenger/unread").await.expect(200);
    other.process.stop();
    for stream in &mut streams {
        assert!(stream.ends_within(END_TIMEOUT).await);
    }
}

/// RULE-MSG-028, RULE-ALL-016: `HEAD` returns the headers of `GET` and ends without a body.
#[tokio::test]
async fn head_of_a_stream_ends_at_once() {
    let token = issuer().token(&Claims::user(guid())).unwrap();
    let address = service().public_url().strip_prefix("http://").unwrap().to_owned();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "HEAD {STREAM} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    let read = connection.read_to_string(&mut response);
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("text/event-stream") && response.ends_with("\r\n\r\n"), "{response}");
}
