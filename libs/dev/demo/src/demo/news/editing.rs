//! The second part of the chapter: schedule, revisions, feed and the return of a deleted post.

use runtime::clock;
use serde_json::json;
use time::Duration;
use time::format_description::well_known::Rfc3339;

use super::Post;
use crate::demo::EVENT_TIMEOUT;
use crate::demo::scene::Scene;
use crate::demo::story::{Story, expected};

/// Time between the schedule and the publication.
const PUBLICATION_DELAY: Duration = Duration::seconds(2);

pub(super) async fn play(story: &mut Story, scene: &Scene<'_>, post: &Post) -> anyhow::Result<()> {
    schedule(story, scene, post).await?;
    restore(story, post).await?;
    undelete(story, post).await
}

async fn schedule(story: &mut Story, scene: &Scene<'_>, post: &Post) -> anyhow::Result<()> {
    let anna = Some(post.anna.as_str());

    story.step("Anna unpublishes the post, and schedules its publication two seconds from now.");
    story.post(&post.action("unpublish"), anna, &json!({}), expected(200)).await?;
    let publish_at = (clock::now() + PUBLICATION_DELAY).format(&Rfc3339)?;
    let body = json!({ "PublishAt": publish_at });
    let scheduled = story.put(&post.action("schedule"), anna, &body, expected(200)).await?;
    story.check(scheduled["Status"] == "Unpublished", &format!("PublishAt is {}", scheduled["PublishAt"]));

    story.step("A guest reads the post as soon as the job has published it.");
    let published = expected(200).within(EVENT_TIMEOUT);
    let seen = story.get(&post.page, None, published).await?;
    story.check(seen["Status"] == "Published" && seen["PublishAt"].is_null(), "it is published");

    story.step("The Atom feed has it, for readers of feeds.");
    let feed = story.get_text(&scene.public("posts/feed/atom"), None, expected(200)).await?;
    story.check(feed.contains(&format!("urn:uuid:{}", post.id)), "the feed has an entry with the post's id");
    Ok(())
}

async fn restore(story: &mut Story, post: &Post) -> anyhow::Result<()> {
    let anna = Some(post.anna.as_str());

    story.step("Anna removes all embeds by mistake. News keeps the replaced content as a revision.");
    let before = story.get(&post.page, anna, expected(200)).await?;
    story.put(&post.blocks(), anna, &post.with(&[]), expected(200)).await?;
    let revisions = post.action("revisions");
    let kept = story.get(&revisions, anna, expected(200)).await?;
    let lengths: Vec<_> =
        kept["Items"].as_array().into_iter().flatten().map(|one| &one["BlocksCount"]).collect();
    story.check(
        lengths.len() >= 2 && *lengths[0] == 1 && *lengths[1] == 3,
        &format!("{} revisions, the newest with {} block", lengths.len(), lengths[0]),
    );

    story.step("She restores it: the post has a new version with the earlier blocks.");
    let restore = format!("{revisions}/{}/restore", kept["Items"][1]["Version"]);
    let restored = story.post(&restore, anna, &json!({}), expected(200)).await?;
    story.check(
        restored["BlocksCount"] == 3 && restored["Version"] != before["Version"],
        &format!("BlocksCount is {}, Version is {}", restored["BlocksCount"], restored["Version"]),
    );
    Ok(())
}

async fn undelete(story: &mut Story, post: &Post) -> anyhow::Result<()> {
    let anna = Some(post.anna.as_str());

    story.step("She deletes the post. A guest gets 404 at once.");
    story.delete(&post.page, anna, expected(204)).await?;
    story.get(&post.page, None, expected(404).code("NEWS_POST_NOT_FOUND")).await?;

    story.step("Within 30 days she can bring it back: it is unpublished, with its blocks.");
    let back = story.post(&post.action("undelete"), anna, &json!(null), expected(200)).await?;
    story.check(
        back["Status"] == "Unpublished" && back["Blocks"].as_array().is_some_and(|blocks| blocks.len() == 3),
        &format!("it is {}", back["Status"]),
    );
    Ok(())
}
