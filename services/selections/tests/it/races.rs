//! Concurrent requests. Where their order matters, a request waits for a lock in its transaction.

use futures_util::future::{join, join_all};
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::held::HeldLocks;
use testkit::service::Running;

use crate::{
    CREATED, DELETED, FAVORITES, FROM_FAVORITES, ITEM_ADDED, SELECTIONS, UPDATED, create_selection,
    create_selection_of, detach_snapshot, events_of, favorite_path, guid, guids, items, items_of, items_path,
    join_limited, mark, objects, path, read_snapshot, reread, service, snapshot_path, snapshots_path,
    take_snapshot, text, topics,
};

/// Returns `N` callers, each with their own connections.
fn callers<const N: usize>(caller: impl Fn() -> Client) -> [Client; N] {
    std::array::from_fn(|_| caller())
}

/// Returns `N` clients of one owner.
fn owners<const N: usize>(service: &Running) -> [Client; N] {
    let id = guid();
    callers(|| service.caller(&testkit::issuer::Claims::user(id)))
}

fn count(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}

/// RULE-SEL-019: exactly one of twenty parallel calls returns 201, the others 200.
#[tokio::test]
async fn twenty_parallel_calls_take_one_snapshot() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"PostId": guid(), "ActorUserId": id});
    let news: [Client; 20] = callers(|| service().machine("news"));
    let path = snapshots_path(&selection);

    let responses = join_all(news.iter().map(|caller| caller.post(&path, body.clone()))).await;

    assert_eq!((count(&responses, 201), count(&responses, 200)), (1, 19));
    for response in &responses {
        assert_eq!(response.body, responses[0].body);
    }
}

/// INV-SNP-005: of two detachments that wait for one snapshot, the first sets the reason, and the
/// second keeps it.
#[tokio::test]
async fn first_of_two_waiting_detachments_sets_the_reason() {
    for (first, second) in [("BlockReplaced", "PostDeleted"), ("PostDeleted", "BlockReplaced")] {
        let (_, owner) = service().user();
        let snapshot = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);
        let held = lock_snapshot(&snapshot).await;
        let detach = |reason| detach_snapshot(&snapshot, reason);

        let (first_response, second_response) =
            held.queue("update \"snapshot\"%", detach(first), detach(second)).await;

        let detached = first_response.expect(200);
        assert_eq!(detached["Status"], "Detached");
        assert_eq!(second_response.expect(200), detached);
        assert_eq!(read_snapshot(&snapshot).await["DetachReason"], first);
    }
}

async fn lock_snapshot(snapshot: &Value) -> HeldLocks {
    let lock = format!("select from snapshot where id = '{}' for update", text(&snapshot["SnapshotId"]));
    HeldLocks::lock(service(), &lock).await
}

async fn lock_selection(selection: &Value) -> HeldLocks {
    let lock = format!("select from selection where id = '{}' for update", text(&selection["Id"]));
    HeldLocks::lock(service(), &lock).await
}

/// Locks the counters of an owner, which every creation, deletion and mark updates.
async fn lock_owner(owner: uuid::Uuid) -> HeldLocks {
    HeldLocks::lock(service(), &format!("select from owner where user_id = '{owner}' for update")).await
}

/// INV-SNP-002: a snapshot can be taken until the deletion of its source has committed.
#[tokio::test]
async fn snapshot_is_taken_during_an_uncommitted_deletion() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    // The deletion has written the selection and waits for the row of its owner.
    let held = lock_owner(id).await;
    let take = async {
        held.wait_for(1, "update \"owner\"%").await;
        let taken = take_snapshot(&selection, post).await;
        held.release().await;
        taken
    };

    let (deleted, taken) = join(owner.delete(&path(&selection)), take).await;

    deleted.expect(204);
    let taken = taken.expect(201);
    assert_eq!(objects(&read_snapshot(&taken).await), objects(&selection));
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    take_snapshot(&selection, guid()).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
}

