//! The copy of chessboard's property objects, which open selections and snapshots show.

use serde_json::{Value, json};
use testkit::contract::Contract;
use uuid::Uuid;

use crate::{
    OBJECT_UPSERTED, create_selection_of, eventually, guid, items_of, members, new_guids, read_snapshot,
    service, take_snapshot, text,
};

const DEAD_LETTERS: &str = "platform.chessboard.property-object-upserted.v1.selections.dlq";

/// Members of `Shown`.
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

/// Returns a public object with every documented member and an unknown one.
///
/// `number` distinguishes its versions.
pub fn object(id: Uuid, version: i64, number: &str) -> Value {
    json!({
        "Id": id, "Version": version, "TenantId": guid(), "IsPublic": true,
        "ProjectId": guid(), "ProjectName": "Лесной", "BuildingId": guid(), "BuildingName": "К2",
        "Number": number, "Kind": "Flat", "IsStudio": false, "Rooms": 2, "Floor": 7, "AreaTotal": 54.35,
        "Finishing": "Fine", "Price": {"AmountMinor": 1_250_000_000_i64, "Currency": "RUB"},
        "Status": "Available", "LayoutFileId": guid(), "HoldDealId": guid(),
        "UpdatedByUserId": guid(),
    })
}

/// Returns the object while it is not public, for example because its developer is hidden.
pub fn not_public(id: Uuid, version: i64, number: &str) -> Value {
    let mut object = object(id, version, number);
    object["IsPublic"] = json!(false);
    object
}

/// Returns an object with every member of chessboard's document.
fn documented() -> Value {
    let document = Contract::read(include_str!("../../../../contracts/asyncapi/chessboard.yaml")).unwrap();
    document.payload_samples(OBJECT_UPSERTED).unwrap().swap_remove(0)
}

pub async fn publish(key: Uuid, sequence: i64, payload: &Value) {
    service().bus().publish(OBJECT_UPSERTED, key, sequence, payload).await;
}

/// Takes a snapshot of these objects and returns their `Shown` in their order.
async fn shown_in_new_snapshot(objects: &[Uuid]) -> Vec<Value> {
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(objects)).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);
    let snapshot = read_snapshot(&taken).await;
    snapshot["Items"].as_array().unwrap().iter().map(|item| item["Shown"].clone()).collect()
}

/// Returns `Shown` of an object once the copy has it.
pub async fn wait_for_shown(object: Uuid) -> Value {
    let known = async || shown_in_new_snapshot(&[object]).await.pop().filter(|shown| !shown.is_null());
    eventually("the object in the copy", known).await
}

/// Publishes a further message of `key` and waits for its object. The consumer has then applied or
/// dead-lettered every earlier message of `key`.
pub async fn wait_for_consumer(key: Uuid, sequence: i64) {
    let marker = guid();
    publish(key, sequence, &object(marker, 1, "marker")).await;
    wait_for_shown(marker).await;
}

/// RULE-SEL-022: a snapshot has project, building, number, rooms, floor, area, price, status and
/// layout, and no other member.
#[tokio::test]
async fn snapshot_freezes_only_public_data() {
    let id = guid();
    let published = object(id, 1, "12");
    for member in members(&documented()) {
        assert!(!published[member].is_null(), "chessboard documents {member}");
    }
    publish(id, 1, &published).await;

    let shown = wait_for_shown(id).await;

    assert_eq!(members(&shown), SHOWN);
    for member in SHOWN {
        assert_eq!(shown[member], published[member], "{member}");
    }
}

/// INV-DEV-6, RULE-SEL-022: a snapshot freezes nothing of an object that is not public, and a later
/// publication of the object does not alter the snapshot.
#[tokio::test]
async fn object_that_is_not_public_has_only_its_id() {
    let [hidden, public] = new_guids();
    publish(hidden, 1, &not_public(hidden, 1, "12")).await;
    publish(public, 1, &object(public, 1, "13")).await;
    wait_for_consumer(hidden, 2).await;
    wait_for_shown(public).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[hidden, public])).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);

    let before = read_snapshot(&taken).await;

    let only_id = json!({"PropertyObjectId": hidden, "SortOrder": 0, "Shown": null, "Withheld": false});
    assert_eq!(before["Items"][0], only_id);
    assert_eq!(before["Items"][1]["Shown"]["Number"], "13");
    publish(hidden, 3, &object(hidden, 2, "12")).await;
    wait_for_shown(hidden).await;
    assert_eq!(read_snapshot(&taken).await, before);
}

