//! Rules 6 and 7: snapshots that are kept, and snapshots that are taken.

use serde_json::{Value, json};
use testkit::faults::Fault;
use uuid::Uuid;

use crate::{
    MANAGE, author, author_of, between, detached, each, embed, embed_snapshot, guid, read_snapshot,
    selections, service, snapshot_path, taking, text, text_block, with,
};

/// Rule 7: `SnapshotId`, `PublicCode`, `Title`, `ItemsCount` are written into the block.
#[tokio::test]
async fn a_source_becomes_a_snapshot() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);

    let saved = author.set_blocks(&post, [embed(&selection)]).await.expect(200);

    let block = author.read(&post).await["Blocks"][0].take();
    let snapshot = read_snapshot(text(&saved["EmbedSnapshotIds"][0])).await;
    for member in ["SnapshotId", "SourceSelectionId", "PublicCode", "Title", "ItemsCount", "Items"] {
        assert_eq!(block[member], snapshot[member], "{member}");
    }
    assert_eq!((&snapshot["PostId"], &snapshot["Status"]), (&json!(post), &json!("Active")));
    assert_eq!(block["SourceSelectionId"], selection);
}

/// Rule 7: in whose name the call is made. Both are told: the owner must be one of the two.
#[tokio::test]
async fn selections_is_told_of_actor_and_author() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let (post, selection) = (author.create_post().await, editor.create_selection().await);
    editor.set_blocks(&post, [embed(&selection)]).await.expect(200);
    let calls = between().calls(taking(&selection));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body, json!({"PostId": post, "ActorUserId": editor.id, "AuthorUserId": author.id}));
}

/// Rule 7: a repeat returns the existing active snapshot.
#[tokio::test]
async fn a_repeated_edit_keeps_its_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    for _ in 0..2 {
        let saved = author.set_blocks(&post, [text_block("x"), embed(&selection)]).await.expect(200);
        assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    }
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
}

/// INV-SEL-001: the source may change; what is embedded does not.
#[tokio::test]
async fn an_embed_is_immutable() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, _) = author.embed(&selection).await;
    let before = author.read(&post).await["Blocks"].take();
    let path = format!("/api/v1/selections/{selection}");
    author.selections.put(&path, json!({"Title": "Other", "Description": null})).await.expect(200);
    author.selections.put(&format!("{path}/items"), json!({"Items": []})).await.expect(200);
    author
        .set_blocks(&post, [with(embed(&selection), "BlockId", before[0]["BlockId"].clone())])
        .await
        .expect(200);
    assert_eq!(author.read(&post).await["Blocks"], before);
    author.delete_selection(&selection).await;
    author.set_blocks(&post, [embed(&selection)]).await.expect(200);
    assert_eq!(author.read(&post).await["Blocks"][0]["Title"], "Three flats");
}

/// Another post has a snapshot of its own.
#[tokio::test]
async fn two_posts_share_no_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let ((_, one), (_, other)) = (author.embed(&selection).await, author.embed(&selection).await);
    assert_ne!(one, other);
}

/// News: two blocks of the same source share one snapshot; the answer names it once.
#[tokio::test]
async fn two_blocks_of_one_source_share_a_snapshot() {
    let author = author();
    let (a, b) = (author.create_selection().await, author.create_selection().await);
    let post = author.create_post().await;

    let saved =
        author.set_blocks(&post, [embed(&b), text_block("x"), embed(&a), embed(&b)]).await.expect(200);

    let blocks = author.read(&post).await["Blocks"].take();
    assert_eq!(saved["BlocksCount"], 4);
    assert_eq!(saved["EmbedSnapshotIds"], json!([blocks[0]["SnapshotId"], blocks[2]["SnapshotId"]]));
    assert_eq!(blocks[0]["SnapshotId"], blocks[3]["SnapshotId"]);
    assert_ne!(blocks[0]["BlockId"], blocks[3]["BlockId"]);
    assert_eq!(between().calls(taking(&b)).len(), 1);
}

