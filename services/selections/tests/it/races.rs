//! What holds when requests race.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::client::{Answer, Client};
use testkit::service::Running;

use crate::{
    CREATED, DELETED, FAVORITES, FROM_FAVORITES, ITEM_ADDED, SELECTIONS, UPDATED, a_few_at_a_time,
    create_selection, create_selection_of, detach_snapshot, favorite, guid, guids, items, items_path, listed,
    mark, objects, path, reread, service, snapshots_path, take_snapshot, text,
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

/// INV-SNP-005: of parallel detaches the first one's reason stays.
#[tokio::test]
async fn parallel_detaches_agree_on_one_reason() {
    let (_, owner) = service().user();
    let snapshot = take_snapshot(&create_selection(&owner).await, guid()).await.expect(201);
    let reasons = ["BlockReplaced", "PostDeleted"].into_iter().cycle().take(20);
    for answer in join_all(reasons.map(|reason| detach_snapshot(&snapshot, reason))).await {
        assert_eq!(answer.expect(200)["Status"], "Detached");
    }
    let first = crate::read_snapshot(&snapshot).await;
    detach_snapshot(&snapshot, "PostDeleted").await.expect(200);
    assert_eq!(crate::read_snapshot(&snapshot).await, first);
}

/// A snapshot is taken of what was there before a deletion, or not at all.
#[tokio::test]
async fn a_snapshot_races_a_deletion() {
    for _ in 0..10 {
        let (_, owner) = service().user();
        let selection = create_selection(&owner).await;
        let post = guid();
        let (taken, deleted) = join(take_snapshot(&selection, post), owner.delete(&path(&selection))).await;
        deleted.expect(204);
        if taken.status == 201 {
            assert_eq!(take_snapshot(&selection, post).await.expect(200), taken.body);
        } else {
            taken.expect_problem(400, "SELECTIONS_SOURCE_DELETED");
        }
    }
}

/// A snapshot is taken of one state of its source, never of a mixture of two.
#[tokio::test]
async fn a_snapshot_races_an_edit() {
    for _ in 0..10 {
        let (_, owner) = service().user();
        let selection = create_selection(&owner).await;
        let change = json!({"Items": items(2)});
        let (taken, edited) =
            join(take_snapshot(&selection, guid()), owner.put(&items_path(&selection), change)).await;
        let (frozen, edited) = (crate::read_snapshot(&taken.expect(201)).await, edited.expect(200));
        assert!([objects(&selection), objects(&edited)].contains(&objects(&frozen)));
        assert_eq!(frozen["ItemsCount"], objects(&frozen).len());
    }
}

/// A snapshot that is taken while its predecessor is detached is the one or a new one, and one alone is Active then.
#[tokio::test]
async fn a_snapshot_races_a_detachment() {
    for _ in 0..10 {
        let (_, owner) = service().user();
        let selection = create_selection(&owner).await;
        let post = guid();
        let first = take_snapshot(&selection, post).await.expect(201);

        let (taken, detached) =
            join(take_snapshot(&selection, post), detach_snapshot(&first, "BlockReplaced")).await;

        assert_eq!(detached.expect(200)["Status"], "Detached");
        let next = take_snapshot(&selection, post).await;
        if taken.status == 200 {
            assert_eq!(taken.body["SnapshotId"], first["SnapshotId"]);
            assert_ne!(next.expect(201)["SnapshotId"], first["SnapshotId"]);
        } else {
            assert_eq!(next.expect(200), taken.expect(201));
        }
    }
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
    let events = service().bus().events_until(text(&first["Id"]), DELETED).await;
    assert_eq!(events.iter().filter(|event| event.topic == DELETED).count(), 1);
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

/// Conventions, Concurrency: without a `Version` too, each change that was answered 200 is counted and told.
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

    owners[0].delete(&path(&selection)).await.expect(204);
    let events = service().bus().events_until(text(&selection["Id"]), DELETED).await;
    let told: Vec<_> = events.iter().filter(|event| event.topic == UPDATED).collect();
    let told: Vec<u64> = told.iter().map(|event| event.payload["Version"].as_u64().unwrap()).collect();
    assert_eq!(told, versions, "events of a key are in the order of their commits");
}

/// INV-SEL-009: a deletion that races an edit leaves no edited, deleted selection half told.
#[tokio::test]
async fn a_deletion_races_an_edit() {
    for _ in 0..10 {
        let [one, other]: [Client; 2] = owners(service());
        let selection = create_selection(&one).await;
        let change = json!({"Items": items(1)});
        let (edited, deleted) =
            join(one.put(&items_path(&selection), change), other.delete(&path(&selection))).await;

        match (edited.status, deleted.status) {
            // One after the other, or the edit lost.
            (200 | 404 | 409, 204) => {}
            // The deletion lost; a repeat succeeds.
            (200, 409) => one.delete(&path(&selection)).await.expect(204).as_null().unwrap(),
            statuses => panic!("{statuses:?}"),
        }
        let events = service().bus().events_until(text(&selection["Id"]), DELETED).await;
        let topics: Vec<_> = events.iter().map(|event| event.topic.as_str()).collect();
        let expected: &[&str] =
            if edited.status == 200 { &[CREATED, UPDATED, ITEM_ADDED, DELETED] } else { &[CREATED, DELETED] };
        assert_eq!(topics, expected);
    }
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

/// A selection of favorites that change meanwhile is one state of them, and tells of just its items.
#[tokio::test]
async fn a_copy_of_favorites_races_their_change() {
    let owners: [Client; 2] = owners(service());
    let kept = guid();
    mark(&owners[0], kept).await;
    for _ in 0..10 {
        let marked = guid();
        let (copied, ()) = join(owners[0].post(FROM_FAVORITES, json!({})), mark(&owners[1], marked)).await;
        let selection = copied.expect(201);
        let copied = objects(&selection);
        assert_eq!((copied[0], copied.len() - 1), (kept, usize::from(copied.contains(&marked))));
        owners[0].delete(&path(&selection)).await.expect(204);
        owners[0].delete(&favorite(marked)).await.expect(204);
        let events = service().bus().events_until(text(&selection["Id"]), DELETED).await;
        assert_eq!(events.len(), 2 + copied.len());
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
