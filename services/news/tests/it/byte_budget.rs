//! What large bodies cost a process: its memory, its places, its patience. Each test has a process of
//! its own.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::deployed::Deployed;
use testkit::issuer::{CLIENTS, Claims};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::big::{answer, head};
use crate::{
    MANAGE_OWN, POSTS, between, blocks_path, content, embed, eventually, guid, list, path, selections, text,
    text_block,
};

const MIB: usize = 1024 * 1024;

async fn deploy() -> Deployed {
    // An unoptimized build on a busy machine takes its time over what is as large as it gets.
    let settings = [
        ("SELECTIONS_URL", &*between().url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("EMBEDS_WAIT_MS", "30000"),
        ("TRUSTED_PROXIES", "127.0.0.0/8"),
    ];
    Deployed::start(env!("CARGO_BIN_EXE_news"), &["serve"], &settings).await
}

/// Somebody with a post of their own.
struct Author {
    news: Client,
    post: String,
}

impl Author {
    async fn of(news: &Deployed) -> Self {
        let news = news.caller(&Claims::user(guid()).permission(MANAGE_OWN));
        let post = news.post(POSTS, json!({"Title": "Spring"})).await.expect(201);
        Self { post: text(&post["Id"]).to_owned(), news }
    }

    async fn put(&self, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.news.request(Method::PUT, &blocks_path(&self.post));
        send(request.header("content-type", "application/json").body(body)).await
    }
}

/// The largest legal edit, again and again, by one after the other. A single one was measured to take 16
/// times its body at its peak, and those before it must add little: twice that is the limit.
#[tokio::test]
async fn large_posts_one_after_the_other_keep_no_memory() {
    let news = deploy().await;
    let body = content(vec![text_block(&"𐍈".repeat(20_000)); 200]).to_string();
    let idle = news.memory("VmRSS");
    for _ in 0..2 {
        let author = Author::of(&news).await;
        author.put(body.clone()).await.expect(200);
        author.news.post(&format!("{POSTS}/{}/publish", author.post), Value::Null).await.expect(200);
        author.put(body.clone()).await.expect(200);
    }
    let grown = news.memory("VmHWM") - idle;
    assert!(grown < 32 * body.len(), "{} MiB", grown / MIB);
}

impl Author {
    /// Sends more than 1 MiB of an edit, and no more.
    async fn stall(&self) -> TcpStream {
        let (address, head) = head(&self.news, &self.post, "transfer-encoding: chunked");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let size = MIB + 64 * 1024;
        stream.write_all(&[format!("{size:x}\r\n").as_bytes(), &vec![b' '; size]].concat()).await.unwrap();
        stream
    }

    /// An edit above 1 MiB.
    async fn put_large(&self) -> Answer {
        self.put(format!("{}{}", content([text_block("x")]), " ".repeat(MIB))).await
    }
}

/// Conventions: of large bodies eight are held at once; who finds no place is told when to come again, and those
/// who send too slowly lose theirs.
#[tokio::test]
async fn who_sends_slowly_keeps_no_place() {
    let news = deploy().await;
    let other = Author::of(&news).await;

    // A place that the other found before all eight were taken is none of theirs: they come anew then.
    let (stalled, refused) = eventually("no place is left", async || {
        let authors = join_all((0..8).map(|_| Author::of(&news))).await;
        let stalled = join_all(authors.iter().map(Author::stall)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answer = other.put_large().await;
        (answer.status != 200).then_some((stalled, answer))
    })
    .await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(503, "SERVICE_UNAVAILABLE");
    other.put(content([text_block("small")]).to_string()).await.expect(200);

    for stream in stalled {
        let answer = answer(stream).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("REQUEST_TIMEOUT"), "{answer}");
    }
    other.put_large().await.expect(200);
}

/// Conventions: a caller has one place, whatever else is free.
#[tokio::test]
async fn a_caller_sends_one_large_body_at_a_time() {
    let news = deploy().await;
    let author = Author::of(&news).await;

    // Of the two, whoever comes second is refused; the one that stalls has to be first.
    let (stalled, refused) = eventually("the place is taken", async || {
        let stalled = author.stall().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let answer = author.put_large().await;
        (answer.status != 200).then_some((stalled, answer))
    })
    .await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(429, "RATE_LIMITED");
    Author::of(&news).await.put_large().await.expect(200);

    drop(stalled);
    let answered = async || (author.put_large().await.status == 200).then_some(());
    eventually("who hangs up leaves", answered).await;
}

/// Conventions: a body of any size comes at some pace or not at all.
#[tokio::test]
async fn a_body_that_comes_too_slowly_is_not_waited_for() {
    let author = crate::author();
    let post = author.create_post().await;
    let (address, head) = head(&author.news, &post, "content-length: 100000");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let dripping = async {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = answer(reader) => answer,
        () = dripping => unreachable!("it does not end"),
    };
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("REQUEST_TIMEOUT"), "{answer}");
}

/// The post that takes most when it is shown, for all to read: its author, its path, and how large it was on its way
/// in. Its characters are six bytes of JSON each, one in memory.
async fn publish_large(news: &Deployed) -> (Author, String, usize) {
    let body = content(vec![text_block(&"\u{1}".repeat(20_000)); 200]).to_string();
    let (author, length) = (Author::of(news).await, body.len());
    author.put(body).await.expect(200);
    author.news.post(&format!("{POSTS}/{}/publish", author.post), Value::Null).await.expect(200);
    let path = path(&author.post);
    (author, path, length)
}

