//! What holds when requests race. Locks of the test hold a request inside its transaction where the order matters.

use futures_util::future::{join, join_all};
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Answer, Client};
use testkit::held::Held;
use testkit::service::Running;

use crate::{
    CREATED, DELETED, FAVORITES, FROM_FAVORITES, ITEM_ADDED, SELECTIONS, UPDATED, a_few_at_a_time,
    create_selection, create_selection_of, detach_snapshot, events_of, favorite, guid, guids, items,
    items_path, listed, mark, objects, path, read_snapshot, reread, service, snapshot_path, snapshots_path,
    take_snapshot, text, topics,
};

/// So many callers of one service, each with connections of their own.
fn callers<const N: usize>(caller: impl Fn() -> Client) -> [Client; N] {
    std::array::from_fn(|_| caller())
}

fn owners<const N: usize>(service: &Running) -> [Client; N] {
    let id = guid();
    callers(|| service.caller(&testkit::issuer::Claims::user(id)))
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// Selections: one Active snapshot of a source in a post, of twenty calls one 201.
#[tokio::test]
async fn twenty_parallel_snapshots_are_one() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"PostId": guid(), "ActorUserId": id});
    let news: [Client; 20] = callers(|| service().machine("news"));
    let path = snapshots_path(&selection);

    let answers = join_all(news.iter().map(|caller| caller.post(&path, body.clone()))).await;

    assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 19));
    for answer in &answers {
        assert_eq!(answer.body, answers[0].body);
    }
}

/// INV-SNP-005: two detachments wait for one snapshot. The first sets the reason, and the second leaves it.
#[tokio::test]
async fn of_two_detachments_that_wait_the_first_sets_the_reason() {
    for (first, second) in [("BlockReplaced", "PostDeleted"), ("PostDeleted", "BlockReplaced")] {
        let (_, owner) = service().user();
        let snapshot = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);
        let held = lock_snapshot(&snapshot).await;
        let detach = |reason| detach_snapshot(&snapshot, reason);

        let (first_answer, second_answer) =
            held.queue("update \"snapshot\"%", detach(first), detach(second)).await;

        let detached = first_answer.expect(200);
        assert_eq!(detached["Status"], "Detached");
        assert_eq!(second_answer.expect(200), detached);
        assert_eq!(read_snapshot(&snapshot).await["DetachReason"], first);
    }
}

async fn lock_snapshot(snapshot: &Value) -> Held {
    let lock = format!("select from snapshot where id = '{}' for update", text(&snapshot["SnapshotId"]));
    Held::by(service(), &lock).await
}

async fn lock_selection(selection: &Value) -> Held {
    let lock = format!("select from selection where id = '{}' for update", text(&selection["Id"]));
    Held::by(service(), &lock).await
}

/// Locks what requests of one owner wait for: their count of selections and favorites.
async fn lock_owner(owner: uuid::Uuid) -> Held {
    Held::by(service(), &format!("select from owner where user_id = '{owner}' for update")).await
}

/// INV-SNP-002: a snapshot is taken of a selection whose deletion has not committed yet. None is taken afterwards.
#[tokio::test]
async fn a_snapshot_beside_an_uncommitted_deletion_is_taken() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    // The deletion has written the selection, and waits for the row of its owner.
    let held = lock_owner(id).await;
    let taking = async {
        held.waiting(1, "update \"owner\"%").await;
        let taken = take_snapshot(&selection, post).await;
        held.release().await;
        taken
    };

    let (deleted, taken) = join(owner.delete(&path(&selection)), taking).await;

    deleted.expect(204);
    let taken = taken.expect(201);
    assert_eq!(objects(&read_snapshot(&taken).await), objects(&selection));
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    take_snapshot(&selection, guid()).await.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
}

/// INV-SNP-004: a change or a deletion commits while a snapshot is taken. The snapshot has the selection as it was before,
/// and nothing of the change.
#[tokio::test]
async fn a_snapshot_that_a_change_overtakes_is_of_the_state_before() {
    let service = Running::start::<Service>(&[]);
    let (id, owner) = service.user();
    let news = service.machine("news");
    for is_deleted in [false, true] {
        let body = json!({"Title": "Spring", "Description": "Sea", "Items": items(3)});
        let selection = owner.post(SELECTIONS, body).await.expect(201);
        // It has read its source, and waits for what the objects show.
        let held = Held::by(&service, "lock table property_object in access exclusive mode").await;
        let body = json!({"PostId": guid(), "ActorUserId": id});
        let overtaking = async {
            held.waiting(1, "select%from \"property_object\"%").await;
            if is_deleted {
                owner.delete(&path(&selection)).await.expect(204);
            } else {
                let described = json!({"Title": "Summer", "Description": null});
                owner.put(&path(&selection), described).await.expect(200);
                owner.put(&items_path(&selection), json!({"Items": items(2)})).await.expect(200);
            }
            held.release().await;
        };

        let (taken, ()) = join(news.post(&snapshots_path(&selection), body), overtaking).await;

        let frozen = news.get(&snapshot_path(&taken.expect(201))).await.expect(200);
        for same in ["PublicCode", "Title", "Description", "ItemsCount"] {
            assert_eq!(frozen[same], selection[same], "{same}");
        }
        assert_eq!(objects(&frozen), objects(&selection));
    }
}