/// INV-SNP-004: a change that commits during the call is not in the snapshot.
#[tokio::test]
async fn snapshot_overtaken_by_a_change_has_the_earlier_state() {
    let service = Running::start::<Service>(&[]);
    let (id, owner) = service.user();
    let news = service.machine("news");
    for deletes in [false, true] {
        let body = json!({"Title": "Spring", "Description": "Sea", "Items": items(3)});
        let selection = owner.post(SELECTIONS, body).await.expect(201);
        // The request has read its source and waits for the public data of the objects.
        let held = HeldLocks::lock(&service, "lock table property_object in access exclusive mode").await;
        let body = json!({"PostId": guid(), "ActorUserId": id});
        let change = async {
            held.wait_for(1, "select%from \"property_object\"%").await;
            if deletes {
                owner.delete(&path(&selection)).await.expect(204);
            } else {
                let described = json!({"Title": "Summer", "Description": null});
                owner.put(&path(&selection), described).await.expect(200);
                owner.put(&items_path(&selection), json!({"Items": []})).await.expect(200);
            }
            held.release().await;
        };

        let (taken, ()) = join(news.post(&snapshots_path(&selection), body), change).await;

        let frozen = news.get(&snapshot_path(&taken.expect(201))).await.expect(200);
        for same in ["PublicCode", "Title", "Description", "ItemsCount"] {
            assert_eq!(frozen[same], selection[same], "{same}");
        }
        assert_eq!(objects(&frozen), objects(&selection));
    }
}

/// INV-SNP-005, RULE-SEL-019: during a detachment the caller gets the old snapshot, and afterwards
/// a new one. Only one is Active.
#[tokio::test]
async fn request_during_a_detachment_returns_the_old_snapshot() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let first = take_snapshot(&selection, post).await.expect(201);
    let held = lock_snapshot(&first).await;
    let take = async {
        held.wait_for(1, "update \"snapshot\"%").await;
        let taken = take_snapshot(&selection, post).await;
        held.release().await;
        taken
    };

    let (detached, taken) = join(detach_snapshot(&first, "BlockReplaced"), take).await;

    assert_eq!(detached.expect(200)["Status"], "Detached");
    assert_eq!(taken.expect(200), first);
    let next = take_snapshot(&selection, post).await.expect(201);
    assert_ne!(next["SnapshotId"], first["SnapshotId"]);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), next);
    let active = "select count(*) from snapshot where post_id = $1::text::uuid and detached_at is null";
    let active = service().sql().await.query_one(active, &[&post.to_string()]).await.unwrap();
    assert_eq!(active.get::<_, i64>(0), 1);
}

/// INV-SEL-007: with 99 selections exactly one of twenty parallel creations succeeds.
#[tokio::test]
async fn hundredth_selection_is_created_once() {
    let owners: [Client; 20] = owners(service());
    mark(&owners[0], guid()).await;
    let created = join_limited((0..99).map(|n| owners[n % 20].post(SELECTIONS, json!({"Title": "x"})))).await;
    let existing: Vec<Value> = created.into_iter().map(|response| response.expect(201)).collect();
    let race = async || {
        let routes = [SELECTIONS, FROM_FAVORITES].into_iter().cycle();
        join_all(owners.iter().zip(routes).map(|(owner, route)| owner.post(route, json!({"Title": "x"}))))
            .await
    };

    for freed in &existing[..3] {
        let responses = race().await;
        assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 19));
        for refused in responses.into_iter().filter(|response| response.status == 409) {
            refused.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
        }
        assert_eq!(owners[0].get(SELECTIONS).await.expect(200)["TotalCount"], 100);
        owners[0].delete(&path(freed)).await.expect(204);
    }
}

/// INV-SEL-007, RULE-SEL-007: parallel deletions of a selection lower the count once.
#[tokio::test]
async fn parallel_deletions_are_counted_once() {
    let owners: [Client; 20] = owners(service());
    let created =
        join_limited((0..100).map(|n| owners[n % 20].post(SELECTIONS, json!({"Title": "x"})))).await;
    let first = created.into_iter().map(|response| response.expect(201)).next().unwrap();

    let responses = join_all(owners.iter().map(async |owner| owner.delete(&path(&first)).await)).await;

    assert_eq!(count(&responses, 204), 1);
    for lost in responses.into_iter().filter(|response| response.status != 204) {
        let (status, code) = match lost.status {
            404 => (404, "SELECTIONS_NOT_FOUND"),
            _ => (409, "SELECTIONS_CONCURRENCY_CONFLICT"),
        };
        lost.expect_problem(status, code);
    }
    owners[0].post(SELECTIONS, json!({"Title": "x"})).await.expect(201);
    owners[0].post(SELECTIONS, json!({"Title": "x"})).await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
    let events = events_of(service(), &first).await;
    assert_eq!(topics(&events), [CREATED, DELETED]);
}

