//! Snapshots, which news takes and detaches.

use serde_json::{Value, json};
use testkit::client::Response;
use uuid::Uuid;

use crate::{
    create_selection, create_selection_of, detach_snapshot, guid, items, items_path, members, objects, path,
    read_snapshot, service, snapshot_path, snapshots_path, take_snapshot, text,
};

async fn take(selection: &Value, body: Value) -> Response {
    service().machine("news").post(&snapshots_path(selection), body).await
}

/// RULE-SEL-008: a new snapshot returns 201, the existing one of the post 200.
#[tokio::test]
async fn post_takes_one_snapshot_of_a_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();

    let taken = take_snapshot(&selection, post).await.expect(201);
    assert_eq!(members(&taken), ["ItemsCount", "PublicCode", "SnapshotId", "Status", "Title"]);
    assert_eq!((&taken["PublicCode"], &taken["Title"]), (&selection["PublicCode"], &selection["Title"]));
    assert_eq!((&taken["ItemsCount"], &taken["Status"]), (&json!(3), &json!("Active")));

    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    let of_another_post = take_snapshot(&selection, guid()).await.expect(201);
    assert_ne!(of_another_post["SnapshotId"], taken["SnapshotId"]);
    let of_another_source = take_snapshot(&create_selection(&owner).await, post).await.expect(201);
    assert_ne!(of_another_source["SnapshotId"], taken["SnapshotId"]);
}

/// RULE-SEL-010: news reads the whole content of a snapshot.
#[tokio::test]
async fn snapshot_is_read_whole() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.put(&path(&selection), json!({"Title": "Spring", "Description": "Sea"})).await.expect(200);
    let post = guid();
    let taken = take_snapshot(&selection, post).await.expect(201);

    let read = read_snapshot(&taken).await;

    assert_eq!(
        members(&read),
        [
            "CreatedAt",
            "Description",
            "DetachReason",
            "DetachedAt",
            "Items",
            "ItemsCount",
            "PostId",
            "PublicCode",
            "SnapshotId",
            "SourceSelectionId",
            "Status",
            "Title",
        ]
    );
    for same in ["SnapshotId", "PublicCode", "Title", "ItemsCount", "Status"] {
        assert_eq!(read[same], taken[same], "{same}");
    }
    assert_eq!((&read["PostId"], &read["SourceSelectionId"]), (&json!(post), &selection["Id"]));
    assert_eq!(read["Description"], "Sea");
    assert_eq!((&read["DetachReason"], &read["DetachedAt"]), (&Value::Null, &Value::Null));
    assert_eq!(objects(&read), objects(&selection));
    for (index, item) in read["Items"].as_array().unwrap().iter().enumerate() {
        assert_eq!(members(item), ["PropertyObjectId", "Shown", "SortOrder", "Withheld"]);
        assert_eq!(item["SortOrder"], index);
    }
}

/// INV-SEL-001, INV-SEL-009, INV-SNP-004: later changes and the deletion of the source do not alter
/// the snapshot.
#[tokio::test]
async fn snapshot_keeps_the_state_of_its_source() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);
    let before = read_snapshot(&taken).await;

    owner.put(&path(&selection), json!({"Title": "Summer", "Description": "Sea"})).await.expect(200);
    owner.put(&items_path(&selection), json!({"Items": items(1)})).await.expect(200);
    assert_eq!(read_snapshot(&taken).await, before);
    owner.delete(&path(&selection)).await.expect(204);
    assert_eq!(read_snapshot(&taken).await, before);
}

/// RULE-SEL-020: an Active snapshot is returned even if its source was edited or deleted.
#[tokio::test]
async fn active_snapshot_outlives_edits_and_deletion_of_its_source() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let taken = take_snapshot(&selection, post).await.expect(201);

    owner.put(&path(&selection), json!({"Title": "Summer", "Description": null})).await.expect(200);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    owner.put(&items_path(&selection), json!({"Items": []})).await.expect(200);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    owner.delete(&path(&selection)).await.expect(204);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
}

/// INV-SNP-002, RULE-SEL-045, RULE-SEL-046: an empty or deleted source is refused.
#[tokio::test]
async fn empty_or_deleted_source_is_refused() {
    let (_, owner) = service().user();
    let empty = create_selection_of(&owner, json!([])).await;
    take_snapshot(&empty, guid()).await.expect_problem(400, "SELECTIONS_SOURCE_EMPTY");

    let deleted = create_selection(&owner).await;
    take_snapshot(&deleted, guid()).await.expect(201);
    owner.delete(&path(&deleted)).await.expect(204);
    take_snapshot(&deleted, guid()).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");

    owner.delete(&path(&empty)).await.expect(204);
    take_snapshot(&empty, guid()).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
}

