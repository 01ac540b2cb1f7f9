//! Rules 6 and 7 of the blocks edit: snapshots that are kept and snapshots that are taken.

use news::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::eventually;
use testkit::faults::Fault;
use testkit::issuer::CLIENTS;
use testkit::service::Running;
use uuid::Uuid;

use crate::{
    MANAGE, OBJECT_UPSERTED, author, author_at, author_of, each, embed, embed_snapshot, guid, path, proxy,
    read_snapshot, selections, service, snapshot_path, take_path, text, text_block, wait_until_detached,
    with,
};

/// RULE-NWS-011: `SnapshotId`, `PublicCode`, `Title` and `ItemsCount` are written into the block.
#[tokio::test]
async fn source_becomes_a_snapshot() {
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

/// RULE-NWS-011: the call names actor and author, since the owner must be one of them.
#[tokio::test]
async fn snapshot_request_names_actor_and_author() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let (post, selection) = (author.create_post().await, editor.create_selection().await);
    editor.set_blocks(&post, [embed(&selection)]).await.expect(200);
    let calls = proxy().calls(take_path(&selection));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body, json!({"PostId": post, "ActorUserId": editor.id, "AuthorUserId": author.id}));
}

/// RULE-NWS-011, RULE-NWS-015: a repeated edit gets the existing Active snapshot.
#[tokio::test]
async fn repeated_edit_keeps_its_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    for _ in 0..2 {
        let saved = author.set_blocks(&post, [text_block("x"), embed(&selection)]).await.expect(200);
        assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    }
    assert_eq!(read_snapshot(&snapshot).await["Status"], "Active");
}

/// INV-SEL-001: a change of the source does not change the embed.
#[tokio::test]
async fn embed_is_immutable() {
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

/// INV-DEV-6, RULE-NWS-056: readers no longer see the data of an object that is not public any
/// more, and see it again once the object is public.
#[tokio::test]
async fn object_that_is_not_public_is_withheld_from_readers() {
    let news = Running::start::<Service>(&[
        ("SELECTIONS_URL", &proxy().url()),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("EMBEDS_WAIT_MS", "20000"),
        ("EMBEDS_MAX_AGE_MS", "300"),
        ("GUEST_READS_PER_MINUTE", "0"),
    ]);
    let (object, author) = (guid(), author_at(&news));
    let publish = async |version: i64, is_public: bool| {
        let payload = json!({
            "Id": object, "Version": version, "TenantId": guid(), "IsPublic": is_public, "ProjectId": guid(),
            "ProjectName": "Forest", "BuildingId": guid(), "BuildingName": "1", "Number": "7", "Kind": "Flat",
            "IsStudio": false, "Rooms": 2, "Floor": 7, "AreaTotal": 54.35, "Finishing": "Fine",
            "Price": {"AmountMinor": 100, "Currency": "RUB"}, "Status": "Available", "LayoutFileId": null,
            "HoldDealId": null,
        });
        selections().bus().publish(OBJECT_UPSERTED, object, version, &payload).await;
    };
    publish(1, true).await;
    let selection = json!({"Title": "One flat", "Items": [{"PropertyObjectId": object}]});
    let selection = author.selections.post("/api/v1/selections", selection).await.expect(201);
    // A snapshot that is taken before the event has no data.
    let post = eventually("a snapshot with the data", async || {
        let post = author.create_post_of([embed(text(&selection["Id"]))]).await;
        let items = author.read(&post).await["Blocks"][0]["Items"].take();
        (items[0]["Shown"]["Number"] == "7").then_some(post)
    })
    .await;
    author.change_status(&post, "publish").await.expect(200);
    let guest = news.guest();
    let tag = guest.get(&path(&post)).await.header("etag").to_owned();
    for (version, is_public) in [(2, false), (3, true)] {
        publish(version, is_public).await;
        eventually("the visibility of the object", async || {
            let item = guest.get(&path(&post)).await.expect(200)["Blocks"][0]["Items"][0].take();
            let is_shown = item["Shown"]["Number"] == "7" && item["Withheld"] == false;
            let is_withheld = item["Shown"].is_null() && item["Withheld"] == true;
            assert!(is_shown != is_withheld, "{item}");
            (is_shown == is_public).then_some(())
        })
        .await;
        // A guest who has the first response gets the new one, unless both are the same.
        let again = send(guest.request(Method::GET, &path(&post)).header("if-none-match", &tag)).await;
        assert_eq!(again.status, if is_public { 304 } else { 200 });
    }
}

/// INV-DEV-6, RULE-NWS-056: a post shows nothing of an object that was not public when its snapshot
/// was taken.
#[tokio::test]
async fn object_that_was_never_public_shows_nothing() {
    let (object, author) = (guid(), author());
    let payload = json!({"Id": object, "Version": 1, "IsPublic": false, "Number": "7"});
    selections().bus().publish(OBJECT_UPSERTED, object, 1, &payload).await;
    let sql = selections().sql().await;
    let stored = format!("select from property_object where id = '{object}'");
    eventually("the object in the copy", async || sql.query_opt(&stored, &[]).await.unwrap()).await;
    let selection = json!({"Title": "One flat", "Items": [{"PropertyObjectId": object}]});
    let selection = author.selections.post("/api/v1/selections", selection).await.expect(201);
    let post = author.create_post_of([embed(text(&selection["Id"]))]).await;
    author.change_status(&post, "publish").await.expect(200);
    let item = json!({"PropertyObjectId": object, "SortOrder": 0, "Shown": null, "Withheld": false});
    for reader in [&service().guest(), &author.news] {
        let read = reader.get(&path(&post)).await.expect(200);
        assert_eq!(read["Blocks"][0]["Items"], json!([item]));
    }
}

/// RULE-NWS-011: another post has its own snapshot.
#[tokio::test]
async fn two_posts_share_no_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let ((_, one), (_, other)) = (author.embed(&selection).await, author.embed(&selection).await);
    assert_ne!(one, other);
}

