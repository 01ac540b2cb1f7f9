//! Memory and byte budgets of large bodies and responses. Each test that fills a budget starts its
//! own process.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::deployed::Deployed;
use testkit::issuer::{CLIENTS, Claims};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::large_bodies::{head, read_problem};
use crate::{
    MANAGE_OWN, POSTS, blocks_path, content, embed, eventually, guid, list, path, proxy, selections, text,
    text_block,
};

const MIB: usize = 1024 * 1024;

async fn deploy() -> Deployed {
    let settings = [
        ("SELECTIONS_URL", &*proxy().url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        // An unoptimized build needs a long time for the largest posts.
        ("EMBEDS_WAIT_MS", "30000"),
        ("TRUSTED_PROXIES", "127.0.0.0/8"),
    ];
    Deployed::start(env!("CARGO_BIN_EXE_news"), &["serve"], &settings).await
}

/// An author with a post.
struct Author {
    news: Client,
    post: String,
}

impl Author {
    async fn new(news: &Deployed) -> Self {
        let news = news.caller(&Claims::user(guid()).permission(MANAGE_OWN));
        let post = news.post(POSTS, json!({"Title": "Spring"})).await.expect(201);
        Self { post: text(&post["Id"]).to_owned(), news }
    }

    async fn put(&self, body: impl Into<reqwest::Body>) -> Response {
        let request = self.news.request(Method::PUT, &blocks_path(&self.post));
        send(request.header("content-type", "application/json").body(body)).await
    }
}

/// RULE-NWS-038: the peak of memory after several of the largest edits is below 32 times the body,
/// which is twice the peak of one edit.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn large_edits_do_not_accumulate_memory() {
    let news = deploy().await;
    let body = content(vec![text_block(&"𐍈".repeat(20_000)); 200]).to_string();
    let idle = news.memory("VmRSS");
    for _ in 0..2 {
        let author = Author::new(&news).await;
        author.put(body.clone()).await.expect(200);
        author.news.post(&format!("{POSTS}/{}/publish", author.post), Value::Null).await.expect(200);
        author.put(body.clone()).await.expect(200);
    }
    let grown = news.memory("VmHWM") - idle;
    assert!(grown < 32 * body.len(), "{} MiB", grown / MIB);
}

impl Author {
    /// Sends a little more than 1 MiB of an edit, and then nothing.
    async fn stall(&self) -> TcpStream {
        let (address, head) = head(&self.news, &self.post, "transfer-encoding: chunked");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let size = MIB + 64 * 1024;
        stream.write_all(&[format!("{size:x}\r\n").as_bytes(), &vec![b' '; size]].concat()).await.unwrap();
        stream
    }

    /// Sends an edit above 1 MiB.
    async fn put_large(&self) -> Response {
        self.put(padded(MIB)).await
    }

    /// Sends a part of a body of 16 KiB, and then nothing.
    async fn stall_small(&self) -> TcpStream {
        let (address, head) = head(&self.news, &self.post, "content-length: 16384");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[head.as_bytes(), &[b' '; 15 * 1024]].concat()).await.unwrap();
        stream
    }
}

/// Returns a short edit with this many spaces behind it.
fn padded(spaces: usize) -> String {
    format!("{}{}", content([text_block("x")]), " ".repeat(spaces))
}

