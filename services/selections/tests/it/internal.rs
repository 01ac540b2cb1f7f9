//! Operations of the internal port.

use serde_json::{Value, json};
use testkit::issuer::Claims;

use crate::{
    collaborator_path, create_selection, create_selection_of, guid, items, items_path, members, path, reread,
    service, snapshots_path, text,
};

fn by_owner(owner: impl std::fmt::Display) -> String {
    format!("/api/v1/internal/selections/by-owner/{owner}")
}

fn internal_path(selection: &Value) -> String {
    path(selection).replace("/v1/", "/v1/internal/")
}

/// RULE-SEL-011: crm reads a selection for the card of a client or a deal.
#[tokio::test]
async fn crm_reads_a_whole_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    assert_eq!(service().machine("crm").get(&internal_path(&selection)).await.expect(200), selection);
}

/// RULE-SEL-011: for a new deal, a deleted selection and one that has had a collaborator count as
/// missing.
#[tokio::test]
async fn crm_gets_404_for_a_selection_that_was_shared_or_deleted() {
    let (_, owner) = service().user();
    let (kept, shared, deleted) =
        (create_selection(&owner).await, create_selection(&owner).await, create_selection(&owner).await);
    let collaborators = collaborator_path(&shared, guid());
    owner.put(&collaborators, Value::Null).await.expect(204);
    owner.delete(&collaborators).await.expect(204);
    owner.delete(&path(&deleted)).await.expect(204);
    let crm = service().machine("crm");
    let read = async |selection: &Value, query: &str| {
        crm.get(&format!("{}?ForNewDeal={query}", internal_path(selection))).await
    };
    assert_eq!(read(&kept, "true").await.expect(200), kept);
    for selection in [&shared, &deleted] {
        read(selection, "true").await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        read(selection, "false").await.expect(200);
    }
    read(&kept, "1").await.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/ForNewDeal", "invalid_type");
}

/// RULE-SEL-011: an id without a selection returns 404.
#[tokio::test]
async fn crm_gets_404_for_an_unknown_selection() {
    let missing = service().machine("crm").get(&internal_path(&json!({"Id": guid()}))).await;
    missing.expect_problem(404, "SELECTIONS_NOT_FOUND");
}

/// RULE-SEL-012: crm gets the page that the owner gets, without deleted selections.
#[tokio::test]
async fn crm_lists_the_selections_of_an_owner() {
    let (id, owner) = service().user();
    let (_, another) = service().user();
    create_selection(&another).await;
    let first = create_selection(&owner).await;
    let deleted = create_selection(&owner).await;
    let second = create_selection(&owner).await;
    owner.delete(&path(&deleted)).await.expect(204);
    let crm = service().machine("crm");

    let page = crm.get(&by_owner(id)).await.expect(200);

    assert_eq!(page, json!({"Items": [second, first], "Page": 1, "PageSize": 20, "TotalCount": 2}));
    assert_eq!(page, owner.get("/api/v1/selections").await.expect(200), "as the owner sees it");
    let last = crm.get(&format!("{}?Sort=CreatedAt&PageSize=1&Page=2", by_owner(id))).await.expect(200);
    assert_eq!((&last["Items"], &last["TotalCount"]), (&json!([second]), &json!(2)));
    let refused = crm.get(&format!("{}?PageSize=101", by_owner(id))).await;
    refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/PageSize", "out_of_range");
}

/// RULE-SEL-012: an unknown owner has an empty list.
#[tokio::test]
async fn owner_without_selections_has_an_empty_list() {
    let page = service().machine("crm").get(&by_owner(guid())).await.expect(200);
    assert_eq!(page, json!({"Items": [], "Page": 1, "PageSize": 20, "TotalCount": 0}));
}

