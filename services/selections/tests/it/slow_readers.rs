//! Clients that do not read their responses.

use std::time::Duration;

use reqwest::Method;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::{eventually, guid};

const READERS: usize = 200;

/// A response whose body is longer than all buffers of a connection.
const LONG_RESPONSE: &str = "/docs/selections/swagger-ui-bundle.js";

/// Sends a request for `path` and leaves the response unread.
async fn request_unread(selections: &Deployed, path: &str) -> TcpStream {
    let caller = selections.caller(&Claims::user(guid()));
    let request = caller.request(Method::GET, path).build().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(request.url().socket_addrs(|| None).unwrap()[0]).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

/// RULE-ALL-069: the memory of the process and of the kernel's buffers does not grow by one page
/// for each reader.
#[tokio::test]
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