/// RULE-NWS-038: eight large bodies are held at once; further ones get 503, smaller ones are
/// accepted, and slow senders get 408.
#[tokio::test]
async fn slow_sender_loses_its_reservation() {
    let news = deploy().await;
    let other = Author::new(&news).await;

    // Repeats, since the other author may get a reservation before all eight are taken.
    let (stalled, refused) = eventually("all reservations are taken", async || {
        let authors = join_all((0..8).map(|_| Author::new(&news))).await;
        let stalled = join_all(authors.iter().map(Author::stall)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let response = other.put_large().await;
        (response.status != 200).then_some((stalled, response))
    })
    .await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(503, "SERVICE_UNAVAILABLE");
    // Bodies up to 1 MiB have a budget of their own.
    other.put(padded(512 * 1024)).await.expect(200);

    for stream in stalled {
        let response = read_problem(stream).await;
        assert!(response.starts_with("HTTP/1.1 408") && response.contains("REQUEST_TIMEOUT"), "{response}");
    }
    other.put_large().await.expect(200);
}

/// RULE-NWS-038: unfinished bodies of any size count, so a caller cannot hold many of them.
#[tokio::test]
async fn caller_with_many_unfinished_bodies_gets_429() {
    let news = deploy().await;
    let author = Author::new(&news).await;
    // The share of a caller in the budget of 32 MiB is 5 MiB, which 342 of these bodies exceed.
    let stalled = join_all((0..400).map(|_| author.stall_small())).await;

    let mut refused = 0;
    for stream in stalled {
        let response = read_problem(stream).await;
        let is_refused = response.starts_with("HTTP/1.1 429") && response.contains("RATE_LIMITED");
        assert!(is_refused || response.starts_with("HTTP/1.1 408"), "{response}");
        refused += usize::from(is_refused);
    }
    assert!(refused > 0);
    author.put(padded(0)).await.expect(200);
}

/// RULE-NWS-038: a caller has at most one large body in flight, even if the budget has room.
#[tokio::test]
async fn caller_sends_one_large_body_at_a_time() {
    let news = deploy().await;
    let author = Author::new(&news).await;

    // The service refuses the edit that arrives later, and the stalled edit can be the later one.
    // Repeats until the service refuses the other edit.
    let (stalled, refused) = eventually("the reservation is taken", async || {
        let stalled = author.stall().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let response = author.put_large().await;
        (response.status != 200).then_some((stalled, response))
    })
    .await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(429, "RATE_LIMITED");
    Author::new(&news).await.put_large().await.expect(200);

    drop(stalled);
    let answered = async || (author.put_large().await.status == 200).then_some(());
    eventually("a closed connection frees its reservation", answered).await;
}

/// RULE-ALL-024: a body of any size that arrives too slowly returns 408.
#[tokio::test]
async fn slow_body_returns_408() {
    let author = crate::author();
    let post = author.create_post().await;
    let (address, head) = head(&author.news, &post, "content-length: 100000");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let drip = async {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    let response = tokio::select! {
        response = read_problem(reader) => response,
        () = drip => unreachable!("the body has no end"),
    };
    assert!(response.starts_with("HTTP/1.1 408") && response.contains("REQUEST_TIMEOUT"), "{response}");
}

/// Publishes the post with the largest response. Returns its author, its path and the length of the
/// body that wrote it.
///
/// Each character is six bytes of JSON and one byte in memory.
async fn publish_large(news: &Deployed) -> (Author, String, usize) {
    let body = content(vec![text_block(&"\u{1}".repeat(20_000)); 200]).to_string();
    let (author, length) = (Author::new(news).await, body.len());
    author.put(body).await.expect(200);
    author.news.post(&format!("{POSTS}/{}/publish", author.post), Value::Null).await.expect(200);
    let path = path(&author.post);
    (author, path, length)
}

fn expect_retry(response: Response, status: u16, code: &str) {
    assert!(response.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    response.expect_problem(status, code);
}

/// RULE-NWS-040: some of many concurrent readers of the largest post are served, and the others get
/// 503.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn readers_of_large_posts_share_a_byte_budget() {
    let news = deploy().await;
    let (_, path, length) = publish_large(&news).await;
    // The peak of the edit was higher than that of the reads.
    news.reset_peak_memory();
    let before = news.memory("VmHWM");

    let readers: Vec<_> = (0..24).map(|_| news.caller(&Claims::user(guid()))).collect();
    let responses = join_all(readers.iter().map(|reader| reader.get(&path))).await;
    let (read, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    assert!(!read.is_empty());
    for response in refused {
        expect_retry(response, 503, "SERVICE_UNAVAILABLE");
    }
    // Four responses fit in the budget. Each of them takes up to three times its length while it is
    // built, and all 24 would take more than the limit.
    let grown = news.memory("VmHWM") - before;
    assert!(grown < 16 * length, "{} MiB", grown / MIB);
}

/// RULE-NWS-040: a reader has one large post in flight, until it is read or the connection ends.
#[tokio::test]
async fn reader_has_one_large_post_in_flight() {
    let news = deploy().await;
    let (_, path, _) = publish_large(&news).await;
    let reader = news.caller(&Claims::user(guid()));

    let unread = reader.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(unread.status(), 200);
    expect_retry(reader.get(&path).await, 429, "RATE_LIMITED");
    news.caller(&Claims::user(guid())).get(&path).await.expect(200);

    drop(unread);
    let freed = async || (send(reader.request(Method::HEAD, &path)).await.status == 200).then_some(());
    eventually("a closed connection frees its reservation", freed).await;
    reader.get(&path).await.expect(200);
}

/// RULE-NWS-040: the items of embeds are part of the response, so a short post can be a large one.
#[tokio::test]
async fn items_of_embeds_count_in_the_byte_budget() {
    let news = deploy().await;
    let claims = Claims::user(guid()).permission(MANAGE_OWN);
    let items: Value = (0..200).map(|_| json!({"PropertyObjectId": guid()})).collect();
    let selection = json!({"Title": "Many flats", "Items": items});
    let selection = selections().caller(&claims).post("/api/v1/selections", selection).await.expect(201);
    let author = news.caller(&claims);
    let post = author.post(POSTS, json!({"Title": "Spring"})).await.expect(201);
    let path = path(text(&post["Id"]));
    let embeds = vec![embed(text(&selection["Id"])); 200];
    author.put(&blocks_path(text(&post["Id"])), content(embeds)).await.expect(200);

    let shown = author.get(&path).await.expect(200);
    assert!(list(&shown["Blocks"]).iter().all(|block| list(&block["Items"]).len() == 200));
    let responses = join_all((0..8).map(|_| author.get(&path))).await;
    let (read, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    assert!(!read.is_empty() && !refused.is_empty());
    for response in refused {
        expect_retry(response, 429, "RATE_LIMITED");
    }
}

/// RULE-NWS-040: callers that do not read their responses block neither the author's changes nor,
/// for long, other readers.
#[tokio::test]
async fn unread_responses_do_not_block_other_callers() {
    let news = deploy().await;
    let (author, path, _) = publish_large(&news).await;
    let (mut unread, mut refused) = (Vec::new(), None);
    while refused.is_none() && unread.len() < 96 {
        let response = news.caller(&Claims::user(guid())).request(Method::GET, &path).send().await.unwrap();
        if response.status() == 200 {
            unread.push(response);
        } else {
            refused = Some(response.status().as_u16());
        }
    }
    assert_eq!(refused, Some(503), "{} unread responses", unread.len());

    for change in ["unpublish", "publish"] {
        author.news.post(&format!("{POSTS}/{}/{change}", author.post), Value::Null).await.expect(200);
    }
    let read = async || (news.caller(&Claims::user(guid())).get(&path).await.status == 200).then_some(());
    eventually("connections of readers that do not read are closed", read).await;
}

/// RULE-NWS-040: callers that do not read the largest posts do not block the callers of smaller
/// responses.
#[tokio::test]
async fn unread_large_posts_do_not_block_smaller_responses() {
    let news = deploy().await;
    let (_, path, _) = publish_large(&news).await;
    let author = Author::new(&news).await;
    author.put(content(vec![text_block(&"w".repeat(20_000)); 4]).to_string()).await.expect(200);
    author.news.post(&format!("{POSTS}/{}/publish", author.post), Value::Null).await.expect(200);
    let small = crate::path(&author.post);
    let (mut unread, mut refused) = (Vec::new(), None);
    while refused.is_none() && unread.len() < 96 {
        let response = news.caller(&Claims::user(guid())).request(Method::GET, &path).send().await.unwrap();
        if response.status() == 200 {
            unread.push(response);
        } else {
            refused = Some(response.status().as_u16());
        }
    }
    assert_eq!(refused, Some(503), "{} unread responses", unread.len());

    let read = news.guest().get(&small).await;
    assert!(read.status == 200 && read.text.len() > 16 * 1024, "{}: {} bytes", read.status, read.text.len());
}

/// RULE-NWS-040: concurrent callers who may not change a large post get 403, not 503.
#[tokio::test]
async fn forbidden_change_of_a_large_post_reserves_nothing() {
    let news = deploy().await;
    let (author, ..) = publish_large(&news).await;
    let stranger = news.caller(&Claims::user(guid()).permission(MANAGE_OWN));
    let unpublish = format!("{POSTS}/{}/unpublish", author.post);
    let responses = join_all((0..4).map(|_| stranger.post(&unpublish, Value::Null))).await;
    for response in responses {
        response.expect_problem(403, "FORBIDDEN");
    }
}

/// Default memory limit of a replica (helm/lib/values.yaml). News has a higher one, for edits.
const MEMORY_LIMIT: usize = 256 * MIB;

/// RULE-NWS-040: the process and the kernel's buffers stay within the memory limit, and other
/// requests are served.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn slow_readers_of_lists_do_not_exceed_the_memory_limit() {
    let news = deploy().await;
    let author = Author::new(&news).await;
    // The longest metadata of a post. Each character is six bytes of JSON.
    let longest = |length: usize| "\u{1}".repeat(length);
    let tags: Value = (0..20).map(|tag| format!("{}{tag:02}", longest(62))).collect();
    let post = json!({"Title": longest(256), "Summary": longest(1000), "Tags": tags});
    for _ in 0..100 {
        let post = author.news.post(POSTS, post.clone()).await.expect(201);
        let id = text(&post["Id"]);
        author.news.put(&blocks_path(id), content([text_block("x")])).await.expect(200);
        author.news.post(&format!("{POSTS}/{id}/publish"), Value::Null).await.expect(200);
    }
    let feed = format!("{POSTS}?PageSize=100");
    let length = news.guest().get(&feed).await.text.len();
    assert!(length > MIB, "{length}");

    // Each request is from another guest.
    let (mut unread, mut refused) = (Vec::new(), 0);
    while unread.len() * length < 2 * MEMORY_LIMIT && refused < 24 {
        let response = news.guest().request(Method::GET, &feed).send().await.unwrap();
        match response.status().as_u16() {
            200 => unread.push(response),
            status => {
                refused += 1;
                assert!(status == 503 && response.headers().contains_key("retry-after"), "{status}");
            }
        }
    }

    assert!(unread.len() >= 24 && refused == 24, "{} served, {refused} refused", unread.len());
    author.news.post(POSTS, post).await.expect(201);
    news.guest().get(&format!("{POSTS}?PageSize=1")).await.expect(200);
    let taken = news.memory("VmHWM") + news.unread_response_bytes().iter().sum::<usize>();
    assert!(taken < MEMORY_LIMIT, "{} MiB", taken / MIB);
    drop(unread);
    let read = async || (news.guest().get(&feed).await.status == 200).then_some(());
    eventually("closed connections free their reservations", read).await;
}
