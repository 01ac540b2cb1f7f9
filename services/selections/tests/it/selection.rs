//! Operations of owners on their selections.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    FROM_FAVORITES, SELECTIONS, create_selection, guid, items, items_path, join_limited, mark, members,
    open_path, path, reread, service, text, without_cards,
};

/// RULE-SEL-004: a guest who has the code opens the selection.
#[tokio::test]
async fn created_selection_is_opened_by_a_guest() {
    let (_, owner) = service().user();

    let selection = create_selection(&owner).await;
    let opened = service().guest().get(&open_path(&selection)).await.expect(200);

    assert_eq!(opened["Title"], "Spring");
    assert_eq!(without_cards(&opened), selection["Items"]);
}

/// RULE-SEL-002, RULE-ALL-001: the response has every member of a selection, and nulls are written.
#[tokio::test]
async fn created_selection_is_returned_whole() {
    let (id, owner) = service().user();

    let selection = create_selection(&owner).await;

    assert_eq!(
        members(&selection),
        [
            "CreatedAt",
            "DeletedAt",
            "Description",
            "Id",
            "Items",
            "ItemsCount",
            "OwnerUserId",
            "PublicCode",
            "Title",
            "UpdatedAt",
            "Version",
        ]
    );
    assert_eq!(selection["OwnerUserId"], id.to_string());
    assert_eq!(selection["Description"], Value::Null);
    assert_eq!(selection["DeletedAt"], Value::Null);
    assert_eq!(selection["ItemsCount"], 3);
    assert_eq!(selection["Version"], 1);
    assert_eq!(selection["UpdatedAt"], selection["CreatedAt"]);
    for item in selection["Items"].as_array().unwrap() {
        assert_eq!(members(item), ["AddedAt", "PropertyObjectId", "SortOrder"]);
        assert_eq!(item["AddedAt"], selection["CreatedAt"]);
    }
    assert_eq!(reread(&owner, &selection).await, selection);
}

/// RULE-ALL-005: the service makes UUIDv7 ids.
#[tokio::test]
async fn selection_id_sorts_by_time() {
    let (_, owner) = service().user();
    let first: Uuid = text(&create_selection(&owner).await["Id"]).parse().unwrap();
    let second: Uuid = text(&create_selection(&owner).await["Id"]).parse().unwrap();
    assert_eq!((first.get_version_num(), second.get_version_num()), (7, 7));
    assert!(first < second);
}

/// RULE-SEL-002: only `Title` is required.
#[tokio::test]
async fn title_alone_creates_a_selection() {
    let (_, owner) = service().user();
    for body in [json!({"Title": "x"}), json!({"Title": "x", "Description": null, "Items": null})] {
        let selection = owner.post(SELECTIONS, body).await.expect(201);
        assert_eq!((&selection["Description"], &selection["Items"]), (&Value::Null, &json!([])));
        assert_eq!(selection["ItemsCount"], 0);
    }
}

/// RULE-SEL-002: a repeated creation makes a second selection.
#[tokio::test]
async fn repeated_creation_makes_a_second_selection() {
    let (_, owner) = service().user();
    let body = json!({"Title": "Spring", "Items": items(1)});
    let first = owner.post(SELECTIONS, body.clone()).await.expect(201);
    let second = owner.post(SELECTIONS, body).await.expect(201);
    assert_ne!(first["Id"], second["Id"]);
    assert_ne!(first["PublicCode"], second["PublicCode"]);
}

/// RULE-SEL-024, RULE-ALL-006: a title has 1..200 Unicode characters in every operation, regardless
/// of its bytes.
#[tokio::test]
async fn title_has_1_to_200_characters() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = create_selection(&owner).await;
    let update =
        async |title: &str| owner.put(&path(&selection), json!({"Title": title, "Description": null})).await;
    for longest in ["x".repeat(200), "ё".repeat(200), "🏠".repeat(200)] {
        let created = owner.post(SELECTIONS, json!({"Title": longest})).await.expect(201);
        assert_eq!(created["Title"], longest);
        assert_eq!(owner.post(FROM_FAVORITES, json!({"Title": longest})).await.expect(201)["Title"], longest);
        assert_eq!(update(&longest).await.expect(200)["Title"], longest);
        let too_long = format!("{longest}x");
        for refused in [
            owner.post(SELECTIONS, json!({"Title": too_long})).await,
            owner.post(FROM_FAVORITES, json!({"Title": too_long})).await,
            update(&too_long).await,
        ] {
            refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Title", "too_long");
        }
    }
    for refused in [
        owner.post(SELECTIONS, json!({"Title": ""})).await,
        owner.post(FROM_FAVORITES, json!({"Title": ""})).await,
        update("").await,
    ] {
        refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Title", "too_short");
    }
}

/// RULE-SEL-024: a description has at most 2000 characters and can be empty.
#[tokio::test]
async fn description_has_at_most_2000_characters() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let selection = create_selection(&owner).await;
    let body = |description: &str| json!({"Title": "x", "Description": description});
    for fits in [String::new(), "🏠".repeat(2000)] {
        let created = owner.post(SELECTIONS, body(&fits)).await.expect(201);
        assert_eq!(created["Description"], fits);
        assert_eq!(owner.post(FROM_FAVORITES, body(&fits)).await.expect(201)["Description"], fits);
        assert_eq!(owner.put(&path(&selection), body(&fits)).await.expect(200)["Description"], fits);
    }
    let too_long = body(&"🏠".repeat(2001));
    for refused in [
        owner.post(SELECTIONS, too_long.clone()).await,
        owner.post(FROM_FAVORITES, too_long.clone()).await,
        owner.put(&path(&selection), too_long).await,
    ] {
        refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Description", "too_long");
    }
}