/// RULE-SEL-014: an id in a path that does not parse returns 404.
#[tokio::test]
async fn internal_path_without_a_guid_is_not_found() {
    let (news, crm) = (service().machine("news"), service().machine("crm"));
    for segment in ["x", "AAAAAAAAAAAA", "00000000-0000-0000-0000-00000000000", "by-owner", "%00"] {
        for response in [
            crm.get(&format!("/api/v1/internal/selections/{segment}")).await,
            crm.get(&by_owner(segment)).await,
            news.get(&format!("/api/v1/internal/snapshots/{segment}")).await,
            news.post(&format!("/api/v1/internal/snapshots/{segment}/detach"), json!({})).await,
            news.post(&format!("/api/v1/internal/selections/{segment}/snapshots"), json!({})).await,
        ] {
            response.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
}

/// RULE-SEL-008: `PostId` and `ActorUserId` are required, `AuthorUserId` is not.
#[tokio::test]
async fn snapshot_request_requires_post_and_actor() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let news = service().machine("news");
    let path = snapshots_path(&selection);
    let good = json!({"PostId": guid(), "ActorUserId": id, "AuthorUserId": null});
    for (member, fault) in [
        ("PostId", "absent"),
        ("ActorUserId", "absent"),
        ("PostId", "null"),
        ("ActorUserId", "null"),
        ("PostId", "x"),
        ("ActorUserId", "x"),
        ("AuthorUserId", "x"),
    ] {
        let mut body = good.clone();
        match fault {
            "absent" => drop(body.as_object_mut().unwrap().remove(member)),
            "null" => body[member] = Value::Null,
            wrong => body[member] = json!(wrong),
        }
        let reason = if fault == "absent" { "required" } else { "invalid_type" };
        let refused = news.post(&path, body).await;
        refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", &format!("/{member}"), reason);
    }
    news.post(&path, good).await.expect(201);
}

/// INV-SEL-002, RULE-SEL-023: a colleague of the owner has the same rights as any other user.
#[tokio::test]
async fn colleagues_do_not_share_selections() {
    let company = guid();
    let colleague =
        || service().caller(&Claims::user(guid()).company(company).permission("crm.deals.manage@platform"));
    let (one, other) = (colleague(), colleague());
    let selection = create_selection_of(&one, items(1)).await;
    assert_eq!(other.get("/api/v1/selections").await.expect(200)["TotalCount"], 0);
    other.delete(&path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(reread(&one, &selection).await, selection);
}

/// RULE-SEL-011: crm reads the current state of a changed selection.
#[tokio::test]
async fn crm_reads_the_current_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"Title": "Summer", "Description": "Sea"});
    let changed = owner.put(&path(&selection), body).await.expect(200);
    let read_by_crm = service().machine("crm").get(&internal_path(&selection)).await.expect(200);
    assert_eq!(read_by_crm, changed);
    assert_eq!(members(&read_by_crm).len(), 11, "every member of a selection");
    assert_eq!(text(&read_by_crm["Title"]), "Summer");
}

/// INV-SEL-009, RULE-SEL-011: crm reads a deleted selection as it was when its owner deleted it,
/// and no request changes it afterwards.
#[tokio::test]
async fn deleted_selection_keeps_its_last_state() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let body = json!({"Title": "Summer", "Description": "Sea"});
    let last = owner.put(&path(&selection), body).await.expect(200);
    owner.delete(&path(&selection)).await.expect(204);
    let crm = service().machine("crm");

    let deleted = crm.get(&internal_path(&selection)).await.expect(200);

    for member in ["Id", "OwnerUserId", "PublicCode", "Title", "Description", "Items", "ItemsCount"] {
        assert_eq!(deleted[member], last[member], "{member}");
    }
    assert_eq!(deleted["DeletedAt"], deleted["UpdatedAt"]);
    let private = json!({"Title": "Private", "Description": "a private note"});
    for refused in [
        owner.put(&path(&selection), private).await,
        owner.put(&items_path(&selection), json!({"Items": items(1)})).await,
        owner.delete(&path(&selection)).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(crm.get(&internal_path(&selection)).await.expect(200), deleted);
}
