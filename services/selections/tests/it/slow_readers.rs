//! Clients that do not read their responses.

use reqwest::Method;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::{eventually, guid};

const READERS: usize = 200;

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
    let page = selections.caller(&Claims::user(guid())).get("/docs/selections/swagger-ui-bundle.js").await;
    let length = page.text.len();
    assert!(length > 1024 * 1024, "{length}");
    selections.reset_peak_memory();
    let before = selections.memory("VmHWM");

    let mut unread = Vec::new();
    for _ in 0..READERS {
        unread.push(request_unread(&selections, "/docs/selections/swagger-ui-bundle.js").await);
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
