//! How long streams last, and on how many replicas.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::guid;
use testkit::issuer::Claims;
use testkit::service::{Running, issuer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::streams::{STREAM, Stream};
use crate::{calls, messages, open_chat, say, service};

/// Far less than how long a stream may last.
const PATIENCE: Duration = Duration::from_secs(30);

/// Another replica of the service that most tests share, on its database.
fn replica(settings: &[(&str, &str)]) -> Running {
    let url = service().database_url.clone();
    let all: Vec<_> = settings.iter().copied().chain([("DATABASE_URL", url.as_str())]).collect();
    calls::start(calls::livekit(), &all)
}

/// Section 6: what any replica commits is on every open stream within 1 s.
#[tokio::test]
async fn every_replica_tells_what_any_commits() {
    let (deal, id) = open_chat().await;
    let other = replica(&[]);
    let (mut there, ready) = Stream::at(&other, deal.client).await;
    assert_eq!(
        (ready.name.as_str(), ready.id),
        ("ready", 1),
        "positions are the person's, not the replica's"
    );
    let mut here = Stream::open(deal.client).await;
    let sent = say(id, deal.agent(), "привет").await;
    for stream in [&mut there, &mut here] {
        let told = stream.next().await;
        assert_eq!((told.id, &told.data), (2, &sent));
    }
    let path = crate::path(id, "/messages");
    other.caller(&Claims::user(deal.agent())).post(&path, json!({"Text": "оттуда"})).await.expect(201);
    assert_eq!(here.next().await.data["Text"], "оттуда");
    assert_eq!(messages(id, deal.client).await.len(), 2);
}

/// Section 6: a comment every so often; a stream ends with its token, and after its longest time.
#[tokio::test]
async fn a_stream_lives_and_ends_in_time() {
    let other =
        replica(&[("MESSENGER_STREAM_HEARTBEAT_SECONDS", "1"), ("MESSENGER_STREAM_MAX_SECONDS", "3")]);
    let (mut stream, _) = Stream::at(&other, guid()).await;
    let began = Instant::now();
    assert!(stream.ends_within(PATIENCE).await);
    assert!(began.elapsed().as_secs() >= 2, "{:?}", began.elapsed());
    assert!(stream.comments >= 1);

    let short = Claims { lifetime: time::Duration::seconds(2), ..Claims::user(guid()) };
    let mut stream = Stream::ask(&service().caller(&short), None).await;
    assert!(stream.ends_within(PATIENCE).await);
}

/// Section 6: a stream ends when 256 events wait for a slow reader, who may come again for the rest; a quick one loses none.
#[tokio::test]
async fn who_reads_too_slowly_is_let_go_and_comes_again() {
    const SENT: usize = 700;
    let (deal, id) = open_chat().await;
    let mut quick = Stream::open(deal.client).await;
    let token = issuer().token(&Claims::user(deal.client)).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    // Little is on its way while nobody reads.
    socket.set_recv_buffer_size(4096).unwrap();
    let address = service().public_url().strip_prefix("http://").unwrap().to_owned();
    let mut slow = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!(
        "GET {STREAM} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut came = String::new();
    while !came.contains("event: ready") {
        came.push(char::from(slow.read_u8().await.unwrap()));
    }

    // Each is 12 KB: more than the machine keeps for a connection.
    let text = "漢".repeat(4000);
    let send = async {
        for _ in 0..SENT {
            say(id, deal.agent(), &text).await;
        }
    };
    let hear = async {
        for number in 1..=SENT {
            assert_eq!(quick.next_of("message").await.data["Sequence"], number);
        }
    };
    tokio::join!(send, hear);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Who leaves the end of a stream unread for seconds is cut off.
    let mut rest = Vec::new();
    let read = async {
        loop {
            match slow.read_buf(&mut rest).await {
                Ok(0) => break false,
                Ok(_) => {}
                Err(_) => break true,
            }
        }
    };
    let was_cut_off = timeout(PATIENCE, read).await.expect("it has ended");
    let rest = String::from_utf8_lossy(&rest);
    let (whole, _) = rest.rsplit_once("\n\n").unwrap_or_default();
    let ids: Vec<i64> = whole.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert!(ids.len() < SENT && (was_cut_off || ids.len() >= 256), "{} of {SENT}", ids.len());
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "in between nothing is missing");
    let last = ids.last().copied().unwrap_or(1);
    let (mut again, ready) = Stream::resume(deal.client, last).await;
    assert_eq!(ready.data, json!({"Resumed": true}));
    assert_eq!(again.next().await.id, last + 1);
}

/// Section 6: a sixth stream of one person on a replica ends the oldest.
#[tokio::test]
async fn a_sixth_stream_ends_the_oldest() {
    let (deal, id) = open_chat().await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(Stream::open(deal.client).await);
    }
    assert!(streams[0].ends_within(PATIENCE).await);
    say(id, deal.agent(), "а").await;
    for stream in &mut streams[1..] {
        assert_eq!(stream.next().await.name, "message");
    }
}

/// Section 6, Conventions: open streams are no requests under way, and end when the process does.
#[tokio::test]
async fn streams_keep_no_request_out_and_end_with_their_process() {
    let other = replica(&[("HTTP_MAX_REQUESTS_UNDER_WAY", "2")]);
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(Stream::at(&other, guid()).await.0);
    }
    let user = guid();
    other.caller(&Claims::user(user)).get("/api/messenger/unread").await.expect(200);
    other.process.stop();
    for stream in &mut streams {
        assert!(stream.ends_within(PATIENCE).await);
    }
}

/// Conventions: `HEAD` is answered as `GET` is, and nobody waits for the body that is left out.
#[tokio::test]
async fn a_head_of_a_stream_ends_at_once() {
    let token = issuer().token(&Claims::user(guid())).unwrap();
    let address = service().public_url().strip_prefix("http://").unwrap().to_owned();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "HEAD {STREAM} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = connection.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("text/event-stream") && answer.ends_with("\r\n\r\n"), "{answer}");
}
