//! The replica of chessboard's property objects, as snapshots freeze it.

use serde_json::{Value, json};
use testkit::contract::Contract;
use uuid::Uuid;

use crate::{
    OBJECT_UPSERTED, create_selection_of, distinct, eventually, guid, listed, members, read_snapshot,
    service, take_snapshot, text,
};

const DEAD_LETTERS: &str = "platform.chessboard.property-object-upserted.v1.selections.dlq";

/// What snapshots show of an object, by name.
const SHOWN: [&str; 11] = [
    "AreaTotal",
    "BuildingId",
    "BuildingName",
    "Floor",
    "LayoutFileId",
    "Number",
    "Price",
    "ProjectId",
    "ProjectName",
    "Rooms",
    "Status",
];

/// A public object with every member that chessboard documents, and one that it may add. `number` distinguishes versions.
pub fn object(id: Uuid, version: i64, number: &str) -> Value {
    json!({
        "Id": id, "Version": version, "TenantId": guid(), "IsPublic": true,
        "ProjectId": guid(), "ProjectName": "Лесной", "BuildingId": guid(), "BuildingName": "К2",
        "Number": number, "Kind": "Flat", "IsStudio": false, "Rooms": 2, "Floor": 7, "AreaTotal": 54.35,
        "Finishing": "Fine", "Price": {"AmountMinor": 1_250_000_000_i64, "Currency": "RUB"},
        "Status": "Available", "LayoutFileId": guid(), "HoldDealId": guid(),
    })
}

/// Returns an object as chessboard documents it, with every member.
fn documented() -> Value {
    let document = Contract::read(include_str!("../../../../contracts/asyncapi/chessboard.yaml")).unwrap();
    document.messages(OBJECT_UPSERTED).unwrap().swap_remove(0)
}

async fn publish(key: Uuid, sequence: i64, payload: &Value) {
    service().bus().publish(OBJECT_UPSERTED, key, sequence, payload).await;
}

/// What a snapshot taken now shows of these objects, in their order.
async fn frozen(objects: &[Uuid]) -> Vec<Value> {
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, listed(objects)).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);
    let snapshot = read_snapshot(&taken).await;
    snapshot["Items"].as_array().unwrap().iter().map(|item| item["Shown"].clone()).collect()
}

/// What a snapshot shows of the object, once the replica knows it.
async fn shown(object: Uuid) -> Value {
    let known = async || frozen(&[object]).await.pop().filter(|shown| !shown.is_null());
    eventually("the object in the replica", known).await
}

/// Waits until everything that was published under `key` before has been looked at.
async fn passed(key: Uuid, sequence: i64) {
    let marker = guid();
    publish(key, sequence, &object(marker, 1, "marker")).await;
    shown(marker).await;
}

/// Selections: of all that chessboard publishes of an object, snapshots show project, building, number, rooms, floor, area,
/// price, status and layout, and no more.
#[tokio::test]
async fn a_snapshot_freezes_what_an_object_shows_and_nothing_else() {
    let id = guid();
    let published = object(id, 1, "12");
    for member in members(&documented()) {
        assert!(!published[member].is_null(), "chessboard documents {member}");
    }
    publish(id, 1, &published).await;

    let shown = shown(id).await;

    assert_eq!(members(&shown), SHOWN);
    for member in SHOWN {
        assert_eq!(shown[member], published[member], "{member}");
    }
}

/// `IsPublic` is not read: a snapshot shows an object that is not public, with its price, like a public one.
#[tokio::test]
async fn a_snapshot_freezes_an_object_whether_or_not_it_is_public() {
    let id = guid();
    let mut published = object(id, 1, "12");
    published["IsPublic"] = json!(false);
    publish(id, 1, &published).await;
    let shown = shown(id).await;
    for member in SHOWN {
        assert_eq!(shown[member], published[member], "{member}");
    }
}

/// Every member that is shown is read where chessboard documents it.
#[tokio::test]
async fn what_the_producer_documents_is_shown() {
    let published = documented();
    let id: Uuid = text(&published["Id"]).parse().unwrap();
    publish(id, 1, &published).await;
    let shown = shown(id).await;
    for (name, value) in shown.as_object().unwrap() {
        assert_eq!(published.get(name), Some(value), "{name}");
    }
}

/// Selections: unknown objects keep their id alone.
#[tokio::test]
async fn an_unknown_object_keeps_its_id_alone() {
    let [known, unknown] = distinct();
    publish(known, 1, &object(known, 1, "12")).await;
    shown(known).await;
    let [first, second] = frozen(&[unknown, known]).await.try_into().unwrap();
    assert_eq!(first, Value::Null);
    assert_eq!(second["Number"], "12");
}

/// A studio without rooms, an object without a price: nulls are shown as nulls, absent members too.
#[tokio::test]
async fn what_an_object_does_not_show_is_null() {
    let [sparse, nulls] = distinct();
    publish(sparse, 1, &json!({"Id": sparse, "Version": 1, "Number": "P-1"})).await;
    let all_null = json!({
        "Id": nulls, "Version": 1, "ProjectId": null, "ProjectName": null, "BuildingId": null, "BuildingName": null,
        "Number": "P-1", "Rooms": null, "Floor": null, "AreaTotal": null, "Price": null, "Status": null,
        "LayoutFileId": null,
    });
    publish(nulls, 1, &all_null).await;
    let shown_of_sparse = shown(sparse).await;
    assert_eq!(shown_of_sparse, shown(nulls).await);
    assert_eq!((&shown_of_sparse["Number"], &shown_of_sparse["Price"]), (&json!("P-1"), &Value::Null));
}