/// News takes a snapshot again while the one that it has waits to be detached. It gets that one, and a new one afterwards:
/// one alone is Active.
#[tokio::test]
async fn a_snapshot_that_is_taken_beside_its_detachment_is_the_one_that_goes() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let first = take_snapshot(&selection, post).await.expect(201);
    let held = lock_snapshot(&first).await;
    let taking = async {
        held.waiting(1, "update \"snapshot\"%").await;
        let taken = take_snapshot(&selection, post).await;
        held.release().await;
        taken
    };

    let (detached, taken) = join(detach_snapshot(&first, "BlockReplaced"), taking).await;

    assert_eq!(detached.expect(200)["Status"], "Detached");
    assert_eq!(taken.expect(200), first);
    let next = take_snapshot(&selection, post).await.expect(201);
    assert_ne!(next["SnapshotId"], first["SnapshotId"]);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), next);
    let active = "select count(*) from snapshot where post_id = $1::text::uuid and detached_at is null";
    let active = service().sql().await.query_one(active, &[&post.to_string()]).await.unwrap();
    assert_eq!(active.get::<_, i64>(0), 1);
}

/// INV-SEL-007: with 99 selections one of twenty parallel creations fits, however they are made.
#[tokio::test]
async fn the_hundredth_place_is_taken_once() {
    let owners: [Client; 20] = owners(service());
    mark(&owners[0], guid()).await;
    let created =
        a_few_at_a_time((0..99).map(|n| owners[n % 20].post(SELECTIONS, json!({"Title": "x"})))).await;
    let existing: Vec<Value> = created.into_iter().map(|answer| answer.expect(201)).collect();
    let race = async || {
        let routes = [SELECTIONS, FROM_FAVORITES].into_iter().cycle();
        join_all(owners.iter().zip(routes).map(|(owner, route)| owner.post(route, json!({"Title": "x"}))))
            .await
    };

    for freed in &existing[..3] {
        let answers = race().await;
        assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 19));
        for refused in answers.into_iter().filter(|answer| answer.status == 409) {
            refused.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
        }
        assert_eq!(owners[0].get(SELECTIONS).await.expect(200)["TotalCount"], 100);
        owners[0].delete(&path(freed)).await.expect(204);
    }
}

/// INV-SEL-007: a selection that is deleted twice at once frees one place.
#[tokio::test]
async fn parallel_deletions_free_one_place() {
    let owners: [Client; 20] = owners(service());
    let created =
        a_few_at_a_time((0..100).map(|n| owners[n % 20].post(SELECTIONS, json!({"Title": "x"})))).await;
    let first = created.into_iter().map(|answer| answer.expect(201)).next().unwrap();

    let answers = join_all(owners.iter().map(async |owner| owner.delete(&path(&first)).await)).await;

    assert_eq!(count(&answers, 204), 1);
    for lost in answers.into_iter().filter(|answer| answer.status != 204) {
        let code =
            if lost.status == 404 { "SELECTIONS_NOT_FOUND" } else { "SELECTIONS_CONCURRENCY_CONFLICT" };
        lost.expect_problem(if code == "SELECTIONS_NOT_FOUND" { 404 } else { 409 }, code);
    }
    owners[0].post(SELECTIONS, json!({"Title": "x"})).await.expect(201);
    owners[0].post(SELECTIONS, json!({"Title": "x"})).await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
    let events = events_of(service(), &first).await;
    assert_eq!(topics(&events), [CREATED, DELETED]);
}

/// An owner's very first requests race for a row that is not there yet.
#[tokio::test]
async fn the_first_selections_of_an_owner_race() {
    let owners: [Client; 20] = owners(service());
    for answer in join_all(owners.iter().map(|owner| owner.post(SELECTIONS, json!({"Title": "x"})))).await {
        answer.expect(201);
    }
    assert_eq!(owners[0].get(SELECTIONS).await.expect(200)["TotalCount"], 20);
}

