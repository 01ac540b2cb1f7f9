//! The read of a selection by its id, and its duplicates.

use serde_json::json;

use crate::{
    CREATED, ITEM_ADDED, SELECTIONS, create_selection, details_path, events_of, guid, items, items_path,
    members, objects, open_path, path, reread, service, text, topics, without_cards,
};

/// RULE-SEL-052: the owner reads the selection by its id, with its version, link and openings.
#[tokio::test]
async fn owner_reads_the_selection_by_id() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let details = owner.get(&details_path(&selection)).await.expect(200);
    assert_eq!(
        members(&details),
        [
            "CreatedAt",
            "Description",
            "Id",
            "Items",
            "ItemsCount",
            "Link",
            "Openings",
            "OwnerUserId",
            "PublicCode",
            "Title",
            "UpdatedAt",
            "UpdatedByUserId",
            "Version",
        ]
    );
    for (name, value) in details.as_object().unwrap() {
        match name.as_str() {
            "Link" => assert_eq!(*value, json!({"IsEnabled": true, "ExpiresAt": null})),
            "Openings" => assert_eq!(*value, json!({"Count": 0, "LastOpenedAt": null})),
            "UpdatedByUserId" => assert_eq!(*value, id.to_string()),
            "Items" => assert_eq!(without_cards(&details), selection["Items"]),
            _ => assert_eq!(*value, selection[name], "{name}"),
        }
    }
    let changed = owner.put(&items_path(&selection), json!({"Items": items(1)})).await.expect(200);
    let details = owner.get(&details_path(&selection)).await.expect(200);
    assert_eq!((&details["Version"], without_cards(&details)), (&json!(2), changed["Items"].clone()));
}

/// INV-SEL-002, INV-SEL-009, RULE-SEL-052: a stranger, a path with a code and a deleted selection
/// get 404.
#[tokio::test]
async fn details_of_others_are_not_found() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, stranger) = service().user();
    let by_code = format!("{}/details", open_path(&selection));
    for refused in [
        stranger.get(&details_path(&selection)).await,
        owner.get(&by_code).await,
        owner.get(&format!("{SELECTIONS}/{}/details", guid())).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    owner.delete(&path(&selection)).await.expect(204);
    for reading in ["details", "changes", "collaborators"] {
        let refused = owner.get(&format!("{}/{reading}", path(&selection))).await;
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// RULE-SEL-054: a duplicate is an independent selection of the caller with a code of its own, and
/// publishes its creation and each item.
#[tokio::test]
async fn duplicate_is_an_independent_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.put(&path(&selection), json!({"Title": "Spring", "Description": "Sea"})).await.expect(200);
    let duplicates = format!("{}/duplicate", path(&selection));
    let copy = owner.post(&duplicates, json!({})).await.expect(201);
    assert_ne!(copy["Id"], selection["Id"]);
    assert_ne!(copy["PublicCode"], selection["PublicCode"]);
    assert_eq!((&copy["Title"], &copy["Description"]), (&json!("Spring"), &json!("Sea")));
    assert_eq!((objects(&copy), &copy["Version"]), (objects(&selection), &json!(1)));
    assert_eq!(copy["Items"][0]["AddedAt"], copy["CreatedAt"]);
    let titled = owner.post(&duplicates, json!({"Title": "Summer"})).await.expect(201);
    assert_eq!(titled["Title"], "Summer");
    let events = events_of(service(), &copy).await;
    assert_eq!(topics(&events), [CREATED, ITEM_ADDED, ITEM_ADDED, ITEM_ADDED]);

    owner.put(&items_path(&copy), json!({"Items": []})).await.expect(200);
    assert_eq!(objects(&reread(&owner, &selection).await), objects(&selection));
    let (_, stranger) = service().user();
    stranger.post(&duplicates, json!({})).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let refused = owner.post(&duplicates, json!({"Title": ""})).await;
    refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Title", "too_short");
    assert_eq!(text(&reread(&owner, &selection).await["Title"]), "Spring");
}

/// INV-SEL-007, RULE-SEL-054: a duplicate counts against the limit of selections.
#[tokio::test]
async fn duplicate_counts_against_the_limit() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let duplicate = format!("{}/duplicate", path(&selection));
    let copies = (1..100).map(|_| owner.post(&duplicate, json!({})));
    for copy in crate::join_limited(copies).await {
        copy.expect(201);
    }
    owner.post(&duplicate, json!({})).await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
}
