//! Changes of objects since they were added to a selection.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::consumer::{not_public, object, publish, wait_for_shown};
use crate::{
    create_selection_of, eventually, item_path, items_of, items_path, members, new_guids, path, service,
};

async fn changes(caller: &Client, selection: &Value) -> Value {
    caller.get(&format!("{}/changes", path(selection))).await.expect(200)["Items"].clone()
}

/// Returns a public object with this status and price.
fn object_with(id: Uuid, version: i64, status: &str, amount: i64) -> Value {
    let mut object = object(id, version, "12");
    object["Status"] = json!(status);
    object["Price"]["AmountMinor"] = json!(amount);
    object
}

fn money(amount: i64) -> Value {
    json!({"AmountMinor": amount, "Currency": "RUB"})
}

/// RULE-SEL-055: the changes since an object was added are a sale, a withdrawal, and a higher or
/// lower price. They are listed in the order of the selection.
#[tokio::test]
async fn changes_since_objects_were_added_are_listed() {
    let [sold, hidden, unavailable, dearer, cheaper, both, same, sold_before, unknown] = new_guids();
    for id in [sold, hidden, unavailable, dearer, cheaper, both, same, sold_before] {
        let status = if id == sold_before { "Sold" } else { "Available" };
        publish(id, 1, &object_with(id, 1, status, 100)).await;
        wait_for_shown(id).await;
    }
    let (_, owner) = service().user();
    let order = [sold, hidden, unavailable, dearer, cheaper, both, same, sold_before, unknown];
    let selection = create_selection_of(&owner, items_of(&order)).await;
    assert_eq!(changes(&owner, &selection).await, json!([]));

    publish(sold, 2, &object_with(sold, 2, "Sold", 100)).await;
    publish(hidden, 2, &not_public(hidden, 2, "12")).await;
    publish(unavailable, 2, &object_with(unavailable, 2, "Unavailable", 100)).await;
    publish(dearer, 2, &object_with(dearer, 2, "Reserved", 101)).await;
    publish(cheaper, 2, &object_with(cheaper, 2, "Available", 99)).await;
    publish(both, 2, &object_with(both, 2, "Sold", 120)).await;
    publish(same, 2, &object_with(same, 2, "Booked", 100)).await;
    publish(sold_before, 2, &object_with(sold_before, 2, "Sold", 100)).await;
    publish(unknown, 1, &object_with(unknown, 1, "Sold", 1)).await;
    let listed = eventually("six changes", async || {
        let listed = changes(&owner, &selection).await;
        (listed.as_array().unwrap().len() == 6).then_some(listed)
    })
    .await;

    let expected = [
        (sold, json!(["Sold"]), money(100), money(100)),
        (hidden, json!(["Withdrawn"]), Value::Null, Value::Null),
        (unavailable, json!(["Withdrawn"]), money(100), money(100)),
        (dearer, json!(["PriceUp"]), money(100), money(101)),
        (cheaper, json!(["PriceDown"]), money(100), money(99)),
        (both, json!(["Sold", "PriceUp"]), money(100), money(120)),
    ];
    for (item, (id, changes, before, now)) in listed.as_array().unwrap().iter().zip(expected) {
        let expected = json!({
            "PropertyObjectId": id, "AddedAt": selection["CreatedAt"], "Changes": changes,
            "PriceWhenAdded": before, "Price": now,
        });
        assert_eq!(*item, expected);
    }
}

/// RULE-SEL-055: an object that is added again, or copied by a duplicate, is compared with its data
/// at that addition.
#[tokio::test]
async fn object_added_again_starts_without_changes() {
    let [id, other] = new_guids();
    publish(id, 1, &object_with(id, 1, "Available", 100)).await;
    wait_for_shown(id).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[id, other])).await;
    publish(id, 2, &object_with(id, 2, "Available", 90)).await;
    let listed = eventually("the lower price", async || {
        Some(changes(&owner, &selection).await).filter(|listed| *listed != json!([]))
    })
    .await;
    assert_eq!(members(&listed[0]), ["AddedAt", "Changes", "Price", "PriceWhenAdded", "PropertyObjectId"]);

    let copy = owner.post(&format!("{}/duplicate", path(&selection)), json!({})).await.expect(201);
    assert_eq!(changes(&owner, &copy).await, json!([]));
    let reordered = json!({"Items": items_of(&[other, id])});
    owner.put(&items_path(&selection), reordered).await.expect(200);
    assert_eq!(changes(&owner, &selection).await, listed, "a reorder keeps the first price");
    owner.delete(&item_path(&selection, id)).await.expect(200);
    assert_eq!(changes(&owner, &selection).await, json!([]));
    owner.put(&item_path(&selection, id), Value::Null).await.expect(200);
    assert_eq!(changes(&owner, &selection).await, json!([]));
}

/// RULE-SEL-055: a deleted selection keeps no data of its objects.
#[tokio::test]
async fn deletion_removes_recorded_data() {
    let [id] = new_guids();
    publish(id, 1, &object_with(id, 1, "Available", 100)).await;
    wait_for_shown(id).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[id])).await;
    let sql = service().cached_sql().await;
    let recorded = async || {
        let count = "select count(*) from added_object where selection_id = $1::text::uuid";
        sql.query_one(count, &[&selection["Id"].as_str()]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(recorded().await, 1);
    owner.delete(&path(&selection)).await.expect(204);
    assert_eq!(recorded().await, 0);
}
