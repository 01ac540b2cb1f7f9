//! Caches of news: the items of snapshots and the machine token.

use std::time::Duration;

use news::Service;
use serde_json::{Value, json};
use testkit::faults::{Fault, FaultProxy};
use testkit::issuer::CLIENTS;
use testkit::service::Running;

use crate::selections_down::{Fixture, assert_unavailable};
use crate::{author_at, embed, eventually, path, selections, snapshot_path, start_with, take_path, text};

/// RULE-NWS-026: while selections is down, cached items are shown, and other embeds have null
/// items.
#[tokio::test]
async fn post_is_readable_while_selections_is_down() {
    let fixture = Fixture::new().await;
    fixture.edit().await.expect(200);
    fixture.proxy.refuse();
    let unseen = fixture.author.read(&fixture.post).await;
    assert_eq!(
        (&unseen["Blocks"][1]["Items"], &unseen["Blocks"][1]["Title"]),
        (&Value::Null, &json!("Three flats"))
    );

    fixture.proxy.listen();
    let seen = eventually("the items are shown", async || {
        let read = fixture.author.read(&fixture.post).await;
        read["Blocks"][1]["Items"].is_array().then_some(read)
    })
    .await;
    assert_eq!(seen["Blocks"][1]["Items"].as_array().unwrap().len(), 3);

    fixture.proxy.refuse();
    assert_eq!(fixture.author.read(&fixture.post).await, seen, "the items are cached");
}

/// INV-DEV-6, RULE-NWS-026, RULE-NWS-056: while selections is down, cached items are shown up to
/// their maximum age. Older items are null, since their objects may be hidden by now.
#[tokio::test]
async fn cached_items_are_shown_up_to_their_maximum_age() {
    let proxy = FaultProxy::start(selections().internal_url());
    let news = Running::start::<Service>(&[
        ("SELECTIONS_URL", &proxy.url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("EMBEDS_WAIT_MS", "100"),
        ("EMBEDS_MAX_AGE_MS", "10000"),
    ]);
    let author = author_at(&news);
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    let items = async || author.read(&post).await["Blocks"][0]["Items"].take();
    let seen = eventually("the items are shown", async || Some(items().await).filter(Value::is_array)).await;
    let calls = || proxy.calls(snapshot_path(&snapshot)).len();
    let fetches = calls();
    items().await;
    assert_eq!(calls(), fetches, "the items are refreshed from half of their maximum age on");
    proxy.refuse();

    // Half of the maximum age has passed, so a reader tries to refresh the items.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(items().await, seen);

    eventually("the items are too old", async || items().await.is_null().then_some(())).await;
    proxy.listen();
    eventually("the items are shown again", async || (items().await == seen).then_some(())).await;
}

/// RULE-NWS-026: a reader does not wait for a call that hangs.
#[tokio::test]
async fn post_is_readable_while_selections_hangs() {
    let proxy = FaultProxy::start(selections().internal_url());
    let news = start_with(&proxy.url(), "100");
    let author = author_at(&news);
    let post = author.create_post().await;
    author.set_blocks(&post, [embed(&author.create_selection().await)]).await.expect(200);
    proxy.inject("/internal/snapshots/", Fault::HangAfterHeaders);

    let block = author.read(&post).await["Blocks"][0].take();

    assert_eq!((&block["Items"], &block["Title"]), (&Value::Null, &json!("Three flats")));
    assert!(proxy.calls("/internal/snapshots/").len() <= 1, "the snapshot is read at most once");
}

/// RULE-NWS-026: reads within half of the maximum age share one fetch of a snapshot.
#[tokio::test]
async fn snapshot_is_fetched_once() {
    let fixture = Fixture::new().await;
    let snapshot = text(&fixture.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    fixture.author.change_status(&fixture.post, "publish").await.expect(200);
    for _ in 0..5 {
        let read = fixture.news.guest().get(&path(&fixture.post)).await.expect(200);
        assert_eq!(read["Blocks"][1]["Items"].as_array().unwrap().len(), 3);
    }
    assert_eq!(fixture.proxy.calls(snapshot_path(&snapshot)).len(), 1);
}

/// RULE-NWS-022: the machine token is cached, and renewed when selections refuses it.
#[tokio::test]
async fn machine_token_is_cached_until_it_is_refused() {
    let fixture = Fixture::new().await;
    let token = |call: &testkit::faults::Call| call.headers["authorization"].clone();
    fixture.edit().await.expect(200);
    fixture.edit().await.expect(200);
    let calls = fixture.proxy.calls(take_path(&fixture.selection));
    assert!(token(&calls[0]).starts_with("Bearer ") && token(&calls[0]) == token(&calls[1]));

    // Each token has a random signature, so a renewed one differs.
    fixture.proxy.inject_next(
        1,
        take_path(&fixture.selection),
        Fault::problem(401, "SELECTIONS_UNAUTHORIZED"),
    );
    fixture.edit().await.expect(200);

    let calls = fixture.proxy.calls(take_path(&fixture.selection));
    assert_eq!(calls.len(), 4);
    assert_eq!(token(&calls[2]), token(&calls[0]), "the refused token");
    assert_ne!(token(&calls[3]), token(&calls[0]), "the renewed token");
    fixture.proxy.inject(take_path(&fixture.selection), Fault::problem(401, "SELECTIONS_UNAUTHORIZED"));
    let before = fixture.attempts();
    assert_unavailable(fixture.edit().await);
    assert_eq!(fixture.attempts() - before, 2);
}