/// RULE-SEL-005: title and description are replaced whole, and null clears the description.
#[tokio::test]
async fn metadata_is_replaced_whole() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;

    let described =
        owner.put(&path(&selection), json!({"Title": "Summer", "Description": "Sea"})).await.expect(200);
    assert_eq!((&described["Title"], &described["Description"]), (&json!("Summer"), &json!("Sea")));
    assert_eq!(described["Version"], 2);
    assert!(text(&described["UpdatedAt"]) > text(&selection["UpdatedAt"]));
    for kept in ["Id", "OwnerUserId", "PublicCode", "Items", "CreatedAt"] {
        assert_eq!(described[kept], selection[kept], "{kept}");
    }

    let cleared =
        owner.put(&path(&selection), json!({"Title": "Summer", "Description": null})).await.expect(200);
    assert_eq!((&cleared["Description"], &cleared["Version"]), (&Value::Null, &json!(3)));
    assert_eq!(reread(&owner, &selection).await, cleared);
}

/// RULE-SEL-005: a replacement must have every member. An absent `Description` does not mean null.
#[tokio::test]
async fn metadata_without_a_description_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let refused = owner.put(&path(&selection), json!({"Title": "Summer"})).await;
    refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Description", "required");
    assert_eq!(reread(&owner, &selection).await, selection);
}

/// RULE-SEL-005: an identical request changes nothing.
#[tokio::test]
async fn identical_metadata_changes_nothing() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"Title": "Summer", "Description": "Sea"});
    let first = owner.put(&path(&selection), body.clone()).await.expect(200);
    let second = owner.put(&path(&selection), body).await.expect(200);
    assert_eq!(second, first);
}

/// RULE-SEL-005, RULE-SEL-039: `Version` must be the stored version.
#[tokio::test]
async fn metadata_with_another_version_is_a_conflict() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let put = async |title: &str, version: i64| {
        let body = json!({"Title": title, "Description": null, "Version": version});
        owner.put(&path(&selection), body).await
    };

    assert_eq!(put("Second", 1).await.expect(200)["Version"], 2);
    for other in [1, 3, 0, -1, i64::MAX] {
        put("Third", other).await.expect_problem(409, "SELECTIONS_CONCURRENCY_CONFLICT");
    }
    assert_eq!(reread(&owner, &selection).await["Title"], "Second");

    assert_eq!(put("Second", 1).await.expect(200)["Version"], 2, "an identical request is no conflict");
}

/// INV-SEL-009, RULE-SEL-007, RULE-SEL-037: a deleted selection does not open, cannot be changed
/// and is in no list.
#[tokio::test]
async fn deleted_selection_is_not_found() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;

    let deleted = owner.delete(&path(&selection)).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));

    for gone in [
        owner.delete(&path(&selection)).await,
        owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await,
        owner.put(&items_path(&selection), json!({"Items": []})).await,
        owner.get(&open_path(&selection)).await,
        service().guest().get(&open_path(&selection)).await,
    ] {
        gone.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["TotalCount"], 0);
}

/// INV-SEL-009, RULE-SEL-011: references to a deleted selection still resolve.
#[tokio::test]
async fn crm_still_reads_a_deleted_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.delete(&path(&selection)).await.expect(204);

    let internal = path(&selection).replace("/v1/", "/v1/internal/");
    let seen = service().machine("crm").get(&internal).await.expect(200);

    assert_eq!((&seen["Items"], &seen["Title"]), (&selection["Items"], &selection["Title"]));
    assert_eq!(seen["Version"], 2);
    assert_eq!(seen["DeletedAt"], seen["UpdatedAt"]);
}

/// INV-SEL-002, RULE-SEL-037: another user's selection and a missing one return the same 404, and
/// nothing changes.
#[tokio::test]
async fn only_the_owner_changes_a_selection() {
    let (_, owner) = service().user();
    let (_, stranger) = service().user();
    let selection = create_selection(&owner).await;
    let missing = json!({"Id": guid()});

    for target in [&selection, &missing] {
        for refused in [
            stranger.put(&path(target), json!({"Title": "Mine", "Description": null})).await,
            stranger.put(&items_path(target), json!({"Items": []})).await,
            stranger.delete(&path(target)).await,
        ] {
            refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
    assert_eq!(reread(&owner, &selection).await, selection);
    assert_eq!(stranger.get(SELECTIONS).await.expect(200)["TotalCount"], 0);
}

/// INV-SEL-007, RULE-SEL-042: an owner has at most 100 selections that are not deleted.
#[tokio::test]
async fn selection_101_is_refused_until_one_is_deleted() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    let created = join_limited((0..99).map(|_| owner.post(SELECTIONS, json!({"Title": "x"})))).await;
    let first = created.into_iter().map(|response| response.expect(201)).next().unwrap();
    owner.post(FROM_FAVORITES, json!({})).await.expect(201);

    let create = async || owner.post(SELECTIONS, json!({"Title": "x"})).await;
    let problem = create().await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
    assert!(text(&problem["detail"]).contains("100"), "{problem}");
    owner.post(FROM_FAVORITES, json!({})).await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["TotalCount"], 100);

    owner.delete(&path(&first)).await.expect(204);
    owner.delete(&path(&first)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    create().await.expect(201);
    create().await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
}