/// INV-DEV-6, INV-SNP-004, RULE-SEL-049: a read withholds the frozen content of an object while the
/// object is not public. The stored content stays the same.
#[tokio::test]
async fn frozen_content_is_withheld_while_the_object_is_not_public() {
    let [hidden, public] = new_guids();
    for id in [hidden, public] {
        publish(id, 1, &object(id, 1, "12")).await;
        wait_for_shown(id).await;
    }
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[hidden, public])).await;
    let post = guid();
    let taken = take_snapshot(&selection, post).await.expect(201);
    let before = read_snapshot(&taken).await;
    let sql = service().sql().await;
    let query = format!("select items::text from snapshot where id = '{}'", text(&taken["SnapshotId"]));
    let stored = async || sql.query_one(&query, &[]).await.unwrap().get::<_, String>(0);
    let frozen = stored().await;

    publish(hidden, 2, &not_public(hidden, 2, "12")).await;
    let withheld = eventually("the content is withheld", async || {
        let read = read_snapshot(&taken).await;
        (read["Items"][0]["Withheld"] == true).then_some(read)
    })
    .await;

    let item = json!({"PropertyObjectId": hidden, "SortOrder": 0, "Shown": null, "Withheld": true});
    assert_eq!(withheld["Items"][0], item);
    assert_eq!(withheld["Items"][1], before["Items"][1]);
    assert_eq!(take_snapshot(&selection, post).await.expect(200), taken);
    assert_eq!(stored().await, frozen);

    publish(hidden, 3, &object(hidden, 3, "another number")).await;
    eventually("the content is shown again", async || (read_snapshot(&taken).await == before).then_some(()))
        .await;
}

/// INV-DEV-6, RULE-SEL-036: an older event that shows the object does not undo a newer one that
/// hides it.
#[tokio::test]
async fn older_event_does_not_show_a_hidden_object() {
    let id = guid();
    publish(id, 1, &object(id, 1, "12")).await;
    wait_for_shown(id).await;
    publish(id, 2, &not_public(id, 3, "12")).await;
    publish(id, 3, &object(id, 2, "12")).await;
    wait_for_consumer(id, 4).await;
    assert_eq!(shown_in_new_snapshot(&[id]).await, [Value::Null]);
}

/// RULE-SEL-022, RULE-ALL-067: every shown member has the name that chessboard documents.
#[tokio::test]
async fn documented_members_are_shown() {
    let published = documented();
    let id: Uuid = text(&published["Id"]).parse().unwrap();
    publish(id, 1, &published).await;
    let shown = wait_for_shown(id).await;
    for (name, value) in shown.as_object().unwrap() {
        assert_eq!(published.get(name), Some(value), "{name}");
    }
}

/// INV-DEV-6, RULE-SEL-022: a snapshot contains only the id of an object that the copy does not
/// have.
#[tokio::test]
async fn unknown_object_has_only_its_id() {
    let [known, unknown] = new_guids();
    publish(known, 1, &object(known, 1, "12")).await;
    wait_for_shown(known).await;
    let [first, second] = shown_in_new_snapshot(&[unknown, known]).await.try_into().unwrap();
    assert_eq!(first, Value::Null);
    assert_eq!(second["Number"], "12");
}

/// RULE-SEL-022: nulls and absent members are shown as null.
#[tokio::test]
async fn absent_data_of_an_object_is_null() {
    let [sparse, nulls] = new_guids();
    publish(sparse, 1, &json!({"Id": sparse, "Version": 1, "IsPublic": true, "Number": "P-1"})).await;
    let all_null = json!({
        "Id": nulls, "Version": 1, "IsPublic": true, "ProjectId": null, "ProjectName": null, "BuildingId": null, "BuildingName": null,
        "Number": "P-1", "Rooms": null, "Floor": null, "AreaTotal": null, "Price": null, "Status": null,
        "LayoutFileId": null,
    });
    publish(nulls, 1, &all_null).await;
    let shown_of_sparse = wait_for_shown(sparse).await;
    assert_eq!(shown_of_sparse, wait_for_shown(nulls).await);
    assert_eq!((&shown_of_sparse["Number"], &shown_of_sparse["Price"]), (&json!("P-1"), &Value::Null));
}

/// INV-SEL-001: a later change of the object does not alter existing snapshots.
#[tokio::test]
async fn later_change_of_an_object_does_not_alter_a_snapshot() {
    let id = guid();
    publish(id, 1, &object(id, 1, "12")).await;
    wait_for_shown(id).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[id])).await;
    let taken = take_snapshot(&selection, guid()).await.expect(201);
    let before = read_snapshot(&taken).await;

    publish(id, 2, &object(id, 2, "12a")).await;
    eventually("the change", async || (wait_for_shown(id).await["Number"] == "12a").then_some(())).await;

    assert_eq!(before["Items"][0]["Shown"]["Number"], "12");
    assert_eq!(read_snapshot(&taken).await, before);
}

