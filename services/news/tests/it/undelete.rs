//! Deleted posts that are brought back.

use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::Response;

use crate::quotas::start_with_limit;
use crate::selections_down::{Fixture, assert_unavailable};
use crate::{
    ARCHIVED, Author, CREATE_COMPANY, DELETED, MANAGE, MANAGE_OWN, POSTS, UNPUBLISHED, author, author_at,
    author_of, embed, eventually, guid, path, read_snapshot, service, text, text_block, wait_until_detached,
};

async fn undelete(author: &Author, post: &str) -> Response {
    author.news.post(&format!("{POSTS}/{post}/undelete"), Value::Null).await
}

/// RULE-NWS-083: a deleted post can be brought back with its content. A published one is
/// Unpublished, and the last event says so.
#[tokio::test]
async fn deleted_post_can_be_brought_back() {
    let author = author();
    for (way, status, topic) in [
        (&[][..], "Draft", UNPUBLISHED),
        (&["publish"], "Unpublished", UNPUBLISHED),
        (&["publish", "unpublish"], "Unpublished", UNPUBLISHED),
        (&["archive"], "Archived", ARCHIVED),
    ] {
        let post = author.create_post_of([text_block("x")]).await;
        for step in way {
            author.change_status(&post, step).await.expect(200);
        }
        let before = author.read(&post).await;
        author.news.delete(&path(&post)).await.expect(204);
        author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");

        let back = undelete(&author, &post).await.expect(200);

        assert_eq!((&back["Status"], &back["DeletedAt"]), (&json!(status), &Value::Null), "{way:?}");
        for member in ["Blocks", "Title", "PublishedAt", "AuthorId"] {
            assert_eq!(back[member], before[member], "{member}");
        }
        assert_eq!(author.read(&post).await, back);
        let mut events = service().published(&post).await;
        events.sort_by_key(Published::sequence);
        let last = &events[events.len() - 2..];
        assert_eq!([&last[0].topic, &last[1].topic], [DELETED, topic]);
        assert_eq!(last[1].payload["Version"], back["Version"]);
        undelete(&author, &post).await.expect_problem(409, "NEWS_POST_INVALID_TRANSITION");
    }
}

/// RULE-NWS-083: the embeds of a post that is brought back get new snapshots.
#[tokio::test]
async fn embeds_of_a_deleted_post_get_new_snapshots() {
    let author = author();
    let selection = author.create_selection().await;
    let post = author.create_post_of([embed(&selection), text_block("x")]).await;
    let old = text(&author.read(&post).await["Blocks"][0]["SnapshotId"]).to_owned();
    author.news.delete(&path(&post)).await.expect(204);
    assert_eq!(wait_until_detached(&old).await, "PostDeleted");

    let back = undelete(&author, &post).await.expect(200);

    let new = text(&back["Blocks"][0]["SnapshotId"]);
    assert_ne!(new, old);
    assert_eq!(read_snapshot(new).await["Status"], "Active");
    assert_eq!(
        (back["Blocks"][0]["Items"].as_array().unwrap().len(), &back["Blocks"][1]["PlainText"]),
        (3, &json!("x"))
    );
}

/// RULE-NWS-083: a post whose selection is gone is brought back without its embeds.
#[tokio::test]
async fn post_of_a_deleted_selection_is_brought_back_without_its_embeds() {
    let author = author();
    let selection = author.create_selection().await;
    let post = author.create_post_of([embed(&selection), text_block("x")]).await;
    let old = text(&author.read(&post).await["Blocks"][0]["SnapshotId"]).to_owned();
    author.news.delete(&path(&post)).await.expect(204);
    wait_until_detached(&old).await;
    author.delete_selection(&selection).await;
    let back = undelete(&author, &post).await.expect(200);
    assert_eq!(back["Blocks"].as_array().unwrap().len(), 1);
    let revision = author.news.get(&format!("{POSTS}/{post}/revisions/2")).await.expect(200);
    assert_eq!(revision["Blocks"][0]["SnapshotId"], old, "the revision still has the embed");
}

/// RULE-NWS-083: a post that another editor brings back has no embeds of the author's selections.
#[tokio::test]
async fn post_that_an_editor_brings_back_has_no_selection_of_the_author() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let selection = author.create_selection().await;
    let post = author.create_post_of([embed(&selection), text_block("x")]).await;
    let old = text(&author.read(&post).await["Blocks"][0]["SnapshotId"]).to_owned();
    author.news.delete(&path(&post)).await.expect(204);
    wait_until_detached(&old).await;
    let back = undelete(&editor, &post).await.expect(200);
    assert_eq!((back["Blocks"].as_array().unwrap().len(), &back["Blocks"][0]["PlainText"]), (1, &json!("x")));
}

