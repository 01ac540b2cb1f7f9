//! Limits of connections: the deadline and the size of each request head, and the connections of
//! one peer.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use selections::Service;
use testkit::service::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{SELECTIONS, eventually, service};

/// A request whose response has a short body.
const REQUEST: &[u8] = b"GET /api/v1/unknown HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The service closes a connection within this time, which exceeds its deadline for a request head.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(90);

async fn connect(service: &Running) -> TcpStream {
    let url = service.public_url();
    TcpStream::connect(url.trim_start_matches("http://")).await.unwrap()
}

/// Returns the head of a request that creates a selection, without the length of its body.
fn creation_head() -> String {
    let (_, owner) = service().user();
    let request = owner.request(Method::POST, SELECTIONS).build().unwrap();
    let token = request.headers()["authorization"].to_str().unwrap();
    format!(
        "POST {SELECTIONS} HTTP/1.1\r\nhost: test\r\nauthorization: {token}\r\n\
         content-type: application/json\r\n"
    )
}

/// Reads a response, which has a body. Returns `None` if the connection was closed before its end.
async fn read_response(stream: &mut TcpStream) -> Option<String> {
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        response.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(response).unwrap();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let mut body = vec![0; length.split_once('\r').unwrap().0.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// Sends a request and reads its response, which is 404. Returns false if the connection was
/// closed.
async fn is_served(stream: &mut TcpStream) -> bool {
    if stream.write_all(REQUEST).await.is_err() {
        return false;
    }
    read_response(stream).await.is_some_and(|response| response.starts_with("HTTP/1.1 404"))
}

/// RULE-ALL-096: each request head has a deadline, the first one of a connection and later ones.
#[tokio::test]
async fn incomplete_head_closes_its_connection() {
    join_all([0, 1, 2].map(async |requests| {
        let mut stream = connect(service()).await;
        for _ in 0..requests {
            assert!(is_served(&mut stream).await);
        }
        stream.write_all(b"G").await.unwrap();
        let mut rest = Vec::new();
        let closed = timeout(CLOSE_TIMEOUT, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the connection stays open after {requests} requests");
    }))
    .await;
}

/// RULE-ALL-121: a request head has at most 16 KiB. A larger one gets 431 if it is the first of its
/// connection, and closes the connection otherwise.
#[tokio::test]
async fn head_above_16_kib_closes_its_connection() {
    for requests in [0, 1, 2] {
        let mut stream = connect(service()).await;
        for _ in 0..requests {
            assert!(is_served(&mut stream).await);
        }
        // Longer than the buffers of the kernel.
        let padding = "x".repeat(16 * 1024 * 1024);
        let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-padding: {padding}\r\n\r\n");
        let sent = stream.write_all(head.as_bytes()).await;
        // A caller that could not send the whole head might not read the response.
        assert!(sent.is_ok() || requests > 0, "{sent:?}");
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        let expected: &[u8] = if requests == 0 { b"HTTP/1.1 431 " } else { b"" };
        let status = &response[..response.len().min(13)];
        assert_eq!(status, expected, "after {requests} requests");
    }
}

/// RULE-ALL-121: a head of just under 16 KiB is accepted in two parts, and so is a long body behind
/// it.
#[tokio::test]
async fn long_head_and_body_are_accepted() {
    let body = format!("{{\"Title\":\"x\"}}{}", " ".repeat(200 * 1024));
    let padding = "x".repeat(14 * 1024);
    let head = format!("{}content-length: {}\r\nx-padding: {padding}\r\n", creation_head(), body.len());
    let mut stream = connect(service()).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.write_all(&[b"\r\n", body.as_bytes()].concat()).await.unwrap();
    let created = read_response(&mut stream).await.unwrap();
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    assert!(is_served(&mut stream).await);
}

/// RULE-ALL-121: a body in chunks of one byte, whose framing has more than 16 KiB, leaves its
/// connection usable.
#[tokio::test]
async fn connection_is_served_after_a_body_in_tiny_chunks() {
    let head = format!("{}transfer-encoding: chunked\r\n\r\n", creation_head());
    let spaces = "1\r\n \r\n".repeat(12_000);
    let body = format!("d\r\n{{\"Title\":\"x\"}}\r\n{spaces}0\r\n\r\n");
    let mut stream = connect(service()).await;
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let created = read_response(&mut stream).await.unwrap();
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    assert!(is_served(&mut stream).await);
}

/// RULE-ALL-123: pipelined requests are answered in their order, with and without a body.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let head = creation_head();
    let sized = format!("{head}content-length: 19\r\n\r\n{{\n\n\"Title\":\n\n\"x\"\n\n}}");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\nd\r\n{{\"Title\":\"x\"}}\r\n0\r\n\r\n");
    let unauthorized = chunked.replace("authorization: ", "x-authorization: ");
    let requests = [sized.as_bytes(), chunked.as_bytes(), unauthorized.as_bytes(), REQUEST];
    let mut stream = connect(service()).await;
    stream.write_all(&requests.concat().repeat(3)).await.unwrap();
    for expected in ["201", "201", "401", "404"].repeat(3) {
        let response = read_response(&mut stream).await.unwrap();
        assert_eq!(&response[9..12], expected, "{response}");
    }
    assert!(is_served(&mut stream).await);
}

/// RULE-ALL-097: a peer at its limit gets no further connection until one of its connections ends.
#[tokio::test]
async fn peer_with_too_many_connections_is_refused() {
    // The address of the tests is no trusted proxy here.
    let service = Running::start::<Service>(&[
        ("HTTP_MAX_CONNECTIONS_PER_PEER", "3"),
        ("TRUSTED_PROXIES", "192.0.2.0/24"),
    ]);
    let open = async || {
        let mut stream = connect(&service).await;
        is_served(&mut stream).await.then_some(stream)
    };
    let (first, second, third) = (open().await.unwrap(), open().await.unwrap(), open().await.unwrap());
    assert!(open().await.is_none());
    let metrics = service.operator().get("/metrics").await.text;
    assert!(metrics.contains("http_server_connections_refused_total 1"), "{metrics}");
    drop(first);
    eventually("a closed connection makes room for another", open).await;
    drop((second, third));
}

/// RULE-ALL-097: a trusted proxy has no limit, since its connections serve many callers.
#[tokio::test]
async fn trusted_proxy_has_no_limit_of_connections() {
    let service = Running::start::<Service>(&[
        ("HTTP_MAX_CONNECTIONS_PER_PEER", "1"),
        ("TRUSTED_PROXIES", "127.0.0.0/8"),
    ]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&service).await;
        assert!(is_served(&mut stream).await);
        streams.push(stream);
    }
}