/// INV-SEL-007: the first requests of an owner succeed, although each tries to insert the row of
/// the owner.
#[tokio::test]
async fn concurrent_first_selections_of_an_owner_succeed() {
    let owners: [Client; 20] = owners(service());
    for response in join_all(owners.iter().map(|owner| owner.post(SELECTIONS, json!({"Title": "x"})))).await {
        response.expect(201);
    }
    assert_eq!(owners[0].get(SELECTIONS).await.expect(200)["TotalCount"], 20);
}

/// RULE-SEL-039: one of two replacements with the same `Version` succeeds.
#[tokio::test]
async fn one_of_two_replacements_of_a_version_succeeds() {
    let [one, other]: [Client; 2] = owners(service());
    let selection = create_selection(&one).await;
    for version in 1..=5 {
        let replace = async |owner: &Client, items: Value| {
            owner.put(&items_path(&selection), json!({"Items": items, "Version": version})).await
        };
        let (first, second) = join(replace(&one, items(2)), replace(&other, items(3))).await;
        let (kept, refused) = if first.status == 200 { (first, second) } else { (second, first) };
        refused.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
        assert_eq!(reread(&one, &selection).await, kept.expect(200));
    }
    assert_eq!(reread(&one, &selection).await["Version"], 6);
}

/// RULE-SEL-035, RULE-SEL-039, RULE-ALL-031, RULE-EVT-011: each change that returned 200 has its
/// own version and event, and the events arrive in the order of the versions.
#[tokio::test]
async fn no_change_without_a_version_is_lost() {
    let owners: [Client; 20] = owners(service());
    let selection = create_selection(&owners[0]).await;
    let changes = owners.iter().enumerate().map(async |(n, owner)| {
        if n % 2 == 0 {
            owner.put(&items_path(&selection), json!({"Items": items(2)})).await
        } else {
            owner.put(&path(&selection), json!({"Title": format!("{n}"), "Description": null})).await
        }
    });

    let responses = join_all(changes).await;

    let (kept, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    for refused in refused {
        refused.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    }
    let mut versions: Vec<u64> =
        kept.iter().map(|response| response.body["Version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..).take(kept.len()).collect::<Vec<_>>(), "each 200 has its own version");
    let last = kept.iter().max_by_key(|response| response.body["Version"].as_u64()).unwrap();
    assert_eq!(reread(&owners[0], &selection).await, last.body);

    let events = service().published(text(&selection["Id"])).await;
    let updated = events.iter().filter(|event| event.topic == UPDATED);
    let published: Vec<u64> = updated.map(|event| event.payload["Version"].as_u64().unwrap()).collect();
    assert_eq!(published, versions);
}

/// INV-SEL-009, RULE-SEL-035: an edit that waits behind a deletion is a conflict, and nothing of it
/// is stored.
#[tokio::test]
async fn edit_behind_a_deletion_is_a_conflict_and_publishes_nothing() {
    let [one, other]: [Client; 2] = owners(service());
    let selection = create_selection(&one).await;
    let (selection_path, items_path) = (path(&selection), items_path(&selection));
    let held = lock_selection(&selection).await;

    let (deleted, edited) = held
        .queue(
            "update \"selection\"%",
            one.delete(&selection_path),
            other.put(&items_path, json!({"Items": items(1)})),
        )
        .await;

    deleted.expect(204);
    edited.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    let internal = selection_path.replace("/v1/", "/v1/internal/");
    let kept = service().machine("crm").get(&internal).await.expect(200);
    assert_eq!((objects(&kept), &kept["Version"]), (objects(&selection), &json!(2)));
    assert_eq!(topics(&events_of(service(), &selection).await), [CREATED, DELETED]);
}

/// INV-SEL-009, RULE-SEL-035: a deletion that waits behind an edit is a conflict, and a repeat
/// succeeds.
#[tokio::test]
async fn deletion_behind_an_edit_is_a_conflict_and_can_be_repeated() {
    let [one, other]: [Client; 2] = owners(service());
    let selection = create_selection(&one).await;
    let (selection_path, items_path) = (path(&selection), items_path(&selection));
    let held = lock_selection(&selection).await;

    let (edited, deleted) = held
        .queue(
            "update \"selection\"%",
            one.put(&items_path, json!({"Items": items(1)})),
            other.delete(&selection_path),
        )
        .await;

    deleted.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    assert_eq!(reread(&one, &selection).await, edited.expect(200));
    assert_eq!(topics(&events_of(service(), &selection).await), [CREATED, UPDATED, ITEM_ADDED]);
    one.delete(&selection_path).await.expect(204);
    assert_eq!(topics(&events_of(service(), &selection).await), [CREATED, UPDATED, ITEM_ADDED, DELETED]);
}

/// RULE-SEL-025: with 199 favorites exactly one of twenty parallel marks succeeds.
#[tokio::test]
async fn two_hundredth_favorite_is_marked_once() {
    let owners: [Client; 20] = owners(service());
    let marked = guids(199);
    let marks = marked.iter().enumerate().map(|(n, object)| mark(&owners[n % 20], *object));
    join_limited(marks).await;

    for object in &marked[..3] {
        let responses =
            join_all(owners.iter().map(async |owner| owner.put(&favorite_path(guid()), Value::Null).await))
                .await;
        assert_eq!((count(&responses, 204), count(&responses, 409)), (1, 19));
        assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 200);
        owners[0].delete(&favorite_path(*object)).await.expect(204);
    }
}

/// RULE-SEL-013, RULE-SEL-025: twenty parallel marks make one favorite, and twenty parallel unmarks
/// remove it.
#[tokio::test]
async fn parallel_marks_of_one_object_are_one_favorite() {
    let owners: [Client; 20] = owners(service());
    let object = guid();
    for response in
        join_all(owners.iter().map(async |owner| owner.put(&favorite_path(object), Value::Null).await)).await
    {
        response.expect(204);
    }
    assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 1);
    for response in
        join_all(owners.iter().map(async |owner| owner.delete(&favorite_path(object)).await)).await
    {
        response.expect(204);
    }
    assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 0);
    join_limited(guids(200).into_iter().map(async |object| mark(&owners[0], object).await)).await;
    owners[0]
        .put(&favorite_path(guid()), Value::Null)
        .await
        .expect_problem(409, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED");
}

/// RULE-SEL-003: a mark that commits after a copy has read the favorites is neither in the copy nor
/// in its events, whether mark or copy commits first.
#[tokio::test]
async fn copy_of_favorites_overtaken_by_a_mark_has_the_earlier_state() {
    for marks_first in [false, true] {
        let (id, owner) = service().user();
        let (kept, marked) = (guid(), guid());
        mark(&owner, kept).await;
        let copy = async || owner.post(FROM_FAVORITES, json!({})).await;
        let add = async || owner.put(&favorite_path(marked), Value::Null).await;
        // Each request has read or written favorites and waits for the row of the owner.
        let held = lock_owner(id).await;

        let (copied, added) = if marks_first {
            let (added, copied) = held.queue("insert into \"owner\"%", add(), copy()).await;
            (copied, added)
        } else {
            held.queue("insert into \"owner\"%", copy(), add()).await
        };

        added.expect(204);
        let copied = copied.expect(201);
        assert_eq!(objects(&copied), [kept]);
        let events = events_of(service(), &copied).await;
        assert_eq!(topics(&events), [CREATED, ITEM_ADDED]);
        assert_eq!(events[0].payload["ItemsCount"], 1);
        assert_eq!(events[1].payload["PropertyObjectId"], json!(kept));
        assert_eq!(objects(&copy().await.expect(201)), [kept, marked], "the next copy has both");
    }
}

/// INV-SEL-004: after parallel replacements with the longest lists, exactly one list is stored.
#[tokio::test]
async fn parallel_lists_do_not_mix() {
    let owners: [Client; 10] = owners(service());
    let selection = create_selection_of(&owners[0], json!([])).await;
    let lists: Vec<_> = owners.iter().map(|_| guids(200)).collect();
    let replacements = owners.iter().zip(&lists).map(async |(owner, list)| {
        owner.put(&items_path(&selection), json!({"Items": items_of(list)})).await
    });
    let responses = join_all(replacements).await;
    assert!(count(&responses, 200) > 0);
    assert_eq!(count(&responses, 200) + count(&responses, 409), 10);
    assert!(lists.contains(&objects(&reread(&owners[0], &selection).await)));
}
