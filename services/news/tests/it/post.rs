//! Operations on posts: creation, metadata, status changes, deletion.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, send};

use crate::{
    Author, CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author, author_of, embed, guid, path, read_snapshot,
    service, text, text_block, wait_until_detached,
};

const INVALID: &str = "VALIDATION_FAILED";

fn caller(permissions: &[&str], company: Option<uuid::Uuid>) -> Client {
    author_of(service(), guid(), &|mut claims| {
        claims.company_id = company;
        permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
    })
    .news
}

/// RULE-NWS-034: a guest reads a post with its embed after the publication, and not before.
#[tokio::test]
async fn published_post_with_an_embed_is_read_by_a_guest() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let saved = author.set_blocks(&post, [text_block("Весна пришла"), embed(&selection)]).await.expect(200);
    service().guest().get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");

    author.change_status(&post, "publish").await.expect(200);

    let read = service().guest().get(&path(&post)).await.expect(200);
    assert_eq!(read["Blocks"][1]["SnapshotId"], saved["EmbedSnapshotIds"][0]);
    assert_eq!(read["Blocks"][1]["Items"].as_array().map(Vec::len), Some(3));
    let mut own = author.read(&post).await;
    for hidden in ["AuthorUserId", "CreatedByUserId", "UpdatedByUserId"] {
        own[hidden] = Value::Null;
    }
    own["Blocks"][1]["SourceSelectionId"] = Value::Null;
    assert_eq!(read, own);
}