/// Conventions, Concurrency: of two replacements that have seen the same `Version` one is kept.
#[tokio::test]
async fn one_of_two_replacements_of_a_version_is_kept() {
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

/// Conventions, Concurrency: without a `Version` too, each change that was answered 200 has a version and an event. The
/// events of the topic arrive in the order of the versions.
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

    let answers = join_all(changes).await;

    let (kept, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    for refused in refused {
        refused.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    }
    let mut versions: Vec<u64> = kept.iter().map(|answer| answer.body["Version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..).take(kept.len()).collect::<Vec<_>>(), "each 200 has a version of its own");
    let last = kept.iter().max_by_key(|answer| answer.body["Version"].as_u64()).unwrap();
    assert_eq!(reread(&owners[0], &selection).await, last.body);

    let events = service().published(text(&selection["Id"])).await;
    let updated = events.iter().filter(|event| event.topic == UPDATED);
    let published: Vec<u64> = updated.map(|event| event.payload["Version"].as_u64().unwrap()).collect();
    assert_eq!(published, versions);
}

/// INV-SEL-009: an edit that waits behind a deletion is a conflict. Nothing of it is kept or published.
#[tokio::test]
async fn an_edit_behind_a_deletion_is_a_conflict_and_publishes_nothing() {
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

/// Conventions, Concurrency: a deletion that waits behind an edit is a conflict. Nothing is deleted before it is repeated.
#[tokio::test]
async fn a_deletion_behind_an_edit_is_a_conflict_and_may_be_repeated() {
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

/// Selections: with 199 favorites one of twenty parallel marks fits.
#[tokio::test]
async fn the_two_hundredth_favorite_is_marked_once() {
    let owners: [Client; 20] = owners(service());
    let marked = guids(199);
    let marks = marked.iter().enumerate().map(|(n, object)| mark(&owners[n % 20], *object));
    a_few_at_a_time(marks).await;

    for object in &marked[..3] {
        let answers =
            join_all(owners.iter().map(async |owner| owner.put(&favorite(guid()), Value::Null).await)).await;
        assert_eq!((count(&answers, 204), count(&answers, 409)), (1, 19));
        assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 200);
        owners[0].delete(&favorite(*object)).await.expect(204);
    }
}

/// One object marked and unmarked from twenty callers is one favorite, and then none.
#[tokio::test]
async fn parallel_marks_of_one_object_are_one_favorite() {
    let owners: [Client; 20] = owners(service());
    let object = guid();
    for answer in
        join_all(owners.iter().map(async |owner| owner.put(&favorite(object), Value::Null).await)).await
    {
        answer.expect(204);
    }
    assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 1);
    for answer in join_all(owners.iter().map(async |owner| owner.delete(&favorite(object)).await)).await {
        answer.expect(204);
    }
    assert_eq!(owners[0].get(FAVORITES).await.expect(200)["TotalCount"], 0);
    join_all(guids(200).into_iter().map(async |object| mark(&owners[0], object).await)).await;
    owners[0]
        .put(&favorite(guid()), Value::Null)
        .await
        .expect_problem(409, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED");
}

/// A selection of favorites is of one state of them, and its events are of its items alone. A mark that commits between the
/// read and the write of the copy is in neither.
#[tokio::test]
async fn a_copy_of_favorites_that_a_mark_overtakes_is_of_the_state_before() {
    for marks_first in [false, true] {
        let (id, owner) = service().user();
        let (kept, marked) = (guid(), guid());
        mark(&owner, kept).await;
        let copy = async || owner.post(FROM_FAVORITES, json!({})).await;
        let add = async || owner.put(&favorite(marked), Value::Null).await;
        // Each has read or written favorites, and waits to be counted.
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

/// INV-SEL-004: parallel replacements by the longest lists leave one of them, whole.
#[tokio::test]
async fn long_lists_race_without_mixing() {
    let owners: [Client; 10] = owners(service());
    let selection = create_selection_of(&owners[0], json!([])).await;
    let lists: Vec<_> = owners.iter().map(|_| guids(200)).collect();
    let replacements = owners
        .iter()
        .zip(&lists)
        .map(async |(owner, list)| owner.put(&items_path(&selection), json!({"Items": listed(list)})).await);
    let answers = join_all(replacements).await;
    assert!(count(&answers, 200) > 0);
    assert_eq!(count(&answers, 200) + count(&answers, 409), 10);
    assert!(lists.contains(&objects(&reread(&owners[0], &selection).await)));
}
