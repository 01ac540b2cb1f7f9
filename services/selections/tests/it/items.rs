//! The items of a selection and their order.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::{
    SELECTIONS, create_selection, create_selection_of, guids, items, items_of, items_path, new_guids,
    objects, reread, service, text,
};

async fn replace(owner: &Client, selection: &Value, items: Value) -> Value {
    owner.put(&items_path(selection), json!({"Items": items})).await.expect(200)
}

fn ordered(requested: &[(Uuid, Option<i64>)]) -> Value {
    requested.iter().map(|(id, order)| json!({"PropertyObjectId": id, "SortOrder": order})).collect()
}

fn assert_normalized(selection: &Value) {
    let items = selection["Items"].as_array().unwrap();
    let orders: Vec<_> = items.iter().map(|item| item["SortOrder"].as_u64().unwrap()).collect();
    assert_eq!(orders, (0..items.len() as u64).collect::<Vec<_>>());
    assert_eq!(selection["ItemsCount"], items.len());
}

/// INV-SEL-006: the items are numbered 0..N-1 in the order of `SortOrder`, and ties keep their
/// order.
#[tokio::test]
async fn arbitrary_sort_orders_are_normalized() {
    let (_, owner) = service().user();
    let [tie, early, other_tie, last, first] = new_guids();
    let requested = ordered(&[
        (tie, Some(50)),
        (early, Some(-7)),
        (other_tie, Some(50)),
        (last, Some(i64::from(i32::MAX))),
        (first, Some(i64::from(i32::MIN))),
    ]);

    let created = create_selection_of(&owner, requested.clone()).await;
    assert_eq!(objects(&created), [first, early, tie, other_tie, last]);
    assert_normalized(&created);

    let replaced = replace(&owner, &create_selection(&owner).await, requested).await;
    assert_eq!(objects(&replaced), [first, early, tie, other_tie, last]);
    assert_normalized(&replaced);
}

/// INV-SEL-006: an item without `SortOrder` counts as if it had its position in the list.
#[tokio::test]
async fn item_without_sort_order_counts_as_its_position() {
    let (_, owner) = service().user();
    let [a, b, c, d] = new_guids();
    let created =
        create_selection_of(&owner, ordered(&[(a, None), (b, Some(0)), (c, None), (d, Some(1))])).await;
    assert_eq!(objects(&created), [a, b, d, c]);
    assert_normalized(&created);

    let in_list_order = create_selection_of(&owner, items_of(&[d, b, a, c])).await;
    assert_eq!(objects(&in_list_order), [d, b, a, c]);
}

/// INV-SEL-003, RULE-SEL-040: a list with an object twice is refused, in any spelling of its Guid,
/// and nothing changes.
#[tokio::test]
async fn duplicate_object_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let [a, b] = new_guids();
    let mut twice = items_of(&[a, b, a]);
    for spelling in [a.to_string(), a.to_string().to_uppercase(), a.simple().to_string()] {
        twice[2]["PropertyObjectId"] = json!(spelling);
        for refused in [
            owner.post(SELECTIONS, json!({"Title": "x", "Items": twice})).await,
            owner.put(&items_path(&selection), json!({"Items": twice})).await,
        ] {
            refused.expect_refusal("SELECTIONS_DUPLICATE_ITEM", "/Items/2/PropertyObjectId", "duplicate");
        }
    }
    assert_eq!(reread(&owner, &selection).await, selection);
}

/// INV-SEL-004, RULE-SEL-041: 200 items fit, and the limit is checked before duplicates.
#[tokio::test]
async fn item_201_is_refused() {
    let (_, owner) = service().user();
    let mut most = guids(200);
    let selection = create_selection_of(&owner, items_of(&most)).await;
    assert_eq!((objects(&selection), &selection["ItemsCount"]), (most.clone(), &json!(200)));
    most.reverse();
    assert_eq!(objects(&replace(&owner, &selection, items_of(&most)).await), most);

    let mut with_a_duplicate = most.clone();
    with_a_duplicate.push(most[0]);
    for too_many in [items(201), items_of(&with_a_duplicate)] {
        for refused in [
            owner.post(SELECTIONS, json!({"Title": "x", "Items": too_many})).await,
            owner.put(&items_path(&selection), json!({"Items": too_many})).await,
        ] {
            refused.expect_refusal("SELECTIONS_ITEMS_LIMIT_EXCEEDED", "/Items", "too_many");
        }
    }
    assert_eq!(objects(&reread(&owner, &selection).await), most);
}

