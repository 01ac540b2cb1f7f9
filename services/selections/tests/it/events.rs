//! Published events and their envelope.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, send};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{
    CREATED, DELETED, FROM_FAVORITES, ITEM_ADDED, SELECTIONS, UPDATED, create_selection, create_selection_of,
    detach_snapshot, events_of, favorite_path, guid, items_of, items_path, mark, members, new_guids, objects,
    path, read_snapshot, service, take_snapshot, text, topics,
};

/// Deletes the selection and returns all of its events.
async fn delete_and_collect_events(owner: &Client, selection: &Value) -> Vec<Published> {
    owner.delete(&path(selection)).await.expect(204);
    events_of(service(), selection).await
}

/// RULE-SEL-029, RULE-SEL-032, RULE-EVT-011, RULE-EVT-022: a manual creation publishes
/// only `selection-created`, a deletion `selection-deleted`, with growing sequences.
#[tokio::test]
async fn creation_and_deletion_publish_one_event_each() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;

    let events = delete_and_collect_events(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, DELETED]);
    assert_eq!(
        events[0].payload,
        json!({
            "SelectionId": selection["Id"], "OwnerUserId": id, "PublicCode": selection["PublicCode"],
            "Title": "Spring", "ItemsCount": 3, "CreatedAt": selection["CreatedAt"],
        })
    );
    let internal_path = path(&selection).replace("/v1/", "/v1/internal/");
    let deleted = service().machine("crm").get(&internal_path).await.expect(200);
    assert_eq!(
        events[1].payload,
        json!({
            "SelectionId": selection["Id"], "OwnerUserId": id, "DeletedAt": deleted["DeletedAt"],
        })
    );
}

/// RULE-SEL-034, RULE-ALL-058, RULE-ALL-063: each event is a `CloudEvent` 1.0 in Kafka's binary
/// content mode.
#[tokio::test]
async fn every_event_has_the_full_envelope() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await.expect(200);
    let before = OffsetDateTime::parse(text(&selection["CreatedAt"]), &Rfc3339).unwrap();

    let events = delete_and_collect_events(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, ITEM_ADDED, UPDATED, DELETED]);
    for event in &events {
        let header = |name: &str| event.headers.get(name).map(String::as_str);
        assert_eq!(header("ce_specversion"), Some("1.0"));
        assert_eq!(header("ce_type"), Some(event.topic.as_str()));
        assert_eq!(header("ce_source"), Some("/selections"));
        assert_eq!(header("ce_subject"), selection["Id"].as_str());
        assert_eq!(header("aggregatetype"), Some("Selection"));
        assert_eq!(header("contractversion"), Some("1"));
        assert_eq!(header("content-type"), Some("application/json"));
        header("ce_id").unwrap().parse::<Uuid>().unwrap();
        let time = OffsetDateTime::parse(header("ce_time").unwrap(), &Rfc3339).unwrap();
        assert!(time >= before && time <= runtime::clock::now(), "{time}");
        assert_eq!(header("traceparent").unwrap().split('-').count(), 4);
    }
    assert!(events.windows(2).all(|pair| pair[0].sequence() < pair[1].sequence()), "sequences grow");
    let ids: std::collections::HashSet<_> = events.iter().map(|event| &event.headers["ce_id"]).collect();
    assert_eq!(ids.len(), events.len());
}

/// RULE-SEL-034, RULE-ALL-039: an event belongs to the trace of its request.
#[tokio::test]
async fn event_carries_the_trace_of_its_request() {
    let (_, owner) = service().user();
    let trace = guid().simple().to_string();
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let selection = send(request).await.expect(201);

    let events = delete_and_collect_events(&owner, &selection).await;

    let trace_of = |event: &Published| event.headers["traceparent"].split('-').nth(1).unwrap().to_owned();
    assert_eq!(trace_of(&events[0]), trace);
    assert_ne!(trace_of(&events[1]), trace, "another request, another trace");
}

/// RULE-SEL-030: `selection-updated` names the fields that changed.
#[tokio::test]
async fn update_event_names_the_changed_fields() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let mut updated = Vec::new();
    for (title, description) in [("Summer", None), ("Summer", Some("Sea")), ("Autumn", None)] {
        let body = json!({"Title": title, "Description": description});
        updated.push(owner.put(&path(&selection), body).await.expect(200));
    }

    let events = delete_and_collect_events(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, UPDATED, DELETED]);
    let changed = [json!(["Title"]), json!(["Description"]), json!(["Title", "Description"])];
    for ((event, response), changed) in events[1..4].iter().zip(&updated).zip(changed) {
        assert_eq!(
            event.payload,
            json!({
                "SelectionId": selection["Id"], "ChangedFields": changed, "ItemsCount": 3,
                "Version": response["Version"], "UpdatedAt": response["UpdatedAt"],
            })
        );
    }
}

