//! Clients that do not read their responses.

use std::time::Duration;

use reqwest::Method;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::{eventually, guid};

const READERS: usize = 200;
const SMALL_BUFFER_BYTES: u32 = 4096;

/// A response whose body is longer than all buffers of a connection.
const LONG_RESPONSE: &str = "/docs/selections/swagger-ui-bundle.js";

/// Connects with a small buffer for responses.
async fn connect(selections: &Deployed, buffer_bytes: u32) -> TcpStream {
    let request = selections.guest().request(Method::GET, "/").build().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(buffer_bytes).unwrap();
    socket.connect(request.url().socket_addrs(|| None).unwrap()[0]).await.unwrap()
}

/// Sends a request for `path` and leaves the response unread.
async fn request_unread(selections: &Deployed, path: &str) -> TcpStream {
    let mut stream = connect(selections, SMALL_BUFFER_BYTES).await;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

/// RULE-ALL-069: the memory of the process and of the kernel's buffers does not grow by one page
/// for each reader.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn unread_api_pages_share_memory() {
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &[]).await;
    let page = selections.caller(&Claims::user(guid())).get(LONG_RESPONSE).await;
    let length = page.text.len();
    assert!(length > 1024 * 1024, "{length}");
    selections.reset_peak_memory();
    let before = selections.memory("VmHWM");

    let mut unread = Vec::new();
    for _ in 0..READERS {
        unread.push(request_unread(&selections, LONG_RESPONSE).await);
    }

    let buffered = eventually("the buffers are full", async || {
        let first = selections.unread_response_bytes();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        (first.len() >= READERS && first == selections.unread_response_bytes()).then_some(first)
    })
    .await;
    // Both limits are an eighth of one page for each reader.
    let kernel: usize = buffered.iter().sum();
    assert!(kernel < READERS * length / 8, "the kernel buffers {kernel} bytes");
    let grown = selections.memory("VmHWM") - before;
    assert!(grown < READERS * length / 8, "the process has grown by {grown} bytes");
}

/// RULE-ALL-123: pipelined requests behind an unread response take little memory, and so do a body
/// that no handler reads and unread responses without a body.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn input_behind_an_unread_response_takes_little_memory() {
    const CONNECTIONS: usize = 100;
    const MAX_BYTES_PER_CONNECTION: usize = 256 * 1024;
    /// Longer than actix-http's largest buffer of input.
    const BODY_BYTES: usize = 512 * 1024;
    let first = format!("GET {LONG_RESPONSE} HTTP/1.1\r\nhost: a\r\n");
    // actix-http would parse all requests at once.
    let requests = format!("{first}\r\n{}", "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(550));
    let body = format!("{first}content-length: {BODY_BYTES}\r\n\r\n{}", "x".repeat(BODY_BYTES));
    // actix-http keeps any number of heads of responses without a body.
    let redirects = "GET /docs/selections HTTP/1.1\r\nhost: a\r\n\r\n".repeat(20_000);
    for (case, input) in [("requests", requests), ("body", body), ("redirects", redirects)] {
        let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &[]).await;
        let length = selections.guest().get(LONG_RESPONSE).await.text.len();
        selections.reset_peak_memory();
        let before = selections.memory("VmHWM");
        let mut unread = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = connect(&selections, SMALL_BUFFER_BYTES).await;
            // The kernel may not have room for all of it.
            let _ = timeout(Duration::from_millis(100), stream.write_all(input.as_bytes())).await;
            unread.push(stream);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let grown = selections.memory("VmHWM") - before;
        assert!(grown < CONNECTIONS * MAX_BYTES_PER_CONNECTION, "{case}: {grown} bytes");
        let read = unread[0].read_exact(&mut vec![0; length]).await;
        assert!(read.is_ok(), "{case}: {read:?}");
    }
}

/// RULE-ALL-122: the pauses during earlier responses of a connection do not count.
#[tokio::test]
async fn reader_has_an_allowance_for_each_response() {
    /// Two pauses use 34 s, and a response restores about 22 s. The allowance of 30 s is enough for
    /// one response. The kernel closes a connection after 20 s.
    const PAUSE: Duration = Duration::from_secs(17);
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &[]).await;
    let request = format!("GET {LONG_RESPONSE} HTTP/1.1\r\nhost: test\r\n\r\n");
    let length = selections.guest().get(LONG_RESPONSE).await.text.len();
    let mut stream = connect(&selections, 64 * 1024).await;
    for response in 1..=2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        for half in [length / 2, length - length / 2] {
            tokio::time::sleep(PAUSE).await;
            let read = stream.read_exact(&mut vec![0; half]).await;
            assert!(read.is_ok(), "response {response}: {read:?}");
        }
    }
}

/// RULE-ALL-122: a caller that reads a little every second loses its connection before the end of
/// the response.
#[tokio::test]
async fn trickling_reader_loses_its_connection() {
    /// Four times the service's allowance of a caller that reads nothing.
    const READS: usize = 120;
    const READ_BYTES: usize = 4096;
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &[]).await;
    let page = selections.guest().get(LONG_RESPONSE).await;
    // The rest of the response stays unread, unless the service has closed the connection.
    assert!(page.text.len() > 2 * READS * READ_BYTES, "{}", page.text.len());
    let mut stream = request_unread(&selections, LONG_RESPONSE).await;
    let mut part = [0; READ_BYTES];
    for _ in 0..READS {
        if matches!(stream.read(&mut part).await, Ok(0) | Err(_)) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the connection is open after {READS} reads");
}