/// RULE-SEL-021: the owner of the source is the actor or the author of the post.
#[tokio::test]
async fn source_must_belong_to_actor_or_author() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = |actor: Uuid, author: Option<Uuid>| json!({"PostId": guid(), "ActorUserId": actor, "AuthorUserId": author});
    for (actor, author) in [(id, None), (id, Some(id)), (id, Some(guid())), (guid(), Some(id))] {
        take(&selection, body(actor, author)).await.expect(201);
    }
    for author in [None, Some(guid())] {
        take(&selection, body(guid(), author)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    let missing = json!({"Id": guid()});
    take(&missing, body(id, None)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
}

/// RULE-SEL-021: a stranger cannot find out that a source is deleted or empty.
#[tokio::test]
async fn foreign_source_is_missing_in_every_state() {
    let (_, owner) = service().user();
    let body = json!({"PostId": guid(), "ActorUserId": guid(), "AuthorUserId": null});
    let selection = create_selection(&owner).await;
    take_snapshot(&selection, guid()).await.expect(201);
    let empty = create_selection_of(&owner, json!([])).await;
    for foreign in [&selection, &empty] {
        take(foreign, body.clone()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        owner.delete(&path(foreign)).await.expect(204);
        take(foreign, body.clone()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// RULE-SEL-020, RULE-SEL-021: the Active snapshot of the post is returned to every editor, because
/// the post shows it. Only the owner can take a new snapshot.
#[tokio::test]
async fn active_snapshot_is_returned_to_an_editor_who_owns_nothing() {
    let (_, owner) = service().user();
    let (selection, post) = (create_selection(&owner).await, guid());
    let taken = take_snapshot(&selection, post).await.expect(201);
    let mut body = json!({"PostId": post, "ActorUserId": guid(), "AuthorUserId": guid()});
    assert_eq!(take(&selection, body.clone()).await.expect(200), taken);
    owner.delete(&path(&selection)).await.expect(204);
    assert_eq!(take(&selection, body.clone()).await.expect(200), taken);
    body["ReplacesSnapshotId"] = taken["SnapshotId"].clone();
    take(&selection, body).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(read_snapshot(&taken).await["Status"], "Active");
}

/// RULE-SEL-050: a new snapshot replaces the Active one. A repeat returns the new snapshot.
#[tokio::test]
async fn new_snapshot_replaces_the_active_one() {
    let (_, owner) = service().user();
    let (selection, post) = (create_selection(&owner).await, guid());
    let first = take_snapshot(&selection, post).await.expect(201);
    owner.put(&path(&selection), json!({"Title": "Summer", "Description": null})).await.expect(200);
    let body = json!({
        "PostId": post, "ActorUserId": selection["OwnerUserId"], "ReplacesSnapshotId": first["SnapshotId"],
    });
    let responses = futures_util::future::join_all((0..10).map(|_| take(&selection, body.clone()))).await;
    let created = responses.iter().filter(|response| response.status == 201).count();
    let second = responses.into_iter().next().unwrap().body;
    assert_eq!((created, &second["Title"]), (1, &json!("Summer")));
    assert_eq!(take(&selection, body).await.expect(200), second);
    let replaced = read_snapshot(&first).await;
    assert_eq!(
        (&replaced["Status"], &replaced["DetachReason"]),
        (&json!("Detached"), &json!("BlockReplaced"))
    );
    assert_eq!(read_snapshot(&second).await["Status"], "Active");
}

/// RULE-SEL-050: the Active snapshot stays if its replacement is refused.
#[tokio::test]
async fn active_snapshot_stays_after_a_refused_replacement() {
    let (_, owner) = service().user();
    let (selection, post) = (create_selection(&owner).await, guid());
    let taken = take_snapshot(&selection, post).await.expect(201);
    let body = json!({
        "PostId": post, "ActorUserId": selection["OwnerUserId"], "ReplacesSnapshotId": taken["SnapshotId"],
    });
    owner.put(&items_path(&selection), json!({"Items": []})).await.expect(200);
    take(&selection, body.clone()).await.expect_problem(400, "SELECTIONS_SOURCE_EMPTY");
    owner.delete(&path(&selection)).await.expect(204);
    take(&selection, body).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
    assert_eq!(read_snapshot(&taken).await["Status"], "Active");
}

/// INV-SNP-005, RULE-SEL-009: a repeat keeps the first reason and time.
#[tokio::test]
async fn snapshot_is_detached_once() {
    let (_, owner) = service().user();
    for (first, second) in [("BlockReplaced", "PostDeleted"), ("PostDeleted", "BlockReplaced")] {
        let taken = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);

        let detached = detach_snapshot(&taken, first).await.expect(200);
        let read = read_snapshot(&taken).await;
        assert_eq!(
            (&detached["Status"], &detached["SnapshotId"]),
            (&json!("Detached"), &taken["SnapshotId"])
        );
        assert_eq!((&read["Status"], &read["DetachReason"]), (&json!("Detached"), &json!(first)));
        assert!(text(&read["DetachedAt"]) > text(&read["CreatedAt"]));

        for again in [second, first] {
            assert_eq!(detach_snapshot(&taken, again).await.expect(200), detached);
        }
        assert_eq!(read_snapshot(&taken).await, read);
    }
}

/// RULE-SEL-010, RULE-SEL-020: a Detached snapshot stays readable, and the post gets a new one.
#[tokio::test]
async fn detached_snapshot_has_a_successor() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let first = take_snapshot(&selection, post).await.expect(201);
    detach_snapshot(&first, "BlockReplaced").await.expect(200);
    owner.put(&path(&selection), json!({"Title": "Summer", "Description": null})).await.expect(200);

    let second = take_snapshot(&selection, post).await.expect(201);

    assert_ne!(second["SnapshotId"], first["SnapshotId"]);
    assert_eq!(second["Title"], "Summer");
    assert_eq!(read_snapshot(&first).await["Title"], "Spring");
    assert_eq!(take_snapshot(&selection, post).await.expect(200), second);
    detach_snapshot(&first, "PostDeleted").await.expect(200);
    assert_eq!(read_snapshot(&second).await["Status"], "Active");
}

/// RULE-SEL-020: no new snapshot can be taken of a deleted source.
#[tokio::test]
async fn detached_snapshot_of_a_deleted_source_has_no_successor() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let taken = take_snapshot(&selection, post).await.expect(201);
    owner.delete(&path(&selection)).await.expect(204);
    detach_snapshot(&taken, "BlockReplaced").await.expect(200);
    take_snapshot(&selection, post).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
}

/// RULE-SEL-010, RULE-SEL-038: detaching and reading a missing snapshot return 404.
#[tokio::test]
async fn missing_snapshot_is_not_found() {
    let missing = json!({"SnapshotId": guid()});
    detach_snapshot(&missing, "PostDeleted").await.expect_problem(404, "SELECTIONS_SNAPSHOT_NOT_FOUND");
    let read = service().machine("news").get(&snapshot_path(&missing)).await;
    read.expect_problem(404, "SELECTIONS_SNAPSHOT_NOT_FOUND");
}

/// RULE-SEL-009: the reason must be one of the two of the contract, in the same spelling.
#[tokio::test]
async fn unknown_detach_reason_is_refused() {
    let (_, owner) = service().user();
    let taken = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);
    let path = format!("{}/detach", snapshot_path(&taken));
    let news = service().machine("news");
    for wrong in
        [json!("blockReplaced"), json!("Other"), json!(""), json!(1), json!(null), json!(["PostDeleted"])]
    {
        let refused = news.post(&path, json!({"Reason": &wrong})).await;
        let reason = if wrong.is_string() { "unknown_value" } else { "invalid_type" };
        refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Reason", reason);
    }
    let without = news.post(&path, json!({})).await;
    without.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Reason", "required");
    assert_eq!(read_snapshot(&taken).await["Status"], "Active");
}

/// INV-SNP-004, INV-SNP-006: the database refuses changes and deletions of snapshots, whichever
/// client requests them.
#[tokio::test]
async fn database_refuses_changes_and_deletions_of_snapshots() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let active = take_snapshot(&selection, guid()).await.expect(201);
    let detached = take_snapshot(&selection, guid()).await.expect(201);
    detach_snapshot(&detached, "BlockReplaced").await.expect(200);
    let before = [read_snapshot(&active).await, read_snapshot(&detached).await];
    let sql = service().sql().await;

    let (active_id, detached_id) = (text(&active["SnapshotId"]), text(&detached["SnapshotId"]));
    for forbidden in [
        format!("update snapshot set title = 'x' where id = '{active_id}'"),
        format!("update snapshot set items = '[{{}}]' where id = '{active_id}'"),
        format!("update snapshot set post_id = id where id = '{active_id}'"),
        format!(
            "update snapshot set detached_at = now(), detach_reason = 'PostDeleted', title = 'x' where id = '{active_id}'"
        ),
        format!("update snapshot set detached_at = null, detach_reason = null where id = '{detached_id}'"),
        format!("update snapshot set detach_reason = 'PostDeleted' where id = '{detached_id}'"),
        format!("delete from snapshot where id = '{active_id}'"),
        format!("delete from snapshot where id = '{detached_id}'"),
        format!("delete from selection where id = '{}'", text(&selection["Id"])),
    ] {
        let refused = sql.batch_execute(&forbidden).await.expect_err(&forbidden);
        let state = refused.code().expect("a refusal of the database").code();
        // `restrict_violation` of the trigger, and `foreign_key_violation` of the selection.
        assert!(["23001", "23503"].contains(&state), "{forbidden}: {state}");
    }
    assert_eq!([read_snapshot(&active).await, read_snapshot(&detached).await], before);
}

/// INV-SNP-005: the database parses no document at a detachment, since it can store a document that
/// it cannot read.
#[tokio::test]
async fn snapshot_with_an_unreadable_document_is_detached() {
    let (_, owner) = service().user();
    let taken = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);
    let id = guid();
    let items = json!([{"PropertyObjectId": guid(), "SortOrder": 0, "Shown": {"ProjectName": "a\0b"}}]);
    let copy = format!(
        "insert into snapshot (id, post_id, source_selection_id, public_code, title, items, created_at) \
         select '{id}', id, source_selection_id, public_code, title, '{items}', created_at \
         from snapshot where id = '{}'",
        text(&taken["SnapshotId"])
    );
    service().sql().await.batch_execute(&copy).await.unwrap();
    detach_snapshot(&json!({"SnapshotId": id}), "PostDeleted").await.expect(200);
}
