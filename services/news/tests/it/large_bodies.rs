//! The largest legal post, and bodies above the limit.

use std::time::Duration;

use reqwest::Method;
use testkit::client::{Client, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{author, blocks_path, content, embed, formatted, list, path, service, text, text_block, with};

/// Limit of the body in bytes.
const MAX_BODY_BYTES: usize = 24 * 1024 * 1024;

/// RULE-NWS-037, RULE-NWS-039: 200 blocks of 20,000 four-byte characters can be written and read.
#[tokio::test]
async fn largest_legal_post_is_saved_published_and_read() {
    let author = author();
    let post = author.create_post().await;
    let words = "𐍈".repeat(20_000);
    let body = content(vec![text_block(&words); 200]).to_string();
    assert!(body.len() > 16_000_000 && body.contains("𐍈𐍈"));
    let request =
        author.news.request(Method::PUT, &blocks_path(&post)).header("content-type", "application/json");

    let saved = send(request.body(body)).await.expect(200);

    assert_eq!(saved["BlocksCount"], 200);
    author.change_status(&post, "publish").await.expect(200);
    let read = service().guest().get(&path(&post)).await.expect(200);
    let blocks = list(&read["Blocks"]);
    assert!(
        blocks.len() == 200
            && blocks
                .iter()
                .all(|block| text(&block["Text"]) == words && block["PlainText"] == block["Text"])
    );
}

/// RULE-NWS-039: a post is read whole below and above each size limit of the read paths.
#[tokio::test]
async fn post_of_any_length_is_read_whole() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let sql = service().sql().await;
    // Writes `whole` texts of 20,000 characters and one of `last`. Returns the stored bytes.
    let write = async |whole: usize, last: usize| {
        let words = [vec!["w".repeat(20_000); whole], vec!["w".repeat(last)]].concat();
        let texts = words.iter().map(|words| text_block(words));
        author.set_blocks(&post, texts.chain([embed(&selection)])).await.expect(200);
        let read = author.read(&post).await;
        let (embed, texts) = list(&read["Blocks"]).split_last().expect("blocks");
        assert_eq!(texts.iter().map(|block| text(&block["Text"])).collect::<Vec<_>>(), words);
        assert_eq!(list(&embed["Items"]).len(), 3);
        let stored = "select octet_length(blocks::text) from post where id = $1::text::uuid";
        usize::try_from(sql.query_one(stored, &[&post]).await.unwrap().get::<_, i32>(0)).unwrap()
    };
    for (limit, whole) in [(64 * 1024, 1), (1024 * 1024, 26)] {
        // Each character is stored in `Text` and in `PlainText`.
        let last = 100 + (limit - write(whole, 100).await) / 2;
        assert!((limit - 1..=limit).contains(&write(whole, last).await));
        assert!((limit + 1..=limit + 2).contains(&write(whole, last + 1).await));
    }
}

/// RULE-NWS-037: 24 MiB are accepted, and white space counts.
#[tokio::test]
async fn body_up_to_the_limit_is_accepted() {
    let author = author();
    let post = author.create_post().await;
    let padded = |length: usize| {
        let body = content([text_block("x")]).to_string();
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    let put = async |length: usize| {
        let request =
            author.news.request(Method::PUT, &blocks_path(&post)).header("content-type", "application/json");
        send(request.body(padded(length))).await
    };
    put(MAX_BODY_BYTES).await.expect(200);
    put(1024 * 1024 + 1).await.expect(200);
}

/// Returns the address and the head of an edit by `caller`. The head ends with the header `rest`.
pub fn head(caller: &Client, post: &str, rest: &str) -> (String, String) {
    let request = caller.request(Method::PUT, &blocks_path(post)).build().unwrap();
    let address = format!("{}:{}", request.url().host_str().unwrap(), request.url().port().unwrap());
    let token = request.headers().get("authorization").map_or("", |token| token.to_str().unwrap());
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: {address}\r\nauthorization: {token}\r\ncontent-type: application/json\r\n{rest}\r\n\r\n",
        request.url().path()
    );
    (address, head)
}