/// RULE-SEL-006: the list and its order are replaced, and every other member stays.
#[tokio::test]
async fn replaced_list_is_stored_as_sent() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let after = guids(2);

    let replaced = replace(&owner, &selection, items_of(&after)).await;

    assert_eq!(objects(&replaced), after);
    assert_normalized(&replaced);
    assert_eq!(replaced["Version"], 2);
    assert!(text(&replaced["UpdatedAt"]) > text(&selection["UpdatedAt"]));
    for kept in ["Id", "OwnerUserId", "PublicCode", "Title", "Description", "CreatedAt"] {
        assert_eq!(replaced[kept], selection[kept], "{kept}");
    }
    assert_eq!(reread(&owner, &selection).await, replaced);
}

/// RULE-SEL-006: an object that stays in the list keeps `AddedAt`, and a returning one gets a new
/// time.
#[tokio::test]
async fn kept_object_keeps_its_added_at() {
    let (_, owner) = service().user();
    let [a, b, c] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;

    let replaced = replace(&owner, &selection, items_of(&[c, b])).await;
    assert_eq!(replaced["Items"][0]["AddedAt"], replaced["UpdatedAt"]);
    assert_eq!(replaced["Items"][1]["AddedAt"], selection["CreatedAt"]);

    let back = replace(&owner, &selection, items_of(&[a, b])).await;
    assert_eq!(back["Items"][0]["AddedAt"], back["UpdatedAt"], "a returning object is new");
}

/// RULE-SEL-006: a request for the same list and order changes nothing.
#[tokio::test]
async fn identical_list_changes_nothing() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;
    for same in
        [items_of(&[a, b]), ordered(&[(b, Some(9)), (a, Some(4))]), ordered(&[(a, Some(0)), (b, Some(1))])]
    {
        assert_eq!(replace(&owner, &selection, same).await, selection);
    }
    assert_eq!(reread(&owner, &selection).await, selection);
}

/// RULE-SEL-006: another order of the same objects is a change.
#[tokio::test]
async fn reordered_list_is_a_change() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;
    let reordered = replace(&owner, &selection, items_of(&[b, a])).await;
    assert_eq!((objects(&reordered), &reordered["Version"]), (vec![b, a], &json!(2)));
}

/// RULE-SEL-006: an empty list is valid.
#[tokio::test]
async fn list_can_be_emptied() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let emptied = replace(&owner, &selection, json!([])).await;
    assert_eq!((&emptied["Items"], &emptied["ItemsCount"]), (&json!([]), &json!(0)));
    assert_eq!(replace(&owner, &selection, json!([])).await, emptied);
}

/// RULE-SEL-006, RULE-SEL-039: `Version` must be the stored version.
#[tokio::test]
async fn list_with_another_version_is_a_conflict() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let put = async |items: &Value, version: i64| {
        owner.put(&items_path(&selection), json!({"Items": items, "Version": version})).await
    };
    let second = items(2);

    assert_eq!(put(&second, 1).await.expect(200)["Version"], 2);
    for other in [1, 3, 0, -1] {
        put(&items(2), other).await.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    }
    let unchanged = put(&second, 1).await.expect(200);
    assert_eq!(unchanged["Version"], 2, "an identical request is no conflict");
    assert_eq!(reread(&owner, &selection).await, unchanged);
}

/// RULE-SEL-016: the list is checked before the selection, and the selection before its version.
#[tokio::test]
async fn list_with_several_faults_reports_the_first() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let [missing, object] = new_guids();
    let missing = json!({"Id": missing});
    let put = async |selection: &Value, list: Value| {
        owner.put(&items_path(selection), json!({"Items": list, "Version": 9})).await
    };
    for selection in [&missing, &selection] {
        put(selection, json!([{}])).await.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
        put(selection, items(201)).await.expect_problem(400, "SELECTIONS_ITEMS_LIMIT_EXCEEDED");
        put(selection, items_of(&[object, object])).await.expect_problem(400, "SELECTIONS_DUPLICATE_ITEM");
    }
    put(&missing, items(1)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    put(&selection, items(1)).await.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
}

/// RULE-SEL-039: a change of the metadata outdates the version for the list.
#[tokio::test]
async fn metadata_and_list_share_one_version() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"Title": "Summer", "Description": null, "Version": 1});
    owner.put(&crate::path(&selection), body).await.expect(200);
    let stale = owner.put(&items_path(&selection), json!({"Items": items(1), "Version": 1})).await;
    stale.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    let current = owner.put(&items_path(&selection), json!({"Items": items(1), "Version": 2})).await;
    assert_eq!(current.expect(200)["Version"], 3);
}