/// RULE-NWS-083: while selections is down, a post with embeds stays deleted. A later request brings
/// it back with them.
#[tokio::test]
async fn post_with_embeds_stays_deleted_while_selections_is_down() {
    let fixture = Fixture::new().await;
    let (author, post) = (&fixture.author, fixture.post.as_str());
    let saved = fixture.edit().await.expect(200);
    let old = text(&saved["EmbedSnapshotIds"][0]).to_owned();
    author.news.delete(&path(post)).await.expect(204);
    wait_until_detached(&old).await;
    fixture.proxy.refuse();

    assert_unavailable(undelete(author, post).await);

    author.news.get(&path(post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    let sql = fixture.news.sql().await;
    let stored = "select version, blocks_count from post where id::text = $1 and deleted_at is not null";
    let row = sql.query_one(stored, &[&post]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (4, 2));
    fixture.proxy.listen();
    let back = eventually("the post is back", async || {
        let back = undelete(author, post).await;
        (back.status == 200).then_some(back.body)
    })
    .await;
    assert_eq!(back["Blocks"][1]["Items"].as_array().unwrap().len(), 3);
    assert_ne!(back["Blocks"][1]["SnapshotId"], old);
}

/// RULE-NWS-065, RULE-NWS-083: an author at the limit of drafts brings no draft back.
#[tokio::test]
async fn draft_above_the_limit_stays_deleted() {
    let news = start_with_limit("NEWS_MAX_DRAFTS_PER_AUTHOR", "1");
    let author = author_at(&news);
    let post = author.create_post_of([text_block("x")]).await;
    author.news.delete(&path(&post)).await.expect(204);
    let other = author.create_post().await;
    undelete(&author, &post).await.expect_problem(409, "NEWS_DRAFTS_LIMIT_EXCEEDED");
    author.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    author.news.delete(&path(&other)).await.expect(204);
    undelete(&author, &post).await.expect(200);
}

/// RULE-NWS-083: a post that a moderator has deleted is brought back by a moderator only, and then
/// by its author again. A colleague's deletion is undone by the author.
#[tokio::test]
async fn post_that_a_moderator_has_deleted_needs_a_moderator() {
    let company = guid();
    let author = author_of(service(), guid(), &|claims| {
        claims.company(company).permission(MANAGE_OWN).permission(CREATE_COMPANY)
    });
    let colleague =
        author_of(service(), guid(), &|claims| claims.company(company).permission(CREATE_COMPANY));
    let moderators: [Author; 2] =
        std::array::from_fn(|_| author_of(service(), guid(), &|claims| claims.permission(MANAGE)));
    let body = json!({"Title": "x", "AuthorCompanyId": company});
    let created = author.news.post(POSTS, body).await.expect(201);
    let post = text(&created["Id"]).to_owned();

    colleague.news.delete(&path(&post)).await.expect(204);
    undelete(&author, &post).await.expect(200);
    moderators[0].news.delete(&path(&post)).await.expect(204);
    for editor in [&author, &colleague] {
        undelete(editor, &post).await.expect_problem(403, "FORBIDDEN");
    }
    undelete(&moderators[1], &post).await.expect(200);
    author.news.delete(&path(&post)).await.expect(204);
    undelete(&author, &post).await.expect(200);
}

/// RULE-NWS-083: after 30 days a deleted post cannot be brought back, and never by a stranger.
#[tokio::test]
async fn deleted_post_is_gone_after_thirty_days() {
    let (author, stranger) = (author(), author());
    let (post, living) = (author.create_post().await, author.create_post().await);
    author.news.delete(&path(&post)).await.expect(204);
    undelete(&stranger, &post).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    undelete(&stranger, &living).await.expect_problem(403, "FORBIDDEN");
    let sql = service().sql().await;
    for (days, status) in [(31, 404), (29, 200)] {
        let aged = format!("update post set deleted_at = now() - interval '{days} days' where id::text = $1");
        sql.execute(&aged, &[&post]).await.unwrap();
        assert_eq!(undelete(&author, &post).await.status, status, "{days}");
    }
}