/// A snapshot and its own source, side by side, are the same snapshot.
#[tokio::test]
async fn a_snapshot_beside_its_source_is_one_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let saved = author.set_blocks(&post, [embed(&selection), embed_snapshot(&snapshot)]).await.expect(200);
    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
}

/// Rule 10: `EmbedSnapshotIds` are in block order, which `SortOrder` makes.
#[tokio::test]
async fn snapshots_are_told_in_block_order() {
    let author = author();
    let post = author.create_post().await;
    let mut blocks = Vec::new();
    for order in [5, 1, 9, 3] {
        blocks.push(with(embed(&author.create_selection().await), "SortOrder", order));
    }
    let sources: Vec<Value> = [1, 3, 0, 2].map(|at: usize| blocks[at]["SourceSelectionId"].clone()).into();
    let saved = author.set_blocks(&post, blocks).await.expect(200);
    let read = author.read(&post).await;
    assert_eq!(each(&read["Blocks"], "SourceSelectionId"), sources.iter().collect::<Vec<_>>());
    assert_eq!(
        each(&read["Blocks"], "SnapshotId"),
        saved["EmbedSnapshotIds"].as_array().unwrap().iter().collect::<Vec<_>>()
    );
}

/// Rule 6: a kept snapshot stays as it is, whatever has become of its source, and nobody is asked.
#[tokio::test]
async fn a_kept_snapshot_needs_no_call() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let before = author.read(&post).await["Blocks"].take();
    author.delete_selection(&selection).await;
    let (takes, reads) = (between().calls(taking(&selection)).len(), between().calls(&snapshot).len());

    let block = with(embed_snapshot(&snapshot), "BlockId", before[0]["BlockId"].clone());
    let saved = author.set_blocks(&post, [block]).await.expect(200);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    assert_eq!(author.read(&post).await["Blocks"], before);
    assert_eq!((between().calls(taking(&selection)).len(), between().calls(&snapshot).len()), (takes, reads));
}

/// Rule 6: a snapshot that is this post's, though not in it, is taken up as it is, whatever its source is now.
#[tokio::test]
async fn a_snapshot_of_this_post_is_kept_as_it_is() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let body = json!({"PostId": post, "ActorUserId": author.id});
    let take = format!("/api/v1{}", taking(&selection));
    let taken = selections().machine("news").post(&take, body).await.expect(201);
    author.delete_selection(&selection).await;

    let saved = author.set_blocks(&post, [embed_snapshot(text(&taken["SnapshotId"]))]).await.expect(200);

    assert_eq!(saved["EmbedSnapshotIds"], json!([taken["SnapshotId"]]));
    let block = author.read(&post).await["Blocks"][0].take();
    for member in ["SnapshotId", "PublicCode", "Title", "ItemsCount"] {
        assert_eq!(block[member], taken[member], "{member}");
    }
    assert_eq!(block["SourceSelectionId"], selection);
    assert!(between().calls(taking(&selection)).is_empty());
}

/// Rule 6: a snapshot that does not exist.
#[tokio::test]
async fn a_missing_snapshot_is_invalid() {
    let author = author();
    let post = author.create_post_of([text_block("kept")]).await;
    for missing in [guid(), Uuid::nil()] {
        let refused = author.set_blocks(&post, [embed_snapshot(&missing.to_string())]).await;
        refused.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    }
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}

/// Rule 6: a snapshot that is not Active.
#[tokio::test]
async fn a_detached_snapshot_is_invalid() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    author.set_blocks(&post, []).await.expect(200);
    detached(&snapshot).await;
    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
}

