//! Limits of connections: the deadline of each request head, and the connections of one peer.

use std::time::Duration;

use futures_util::future::join_all;
use selections::Service;
use testkit::service::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{eventually, service};

/// A request whose response has a short body.
const REQUEST: &[u8] = b"GET /api/v1/selections/unknown HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The service closes a connection within this time, which exceeds its deadline for a request head.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(90);

async fn connect(service: &Running) -> TcpStream {
    let url = service.public_url();
    TcpStream::connect(url.trim_start_matches("http://")).await.unwrap()
}

/// Sends a request and reads its response, which is 404. Returns false if the connection was
/// closed.
async fn is_served(stream: &mut TcpStream) -> bool {
    let exchange = async {
        stream.write_all(REQUEST).await?;
        let mut response = String::new();
        // The body is JSON without a line break, and ends with the object.
        while !response.contains("\r\n\r\n") || !response.ends_with('}') {
            let mut part = [0; 4096];
            match stream.read(&mut part).await? {
                0 => return Ok(false),
                length => response.push_str(&String::from_utf8_lossy(&part[..length])),
            }
        }
        std::io::Result::Ok(response.starts_with("HTTP/1.1 404"))
    };
    exchange.await.unwrap_or(false)
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
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the connection stays open after {requests} requests");
    }))
    .await;
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