fn come_again(answer: Answer, status: u16, code: &str) {
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    answer.expect_problem(status, code);
}

/// Of many who read the largest post a few are served and the rest come again.
#[tokio::test]
async fn readers_of_large_posts_share_a_room() {
    let news = deploy().await;
    let (_, path, length) = publish_large(&news).await;
    // That of the edit was higher.
    news.forget_peak();
    let before = news.memory("VmHWM");

    let readers: Vec<_> = (0..24).map(|_| news.caller(&Claims::user(guid()))).collect();
    let answers = join_all(readers.iter().map(|reader| reader.get(&path))).await;
    let (read, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!(!read.is_empty());
    for answer in refused {
        come_again(answer, 503, "SERVICE_UNAVAILABLE");
    }
    let grown = news.memory("VmHWM") - before;
    assert!(grown < 8 * length, "{} MiB", grown / MIB);
}

/// Conventions: a reader has one large post under way, until it is read or its reader has left.
#[tokio::test]
async fn a_reader_reads_one_large_post_at_a_time() {
    let news = deploy().await;
    let (_, path, _) = publish_large(&news).await;
    let reader = news.caller(&Claims::user(guid()));

    let unread = reader.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(unread.status(), 200);
    come_again(reader.get(&path).await, 429, "RATE_LIMITED");
    news.caller(&Claims::user(guid())).get(&path).await.expect(200);

    drop(unread);
    let asked = async || (send(reader.request(Method::HEAD, &path)).await.status == 200).then_some(());
    eventually("who hangs up leaves", asked).await;
    reader.get(&path).await.expect(200);
}

/// What embeds show is part of the answer, and counts: a short post may be a large one to its readers.
#[tokio::test]
async fn what_embeds_show_takes_room() {
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
    let answers = join_all((0..8).map(|_| author.get(&path))).await;
    let (read, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!(!read.is_empty() && !refused.is_empty());
    for answer in refused {
        come_again(answer, 429, "RATE_LIMITED");
    }
}

/// Whoever reads a post cannot keep it public by not reading on, and not for long keep others from reading.
#[tokio::test]
async fn readers_that_do_not_read_keep_nobody_out() {
    let news = deploy().await;
    let (author, path, _) = publish_large(&news).await;
    let (mut unread, mut refused) = (Vec::new(), None);
    while refused.is_none() && unread.len() < 96 {
        let answer = news.caller(&Claims::user(guid())).request(Method::GET, &path).send().await.unwrap();
        if answer.status() == 200 { unread.push(answer) } else { refused = Some(answer.status().as_u16()) }
    }
    assert_eq!(refused, Some(503), "{} unread answers", unread.len());

    for change in ["unpublish", "publish"] {
        author.news.post(&format!("{POSTS}/{}/{change}", author.post), Value::Null).await.expect(200);
    }
    let read = async || (news.caller(&Claims::user(guid())).get(&path).await.status == 200).then_some(());
    eventually("who does not read on is given up", read).await;
}

/// News: who may not change a post hears that, however long it is, and however often they try.
#[tokio::test]
async fn who_may_not_change_a_large_post_takes_no_room() {
    let news = deploy().await;
    let (author, ..) = publish_large(&news).await;
    let stranger = news.caller(&Claims::user(guid()).permission(MANAGE_OWN));
    let unpublish = format!("{POSTS}/{}/unpublish", author.post);
    let answers = join_all((0..4).map(|_| stranger.post(&unpublish, Value::Null))).await;
    for answer in answers {
        answer.expect_problem(403, "FORBIDDEN");
    }
}

/// What a replica is granted (helm/lib/values.yaml).
const GRANTED: usize = 256 * MIB;

/// Conventions: whatever is read by however many, and however slowly, the process keeps within its memory, and what
/// the kernel keeps for it counts. The others are answered meanwhile: small answers, and those who change something.
#[tokio::test]
async fn slow_readers_of_lists_leave_a_process_within_its_memory() {
    let news = deploy().await;
    let author = Author::of(&news).await;
    // As long as a post can be in a list: each character is six bytes of JSON.
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

    // Each a guest of their own.
    let (mut unread, mut refused) = (Vec::new(), 0);
    while unread.len() * length < 2 * GRANTED && refused < 24 {
        let answer = news.guest().request(Method::GET, &feed).send().await.unwrap();
        match answer.status().as_u16() {
            200 => unread.push(answer),
            status => {
                refused += 1;
                assert!(status == 503 && answer.headers().contains_key("retry-after"), "{status}");
            }
        }
    }

    assert!(unread.len() >= 24 && refused == 24, "{} are read, {refused} refused", unread.len());
    author.news.post(POSTS, post).await.expect(201);
    news.guest().get(&format!("{POSTS}?PageSize=1")).await.expect(200);
    let taken = news.memory("VmHWM") + news.untaken().iter().sum::<usize>();
    assert!(taken < GRANTED, "{} MiB", taken / MIB);
    drop(unread);
    let read = async || (news.guest().get(&feed).await.status == 200).then_some(());
    eventually("those who leave make room", read).await;
}
