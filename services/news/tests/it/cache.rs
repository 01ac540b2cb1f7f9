//! Caching and compression of responses to guests.

use std::io::Read;

use reqwest::Method;
use reqwest::header::HeaderMap;
use testkit::client::{Client, send};

use crate::{POSTS, author, path, service, text_block};

/// Sends a request with one more header.
async fn get_with(caller: &Client, path: &str, name: &str, value: &str) -> (u16, HeaderMap, Vec<u8>) {
    let response = caller.request(Method::GET, path).header(name, value).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.bytes().await.unwrap().to_vec())
}

/// RULE-ALL-071: a guest with the current version gets 304 until the post changes.
#[tokio::test]
async fn current_version_is_not_sent_again_to_a_guest() {
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
    author.change_status(&post, "unpublish").await.expect(200);
    author.set_blocks(&post, [text_block("Лето")]).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    let changed = send(guest.request(Method::GET, &path(&post)).header("if-none-match", &tag)).await;
    assert!(changed.status == 200 && changed.header("etag") != tag, "{}", changed.text);
}

/// RULE-ALL-071: a response to a user is neither cached nor compressed, and a 404 to a guest is not
/// cached.
#[tokio::test]
async fn response_to_a_user_is_not_cached() {
    let author = author();
    let post = author.create_post_of([text_block(&"дом ".repeat(1000))]).await;
    author.change_status(&post, "publish").await.expect(200);
    for path in [&*path(&post), &format!("{POSTS}?Mine=true")] {
        let (status, headers, _) = get_with(&author.news, path, "accept-encoding", "zstd, gzip").await;
        assert_eq!((status, &headers["cache-control"]), (200, &"no-store".parse().unwrap()), "{path}");
        assert!(!headers.contains_key("etag") && !headers.contains_key("content-encoding"), "{path}");
        assert!(
            headers.get_all("vary").iter().any(|value| value == "Authorization, Accept-Encoding"),
            "{path}"
        );
    }
    let (status, headers, _) =
        get_with(&service().guest(), &format!("{POSTS}/x"), "if-none-match", "*").await;
    assert_eq!((status, &headers["cache-control"]), (404, &"no-store".parse().unwrap()));
}

/// RULE-ALL-071: a long response has the best encoding that the guest accepts, and a short one has
/// none.
#[tokio::test]
async fn long_response_to_a_guest_is_compressed() {
    let author = author();
    let post =
        author.create_post_of((0..20).map(|n| text_block(&format!("{n} {}", "дом ".repeat(1000))))).await;
    author.change_status(&post, "publish").await.expect(200);
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
        let (status, headers, body) = get_with(&guest, &path, "accept-encoding", accepted).await;
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
    assert!(!get_with(&guest, &short, "accept-encoding", "zstd").await.1.contains_key("content-encoding"));
}
