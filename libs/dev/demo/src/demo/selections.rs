//! The sixth chapter: a selection, from its first flat to a snapshot that outlives it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use serde_json::json;
use testkit::issuer::CLIENTS;
use uuid::Uuid;

use super::EVENT_TIMEOUT;
use super::scene::Scene;
use super::story::{Story, expected};
use devkit::actors::{ANNA, BORIS};
use devkit::events::{Follower, Record};

const CREATED: &str = "platform.selections.selection-created.v1";
const UPDATED: &str = "platform.selections.selection-updated.v1";
const ITEM_ADDED: &str = "platform.selections.selection-item-added.v1";
const DELETED: &str = "platform.selections.selection-deleted.v1";
/// The duration of the check that no further event arrives.
const SILENCE: Duration = Duration::from_secs(2);

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [CREATED, UPDATED, ITEM_ADDED, DELETED].map(str::to_owned).to_vec();
    let bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let selection = share(story, scene).await?;
    events(story, bus, selection).await
}

/// Creates, shares, changes and deletes a selection. Returns its id.
async fn share(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<Uuid> {
    let (anna, boris) = (scene.sign_in(&ANNA).await?, scene.sign_in(&BORIS).await?);
    let (own, internal) = (scene.public("selections"), scene.internal("selections")?);

    story.step("Anna puts three flats into a selection.");
    let items = json!([1, 2, 3].map(|number| json!({ "PropertyObjectId": scene.flats.id(number) })));
    let body = json!({ "Title": "Flats to look at on Sunday", "Items": items });
    let made = story.post(&own, Some(&anna), &body, expected(201)).await?;
    let code = made["PublicCode"].as_str().unwrap_or_default().to_owned();
    let base62 = code.len() == 12 && code.chars().all(|c| c.is_ascii_alphanumeric());
    story.check(base62, &format!("its public code {code} has 12 characters of base62"));
    let id = scene.record_created(&own, &made, &anna)?;

    story.step("A guest opens it by its code: no account, and nothing about the owner.");
    let by_code = format!("{own}/{code}");
    let seen = story.get(&by_code, None, expected(200)).await?;
    story.check(seen["Items"].as_array().is_some_and(|items| items.len() == 3), "the three flats are in it");
    let hidden = ["Id", "OwnerUserId", "Version"].iter().all(|name| seen.get(name).is_none());
    story.check(hidden, "neither Id, OwnerUserId nor Version is shown");

    story.step("Boris tries to edit it: it does not exist for him.");
    let list = format!("{own}/{id}/items");
    story
        .put(&list, Some(&boris), &json!({ "Items": [] }), expected(404).code("SELECTIONS_NOT_FOUND"))
        .await?;

    story.step("Anna puts the third flat first.");
    let items = json!([3, 1, 2].map(|number| json!({ "PropertyObjectId": scene.flats.id(number) })));
    let reordered = json!({ "Items": items });
    let after = story.put(&list, Some(&anna), &reordered, expected(200)).await?;
    story.check(after["Items"][0]["PropertyObjectId"] == json!(scene.flats.id(3)), "it is first now");

    story
        .step("She sends the same again, as after a lost connection: nothing changes, nothing is published.");
    let again = story.put(&list, Some(&anna), &reordered, expected(200)).await?;
    story.check(again["Version"] == after["Version"], &format!("Version is still {}", after["Version"]));

    story.step("A guest opens it again: the card of each flat comes with it.");
    let seen = story.get(&by_code, None, expected(200)).await?;
    let card = &seen["Items"][0]["Card"];
    story.check(card["Number"] == "3" && card["Price"].is_object(), &format!("the first card is {card}"));

    story.step("Anna switches the link off, and the code opens nothing. Then she switches it on again.");
    let link = format!("{own}/{id}/link");
    let off = json!({ "IsEnabled": false, "ExpiresAt": null });
    story.put(&link, Some(&anna), &off, expected(200)).await?;
    story.get(&by_code, None, expected(404).code("SELECTIONS_NOT_FOUND")).await?;
    let on = json!({ "IsEnabled": true, "ExpiresAt": null });
    let details = story.put(&link, Some(&anna), &on, expected(200)).await?;
    story.check(details["PublicCode"] == code, "its public code is the same");

    story.step("News requests its machine token from the issuer.");
    // The first client is news.
    let (client, secret) = CLIENTS[0];
    let form = [("grant_type", "client_credentials"), ("client_id", client), ("client_secret", secret)];
    let response = story.post_form(&format!("{}/token", scene.stack.issuer), &form, expected(200)).await?;
    let news = response["access_token"].as_str().unwrap_or_default().to_owned();

    story.step("News embeds the selection in a post: an immutable copy, on a port that guests cannot reach.");
    // An invented post, which selections does not look up.
    let body = json!({ "PostId": Uuid::from_u128(id.as_u128() ^ 1), "ActorUserId": ANNA.user });
    let snapshots = format!("{internal}/selections/{id}/snapshots");
    let taken = story.post(&snapshots, Some(&news), &body, expected(201)).await?;
    let snapshot = taken["SnapshotId"].as_str().unwrap_or_default().to_owned();
    story.check(taken["ItemsCount"] == 3, "the copy has three flats");

    story.step("News repeats the request: one post has one snapshot of a selection.");
    let repeated = story.post(&snapshots, Some(&news), &body, expected(200)).await?;
    story.check(repeated["SnapshotId"] == taken["SnapshotId"], "it is the same snapshot");

    story.step("A guest tries the internal route at the public address: it does not exist.");
    let outside = format!("{}/api/v1/internal/selections/{id}", scene.stack.base_url);
    story.get(&outside, None, expected(404).code("NOT_FOUND")).await?;

    story.step("Anna deletes the selection.");
    let one = format!("{own}/{id}");
    story.delete(&one, Some(&anna), expected(204)).await?;
    story.step("Once more: 404, which a client treats as success.");
    story.delete(&one, Some(&anna), expected(404).code("SELECTIONS_NOT_FOUND")).await?;
    story.step("Its code is gone and will never be reused.");
    story.get(&by_code, None, expected(404).code("SELECTIONS_NOT_FOUND")).await?;

    story.step("The snapshot in the post is untouched.");
    let kept = story.get(&format!("{internal}/snapshots/{snapshot}"), Some(&news), expected(200)).await?;
    let first = &kept["Items"][0];
    let object = &first["Shown"];
    let shown = first["PropertyObjectId"] == json!(scene.flats.id(3))
        && object["Number"] == "3"
        && object["Price"].is_object();
    story.check(shown, &format!("it has each flat as it was: {object}"));

    story.step("The post is deleted: news detaches its snapshot.");
    let detach = format!("{internal}/snapshots/{snapshot}/detach");
    let gone = story.post(&detach, Some(&news), &json!({ "Reason": "PostDeleted" }), expected(200)).await?;
    story.check(gone["Status"] == "Detached", &format!("Status is {}", gone["Status"]));
    Ok(id)
}

/// Checks the events of the selection: one for each change, none for a no-op.
async fn events(story: &mut Story, mut bus: Follower, selection: Uuid) -> anyhow::Result<()> {
    story.step("Kafka has an event for each change, in order, and none for a no-op.");
    let key = selection.to_string();
    let mut received: Vec<Record> = Vec::new();
    let mut wait = EVENT_TIMEOUT;
    while let Ok(record) = tokio::time::timeout(wait, bus.next()).await {
        let record = record?;
        if record.key == key {
            devkit::print_line(&format!(
                "    {}  sequence {}",
                record.topic,
                record.sequence.unwrap_or_default()
            ));
            if record.topic == DELETED {
                wait = SILENCE;
            }
            received.push(record);
        }
    }
    if received.is_empty() {
        bail!("no event of the selection arrived within {} s", EVENT_TIMEOUT.as_secs());
    }
    // The events come from three topics, so only the sequence determines their order.
    received.sort_by_key(|record| record.sequence);
    let topics: Vec<_> = received.iter().map(|record| record.topic.as_str()).collect();
    let expected = [CREATED, UPDATED, UPDATED, UPDATED, DELETED];
    story.check(topics == expected, "created, updated three times, deleted, and nothing else");
    let sequences: BTreeSet<_> = received.iter().filter_map(|record| record.sequence).collect();
    story.check(sequences.len() == received.len(), "ce_sequence grows from each to the next");
    let of_type = received.iter().all(|record| record.kind.as_deref() == Some(record.topic.as_str()));
    story.check(of_type, "each is a CloudEvent of its topic's type");
    Ok(())
}