/// RULE-NWS-013: two blocks of one source share one snapshot and one call, and the response has it
/// once.
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
    assert_eq!(proxy().calls(take_path(&b)).len(), 1);
}

/// RULE-NWS-011: a source and its snapshot in one request result in one snapshot.
#[tokio::test]
async fn source_and_its_snapshot_result_in_one_snapshot() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let saved = author.set_blocks(&post, [embed(&selection), embed_snapshot(&snapshot)]).await.expect(200);
    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
}

/// RULE-NWS-013: `EmbedSnapshotIds` are in block order, which `SortOrder` defines.
#[tokio::test]
async fn snapshot_ids_are_returned_in_block_order() {
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

/// RULE-NWS-010: an edit keeps a snapshot of the stored content without a call, even if its source
/// is deleted.
#[tokio::test]
async fn kept_snapshot_needs_no_call() {
    let author = author();
    let selection = author.create_selection().await;
    let (post, snapshot) = author.embed(&selection).await;
    let before = author.read(&post).await["Blocks"].take();
    author.delete_selection(&selection).await;
    let (takes, reads) = (proxy().calls(take_path(&selection)).len(), proxy().calls(&snapshot).len());

    let block = with(embed_snapshot(&snapshot), "BlockId", before[0]["BlockId"].clone());
    let saved = author.set_blocks(&post, [block]).await.expect(200);

    assert_eq!(saved["EmbedSnapshotIds"], json!([snapshot]));
    assert_eq!(author.read(&post).await["Blocks"], before);
    assert_eq!((proxy().calls(take_path(&selection)).len(), proxy().calls(&snapshot).len()), (takes, reads));
}

/// RULE-NWS-010: a snapshot of the post that is not in its content is embedded as it is.
#[tokio::test]
async fn snapshot_of_this_post_is_embedded_as_it_is() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let body = json!({"PostId": post, "ActorUserId": author.id});
    let take = format!("/api/v1{}", take_path(&selection));
    let taken = selections().machine("news").post(&take, body).await.expect(201);
    author.delete_selection(&selection).await;

    let saved = author.set_blocks(&post, [embed_snapshot(text(&taken["SnapshotId"]))]).await.expect(200);

    assert_eq!(saved["EmbedSnapshotIds"], json!([taken["SnapshotId"]]));
    let block = author.read(&post).await["Blocks"][0].take();
    for member in ["SnapshotId", "PublicCode", "Title", "ItemsCount"] {
        assert_eq!(block[member], taken[member], "{member}");
    }
    assert_eq!(block["SourceSelectionId"], selection);
    assert!(proxy().calls(take_path(&selection)).is_empty());
}

/// RULE-NWS-010, RULE-NWS-050: a snapshot must exist.
#[tokio::test]
async fn missing_snapshot_is_invalid() {
    let author = author();
    let post = author.create_post_of([text_block("kept")]).await;
    for missing in [guid(), Uuid::nil()] {
        let refused = author.set_blocks(&post, [embed_snapshot(&missing.to_string())]).await;
        refused.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    }
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}

