//! The life of a post.

use serde_json::json;

use crate::{PUBLISHED, author, embed, service, text_block};

#[tokio::test]
async fn a_post_with_an_embed_is_written_published_and_read_by_a_guest() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let blocks = json!({"Blocks": [text_block("Весна пришла"), embed(&selection)]});
    let saved = author.news.put(&format!("/api/v1/posts/{post}/blocks"), blocks).await.expect(200);
    service().guest().get(&format!("/api/v1/posts/{post}")).await.expect_problem(404, "NEWS_POST_NOT_FOUND");

    author.news.post(&format!("/api/v1/posts/{post}/publish"), json!({})).await.expect(200);

    let read = service().guest().get(&format!("/api/v1/posts/{post}")).await.expect(200);
    assert_eq!(read["Blocks"][1]["SnapshotId"], saved["EmbedSnapshotIds"][0]);
    assert_eq!(read["Blocks"][1]["Items"].as_array().map(Vec::len), Some(3));
    let events = service().bus().events_until(&post, PUBLISHED).await;
    assert_eq!(events[0].payload["EmbedSnapshotIds"], saved["EmbedSnapshotIds"]);
}
