//! The list of a selection and its order.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::{
    SELECTIONS, create_selection, create_selection_of, distinct, guids, items, items_path, listed, objects,
    reread, service, text,
};

async fn replace(owner: &Client, selection: &Value, items: Value) -> Value {
    owner.put(&items_path(selection), json!({"Items": items})).await.expect(200)
}

fn ordered(asked: &[(Uuid, Option<i64>)]) -> Value {
    asked.iter().map(|(id, order)| json!({"PropertyObjectId": id, "SortOrder": order})).collect()
}

fn assert_normalized(selection: &Value) {
    let items = selection["Items"].as_array().unwrap();
    let orders: Vec<_> = items.iter().map(|item| item["SortOrder"].as_u64().unwrap()).collect();
    assert_eq!(orders, (0..items.len() as u64).collect::<Vec<_>>());
    assert_eq!(selection["ItemsCount"], items.len());
}

/// INV-SEL-006: any numbers that sort become 0..N-1; equal ones keep the order of the list.
#[tokio::test]
async fn sort_order_is_normalized() {
    let (_, owner) = service().user();
    let [tie, early, other_tie, last, first] = distinct();
    let asked = ordered(&[
        (tie, Some(50)),
        (early, Some(-7)),
        (other_tie, Some(50)),
        (last, Some(i64::from(i32::MAX))),
        (first, Some(i64::from(i32::MIN))),
    ]);

    let created = create_selection_of(&owner, asked.clone()).await;
    assert_eq!(objects(&created), [first, early, tie, other_tie, last]);
    assert_normalized(&created);

    let replaced = replace(&owner, &create_selection(&owner).await, asked).await;
    assert_eq!(objects(&replaced), [first, early, tie, other_tie, last]);
    assert_normalized(&replaced);
}

/// INV-SEL-006: an item without `SortOrder` stands where it stands in the list.
#[tokio::test]
async fn an_item_without_sort_order_stands_at_its_position() {
    let (_, owner) = service().user();
    let [a, b, c, d] = distinct();
    let created =
        create_selection_of(&owner, ordered(&[(a, None), (b, Some(0)), (c, None), (d, Some(1))])).await;
    assert_eq!(objects(&created), [a, b, d, c]);
    assert_normalized(&created);

    let in_list_order = create_selection_of(&owner, listed(&[d, b, a, c])).await;
    assert_eq!(objects(&in_list_order), [d, b, a, c]);
}

/// INV-SEL-003: an object twice is refused, however its Guid is spelled, and nothing changes.
#[tokio::test]
async fn a_duplicate_object_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let [a, b] = distinct();
    let mut twice = listed(&[a, b, a]);
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

/// INV-SEL-004: 200 items fit, one more does not, and is told before any duplicate.
#[tokio::test]
async fn a_selection_holds_at_most_200_items() {
    let (_, owner) = service().user();
    let mut most = guids(200);
    let selection = create_selection_of(&owner, listed(&most)).await;
    assert_eq!((objects(&selection), &selection["ItemsCount"]), (most.clone(), &json!(200)));
    most.reverse();
    assert_eq!(objects(&replace(&owner, &selection, listed(&most)).await), most);

    let mut with_a_duplicate = most.clone();
    with_a_duplicate.push(most[0]);
    for too_many in [items(201), listed(&with_a_duplicate)] {
        for refused in [
            owner.post(SELECTIONS, json!({"Title": "x", "Items": too_many})).await,
            owner.put(&items_path(&selection), json!({"Items": too_many})).await,
        ] {
            refused.expect_refusal("SELECTIONS_ITEMS_LIMIT_EXCEEDED", "/Items", "too_many");
        }
    }
    assert_eq!(objects(&reread(&owner, &selection).await), most);
}

#[tokio::test]
async fn a_replaced_list_is_what_was_sent() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let after = guids(2);

    let replaced = replace(&owner, &selection, listed(&after)).await;

    assert_eq!(objects(&replaced), after);
    assert_normalized(&replaced);
    assert_eq!(replaced["Version"], 2);
    assert!(text(&replaced["UpdatedAt"]) > text(&selection["UpdatedAt"]));
    for kept in ["Id", "OwnerUserId", "PublicCode", "Title", "Description", "CreatedAt"] {
        assert_eq!(replaced[kept], selection[kept], "{kept}");
    }
    assert_eq!(reread(&owner, &selection).await, replaced);
}

/// `AddedAt` tells when an object came into the list: those that stay keep theirs.
#[tokio::test]
async fn objects_that_stay_keep_when_they_were_added() {
    let (_, owner) = service().user();
    let [a, b, c] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b])).await;

    let replaced = replace(&owner, &selection, listed(&[c, b])).await;
    assert_eq!(replaced["Items"][0]["AddedAt"], replaced["UpdatedAt"]);
    assert_eq!(replaced["Items"][1]["AddedAt"], selection["CreatedAt"]);

    let back = replace(&owner, &selection, listed(&[a, b])).await;
    assert_eq!(back["Items"][0]["AddedAt"], back["UpdatedAt"], "what was away is new again");
}

/// Selections: a repeat of an identical replace changes nothing.
#[tokio::test]
async fn an_identical_list_changes_nothing() {
    let (_, owner) = service().user();
    let [a, b] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b])).await;
    for same in
        [listed(&[a, b]), ordered(&[(b, Some(9)), (a, Some(4))]), ordered(&[(a, Some(0)), (b, Some(1))])]
    {
        assert_eq!(replace(&owner, &selection, same).await, selection);
    }
    assert_eq!(reread(&owner, &selection).await, selection);
}

#[tokio::test]
async fn a_reordered_list_is_a_change() {
    let (_, owner) = service().user();
    let [a, b] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b])).await;
    let reordered = replace(&owner, &selection, listed(&[b, a])).await;
    assert_eq!((objects(&reordered), &reordered["Version"]), (vec![b, a], &json!(2)));
}

#[tokio::test]
async fn a_list_may_be_emptied() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let emptied = replace(&owner, &selection, json!([])).await;
    assert_eq!((&emptied["Items"], &emptied["ItemsCount"]), (&json!([]), &json!(0)));
    assert_eq!(replace(&owner, &selection, json!([])).await, emptied);
}

/// Conventions, Concurrency: the `Version` that the caller has seen must be the current one.
#[tokio::test]
async fn a_list_of_another_version_is_a_conflict() {
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
    assert_eq!(unchanged["Version"], 2, "what changes nothing cannot conflict");
    assert_eq!(reread(&owner, &selection).await, unchanged);
}

/// Conventions, Check order: what is wrong with a list comes before a missing selection, and that before a version.
#[tokio::test]
async fn a_refusal_comes_in_its_order() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let [missing, object] = distinct();
    let missing = json!({"Id": missing});
    let put = async |selection: &Value, list: Value| {
        owner.put(&items_path(selection), json!({"Items": list, "Version": 9})).await
    };
    for selection in [&missing, &selection] {
        put(selection, json!([{}])).await.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
        put(selection, items(201)).await.expect_problem(400, "SELECTIONS_ITEMS_LIMIT_EXCEEDED");
        put(selection, listed(&[object, object])).await.expect_problem(400, "SELECTIONS_DUPLICATE_ITEM");
    }
    put(&missing, items(1)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    put(&selection, items(1)).await.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
}

/// One version counts the metadata and the list together.
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
