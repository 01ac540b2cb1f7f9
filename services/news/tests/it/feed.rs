//! The feed and an author's own list.

use futures_util::future::{join_all, join3};
use news::Service;
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::{CLIENTS, Claims, Issuer};
use testkit::service::Running;
use testkit::{eventually, expensive, guests};

use crate::search_queries::find;
use crate::{
    POSTS, author, author_at, each, guid, list, path, publish, selections, service, start, text, text_block,
    unique_word,
};

/// RULE-NWS-035: the feed has the published posts for every caller, the latest first.
#[tokio::test]
async fn feed_shows_published_posts() {
    let (author, mark) = (author(), unique_word());
    let first = publish(&author, "First", &mark).await;
    let second = publish(&author, "Second", &mark).await;
    let draft = author.create_post_of([text_block(&mark)]).await;
    for caller in [&service().guest(), &author.news, &service().bearer("nonsense")] {
        let page = caller.get(&format!("{POSTS}?Query={mark}")).await.expect(200);
        assert_eq!(each(&page["Items"], "Id"), [second.as_str(), first.as_str()]);
        assert_eq!(
            (&page["TotalCount"], &page["Page"], &page["PageSize"]),
            (&json!(2), &json!(1), &json!(20))
        );
    }
    let feed = service().guest().get(&format!("{POSTS}?PageSize=100")).await.expect(200);
    assert!(list(&feed["Items"]).iter().all(|post| post["Status"] == "Published" && post["Id"] != draft));
    let shown = service().guest().get(&format!("{POSTS}?Query={mark}")).await.expect(200)["Items"][0].take();
    let post = author.read(&second).await;
    for member in
        ["Id", "Title", "Summary", "Tags", "AuthorId", "AuthorCompanyId", "Status", "PublishedAt", "Version"]
    {
        assert_eq!(shown[member], post[member], "{member}");
    }
    assert_eq!(shown["BlocksCount"], 1);
    assert_eq!(shown.get("AuthorUserId"), Some(&Value::Null), "RULE-NWS-055");
}

