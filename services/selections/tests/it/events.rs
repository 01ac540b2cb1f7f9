//! What is told on the bus, in which envelope, and what is not told at all.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, send};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::{
    CREATED, DELETED, FROM_FAVORITES, ITEM_ADDED, SELECTIONS, UPDATED, create_selection, create_selection_of,
    detach_snapshot, distinct, events_of, favorite, guid, items_path, listed, mark, members, objects, path,
    read_snapshot, service, take_snapshot, text, topics,
};

/// Deletes the selection and returns all of its events.
async fn life_of(owner: &Client, selection: &Value) -> Vec<Published> {
    owner.delete(&path(selection)).await.expect(204);
    events_of(service(), selection).await
}

/// Events: a manual create publishes `selection-created` alone, a deletion `selection-deleted`. Their numbers follow
/// the changes.
#[tokio::test]
async fn a_creation_and_a_deletion_publish_one_event_each() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;

    let events = life_of(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, DELETED]);
    assert_eq!(
        events[0].payload,
        json!({
            "SelectionId": selection["Id"], "OwnerUserId": id, "PublicCode": selection["PublicCode"],
            "Title": "Spring", "ItemsCount": 3, "CreatedAt": selection["CreatedAt"],
        })
    );
    let card = path(&selection).replace("/v1/", "/v1/internal/");
    let deleted = service().machine("crm").get(&card).await.expect(200);
    assert_eq!(
        events[1].payload,
        json!({
            "SelectionId": selection["Id"], "OwnerUserId": id, "DeletedAt": deleted["DeletedAt"],
        })
    );
}

/// Conventions, Events: CloudEvents 1.0 in Kafka's binary mode.
#[tokio::test]
async fn every_event_has_the_whole_envelope() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await.expect(200);
    let before = OffsetDateTime::parse(text(&selection["CreatedAt"]), &Rfc3339).unwrap();

    let events = life_of(&owner, &selection).await;

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

/// Conventions, Events: an event belongs to the trace of the request that caused it.
#[tokio::test]
async fn an_event_carries_the_trace_of_its_request() {
    let (_, owner) = service().user();
    let trace = guid().simple().to_string();
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let selection = send(request).await.expect(201);

    let events = life_of(&owner, &selection).await;

    let trace_of = |event: &Published| event.headers["traceparent"].split('-').nth(1).unwrap().to_owned();
    assert_eq!(trace_of(&events[0]), trace);
    assert_ne!(trace_of(&events[1]), trace, "another request, another trace");
}

/// Events: `selection-updated` names what has really changed.
#[tokio::test]
async fn an_update_names_the_changed_fields() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let mut updated = Vec::new();
    for (title, description) in [("Summer", None), ("Summer", Some("Sea")), ("Autumn", None)] {
        let body = json!({"Title": title, "Description": description});
        updated.push(owner.put(&path(&selection), body).await.expect(200));
    }

    let events = life_of(&owner, &selection).await;

    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, UPDATED, DELETED]);
    let changed = [json!(["Title"]), json!(["Description"]), json!(["Title", "Description"])];
    for ((event, answer), changed) in events[1..4].iter().zip(&updated).zip(changed) {
        assert_eq!(
            event.payload,
            json!({
                "SelectionId": selection["Id"], "ChangedFields": changed, "ItemsCount": 3,
                "Version": answer["Version"], "UpdatedAt": answer["UpdatedAt"],
            })
        );
    }
}

/// Selections: `selection-item-added` tells of objects that were not in the list before.
#[tokio::test]
async fn a_replaced_list_tells_what_is_new_in_it() {
    let (_, owner) = service().user();
    let [a, b, c, d] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b])).await;
    let body = json!({"Items": listed(&[c, b, d])});
    let replaced = owner.put(&items_path(&selection), body).await.expect(200);

    let events = life_of(&owner, &selection).await;

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

/// Events: `Version` of `selection-item-added` never falls within a key, and grows with each change.
#[tokio::test]
async fn the_version_of_added_items_is_monotonic() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    for _ in 0..3 {
        let body = json!({"Items": crate::items(2)});
        owner.put(&items_path(&selection), body).await.expect(200);
    }
    let events = life_of(&owner, &selection).await;
    let added = events.iter().filter(|event| event.topic == ITEM_ADDED);
    let versions: Vec<_> = added.map(|event| event.payload["Version"].as_i64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 2, 3, 3, 4, 4]);
}

