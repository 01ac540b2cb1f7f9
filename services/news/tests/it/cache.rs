//! What guests may keep of what is published, and how little of it they have to be sent.

use std::io::Read;

use reqwest::Method;
use reqwest::header::HeaderMap;
use testkit::client::{Client, send};

use crate::{POSTS, author, path, service, text_block};

/// Asks with one more header.
async fn ask(caller: &Client, path: &str, name: &str, value: &str) -> (u16, HeaderMap, Vec<u8>) {
    let answer = caller.request(Method::GET, path).header(name, value).send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.bytes().await.unwrap().to_vec())
}

/// Caches: a guest who has what is published already is told so, until it is another.
#[tokio::test]
async fn what_a_guest_has_already_is_not_sent_again() {
    let author = author();
    let post = author.publish_post().await;
    let guest = service().guest();
    let read = guest.get(&path(&post)).await;
    let tag = read.header("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    assert_eq!(read.header("cache-control"), "public, max-age=0, must-revalidate");

    for known in [&*tag, &format!("\"x\", {tag}"), "*"] {
        let again = send(guest.request(Method::GET, &path(&post)).header("if-none-match", known)).await;
        assert_eq!((again.status, again.header("etag"), &*again.text), (304, &*tag, ""), "{known}");
    }
    author.move_post(&post, "unpublish").await.expect(200);
    author.set_blocks(&post, [text_block("Лето")]).await.expect(200);
    author.move_post(&post, "publish").await.expect(200);
    let changed = send(guest.request(Method::GET, &path(&post)).header("if-none-match", &tag)).await;
    assert!(changed.status == 200 && changed.header("etag") != tag, "{}", changed.text);
}

/// Caches: what is sent to whoever is signed in may be theirs alone: nobody keeps it, and it is not compressed.
#[tokio::test]
async fn an_answer_to_somebody_is_kept_by_nobody() {
    let author = author();
    let post = author.create_post_of([text_block(&"дом ".repeat(1000))]).await;
    author.move_post(&post, "publish").await.expect(200);
    for path in [&*path(&post), &format!("{POSTS}?Mine=true")] {
        let (status, headers, _) = ask(&author.news, path, "accept-encoding", "zstd, gzip").await;
        assert_eq!((status, &headers["cache-control"]), (200, &"no-store".parse().unwrap()), "{path}");
        assert!(!headers.contains_key("etag") && !headers.contains_key("content-encoding"), "{path}");
        assert!(headers.get_all("vary").iter().any(|of| of == "Authorization, Accept-Encoding"), "{path}");
    }
    let (status, headers, _) = ask(&service().guest(), &format!("{POSTS}/x"), "if-none-match", "*").await;
    assert_eq!((status, &headers["cache-control"]), (404, &"no-store".parse().unwrap()));
}

/// Compression: a long answer comes as the guest takes it best; a short one, and whoever takes none, as it is.
#[tokio::test]
async fn a_long_answer_to_a_guest_is_compressed() {
    let author = author();
    let post =
        author.create_post_of((0..20).map(|n| text_block(&format!("{n} {}", "дом ".repeat(1000))))).await;
    author.move_post(&post, "publish").await.expect(200);
    let (path, guest) = (path(&post), service().guest());
    let plain = guest.get(&path).await;
    assert!(plain.text.len() > 64 * 1024, "{}", plain.text.len());
    for (accepted, used) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip;q=0.5, br", Some("gzip")),
        ("zstd;q=0, gzip", Some("gzip")),
        ("br", None),
        ("identity", None),
    ] {
        let (status, headers, body) = ask(&guest, &path, "accept-encoding", accepted).await;
        let encoding = headers.get("content-encoding").map(|encoding| encoding.to_str().unwrap());
        assert_eq!((status, encoding), (200, used), "{accepted}");
        assert_eq!(headers["etag"], plain.headers["etag"]);
        let mut text = String::new();
        match used {
            Some("zstd") => text = String::from_utf8(zstd::decode_all(&*body).unwrap()).unwrap(),
            Some(_) => _ = flate2::read::GzDecoder::new(&*body).read_to_string(&mut text).unwrap(),
            None => text = String::from_utf8(body.clone()).unwrap(),
        }
        assert_eq!(text, plain.text, "{accepted}");
        assert!(used.is_none() || body.len() < text.len() / 4, "{accepted}: {}", body.len());
    }
    let short = format!("{POSTS}?Query=nothing{}", crate::guid().simple());
    assert!(!ask(&guest, &short, "accept-encoding", "zstd").await.1.contains_key("content-encoding"));
}