/// RULE-NWS-035, RULE-ALL-017: pages follow an allowed order without gaps and repetitions.
#[tokio::test]
async fn feed_is_paged_and_sorted() {
    let (author, mark) = (author(), unique_word());
    let mut posts = Vec::new();
    for _ in 0..5 {
        posts.push(publish(&author, "x", &mark).await);
    }
    let guest = service().guest();
    let page = async |rest: &str| guest.get(&format!("{POSTS}?Query={mark}{rest}")).await.expect(200);
    for (sort, reversed) in [
        ("", true),
        ("&Sort=-PublishedAt", true),
        ("&Sort=PublishedAt", false),
        ("&Sort=CreatedAt", false),
        ("&Sort=-CreatedAt", true),
    ] {
        let mut expected: Vec<Value> = posts.iter().map(|id| json!(id)).collect();
        if reversed {
            expected.reverse();
        }
        let mut seen = Vec::new();
        for number in 1..=3 {
            let page = page(&format!("&PageSize=2&Page={number}{sort}")).await;
            assert_eq!(page["TotalCount"], 5);
            seen.extend(each(&page["Items"], "Id").into_iter().cloned());
        }
        assert_eq!(seen, expected, "{sort}");
    }
    assert_eq!(page("&Page=99").await["Items"], json!([]));
    for (wrong, field, reason) in [
        ("PageSize=0", "/PageSize", "out_of_range"),
        ("PageSize=101", "/PageSize", "out_of_range"),
        ("Page=0", "/Page", "out_of_range"),
        ("Page=x", "/Page", "out_of_range"),
        ("Sort=Title", "/Sort", "unknown_value"),
        ("Sort=publishedAt", "/Sort", "unknown_value"),
        ("Page=1&Page=2", "/Page", "duplicate"),
        ("Mine=True", "/Mine", "invalid_type"),
        ("Mine=false&Mine=false", "/Mine", "duplicate"),
        ("Query=a&Query=b", "/Query", "duplicate"),
    ] {
        guest.get(&format!("{POSTS}?{wrong}")).await.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    guest.get(&format!("{POSTS}?PageSize=100")).await.expect(200);
}

/// RULE-NWS-035: posts of one instant are ordered by id, in the feed and in the caller's own list.
#[tokio::test]
async fn ties_are_ordered_by_id() {
    let (author, mark) = (author(), unique_word());
    let mut posts = Vec::new();
    for _ in 0..5 {
        posts.push(publish(&author, "x", &mark).await);
    }
    posts.sort_unstable();
    let sql = service().sql().await;
    for at_once in [
        "update post set published_at = now(), created_at = now() where author_user_id = $1::text::uuid",
        "update post_search set published_at = now(), created_at = now() \
         where post_id in (select id from post where author_user_id = $1::text::uuid)",
    ] {
        sql.execute(at_once, &[&author.id.to_string()]).await.unwrap();
    }
    for listed in [format!("Query={mark}"), "Mine=true".to_owned()] {
        for sort in ["PublishedAt", "-PublishedAt", "CreatedAt", "-CreatedAt"] {
            let mut seen = Vec::new();
            for number in 1..=3 {
                let page = format!("{POSTS}?{listed}&Sort={sort}&PageSize=2&Page={number}");
                let page = author.news.get(&page).await.expect(200);
                seen.extend(list(&page["Items"]).iter().map(|post| text(&post["Id"]).to_owned()));
            }
            assert_eq!(seen, posts, "{listed} by {sort}");
        }
    }
}

/// INV-NWS-008: after concurrent edits the search finds only the words of the stored content.
#[tokio::test]
async fn projection_equals_the_content_after_concurrent_edits() {
    let author = author();
    let post = author.publish_post().await;
    let words: Vec<String> = (0..10).map(|_| unique_word()).collect();
    for response in join_all(words.iter().map(|word| author.set_blocks(&post, [text_block(word)]))).await {
        if response.status != 200 {
            response.expect_problem(409, "CONCURRENCY_CONFLICT");
        }
    }
    let kept = author.read(&post).await["Blocks"][0]["Text"].take();
    for word in &words {
        let found = if kept == *word { vec![post.clone()] } else { Vec::new() };
        assert_eq!(find(word).await, found, "{kept} is kept");
    }
}

/// RULE-NWS-035: `Mine=true` lists the caller's own posts in every status.
#[tokio::test]
async fn author_lists_own_posts() {
    let author = author();
    publish(&crate::author(), "Foreign", "x").await;
    let mut ids = Vec::new();
    for way in [&[][..], &["publish"], &["publish", "unpublish"], &["archive"]] {
        let post = author.create_post_of([text_block("x")]).await;
        for step in way {
            author.change_status(&post, step).await.expect(200);
        }
        ids.push(post);
    }
    let deleted = author.create_post().await;
    author.news.delete(&path(&deleted)).await.expect(204);

    let page = author.news.get(&format!("{POSTS}?Mine=true&Sort=CreatedAt")).await.expect(200);

    assert_eq!(each(&page["Items"], "Id"), ids.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(each(&page["Items"], "Status"), ["Draft", "Published", "Unpublished", "Archived"]);
    assert_eq!(page["TotalCount"], 4);
    let last =
        author.news.get(&format!("{POSTS}?Mine=true&Sort=CreatedAt&PageSize=3&Page=2")).await.expect(200);
    assert_eq!(each(&last["Items"], "Id"), [ids[3].as_str()]);
    // A post that was never published counts as the newest.
    let newest = author.news.get(&format!("{POSTS}?Mine=true")).await.expect(200);
    assert_eq!(each(&newest["Items"], "Status")[2..], ["Unpublished", "Published"]);
    let stranger =
        service().caller(&Claims::user(guid())).get(&format!("{POSTS}?Mine=true")).await.expect(200);
    assert_eq!(stranger, json!({"Items": [], "Page": 1, "PageSize": 20, "TotalCount": 0}));
}

/// RULE-NWS-035: `Mine=true` returns 401 to guests and callers with an invalid token, before the
/// page is checked.
#[tokio::test]
async fn guest_cannot_list_own_posts() {
    let callers: [Client; 2] = [service().guest(), service().bearer("nonsense")];
    for caller in callers {
        for page in ["", "&Page=0", "&Sort=Title"] {
            caller.get(&format!("{POSTS}?Mine=true{page}")).await.expect_problem(401, "UNAUTHORIZED");
        }
        caller.get(&format!("{POSTS}?Mine=false")).await.expect(200);
        caller.get(&format!("{POSTS}?Mine=false&Page=0")).await.expect_problem(400, "VALIDATION_FAILED");
    }
}

/// RULE-NWS-042, RULE-ALL-026, RULE-ALL-027: a guest address has 120 reads a minute, of the feed
/// and of posts together.
#[tokio::test]
async fn guest_with_too_many_reads_is_rate_limited() {
    let (guest, another, author) = (service().guest(), service().guest(), author());
    let missing = format!("/api/v1/posts/{}", guid());

    let mut refused = None;
    for turn in 0..200 {
        let response = guest.get(if turn % 2 == 0 { "/api/v1/posts?PageSize=1" } else { &missing }).await;
        if response.status == 429 {
            refused = Some((turn, response));
            break;
        }
        author.news.get(&missing).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }

    let (turn, response) = refused.expect("a limit");
    assert!(turn >= 120, "after {turn} reads");
    assert!(response.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
    response.expect_problem(429, "RATE_LIMITED");
    another.get("/api/v1/posts?PageSize=1").await.expect(200);
}

/// RULE-ALL-026: each operation that is open to guests counts against their limit.
#[tokio::test]
async fn guest_above_limit_gets_429_from_each_operation() {
    let calls = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
    let limited = Running::start::<Service>(&[calls.as_slice(), &guests::SETTINGS].concat());
    guests::check(&limited, &[]).await;
}

/// RULE-ALL-027: a long post counts as one more read of a guest for each whole MiB.
#[tokio::test]
async fn long_post_of_a_guest_counts_by_its_size() {
    let settings = [
        ("SELECTIONS_URL", "http://127.0.0.1:1"),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("GUEST_READS_PER_MINUTE", "8"),
    ];
    let news = Running::start::<Service>(&settings);
    let author = author_at(&news);
    let post = author.create_post().await;
    author.set_blocks(&post, vec![text_block(&"w".repeat(20_000)); 60]).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    let guest = news.guest();
    for _ in 0..2 {
        let read = guest.get(&path(&post)).await;
        assert!(read.status == 200 && read.text.len() > 3 << 20, "{} bytes", read.text.len());
    }
    guest.get(&path(&post)).await.expect_problem(429, "RATE_LIMITED");
    author.news.get(&path(&post)).await.expect(200);
}

/// RULE-ALL-027: a part of `X-Forwarded-For` that is not text does not hide the address that the
/// proxy has added.
#[tokio::test]
async fn forwarded_address_counts_behind_a_part_that_is_not_text() {
    let settings = [
        ("SELECTIONS_URL", "http://127.0.0.1:1"),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("GUEST_READS_PER_MINUTE", "1"),
    ];
    let news = Running::start::<Service>(&settings);
    let read = async |forwarded_for: &[u8]| {
        let (client, request) = news.guest().request(Method::GET, POSTS).build_split();
        let mut request = request.unwrap();
        let forwarded_for = HeaderValue::from_bytes(forwarded_for).unwrap();
        request.headers_mut().insert("x-forwarded-for", forwarded_for);
        client.execute(request).await.unwrap().status().as_u16()
    };
    assert_eq!(read(b"\xff, 203.0.113.7").await, 200);
    assert_eq!(read(b"203.0.113.7").await, 429);
    assert_eq!(read(b"\xff, 203.0.113.8").await, 200);
}

/// RULE-ALL-105: a user has a limit of reads of the feed, and none of reads of posts.
#[tokio::test]
async fn user_above_limit_of_expensive_requests_gets_429() {
    let calls = [("SELECTIONS_URL", "http://127.0.0.1:1"), ("CLIENT_SECRET", CLIENTS[0].1)];
    let limited = Running::start::<Service>(&[calls.as_slice(), &expensive::SETTINGS].concat());
    expensive::check(&limited, &[POSTS, "/api/v1/posts?Query=x"], &path(&guid().to_string())).await;
}

/// RULE-NWS-035: the stored count is exact after concurrent changes, and the total is at most
/// 10,000.
#[tokio::test]
async fn total_is_exact_after_concurrent_changes() {
    let news = start("http://127.0.0.1:1");
    let author = author_at(&news);
    let total =
        async || news.guest().get(&format!("{POSTS}?PageSize=1")).await.expect(200)["TotalCount"].clone();
    let posts = join_all((0..12).map(async |_| author.publish_post().await)).await;
    assert_eq!(total().await, 12);
    let (unpublished, rest) = posts.split_at(4);
    let (deleted, edited) = rest.split_at(4);
    let unpublish = unpublished.iter().map(async |post| {
        // One of three concurrent unpublications counts.
        join_all((0..3).map(async |_| author.change_status(post, "unpublish").await)).await;
    });
    let delete = deleted.iter().map(async |post| {
        join_all((0..3).map(async |_| author.news.delete(&path(post)).await)).await;
    });
    let edit =
        edited.iter().map(async |post| author.set_blocks(post, [text_block("Changed")]).await.expect(200));
    join3(join_all(unpublish), join_all(delete), join_all(edit)).await;
    assert_eq!(total().await, 4);
    assert_eq!(list(&news.guest().get(POSTS).await.expect(200)["Items"]).len(), 4);
    author.change_status(&unpublished[0], "publish").await.expect(200);
    assert_eq!(total().await, 5);
    let sql = news.sql().await;
    for (count, expected) in [(9_999, 9_999), (10_000, 10_000), (10_001, 10_000)] {
        sql.batch_execute(&format!("update post_search_count set posts = {count}")).await.unwrap();
        assert_eq!(total().await, expected, "10,000 means at least 10,000");
    }
}

/// RULE-ALL-055: while the issuer is down, a caller with a token gets 503 instead of the feed of
/// guests.
#[tokio::test]
async fn unverifiable_token_does_not_get_the_guest_feed() {
    let unused = "http://127.0.0.1:1";
    let settings = [("AUTH_ISSUER", unused), ("SELECTIONS_URL", unused), ("CLIENT_SECRET", CLIENTS[0].1)];
    let news = Running::start::<news::Service>(&settings);
    let user = news.bearer(&Issuer::new(unused).unwrap().token(&Claims::user(guid())).unwrap());
    for path in [format!("{POSTS}?Mine=true"), POSTS.to_owned(), path(&guid().to_string())] {
        user.get(&path).await.expect_problem(503, "SERVICE_UNAVAILABLE");
    }
    news.guest().get(&format!("{POSTS}?Mine=true")).await.expect_problem(401, "UNAUTHORIZED");
    news.guest().get(POSTS).await.expect(200);
}

/// RULE-ALL-120: with a read replica, a guest's feed is that of the read replica, and a user's that
/// of the primary.
#[tokio::test]
async fn guest_reads_the_feed_from_the_replica() {
    let other = start(&selections().internal_url());
    let service = Running::start::<Service>(&[
        ("SELECTIONS_URL", &selections().internal_url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("DATABASE_READ_URL", &other.database_url),
    ]);
    let post = author_at(&other).publish_post().await;
    let ids = async |reader: &Client| {
        let page = reader.get(POSTS).await.expect(200);
        list(&page["Items"]).iter().map(|post| text(&post["Id"]).to_owned()).collect::<Vec<_>>()
    };

    let guest = service.guest();
    eventually("the read replica", async || (ids(&guest).await == [post.as_str()]).then_some(())).await;
    let (_, user) = service.user();
    assert_eq!(ids(&user).await, Vec::<String>::new());
}
