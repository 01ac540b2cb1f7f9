//! Adding and removing one item of a selection.

use serde_json::{Value, json};

use crate::{
    CREATED, DELETED, ITEM_ADDED, SELECTIONS, UPDATED, create_selection_of, events_of, guid, guids,
    item_path, items_of, join_limited, new_guids, objects, path, reread, service, topics,
};

/// RULE-SEL-053, RULE-SEL-030, RULE-SEL-031: an object is added at the end and removed. A repeat
/// changes and publishes nothing.
#[tokio::test]
async fn one_item_is_added_and_removed_once() {
    let (_, owner) = service().user();
    let [a, b, c] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;

    let added = owner.put(&item_path(&selection, c), Value::Null).await.expect(200);
    assert_eq!((objects(&added), &added["Version"]), (vec![a, b, c], &json!(2)));
    assert_eq!(owner.put(&item_path(&selection, c), Value::Null).await.expect(200), added);
    let removed = owner.delete(&item_path(&selection, a)).await.expect(200);
    assert_eq!((objects(&removed), &removed["Version"]), (vec![b, c], &json!(3)));
    assert_eq!(removed["Items"][0]["SortOrder"], 0);
    assert_eq!(removed["Items"][1]["AddedAt"], added["Items"][2]["AddedAt"]);
    assert_eq!(owner.delete(&item_path(&selection, a)).await.expect(200), removed);
    assert_eq!(reread(&owner, &selection).await, removed);

    owner.delete(&path(&selection)).await.expect(204);
    let events = events_of(service(), &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED, ITEM_ADDED, UPDATED, DELETED]);
    let expected =
        json!({"SelectionId": selection["Id"], "PropertyObjectId": c, "SortOrder": 2, "Version": 2});
    assert_eq!(events[2].payload, expected);
}

/// INV-SEL-002, RULE-SEL-053: another user's selection and a path without a Guid get 404.
#[tokio::test]
async fn single_item_of_another_user_is_not_found() {
    let (_, owner) = service().user();
    let object = guid();
    let selection = create_selection_of(&owner, items_of(&[object])).await;
    let (_, stranger) = service().user();
    for refused in [
        stranger.put(&item_path(&selection, guid()), Value::Null).await,
        stranger.delete(&item_path(&selection, object)).await,
        owner.put(&format!("{}/items/x", path(&selection)), Value::Null).await,
        owner.put(&format!("{SELECTIONS}/{}/items/{object}", guid()), Value::Null).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(reread(&owner, &selection).await, selection);
}

/// INV-SEL-004, RULE-SEL-053: the 201st object is refused. A repeated addition of an object in a
/// full list is not.
#[tokio::test]
async fn full_list_refuses_another_item() {
    let (_, owner) = service().user();
    let all = guids(200);
    let selection = create_selection_of(&owner, items_of(&all)).await;
    let refused = owner.put(&item_path(&selection, guid()), Value::Null).await;
    refused.expect_problem(400, "SELECTIONS_ITEMS_LIMIT_EXCEEDED");
    assert_eq!(owner.put(&item_path(&selection, all[0]), Value::Null).await.expect(200), selection);
}

/// RULE-SEL-053: concurrent additions and removals run one after the other, and none is lost or
/// refused.
#[tokio::test]
async fn concurrent_single_changes_are_all_stored() {
    let (_, owner) = service().user();
    let (old, new) = (guids(10), guids(10));
    let selection = create_selection_of(&owner, items_of(&old)).await;
    let add = async |object| owner.put(&item_path(&selection, object), Value::Null).await.expect(200);
    let remove = async |object| owner.delete(&item_path(&selection, object)).await.expect(200);
    let (added, removed) = futures_util::future::join(
        join_limited(new.iter().map(|object| add(*object))),
        join_limited(old.iter().map(|object| remove(*object))),
    )
    .await;
    assert_eq!((added.len(), removed.len()), (10, 10));
    let after = reread(&owner, &selection).await;
    let (mut found, mut expected) = (objects(&after), new);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!((found, &after["Version"]), (expected, &json!(21)));
}