/// RULE-NWS-027: a new post has every member of a draft without blocks.
#[tokio::test]
async fn new_post_is_an_empty_draft() {
    let author = author();
    let body = json!({"Title": "Весна", "Summary": "Коротко", "CoverFileId": guid(), "Tags": ["дом", "сад"]});
    let post = author.news.post(POSTS, body.clone()).await.expect(201);
    for member in ["Title", "Summary", "CoverFileId", "Tags"] {
        assert_eq!(post[member], body[member]);
    }
    for member in ["AuthorUserId", "CreatedByUserId", "UpdatedByUserId"] {
        assert_eq!(post[member], author.id.to_string(), "{member}");
    }
    assert_eq!(
        (&post["Status"], &post["Blocks"], &post["Version"]),
        (&json!("Draft"), &json!([]), &json!(1))
    );
    for member in ["TenantId", "AuthorCompanyId", "PublishedAt", "DeletedAt"] {
        assert_eq!(post.get(member), Some(&Value::Null), "{member}");
    }
    assert!(text(&post["CreatedAt"]).ends_with('Z') && post["CreatedAt"] == post["UpdatedAt"]);
    assert_eq!(author.read(text(&post["Id"])).await, post);
    let bare = author.news.post(POSTS, json!({"Title": "x"})).await.expect(201);
    assert_eq!(
        (&bare["Summary"], &bare["CoverFileId"], &bare["Tags"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
}

/// RULE-NWS-027: `AuthorCompanyId` must be the token's company, and it becomes `TenantId`.
#[tokio::test]
async fn company_post_needs_the_tokens_own_company() {
    let company = guid();
    let body = json!({"Title": "x", "AuthorCompanyId": company});
    let manager = caller(&[CREATE_COMPANY], Some(company));
    let post = manager.post(POSTS, body.clone()).await.expect(201);
    assert_eq!((&post["AuthorCompanyId"], &post["TenantId"]), (&json!(company), &json!(company)));
    for other in [
        caller(&[CREATE_COMPANY], Some(guid())),
        caller(&[CREATE_COMPANY], None),
        caller(&[MANAGE_OWN], Some(company)),
        caller(&[MANAGE], Some(company)),
    ] {
        other.post(POSTS, body.clone()).await.expect_problem(403, "FORBIDDEN");
    }
}

/// RULE-NWS-027: a personal post needs `news.posts.manage-own`.
#[tokio::test]
async fn personal_post_needs_its_permission() {
    let body = json!({"Title": "x", "AuthorCompanyId": null});
    caller(&[MANAGE_OWN], None).post(POSTS, body.clone()).await.expect(201);
    caller(&[&format!("{MANAGE_OWN}@organization")], None).post(POSTS, body.clone()).await.expect(201);
    for other in [
        caller(&[], None),
        caller(&[CREATE_COMPANY], Some(guid())),
        caller(&["news.posts.manage-own-not"], None),
        caller(&["news.posts"], None),
        caller(&["NEWS.POSTS.MANAGE-OWN"], None),
    ] {
        other.post(POSTS, body.clone()).await.expect_problem(403, "FORBIDDEN");
    }
}

/// RULE-NWS-027, RULE-NWS-030: 401 and 403 precede the checks of the body.
#[tokio::test]
async fn missing_permission_precedes_an_invalid_body() {
    for (caller, status, code) in
        [(service().guest(), 401, "UNAUTHORIZED"), (caller(&[], None), 403, "FORBIDDEN")]
    {
        for (kind, body) in
            [("application/json", "{"), ("text/plain", "x"), ("application/json", "{\"Title\":\"\"}")]
        {
            let request = caller.request(Method::POST, POSTS).header("content-type", kind).body(body);
            send(request).await.expect_problem(status, code);
        }
    }
}

/// RULE-NWS-028: a tag that search does not distinguish from an earlier one is left out.
#[tokio::test]
async fn repeated_tag_is_one_tag() {
    let author = author();
    let tags = json!(["дом", "Ёлки", "дом", "сад", "ДОМ", "елки\u{200b}"]);
    let post = author.news.post(POSTS, json!({"Title": "x", "Tags": tags})).await.expect(201);
    assert_eq!(post["Tags"], json!(["дом", "Ёлки", "сад"]));
    let tags = json!(["а", "а"]);
    let put = json!({"Title": "x", "Tags": tags});
    let changed = author.news.put(&path(text(&post["Id"])), put).await.expect(200);
    assert_eq!(changed["Tags"], json!(["а"]));
}

/// RULE-NWS-028: title, summary and tags have the same limits in creation and change.
#[tokio::test]
async fn metadata_has_its_limits() {
    let author = author();
    let existing = author.create_post().await;
    let long = |count: usize| "🏠".repeat(count);
    let tags = |count: usize| (0..count).map(|tag| format!("tag {tag}")).collect::<Vec<_>>();
    for good in [
        json!({"Title": long(1), "Summary": "", "Tags": tags(0)}),
        json!({"Title": long(256), "Summary": long(1000), "Tags": tags(20)}),
        json!({"Title": "x", "Summary": null, "Tags": [long(64)]}),
    ] {
        author.news.post(POSTS, good.clone()).await.expect(201);
        let changed = author.news.put(&path(&existing), good.clone()).await.expect(200);
        assert_eq!(
            (&changed["Title"], &changed["Summary"], &changed["Tags"]),
            (&good["Title"], &good["Summary"], &good["Tags"])
        );
    }
    for (bad, field, reason) in [
        (json!({}), "/Title", "required"),
        (json!({"Title": null}), "/Title", "invalid_type"),
        (json!({"Title": ""}), "/Title", "too_short"),
        (json!({"Title": " "}), "/Title", "too_short"),
        (json!({"Title": "\u{200b}\u{a0}"}), "/Title", "too_short"),
        (json!({"Title": "x", "Tags": ["\u{2060}"]}), "/Tags/0", "too_short"),
        (json!({"Title": long(257)}), "/Title", "too_long"),
        (json!({"Title": "a\0"}), "/Title", "forbidden_character"),
        (json!({"Title": "x", "Summary": long(1001)}), "/Summary", "too_long"),
        (json!({"Title": "x", "Tags": tags(21)}), "/Tags", "too_many"),
        (json!({"Title": "x", "Tags": ["ok", ""]}), "/Tags/1", "too_short"),
        (json!({"Title": "x", "Tags": [long(65)]}), "/Tags/0", "too_long"),
        (json!({"Title": "x", "Tags": [7]}), "/Tags/0", "invalid_type"),
        (json!({"Title": "x", "CoverFileId": "x"}), "/CoverFileId", "invalid_type"),
    ] {
        author.news.post(POSTS, bad.clone()).await.expect_refusal(INVALID, field, reason);
        author.news.put(&path(&existing), bad).await.expect_refusal(INVALID, field, reason);
    }
    let company = author.news.post(POSTS, json!({"Title": "x", "AuthorCompanyId": "x"})).await;
    company.expect_refusal(INVALID, "/AuthorCompanyId", "invalid_type");
}

/// RULE-NWS-028: the metadata keeps what the request leaves out, and `null` clears it. The content
/// stays.
#[tokio::test]
async fn metadata_keeps_absent_members_and_clears_null_ones() {
    let author = author();
    let full = json!({"Title": "a", "Summary": "b", "CoverFileId": guid(), "Tags": ["c"]});
    let post = author.news.post(POSTS, full).await.expect(201);
    let id = text(&post["Id"]);
    author.set_blocks(id, [text_block("kept")]).await.expect(200);
    let forged = json!({"Title": "d", "Status": "Published", "AuthorUserId": guid(), "AuthorCompanyId": guid(), "Blocks": []});

    let changed = author.news.put(&path(id), forged).await.expect(200);

    assert_eq!(changed, author.read(id).await);
    assert_eq!(
        (&changed["Title"], &changed["Summary"], &changed["Tags"]),
        (&json!("d"), &json!("b"), &json!(["c"]))
    );
    assert_eq!(changed["CoverFileId"], post["CoverFileId"]);
    assert_eq!((&changed["Status"], &changed["AuthorUserId"]), (&json!("Draft"), &post["AuthorUserId"]));
    assert_eq!((&changed["AuthorCompanyId"], &changed["Blocks"][0]["Text"]), (&Value::Null, &json!("kept")));
    assert_eq!(changed["Version"], 3);

    let nulls = json!({"Title": "d", "Summary": null, "CoverFileId": null, "Tags": null});
    let cleared = author.news.put(&path(id), nulls).await.expect(200);
    assert_eq!(
        (&cleared["Summary"], &cleared["CoverFileId"], &cleared["Tags"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    assert_eq!((&cleared["Title"], &cleared["Version"]), (&json!("d"), &json!(4)));
}

/// RULE-NWS-028: an outdated `Version` is a conflict, and nothing is stored.
#[tokio::test]
async fn metadata_with_an_outdated_version_is_a_conflict() {
    let author = author();
    let post = author.create_post().await;
    author.news.put(&path(&post), json!({"Title": "a", "Version": 1})).await.expect(200);
    for stale in [1, 3, 0, -1] {
        let refused = author.news.put(&path(&post), json!({"Title": "b", "Version": stale})).await;
        refused.expect_problem(409, "CONCURRENCY_CONFLICT");
    }
    assert_eq!(author.read(&post).await["Title"], "a");
    author.news.put(&path(&post), json!({"Title": "b", "Version": 2})).await.expect(200);
    for wrong in [json!("2"), json!(1.5), json!(true)] {
        let refused = author.news.put(&path(&post), json!({"Title": "b", "Version": wrong})).await;
        refused.expect_refusal(INVALID, "/Version", "invalid_type");
    }
}

/// RULE-NWS-028: identical metadata changes nothing, also with an outdated `Version`.
#[tokio::test]
async fn identical_metadata_changes_nothing() {
    let author = author();
    let full = json!({"Title": "a", "Summary": "b", "CoverFileId": guid(), "Tags": ["c"], "Version": 1});
    let post = author.create_post().await;
    let changed = author.news.put(&path(&post), full.clone()).await.expect(200);
    assert_eq!(changed["Version"], 2);
    assert_eq!(author.news.put(&path(&post), full).await.expect(200), changed);
    assert_eq!(author.read(&post).await, changed);
}

/// RULE-NWS-030: body, post, access and status are checked in this order, except in the blocks
/// edit.
#[tokio::test]
async fn refusals_follow_their_order() {
    let (author, stranger) = (author(), author());
    let (post, missing) = (author.create_post().await, guid().to_string());
    author.change_status(&post, "archive").await.expect(200);
    let renamed = async |who: &Author, post: &str, body: Value| who.news.put(&path(post), body).await;
    let good = || json!({"Title": "y", "Version": 9});
    for (who, post) in [(&stranger, &missing), (&stranger, &post), (&author, &post)] {
        renamed(who, post, json!({"Title": ""})).await.expect_problem(400, INVALID);
    }
    renamed(&stranger, &missing, good()).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    renamed(&stranger, &post, good()).await.expect_problem(403, "FORBIDDEN");
    renamed(&author, &post, good()).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    for to in ["publish", "unpublish", "archive"] {
        stranger.change_status(&missing, to).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        stranger.change_status(&post, to).await.expect_problem(403, "FORBIDDEN");
        author.change_status(&post, to).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    }
}

/// RULE-NWS-029, RULE-NWS-048: each status change from each status has the result of the table.
#[tokio::test]
async fn status_changes_follow_the_table() {
    let author = author();
    let steps: [(&str, &[&str]); 4] = [
        ("Draft", &[]),
        ("Published", &["publish"]),
        ("Unpublished", &["publish", "unpublish"]),
        ("Archived", &["archive"]),
    ];
    for (from, steps) in steps {
        for (to, reached) in [("publish", "Published"), ("unpublish", "Unpublished"), ("archive", "Archived")]
        {
            let post = author.create_post_of([text_block("x")]).await;
            for step in steps {
                author.change_status(&post, step).await.expect(200);
            }
            let before = author.read(&post).await;
            assert_eq!(before["Status"], from);
            let changed = author.change_status(&post, to).await;
            match (from, to) {
                ("Draft" | "Unpublished", "publish" | "archive") | ("Published", "unpublish") => {
                    assert_eq!(changed.expect(200)["Status"], reached, "{from} {to}");
                    assert_eq!(author.read(&post).await["Version"], before["Version"].as_i64().unwrap() + 1);
                    continue;
                }
                ("Archived", _) => drop(changed.expect_problem(409, "NEWS_POST_ARCHIVED")),
                _ => drop(changed.expect_problem(409, "NEWS_POST_INVALID_TRANSITION")),
            }
            assert_eq!(author.read(&post).await, before, "{from} {to}: a refused change stores nothing");
        }
    }
}

/// RULE-NWS-032, RULE-NWS-049: each publication needs at least one block.
#[tokio::test]
async fn empty_post_is_not_published() {
    let author = author();
    let post = author.create_post().await;
    author.change_status(&post, "publish").await.expect_problem(409, "NEWS_POST_PUBLISH_INCOMPLETE");
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    author.change_status(&post, "unpublish").await.expect(200);
    author.set_blocks(&post, []).await.expect(200);
    author.change_status(&post, "publish").await.expect_problem(409, "NEWS_POST_PUBLISH_INCOMPLETE");
    author.change_status(&post, "archive").await.expect(200);
    author.change_status(&post, "publish").await.expect_problem(409, "NEWS_POST_ARCHIVED");
}

/// RULE-NWS-032: a later publication keeps the time of the first.
#[tokio::test]
async fn post_keeps_the_time_of_its_first_publication() {
    let author = author();
    let post = author.publish_post().await;
    let first = author.read(&post).await["PublishedAt"].take();
    assert!(first.is_string());
    author.change_status(&post, "unpublish").await.expect(200);
    assert_eq!(author.read(&post).await["PublishedAt"], first);
    author.change_status(&post, "publish").await.expect(200);
    assert_eq!(author.read(&post).await["PublishedAt"], first);
}

/// RULE-NWS-029, RULE-NWS-047: Archived is final for the metadata too, and the post can be deleted.
#[tokio::test]
async fn archived_post_cannot_be_changed() {
    let author = author();
    let post = author.create_post_of([text_block("x")]).await;
    author.change_status(&post, "archive").await.expect(200);
    let before = author.read(&post).await;
    author.news.put(&path(&post), json!({"Title": "b"})).await.expect_problem(409, "NEWS_POST_ARCHIVED");
    assert_eq!(author.read(&post).await, before);
    author.news.delete(&path(&post)).await.expect(204);
}

/// RULE-NWS-033: after 204 the post does not exist for any caller and any operation but its
/// undeletion.
#[tokio::test]
async fn deleted_post_is_not_found() {
    let author = author();
    let post = author.publish_post().await;
    author.news.delete(&path(&post)).await.expect(204);
    let manager = caller(&[MANAGE], None);
    for caller in [&author.news, &manager] {
        caller.delete(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        caller.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        caller.put(&path(&post), json!({"Title": "x"})).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        for to in ["publish", "unpublish", "archive"] {
            let changed = caller.post(&format!("{POSTS}/{post}/{to}"), Value::Null).await;
            changed.expect_problem(404, "NEWS_POST_NOT_FOUND");
        }
    }
    service().guest().get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
}

/// RULE-NWS-033: the snapshots are detached with reason `PostDeleted` and stay readable.
#[tokio::test]
async fn deletion_detaches_the_snapshots() {
    let author = author();
    let (one, other) = (author.create_selection().await, author.create_selection().await);
    let (post, snapshot) = author.embed(&one).await;
    let saved = author.set_blocks(&post, [embed(&one), embed(&other), embed(&one)]).await.expect(200);
    let (_, elsewhere) = author.embed(&one).await;

    author.news.delete(&path(&post)).await.expect(204);

    for snapshot in [&snapshot, text(&saved["EmbedSnapshotIds"][1])] {
        assert_eq!(wait_until_detached(snapshot).await, "PostDeleted");
        assert_eq!(read_snapshot(snapshot).await["ItemsCount"], 3);
    }
    assert_eq!(read_snapshot(&elsewhere).await["Status"], "Active");
}