/// Selections: a pure reorder publishes `selection-updated` alone, and so does a removal.
#[tokio::test]
async fn a_reorder_or_removal_adds_no_items() {
    let (_, owner) = service().user();
    let [a, b, c] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b, c])).await;
    for list in [vec![c, a, b], vec![c, b], vec![]] {
        owner.put(&items_path(&selection), json!({"Items": listed(&list)})).await.expect(200);
    }
    let events = life_of(&owner, &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, UPDATED, DELETED]);
    let counts: Vec<_> = events[1..4].iter().map(|event| event.payload["ItemsCount"].clone()).collect();
    assert_eq!(counts, [3, 2, 0]);
}

/// An object that was taken out and comes back was not in the list before.
#[tokio::test]
async fn an_object_that_comes_back_is_added_again() {
    let (_, owner) = service().user();
    let object = guid();
    let selection = create_selection_of(&owner, listed(&[object])).await;
    for list in [vec![], vec![object]] {
        owner.put(&items_path(&selection), json!({"Items": listed(&list)})).await.expect(200);
    }
    let events = life_of(&owner, &selection).await;
    assert_eq!(topics(&events), [CREATED, UPDATED, UPDATED, ITEM_ADDED, DELETED]);
    assert_eq!(events[3].payload["Version"], 3);
}

/// Endpoints: from favorites publishes `selection-created` and N times `selection-item-added`.
#[tokio::test]
async fn a_selection_of_favorites_tells_of_each_item() {
    let (id, owner) = service().user();
    for object in distinct::<3>() {
        mark(&owner, object).await;
    }
    let selection = owner.post(FROM_FAVORITES, json!({"Title": "Best"})).await.expect(201);

    let events = life_of(&owner, &selection).await;

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

/// INV-SEL-004: each item of the largest list has its event. Those arrive in the order of the list.
#[tokio::test]
async fn two_hundred_added_items_publish_an_event_each() {
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, json!([])).await;
    let most = crate::guids(200);
    owner.put(&items_path(&selection), json!({"Items": listed(&most)})).await.expect(200);
    let events = service().published(text(&selection["Id"])).await;
    let added = events.iter().filter(|event| event.topic == ITEM_ADDED);
    let added: Vec<Uuid> =
        added.map(|event| text(&event.payload["PropertyObjectId"]).parse().unwrap()).collect();
    assert_eq!(added, most);
}

/// Selections: a repeat of an identical replacement publishes nothing.
#[tokio::test]
async fn a_repeat_of_an_identical_replacement_publishes_nothing() {
    let (_, owner) = service().user();
    let [a, b] = distinct();
    let selection = create_selection_of(&owner, listed(&[a, b])).await;
    for _ in 0..2 {
        owner.put(&path(&selection), json!({"Title": "Spring", "Description": null})).await.expect(200);
        owner.put(&items_path(&selection), json!({"Items": listed(&[a, b])})).await.expect(200);
    }
    assert_eq!(topics(&life_of(&owner, &selection).await), [CREATED, DELETED]);
}

/// Conventions, Concurrency: of the losing side nothing is kept, so nothing is told.
#[tokio::test]
async fn a_refused_change_publishes_nothing() {
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
    assert_eq!(topics(&life_of(&owner, &selection).await), [CREATED, DELETED]);
}

/// Events: a repeated deletion is a 404 and publishes nothing.
#[tokio::test]
async fn a_selection_is_deleted_once() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.delete(&path(&selection)).await.expect(204);
    owner.delete(&path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(topics(&events_of(service(), &selection).await), [CREATED, DELETED]);
}

/// Events: snapshot operations publish nothing.
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

    assert_eq!(topics(&life_of(&owner, &selection).await), [CREATED, DELETED]);
    for key in [text(&snapshot["SnapshotId"]), &post.to_string()] {
        assert!(service().published(key).await.is_empty(), "{key}");
    }
}

/// Endpoints: reads and favorites publish nothing.
#[tokio::test]
async fn reads_and_favorites_publish_nothing() {
    let (id, owner) = service().user();
    let object = guid();
    let selection = create_selection(&owner).await;
    mark(&owner, object).await;
    owner.delete(&favorite(object)).await.expect(204);
    owner.get(SELECTIONS).await.expect(200);
    owner.get(&crate::open_path(&selection)).await.expect(200);

    assert_eq!(topics(&life_of(&owner, &selection).await), [CREATED, DELETED]);
    for key in [id, object] {
        assert!(service().published(key).await.is_empty(), "{key}");
    }
}

/// Conventions: names as the contract writes them, and times that parse.
#[tokio::test]
async fn payloads_have_the_members_of_the_contract() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await.expect(200);
    let events = life_of(&owner, &selection).await;
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