/// INV-SNP-004: a change of the object does not reach the snapshots that are there.
#[tokio::test]
async fn a_later_change_of_an_object_does_not_alter_a_snapshot() {
    let id = guid();
    publish(id, 1, &object(id, 1, "12")).await;
    shown(id).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, listed(&[id])).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);
    let before = read_snapshot(&taken).await;

    publish(id, 2, &object(id, 2, "12a")).await;
    eventually("the change", async || (shown(id).await["Number"] == "12a").then_some(())).await;

    assert_eq!(before["Items"][0]["Shown"]["Number"], "12");
    assert_eq!(read_snapshot(&taken).await, before);
}

/// Versions grow monotonically: an older one, and the same one again, change nothing.
#[tokio::test]
async fn an_older_version_of_an_object_is_ignored() {
    let id = guid();
    publish(id, 1, &object(id, 5, "five")).await;
    publish(id, 2, &object(id, 4, "four")).await;
    publish(id, 3, &object(id, 5, "five again")).await;
    passed(id, 4).await;
    assert_eq!(shown(id).await["Number"], "five");
    publish(id, 5, &object(id, 6, "six")).await;
    passed(id, 6).await;
    assert_eq!(shown(id).await["Number"], "six");
}

/// Delivery is at-least-once: a message that comes again is not applied again.
#[tokio::test]
async fn a_repeated_message_is_applied_once() {
    let id = guid();
    publish(id, 7, &object(id, 1, "first")).await;
    for again in [7, 7, 6] {
        publish(id, again, &object(id, 2, "again")).await;
    }
    passed(id, 8).await;
    assert_eq!(shown(id).await["Number"], "first");
}

/// A producer that gives no sequence is deduplicated by `ce_id`.
#[tokio::test]
async fn a_repeated_message_without_a_sequence_is_applied_once() {
    let id = guid();
    let headers = [("ce_id", guid().to_string())];
    for number in ["first", "again"] {
        let version = if number == "first" { 1 } else { 2 };
        let payload = object(id, version, number).to_string();
        service()
            .bus()
            .publish_raw(OBJECT_UPSERTED, id.to_string().as_bytes(), &headers, payload.as_bytes())
            .await;
    }
    passed(id, 1).await;
    assert_eq!(shown(id).await["Number"], "first");
}

/// One bad message is put aside with those behind it, and stops neither the service nor other keys.
#[tokio::test]
async fn a_message_that_does_not_decode_is_dead_lettered() {
    let [healthy, late] = distinct();
    let bad = [
        json!({"Id": "x", "Version": 1}),
        json!({"Id": guid()}),
        json!({"Id": guid(), "Version": "1"}),
        json!({"Id": guid(), "Version": 1, "Price": 1.5}),
        json!({"Id": guid(), "Version": 1, "Price": {"AmountMinor": 1, "Currency": "roubles"}}),
        json!([]),
        json!(null),
    ];
    for payload in bad {
        let key = guid();
        publish(key, 1, &payload).await;

        let dead = service().bus().events_until(key, DEAD_LETTERS).await;

        let copy = dead.iter().find(|event| event.topic == DEAD_LETTERS).unwrap();
        assert_eq!(copy.payload, payload);
        let sent =
            service().bus().events(&key).into_iter().find(|event| event.topic == OBJECT_UPSERTED).unwrap();
        let context = sent.headers.iter().filter(|(name, _)| name.starts_with("ce_"));
        context.for_each(|(name, value)| assert_eq!(&copy.headers[name], value, "{name} of the original"));
    }
    publish(healthy, 1, &object(healthy, 1, "12")).await;
    assert_eq!(shown(healthy).await["Number"], "12");

    let key = guid();
    publish(key, 1, &json!({})).await;
    publish(key, 2, &object(late, 1, "behind")).await;
    let behind = async || {
        let events = service().bus().events(&key);
        events
            .iter()
            .any(|event| event.topic == DEAD_LETTERS && event.payload["Number"] == "behind")
            .then_some(())
    };
    eventually("the message behind a dead letter", behind).await;
    assert_eq!(frozen(&[late]).await, [Value::Null]);
}

/// PostgreSQL would keep it in a document, and fail at the snapshots that it is frozen into.
#[tokio::test]
async fn a_text_with_a_nul_is_dead_lettered() {
    for member in ["ProjectName", "BuildingName", "Number", "Status"] {
        let id = guid();
        let mut payload = object(id, 1, "12");
        payload[member] = json!("a\0b");
        publish(id, 1, &payload).await;

        let dead = service().bus().events_until(id, DEAD_LETTERS).await;

        let copy = dead.iter().find(|event| event.topic == DEAD_LETTERS).unwrap();
        assert_eq!(copy.payload, payload);
        assert_eq!(frozen(&[id]).await, [Value::Null]);
    }
}

/// Whatever bytes come, as key, header or value, the next message is still taken.
#[tokio::test]
async fn bytes_that_are_no_message_stop_nothing() {
    let id = guid();
    let bus = service().bus();
    let many_keys = distinct::<8>();
    for (n, garbage) in [&b""[..], b"\0", b"\xff\xfe\0", b"{", b"\"\xed\xa0\x80\""].into_iter().enumerate() {
        let key = [many_keys[n].as_bytes(), garbage].concat();
        bus.publish_raw(OBJECT_UPSERTED, &key, &[("ce_id", "\u{0}x".to_owned())], garbage).await;
        let headers = [("ce_sequence", "not a number".to_owned()), ("x\u{1}", String::new())];
        bus.publish_raw(OBJECT_UPSERTED, &key, &headers, garbage).await;
    }
    // Keys spread over all partitions, so that each of them has to get past its garbage.
    for key in many_keys {
        publish(key, 1, &object(key, 1, "12")).await;
        assert_eq!(shown(key).await["Number"], "12");
    }
    publish(id, 1, &object(id, 1, "12")).await;
    shown(id).await;
}