/// Reads a response up to the members of its problem.
pub async fn read_problem(mut stream: impl AsyncReadExt + Unpin) -> String {
    let mut response = Vec::new();
    let read = async {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&response).contains("traceId") {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(length) => response.extend_from_slice(&chunk[..length]),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("a response");
    String::from_utf8_lossy(&response).into_owned()
}

/// RULE-NWS-037: a `Content-Length` above the limit is refused before any of the body is sent.
#[tokio::test]
async fn announced_body_above_the_limit_is_refused_unread() {
    let author = author();
    let post = author.create_post().await;
    for length in [MAX_BODY_BYTES + 1, usize::MAX] {
        let (address, head) = head(&author.news, &post, &format!("content-length: {length}"));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let response = read_problem(stream).await;
        assert!(response.starts_with("HTTP/1.1 413") && response.contains("PAYLOAD_TOO_LARGE"), "{response}");
    }
}

/// Sends a chunked body without an end until the connection closes.
///
/// Returns the sent bytes and the response.
async fn send_endlessly(caller: &Client, post: &str) -> (usize, String) {
    let (address, head) = head(caller, post, "transfer-encoding: chunked");
    let (reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let chunk = [format!("{:x}\r\n", 64 * 1024).as_bytes(), &vec![b' '; 64 * 1024], b"\r\n"].concat();
    let endless = async {
        let mut sent = 0;
        writer.write_all(head.as_bytes()).await.unwrap();
        while writer.write_all(&chunk).await.is_ok() {
            sent += 64 * 1024;
            // The pause keeps the bytes in flight small until the connection closes.
            if sent > 2 * MAX_BODY_BYTES {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        sent
    };
    let sent_and_answered = async { tokio::join!(endless, read_problem(reader)) };
    tokio::time::timeout(Duration::from_mins(1), sent_and_answered).await.expect("the connection is closed")
}

/// RULE-NWS-037: without `Content-Length` a body is refused at the limit, and the rest is not read.
#[tokio::test]
async fn endless_body_is_refused_at_the_limit() {
    let author = author();
    let post = author.create_post().await;
    let (sent, response) = send_endlessly(&author.news, &post).await;
    assert!(response.starts_with("HTTP/1.1 413") && response.contains("PAYLOAD_TOO_LARGE"), "{response}");
    assert!(response.to_lowercase().contains("connection: close"), "{response}");
    // Bytes in flight count as sent.
    assert!((MAX_BODY_BYTES..3 * MAX_BODY_BYTES).contains(&sent), "closed after {sent} bytes");
}

/// RULE-NWS-037: a request without a token gets 401 before its body is read.
#[tokio::test]
async fn body_without_a_token_is_not_read() {
    let (address, head) =
        head(&service().guest(), "00000000-0000-0000-0000-000000000000", "content-length: 20000000");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let response = read_problem(stream).await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    let (sent, response) = send_endlessly(&service().guest(), "00000000-0000-0000-0000-000000000000").await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    assert!(sent < 3 * MAX_BODY_BYTES, "closed after {sent} bytes");
}

/// RULE-NWS-009: deeply nested elements are refused, and no plain text is longer than the text that
/// was sent.
#[tokio::test]
async fn deep_nesting_is_refused_and_similar_text_is_accepted() {
    let author = author();
    let post = author.create_post().await;
    let nested = |part: &str| part.repeat(20_000 / part.len());
    let put =
        async |format: &str, text: &str| author.set_blocks(&post, vec![formatted(format, text); 5]).await;
    for (format, part) in [
        ("Html", "<b>"),
        ("Html", "<div>"),
        ("Html", "<a><b>"),
        ("Html", "<table>"),
        ("Markdown", "<b>"),
        ("Markdown", "> <b>"),
    ] {
        let refused = put(format, &nested(part)).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Blocks/4/Text", "too_complex");
    }
    for (format, part, stored) in [
        ("Html", "&#0;", "\u{fffd}"),
        ("Html", "<br>", "<br>"),
        ("Markdown", "> ", "> "),
        ("Markdown", "*a _b ", "*a _b "),
        ("Markdown", "[a](", "[a]("),
    ] {
        let sent = nested(part);
        put(format, &sent).await.expect(200);
        let blocks = author.read(&post).await["Blocks"].take();
        for block in list(&blocks) {
            assert_eq!(text(&block["Text"]), stored.repeat(sent.len() / part.len()), "{format} {part}");
            let plain = text(&block["PlainText"]);
            assert!(plain.chars().count() <= sent.len(), "{format} {part} reads as {plain}");
        }
    }
}

/// RULE-NWS-001: rules 1 and 2 hold for the last block of a large body.
#[tokio::test]
async fn large_body_is_checked_to_its_end() {
    let author = author();
    let post = author.create_post().await;
    let put = async |blocks: &[String]| {
        let request =
            author.news.request(Method::PUT, &blocks_path(&post)).header("content-type", "application/json");
        send(request.body(format!("{{\"Blocks\":[{}]}}", blocks.join(",")))).await
    };
    let block = |length: usize| with(text_block(&"ы".repeat(length)), "SortOrder", 0).to_string();
    let mut blocks = vec![block(20_000); 199];
    blocks.push(block(20_001));
    put(&blocks).await.expect_refusal("VALIDATION_FAILED", "/Blocks/199/Text", "too_long");
    put(&vec![block(1); 100_000]).await.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
}