/// RULE-SEL-031: `selection-item-added` is published for objects that were not in the list before.
#[tokio::test]
async fn replaced_list_publishes_its_added_items() {
    let (_, owner) = service().user();
    let [a, b, c, d] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;
    let body = json!({"Items": items_of(&[c, b, d])});
    let replaced = owner.put(&items_path(&selection), body).await.expect(200);

    let events = delete_and_collect_events(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, UPDATED, ITEM_ADDED, ITEM_ADDED, DELETED]);
    assert_eq!(
        events[1].payload,
        json!({
            "SelectionId": selection["Id"], "ChangedFields": ["Items"], "ItemsCount": 3,
            "Version": 2, "UpdatedAt": replaced["UpdatedAt"],
        })
    );
    for (event, (object, order)) in events[2..4].iter().zip([(c, 0), (d, 2)]) {
        assert_eq!(
            event.payload,
            json!({
                "SelectionId": selection["Id"], "PropertyObjectId": object, "SortOrder": order, "Version": 2,
            })
        );
    }
}

/// RULE-SEL-031: `Version` never decreases within a key and grows with each change.
#[tokio::test]
async fn version_of_added_items_never_decreases() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    for _ in 0..3 {
        let body = json!({"Items": crate::items(2)});
        owner.put(&items_path(&selection), body).await.expect(200);
    }
    let events = delete_and_collect_events(&owner, &selection).await;
    let added = events.iter().filter(|event| event.topic == ITEM_ADDED);
    let versions: Vec<_> = added.map(|event| event.payload["Version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 2, 3, 3, 4, 4]);
}

/// RULE-SEL-030: a reorder and a removal publish only `selection-updated`.
#[tokio::test]
async fn reorder_and_removal_publish_no_added_item() {
    let (_, owner) = service().user();
    let [a, b, c] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b, c])).await;
    for list in [vec![c, a, b], vec![c, b], vec![]] {
        owner.put(&items_path(&selection), json!({"Items": items_of(&list)})).await.expect(200);
    }
    let events = delete_and_collect_events(&owner, &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, UPDATED, DELETED]);
    let counts: Vec<_> = events[1..4].iter().map(|event| event.payload["ItemsCount"].clone()).collect();
    assert_eq!(counts, [3, 2, 0]);
}

/// RULE-SEL-031: an object that was removed and is added again counts as new to the list.
#[tokio::test]
async fn returning_object_is_published_as_added_again() {
    let (_, owner) = service().user();
    let object = guid();
    let selection = create_selection_of(&owner, items_of(&[object])).await;
    for list in [vec![], vec![object]] {
        owner.put(&items_path(&selection), json!({"Items": items_of(&list)})).await.expect(200);
    }
    let events = delete_and_collect_events(&owner, &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, ITEM_ADDED, DELETED]);
    assert_eq!(events[3].payload["Version"], 3);
}

/// RULE-SEL-031: a copy of favorites publishes `selection-created` and one event for each item.
#[tokio::test]
async fn selection_from_favorites_publishes_each_item() {
    let (id, owner) = service().user();
    for object in new_guids::<3>() {
        mark(&owner, object).await;
    }
    let selection = owner.post(FROM_FAVORITES, json!({"Title": "Best"})).await.expect(201);

    let events = delete_and_collect_events(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, ITEM_ADDED, ITEM_ADDED, ITEM_ADDED, DELETED]);
    assert_eq!(
        events[0].payload,
        json!({
            "SelectionId": selection["Id"], "OwnerUserId": id, "PublicCode": selection["PublicCode"],
            "Title": "Best", "ItemsCount": 3, "CreatedAt": selection["CreatedAt"],
        })
    );
    for (order, (event, object)) in events[1..4].iter().zip(objects(&selection)).enumerate() {
        assert_eq!(
            event.payload,
            json!({
                "SelectionId": selection["Id"], "PropertyObjectId": object, "SortOrder": order, "Version": 1,
            })
        );
    }
}