/// News: a snapshot must be bound to this post.
#[tokio::test]
async fn a_snapshot_of_another_post_is_invalid() {
    let author = author();
    let (_, foreign) = author.embed(&author.create_selection().await).await;
    let post = author.create_post().await;
    author.set_blocks(&post, [embed_snapshot(&foreign)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    assert_eq!(read_snapshot(&foreign).await["Status"], "Active");
}

/// Rule 7: a deleted source.
#[tokio::test]
async fn a_deleted_source_is_told() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    author.delete_selection(&selection).await;
    let refused = author.set_blocks(&post, [embed(&selection)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// Rule 7: an empty source.
#[tokio::test]
async fn an_empty_source_is_told() {
    let author = author();
    let post = author.create_post().await;
    let selection = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    let refused = author.set_blocks(&post, [embed(text(&selection["Id"]))]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_EMPTY");
}

/// News: a foreign or missing source is answered like a deleted one.
#[tokio::test]
async fn a_foreign_or_missing_source_is_told_like_a_deleted_one() {
    let author = author();
    let post = author.create_post().await;
    let foreign = crate::author().create_selection().await;
    let mut answers = Vec::new();
    for source in [foreign, guid().to_string(), Uuid::nil().to_string()] {
        let refused = author.set_blocks(&post, [embed(&source)]).await;
        let mut problem = refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
        problem["traceId"].take();
        answers.push(problem);
    }
    assert!(answers.iter().all(|told| *told == answers[0]), "nothing tells the one from the other");
}

/// News: the owner must be the actor or the post's author. A manager of posts may use
/// either's selections, and nobody else's.
#[tokio::test]
async fn an_editor_embeds_the_authors_selection_or_their_own() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post().await;
    let (theirs, own) = (author.create_selection().await, editor.create_selection().await);
    editor.set_blocks(&post, [embed(&theirs), embed(&own)]).await.expect(200);
    let foreign = crate::author().create_selection().await;
    let refused = editor.set_blocks(&post, [embed(&foreign)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// Of several sources that fail, the first block's failure is told; what was taken for the others is let go.
#[tokio::test]
async fn of_several_faults_the_first_blocks_is_told() {
    let author = author();
    let post = author.create_post().await;
    let (good, deleted) = (author.create_selection().await, author.create_selection().await);
    author.delete_selection(&deleted).await;
    let empty = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    let empty = embed(text(&empty["Id"]));
    let blocks = [embed(&good), empty.clone(), embed(&deleted)];
    author.set_blocks(&post, blocks).await.expect_problem(400, "NEWS_SELECTION_SOURCE_EMPTY");
    let blocks = [embed(&good), embed(&deleted), empty];
    author.set_blocks(&post, blocks).await.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
    assert_eq!(author.read(&post).await["Blocks"], json!([]));
}

/// A source that is embedded twice at the limit of blocks is still one call; others run side by side.
#[tokio::test]
async fn calls_run_side_by_side_and_bounded() {
    let author = author();
    let post = author.create_post().await;
    let mut sources = Vec::new();
    for _ in 0..10 {
        sources.push(author.create_selection().await);
    }
    let gates: Vec<_> = sources.iter().map(|source| between().hold(taking(source))).collect();
    let edit = author.set_blocks(&post, sources.iter().map(|source| embed(source)));
    let watch = async {
        for gate in &gates[..8] {
            gate.arrived().await;
        }
        let arrived =
            |sources: &[String]| sources.iter().map(|s| between().calls(taking(s)).len()).sum::<usize>();
        assert_eq!((arrived(&sources[..8]), arrived(&sources[8..])), (8, 0));
        gates.iter().for_each(testkit::faults::Gate::open);
    };
    let (saved, ()) = futures_util::future::join(edit, watch).await;
    assert_eq!(saved.expect(200)["EmbedSnapshotIds"].as_array().unwrap().len(), 10);
}

/// A snapshot's read that selections refuses for a reason of its own is no 422.
#[tokio::test]
async fn a_snapshot_that_cannot_be_looked_up_is_not_called_invalid() {
    let author = author();
    let post = author.create_post().await;
    let snapshot = guid().to_string();
    between().on(snapshot_path(&snapshot), Fault::problem(403, "SELECTIONS_FORBIDDEN"));
    let refused = author.set_blocks(&post, [embed_snapshot(&snapshot)]).await;
    refused.expect_problem(503, "NEWS_SELECTIONS_UNAVAILABLE");
}