/// RULE-SEL-036, RULE-EVT-023: an older version and a repeat of the same version change nothing.
#[tokio::test]
async fn older_version_of_an_object_is_ignored() {
    let id = guid();
    publish(id, 1, &object(id, 5, "five")).await;
    publish(id, 2, &object(id, 4, "four")).await;
    publish(id, 3, &object(id, 5, "five again")).await;
    wait_for_consumer(id, 4).await;
    assert_eq!(wait_for_shown(id).await["Number"], "five");
    publish(id, 5, &object(id, 6, "six")).await;
    wait_for_consumer(id, 6).await;
    assert_eq!(wait_for_shown(id).await["Number"], "six");
}

/// RULE-SEL-036: a message that arrives again is not applied again.
#[tokio::test]
async fn repeated_message_is_applied_once() {
    let id = guid();
    publish(id, 7, &object(id, 1, "first")).await;
    for again in [7, 7, 6] {
        publish(id, again, &object(id, 2, "again")).await;
    }
    wait_for_consumer(id, 8).await;
    assert_eq!(wait_for_shown(id).await["Number"], "first");
}

/// RULE-SEL-036: without a sequence the consumer recognizes a repeat by `ce_id`.
#[tokio::test]
async fn repeated_message_without_a_sequence_is_applied_once() {
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
    wait_for_consumer(id, 1).await;
    assert_eq!(wait_for_shown(id).await["Number"], "first");
}

/// RULE-SEL-036, RULE-EVT-046: an undecodable message is dead-lettered. Other keys and later
/// messages of its key are applied.
#[tokio::test]
async fn undecodable_message_is_dead_lettered() {
    let [healthy, late] = new_guids();
    let bad = [
        json!({"Id": "x", "Version": 1, "IsPublic": true}),
        json!({"Id": guid(), "IsPublic": true}),
        json!({"Id": guid(), "Version": "1", "IsPublic": true}),
        json!({"Id": guid(), "Version": 1}),
        json!({"Id": guid(), "Version": 1, "IsPublic": "true"}),
        json!({"Id": guid(), "Version": 1, "IsPublic": true, "Price": 1.5}),
        json!({"Id": guid(), "Version": 1, "IsPublic": true, "Price": {"AmountMinor": 1, "Currency": "roubles"}}),
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
    assert_eq!(wait_for_shown(healthy).await["Number"], "12");

    let key = guid();
    publish(key, 1, &json!({})).await;
    service().bus().events_until(key, DEAD_LETTERS).await;
    publish(key, 2, &object(late, 1, "later")).await;
    assert_eq!(wait_for_shown(late).await["Number"], "later");
}

/// RULE-SEL-036: a document with a NUL is dead-lettered. PostgreSQL would store it, and then fail
/// at each snapshot that copies it.
#[tokio::test]
async fn text_with_a_nul_is_dead_lettered() {
    for member in ["ProjectName", "BuildingName", "Number", "Status", "Kind", "Finishing"] {
        let id = guid();
        let mut payload = object(id, 1, "12");
        payload[member] = json!("a\0b");
        publish(id, 1, &payload).await;

        let dead = service().bus().events_until(id, DEAD_LETTERS).await;

        let copy = dead.iter().find(|event| event.topic == DEAD_LETTERS).unwrap();
        assert_eq!(copy.payload, payload);
        assert_eq!(shown_in_new_snapshot(&[id]).await, [Value::Null]);
    }
}

/// RULE-SEL-036: garbage as key, header or value does not stop later messages.
#[tokio::test]
async fn garbage_bytes_do_not_stop_the_consumer() {
    let id = guid();
    let bus = service().bus();
    let many_keys = new_guids::<8>();
    for (n, garbage) in [&b""[..], b"\0", b"\xff\xfe\0", b"{", b"\"\xed\xa0\x80\""].into_iter().enumerate() {
        let key = [many_keys[n].as_bytes(), garbage].concat();
        bus.publish_raw(OBJECT_UPSERTED, &key, &[("ce_id", "\u{0}x".to_owned())], garbage).await;
        let headers = [("ce_sequence", "not a number".to_owned()), ("x\u{1}", String::new())];
        bus.publish_raw(OBJECT_UPSERTED, &key, &headers, garbage).await;
    }
    // The random keys spread garbage and messages over the partitions.
    for key in many_keys {
        publish(key, 1, &object(key, 1, "12")).await;
        assert_eq!(wait_for_shown(key).await["Number"], "12");
    }
    publish(id, 1, &object(id, 1, "12")).await;
    wait_for_shown(id).await;
}