/// INV-SEL-004, RULE-SEL-031, RULE-EVT-011: each item of the largest list has its event, in the
/// order of the list.
#[tokio::test]
async fn largest_list_publishes_an_event_for_each_item() {
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, json!([])).await;
    let most = crate::guids(200);
    owner.put(&items_path(&selection), json!({"Items": items_of(&most)})).await.expect(200);
    let events = service().published(text(&selection["Id"])).await;
    let added = events.iter().filter(|event| event.topic == ITEM_ADDED);
    let added: Vec<Uuid> =
        added.map(|event| text(&event.payload["PropertyObjectId"]).parse().unwrap()).collect();
    assert_eq!(added, most);
}

/// RULE-SEL-033: a repeat of an identical request publishes nothing.
#[tokio::test]
async fn identical_replacement_publishes_nothing() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    let selection = create_selection_of(&owner, items_of(&[a, b])).await;
    for _ in 0..2 {
        owner.put(&path(&selection), json!({"Title": "Spring", "Description": null})).await.expect(200);
        owner.put(&items_path(&selection), json!({"Items": items_of(&[a, b])})).await.expect(200);
    }
    assert_eq!(topics(&delete_and_collect_events(&owner, &selection).await), [CREATED, DELETED]);
}

/// RULE-SEL-033, RULE-SEL-035: nothing of a refused change is stored, so nothing is published.
#[tokio::test]
async fn refused_change_publishes_nothing() {
    let (_, owner) = service().user();
    let (_, stranger) = service().user();
    let selection = create_selection(&owner).await;
    let too_many = json!({"Items": crate::items(201)});
    let stale = json!({"Items": crate::items(2), "Version": 7});
    owner.put(&items_path(&selection), stale).await.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    owner.put(&items_path(&selection), too_many).await.expect_problem(400, "SELECTIONS_ITEMS_LIMIT_EXCEEDED");
    let body = json!({"Title": "Mine", "Description": null});
    stranger.put(&path(&selection), body).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    stranger.delete(&path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(topics(&delete_and_collect_events(&owner, &selection).await), [CREATED, DELETED]);
}

/// RULE-SEL-007, RULE-SEL-032: a repeated deletion returns 404 and publishes nothing.
#[tokio::test]
async fn repeated_deletion_publishes_nothing() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.delete(&path(&selection)).await.expect(204);
    owner.delete(&path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(topics(&events_of(service(), &selection).await), [CREATED, DELETED]);
}

/// RULE-SEL-033: taking, reading and detaching a snapshot publish nothing.
#[tokio::test]
async fn snapshots_publish_nothing() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let post = guid();
    let snapshot = take_snapshot(&selection, post).await.expect(201);
    take_snapshot(&selection, post).await.expect(200);
    read_snapshot(&snapshot).await;
    detach_snapshot(&snapshot, "BlockReplaced").await.expect(200);
    detach_snapshot(&snapshot, "PostDeleted").await.expect(200);

    assert_eq!(topics(&delete_and_collect_events(&owner, &selection).await), [CREATED, DELETED]);
    for key in [text(&snapshot["SnapshotId"]), &post.to_string()] {
        assert!(service().published(key).await.is_empty(), "{key}");
    }
}

/// RULE-SEL-001, RULE-SEL-033: reads and favorites publish nothing.
#[tokio::test]
async fn reads_and_favorites_publish_nothing() {
    let (id, owner) = service().user();
    let object = guid();
    let selection = create_selection(&owner).await;
    mark(&owner, object).await;
    owner.delete(&favorite_path(object)).await.expect(204);
    owner.get(SELECTIONS).await.expect(200);
    owner.get(&crate::open_path(&selection)).await.expect(200);

    assert_eq!(topics(&delete_and_collect_events(&owner, &selection).await), [CREATED, DELETED]);
    for key in [id, object] {
        assert!(service().published(key).await.is_empty(), "{key}");
    }
}

/// RULE-SEL-029, RULE-SEL-031, RULE-EVT-011: each payload has exactly the members of the contract.
#[tokio::test]
async fn payloads_have_the_members_of_the_contract() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await.expect(200);
    let events = delete_and_collect_events(&owner, &selection).await;
    let names: Vec<_> = events.iter().map(|event| members(&event.payload)).collect();
    assert_eq!(
        names,
        [
            vec!["CreatedAt", "ItemsCount", "OwnerUserId", "PublicCode", "SelectionId", "Title"],
            vec!["PropertyObjectId", "SelectionId", "SortOrder", "Version"],
            vec!["ChangedFields", "ItemsCount", "SelectionId", "UpdatedAt", "Version"],
            vec!["DeletedAt", "OwnerUserId", "SelectionId"],
        ]
    );
}