/// RULE-NWS-010, RULE-NWS-050: a snapshot must be Active.
#[tokio::test]
async fn detached_snapshot_is_invalid() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    author.set_blocks(&post, []).await.expect(200);
    wait_until_detached(&snapshot).await;
    author.set_blocks(&post, [embed_snapshot(&snapshot)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
}

/// RULE-NWS-010: a snapshot must belong to this post.
#[tokio::test]
async fn snapshot_of_another_post_is_invalid() {
    let author = author();
    let (_, foreign) = author.embed(&author.create_selection().await).await;
    let post = author.create_post().await;
    author.set_blocks(&post, [embed_snapshot(&foreign)]).await.expect_problem(422, "NEWS_SNAPSHOT_INVALID");
    assert_eq!(read_snapshot(&foreign).await["Status"], "Active");
}

/// RULE-NWS-011, RULE-NWS-051: a deleted source is refused.
#[tokio::test]
async fn deleted_source_is_refused() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    author.delete_selection(&selection).await;
    let refused = author.set_blocks(&post, [embed(&selection)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// RULE-NWS-011, RULE-NWS-052: an empty source is refused.
#[tokio::test]
async fn empty_source_is_refused() {
    let author = author();
    let post = author.create_post().await;
    let selection = author.selections.post("/api/v1/selections", json!({"Title": "Empty"})).await.expect(201);
    let refused = author.set_blocks(&post, [embed(text(&selection["Id"]))]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_EMPTY");
}

/// RULE-NWS-011, RULE-NWS-051: the response is the same for a foreign, a missing and a deleted
/// source.
#[tokio::test]
async fn foreign_or_missing_source_is_refused_like_a_deleted_one() {
    let author = author();
    let post = author.create_post().await;
    let foreign = crate::author().create_selection().await;
    let mut responses = Vec::new();
    for source in [foreign, guid().to_string(), Uuid::nil().to_string()] {
        let refused = author.set_blocks(&post, [embed(&source)]).await;
        let mut problem = refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
        problem["traceId"].take();
        responses.push(problem);
    }
    assert!(responses.iter().all(|response| *response == responses[0]), "the responses are the same");
}

/// RULE-NWS-011: an editor may embed own selections and those of the author.
#[tokio::test]
async fn editor_embeds_own_and_authors_selections() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post().await;
    let (theirs, own) = (author.create_selection().await, editor.create_selection().await);
    editor.set_blocks(&post, [embed(&theirs), embed(&own)]).await.expect(200);
    let foreign = crate::author().create_selection().await;
    let refused = editor.set_blocks(&post, [embed(&foreign)]).await;
    refused.expect_problem(400, "NEWS_SELECTION_SOURCE_DELETED");
}

/// RULE-NWS-011: if several sources fail, the error is that of the first block, and nothing is
/// saved.
#[tokio::test]
async fn first_of_several_faults_in_block_order_is_returned() {
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

/// RULE-NWS-023: eight calls of one edit run concurrently, and the others wait.
#[tokio::test]
async fn eight_calls_of_an_edit_run_concurrently() {
    let author = author();
    let post = author.create_post().await;
    let mut sources = Vec::new();
    for _ in 0..10 {
        sources.push(author.create_selection().await);
    }
    let gates: Vec<_> = sources.iter().map(|source| proxy().hold(take_path(source))).collect();
    let edit = author.set_blocks(&post, sources.iter().map(|source| embed(source)));
    let watch = async {
        for gate in &gates[..8] {
            gate.arrived().await;
        }
        let arrived =
            |sources: &[String]| sources.iter().map(|s| proxy().calls(take_path(s)).len()).sum::<usize>();
        assert_eq!((arrived(&sources[..8]), arrived(&sources[8..])), (8, 0));
        gates.iter().for_each(testkit::faults::Gate::open);
    };
    let (saved, ()) = futures_util::future::join(edit, watch).await;
    assert_eq!(saved.expect(200)["EmbedSnapshotIds"].as_array().unwrap().len(), 10);
}

/// RULE-NWS-010: if selections refuses a read, but not with 404, the edit returns 503 and not 422.
#[tokio::test]
async fn refused_snapshot_read_is_not_an_invalid_snapshot() {
    let author = author();
    let post = author.create_post().await;
    let snapshot = guid().to_string();
    proxy().inject(snapshot_path(&snapshot), Fault::problem(403, "SELECTIONS_FORBIDDEN"));
    let refused = author.set_blocks(&post, [embed_snapshot(&snapshot)]).await;
    refused.expect_problem(503, "NEWS_SELECTIONS_UNAVAILABLE");
}
