//! What news remembers of selections: the items of snapshots, and its own machine token.

use serde_json::{Value, json};
use testkit::faults::{Fault, Faults};

use crate::selections_down::{Scene, assert_unavailable};
use crate::{author_at, embed, eventually, path, selections, snapshot_path, start_with, taking, text};

/// Rendering: a post reads while selections is down, with the items that are remembered and `null` for the rest.
#[tokio::test]
async fn a_post_reads_while_selections_is_down() {
    let scene = Scene::new().await;
    scene.edit().await.expect(200);
    scene.between.refuse();
    let unseen = scene.author.read(&scene.post).await;
    assert_eq!(
        (&unseen["Blocks"][1]["Items"], &unseen["Blocks"][1]["Title"]),
        (&Value::Null, &json!("Three flats"))
    );

    scene.between.listen();
    let seen = eventually("the items are there", async || {
        let read = scene.author.read(&scene.post).await;
        read["Blocks"][1]["Items"].is_array().then_some(read)
    })
    .await;
    assert_eq!(seen["Blocks"][1]["Items"].as_array().unwrap().len(), 3);

    scene.between.refuse();
    assert_eq!(scene.author.read(&scene.post).await, seen, "remembered");
}

/// Rendering: a reader does not wait for a selections that does not answer; the call's own tries go on for longer.
#[tokio::test]
async fn a_post_reads_while_selections_does_not_answer() {
    let between = Faults::before(selections().internal_url());
    let news = start_with(&between.url(), "100");
    let author = author_at(&news);
    let post = author.create_post().await;
    author.set_blocks(&post, [embed(&author.create_selection().await)]).await.expect(200);
    between.on("/internal/snapshots/", Fault::HangAfterHeaders);

    let block = author.read(&post).await["Blocks"][0].take();

    assert_eq!((&block["Items"], &block["Title"]), (&Value::Null, &json!("Three flats")));
    assert!(between.calls("/internal/snapshots/").len() <= 1, "it was not asked again");
}

/// Rendering: a snapshot never changes, so it is asked for once, however often it is read.
#[tokio::test]
async fn a_snapshot_is_fetched_once() {
    let scene = Scene::new().await;
    let snapshot = text(&scene.edit().await.expect(200)["EmbedSnapshotIds"][0]).to_owned();
    scene.author.move_post(&scene.post, "publish").await.expect(200);
    for _ in 0..5 {
        let read = scene.news.guest().get(&path(&scene.post)).await.expect(200);
        assert_eq!(read["Blocks"][1]["Items"].as_array().unwrap().len(), 3);
    }
    assert_eq!(scene.between.calls(snapshot_path(&snapshot)).len(), 1);
}

/// Conventions, Token: the machine token is cached; and asked for anew when selections no longer takes it.
#[tokio::test]
async fn a_machine_token_is_kept_until_it_is_refused() {
    let scene = Scene::new().await;
    let token = |call: &testkit::faults::Call| call.headers["authorization"].clone();
    scene.edit().await.expect(200);
    scene.edit().await.expect(200);
    let calls = scene.between.calls(taking(&scene.selection));
    assert!(token(&calls[0]).starts_with("Bearer ") && token(&calls[0]) == token(&calls[1]));

    // Tokens of one second are the same: the issuer signs by the second, and its signatures differ.
    scene.between.next(1, taking(&scene.selection), Fault::problem(401, "SELECTIONS_UNAUTHORIZED"));
    scene.edit().await.expect(200);

    let calls = scene.between.calls(taking(&scene.selection));
    assert_eq!(calls.len(), 4);
    assert_eq!(token(&calls[2]), token(&calls[0]), "the token that was refused");
    assert_ne!(token(&calls[3]), token(&calls[0]), "the one that was asked for then");
    scene.between.on(taking(&scene.selection), Fault::problem(401, "SELECTIONS_UNAUTHORIZED"));
    let before = scene.tries();
    assert_unavailable(scene.edit().await);
    assert_eq!(scene.tries() - before, 2);
}
