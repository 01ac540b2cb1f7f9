//! The seventh chapter: a post that embeds a selection, also while selections is stopped.

mod editing;

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{EVENT_TIMEOUT, next_event};
use devkit::actors::ANNA;
use devkit::events::Follower;
use devstack::fixtures::building::Flats;

const PUBLISHED: &str = "platform.news.post-published.v1";

/// The post of the chapter.
struct Post {
    /// URL of the post.
    page: String,
    /// Anna's token.
    anna: String,
    id: Uuid,
    /// Two selections that the post can embed.
    sources: [Uuid; 2],
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let bus = Follower::open(&scene.stack.brokers, vec![PUBLISHED.to_owned()], false)?;
    let post = write(story, scene).await?;
    let first = publish(story, scene, &post, bus).await?;
    replace(story, scene, &post, &first).await?;
    outage(story, scene, &post).await?;
    editing::play(story, scene, &post).await
}

async fn write(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<Post> {
    let anna = scene.sign_in(&ANNA).await?;
    let (selections, posts) = (scene.public("selections"), scene.public("posts"));

    story.step("Anna wants to write about flats by the river: she creates two selections.");
    let mut sources = [Uuid::nil(); 2];
    let chosen = [("Under the roof", [9, 10, 11]), ("On the ground", [1, 2, 4])];
    for (source, (title, flats)) in sources.iter_mut().zip(chosen) {
        let items = json!(flats.map(|number| json!({ "PropertyObjectId": scene.flats.id(number) })));
        let body = json!({ "Title": title, "Items": items });
        let made = story.post(&selections, Some(&anna), &body, expected(201)).await?;
        *source = scene.record_created(&selections, &made, &anna)?;
    }

    story.step("She begins a post.");
    let body = json!({ "Title": "Living by the river", "Summary": "What is free now", "Tags": ["river"] });
    let made = story.post(&posts, Some(&anna), &body, expected(201)).await?;
    let id = scene.record_created(&posts, &made, &anna)?;
    story.check(made["Status"] == "Draft", "it is a draft");
    Ok(Post { page: format!("{posts}/{id}"), anna, id, sources })
}

/// Embeds a selection and publishes the post. Returns the id of the snapshot.
async fn publish(
    story: &mut Story,
    scene: &Scene<'_>,
    post: &Post,
    mut bus: Follower,
) -> anyhow::Result<String> {
    story.step(
        "She writes a text and embeds a selection: news takes an immutable copy of it from selections.",
    );
    let saved = story.put(&post.blocks(), Some(&post.anna), &post.with(&[0]), expected(200)).await?;
    let embedded = &saved["EmbedSnapshotIds"];
    let snapshot = embedded[0].as_str().context("no snapshot was taken")?.to_owned();
    story.check(saved["BlocksCount"] == 2 && embedded[1].is_null(), &format!("the copy is {snapshot}"));

    story.step("A guest uses the address already: a draft is not visible.");
    story.get(&post.page, None, expected(404).code("NEWS_POST_NOT_FOUND")).await?;

    story.step("Anna publishes it.");
    let published = story.post(&post.action("publish"), Some(&post.anna), &json!({}), expected(200)).await?;
    story.check(published["Status"] == "Published", "it is published");

    story.step("The guest reads it, with the flats as they were when they were embedded.");
    let seen = story.get(&post.page, None, expected(200)).await?;
    story
        .check(seen["Blocks"][0]["PlainText"] == "Three flats, seen from the water.", "Anna's text is there");
    story.check(shows(&seen["Blocks"][1], &scene.flats, &[9, 10, 11]), &described(&seen["Blocks"][1]));

    story.step("Kafka has the event, under the post's id.");
    let key = post.id.to_string();
    let record = next_event(&mut bus, |record| record.key == key).await?;
    story.check(record.kind.as_deref() == Some(PUBLISHED), "it is a CloudEvent of its topic's type");
    story.check(
        record.payload["EmbedSnapshotIds"] == *embedded,
        &format!("EmbedSnapshotIds are {}", record.payload["EmbedSnapshotIds"]),
    );
    Ok(snapshot)
}

async fn replace(story: &mut Story, scene: &Scene<'_>, post: &Post, first: &str) -> anyhow::Result<()> {
    story.step("Anna embeds the other selection in its place.");
    let saved = story.put(&post.blocks(), Some(&post.anna), &post.with(&[1]), expected(200)).await?;
    let now = &saved["EmbedSnapshotIds"][0];
    story.check(now.is_string() && *now != first, &format!("the post has another copy now: {now}"));

    story.step("News detaches the old copy after the edit, with retries.");
    let news = scene.token(&Claims::client("news"))?;
    let snapshot = format!("{}/snapshots/{first}", scene.internal("selections")?);
    let detached = |body: &Value| body["Status"] == "Detached";
    let old =
        story.get(&snapshot, Some(&news), expected(200).within(EVENT_TIMEOUT).showing(detached)).await?;
    story.check(old["DetachReason"] == "BlockReplaced", &format!("DetachReason is {}", old["DetachReason"]));

    story.step("The guest reads the post as it is now.");
    let seen = story.get(&post.page, None, expected(200)).await?;
    story.check(shows(&seen["Blocks"][1], &scene.flats, &[1, 2, 4]), &described(&seen["Blocks"][1]));
    Ok(())
}

async fn outage(story: &mut Story, scene: &mut Scene<'_>, post: &Post) -> anyhow::Result<()> {
    let before = story.get(&post.page, None, expected(200)).await?;

    story.step("Now selections stops, after its current work.");
    scene.stop("selections").await?;
    let list = scene.public("selections");
    story.get(&list, Some(&post.anna), expected(503).code("SERVICE_UNAVAILABLE").retry_after()).await?;

    story.step("Anna embeds both selections: the edit is rejected with `Retry-After`.");
    let both = post.with(&[1, 0]);
    let refused = expected(503).code("NEWS_SELECTIONS_UNAVAILABLE").retry_after();
    story.put(&post.blocks(), Some(&post.anna), &both, refused).await?;

    story.step("The guest still reads the post with its flats; the edit was not saved.");
    let seen = story.get(&post.page, None, expected(200)).await?;
    story.check(shows(&seen["Blocks"][1], &scene.flats, &[1, 2, 4]), &described(&seen["Blocks"][1]));
    story.check(
        seen["Version"] == before["Version"] && seen["Blocks"] == before["Blocks"],
        &format!("Version is still {}, and so are the blocks", seen["Version"]),
    );

    story.step("Selections is back. The same edit succeeds once the circuit breaker has closed.");
    scene.start().await?;
    let saved =
        story.put(&post.blocks(), Some(&post.anna), &both, expected(200).within(EVENT_TIMEOUT)).await?;
    let embedded = saved["EmbedSnapshotIds"].as_array().map_or(0, Vec::len);
    story.check(embedded == 2, "both selections are embedded");

    story.step("The guest reads both.");
    let seen = story.get(&post.page, None, expected(200)).await?;
    story.check(shows(&seen["Blocks"][1], &scene.flats, &[1, 2, 4]), &described(&seen["Blocks"][1]));
    story.check(shows(&seen["Blocks"][2], &scene.flats, &[9, 10, 11]), &described(&seen["Blocks"][2]));
    Ok(())
}

impl Post {
    fn action(&self, name: &str) -> String {
        format!("{}/{name}", self.page)
    }

    fn blocks(&self) -> String {
        self.action("blocks")
    }

    /// Returns a text block followed by embeds of the sources at these indexes.
    fn with(&self, sources: &[usize]) -> Value {
        let text = json!({
            "Kind": "Text",
            "BlockId": null,
            "SortOrder": 0,
            "Format": "Markdown",
            "Text": "Three flats, *seen from the water*.",
        });
        let embeds = (1..).zip(sources).map(|(order, source): (u32, _)| {
            json!({
                "Kind": "SelectionEmbed",
                "BlockId": null,
                "SortOrder": order,
                "SourceSelectionId": self.sources[*source],
            })
        });
        json!({ "Blocks": std::iter::once(text).chain(embeds).collect::<Vec<_>>() })
    }
}

/// Returns true if a block embeds these flats with their details.
fn shows(block: &Value, flats: &Flats, numbers: &[u32]) -> bool {
    let items = block["Items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.len() == numbers.len()
        && items.iter().zip(numbers).all(|(item, number)| {
            item["PropertyObjectId"] == json!(flats.id(*number))
                && item["Shown"]["Number"] == json!(number.to_string())
                && item["Shown"]["Price"].is_object()
        })
}

/// Returns the content of an embed as text.
fn described(block: &Value) -> String {
    let items = block["Items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let flats: Vec<_> = items
        .iter()
        .map(|item| {
            let shown = &item["Shown"];
            format!("no. {} of {} m²", shown["Number"].as_str().unwrap_or("?"), shown["AreaTotal"])
        })
        .collect();
    format!("{} shows {}", block["Title"], flats.join(", "))
}
