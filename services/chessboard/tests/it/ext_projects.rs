//! External ids of projects.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::{guid, text};

use crate::objects::{PROJECT_CHANGED, PROJECTS, project};
use crate::{create_developer, each, id_of, list, manager, service, with, without};

/// Returns the path of the operations on the entity `kind` with an external id, which is encoded.
pub fn named(kind: &str, id: &str) -> String {
    let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/api/v1/developers/by-external-id/{kind}/{id}")
}

pub async fn put_project(by: &Client, id: &str, body: Value) -> testkit::client::Response {
    by.put(&named("projects", id), body).await
}

/// RULE-CHS-063, RULE-ALL-095: an upsert creates a draft, a changed body replaces it, and an
/// identical body changes nothing and publishes nothing.
#[tokio::test]
async fn upsert_creates_then_replaces_project() {
    let developer = create_developer().await;
    let by = manager(developer);
    let response = put_project(&by, "ЖК-1", project()).await;
    assert_eq!(response.header("location"), named("projects", "ЖК-1"));
    let created = response.expect(201);
    assert_eq!(
        (&created["ExternalId"], &created["Status"], &created["Version"], &created["TenantId"]),
        (&json!("ЖК-1"), &json!("Draft"), &json!(1), &json!(developer))
    );
    let sent = without(without(created.clone(), "ExternalId"), "Version");
    assert_eq!(put_project(&by, "ЖК-1", sent.clone()).await.expect(200), created);
    assert_eq!(put_project(&by, "ЖК-1", with(sent.clone(), "Version", 9)).await.expect(200), created);
    assert_eq!(by.get(&named("projects", "ЖК-1")).await.expect(200), created);

    let bare = json!({"Name": "Ели", "Class": "Elite", "City": "Уфа", "Address": "1", "Version": 1});
    let changed = put_project(&by, "ЖК-1", bare).await.expect(200);
    assert_eq!(
        (&changed["Id"], &changed["Version"], &changed["Name"], &changed["Description"]),
        (&created["Id"], &json!(2), &json!("Ели"), &Value::Null)
    );
    let events = service().published(id_of(&created["Id"])).await;
    assert_eq!(events.iter().filter(|event| event.topic == PROJECT_CHANGED).count(), 1);
}

/// RULE-CHS-063: `Version` of an upsert is that of the project, and 0 means a new project.
#[tokio::test]
async fn upsert_compares_version_of_project() {
    const CONFLICT: &str = "CHESSBOARD_CONCURRENCY_CONFLICT";
    let by = manager(create_developer().await);
    put_project(&by, "1", with(project(), "Version", 1)).await.expect_problem(409, CONFLICT);
    put_project(&by, "1", with(project(), "Version", 0)).await.expect(201);
    let renamed = with(project(), "Name", "Ели");
    put_project(&by, "1", with(renamed.clone(), "Version", 0)).await.expect_problem(409, CONFLICT);
    put_project(&by, "1", with(renamed.clone(), "Version", 2)).await.expect_problem(409, CONFLICT);
    put_project(&by, "1", with(renamed, "Version", 1)).await.expect(200);
}

/// INV-EXT-1, RULE-CHS-062, RULE-CHS-064: a project is created and changed with an external id. An
/// absent member keeps it, and null removes it. Another project cannot have it.
#[tokio::test]
async fn external_id_of_project_is_unique_and_kept() {
    const TAKEN: &str = "CHESSBOARD_EXTERNAL_ID_TAKEN";
    let by = manager(create_developer().await);
    let plain = by.post(PROJECTS, project()).await.expect(201);
    assert_eq!(plain["ExternalId"], Value::Null);
    let created = by.post(PROJECTS, with(project(), "ExternalId", "a")).await.expect(201);
    assert_eq!(created["ExternalId"], "a");
    by.post(PROJECTS, with(project(), "ExternalId", "a")).await.expect_problem(409, TAKEN);
    let (plain, path) =
        (format!("{PROJECTS}/{}", text(&plain["Id"])), format!("{PROJECTS}/{}", text(&created["Id"])));
    by.put(&plain, with(project(), "ExternalId", "a")).await.expect_problem(409, TAKEN);
    let kept = by.put(&path, project()).await.expect(200);
    assert_eq!((&kept["ExternalId"], &kept["Version"]), (&json!("a"), &json!(2)));
    let removed = by.put(&path, with(without(kept, "Version"), "ExternalId", Value::Null)).await.expect(200);
    assert_eq!((&removed["ExternalId"], &removed["Version"]), (&Value::Null, &json!(3)));
    by.get(&named("projects", "a")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    by.put(&plain, with(project(), "ExternalId", "a")).await.expect(200);
    // Another company has ids of its own, and letter case counts.
    manager(create_developer().await).post(PROJECTS, with(project(), "ExternalId", "a")).await.expect(201);
    by.post(PROJECTS, with(project(), "ExternalId", "A")).await.expect(201);
}

/// RULE-CHS-064: a deleted project frees its external id, and an upsert creates another project.
#[tokio::test]
async fn deleted_project_frees_external_id() {
    let by = manager(create_developer().await);
    let first = put_project(&by, "a", project()).await.expect(201);
    by.delete(&format!("{PROJECTS}/{}", text(&first["Id"]))).await.expect(204);
    by.get(&named("projects", "a")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let second = put_project(&by, "a", project()).await.expect(201);
    assert_ne!(second["Id"], first["Id"]);
}

/// RULE-CHS-065: the list finds the project with an external id.
#[tokio::test]
async fn list_filters_by_external_id() {
    let by = manager(create_developer().await);
    for id in ["a", "ab", "A"] {
        put_project(&by, id, project()).await.expect(201);
    }
    let found = by.get(&format!("{PROJECTS}?ExternalId=a")).await.expect(200);
    assert_eq!((each(&found["Items"], "ExternalId"), &found["TotalCount"]), (vec![&json!("a")], &json!(1)));
    let none = by.get(&format!("{PROJECTS}?ExternalId=b")).await.expect(200);
    assert!(list(&none["Items"]).is_empty());
    let response = by.get(&format!("{PROJECTS}?ExternalId=a%2Fb")).await;
    response.expect_refusal("VALIDATION_FAILED", "/ExternalId", "forbidden_character");
}

/// RULE-CHS-061: an external id with a forbidden character, and one that is empty or too long,
/// return 400.
#[tokio::test]
async fn invalid_external_id_is_rejected() {
    let by = manager(create_developer().await);
    let long = "x".repeat(129);
    for (id, code) in [
        ("a/b", "forbidden_character"),
        ("a b", "forbidden_character"),
        // An id without a letter or a digit.
        ("-", "forbidden_character"),
        (long.as_str(), "too_long"),
    ] {
        for response in [
            put_project(&by, id, project()).await,
            by.get(&named("projects", id)).await,
            by.post(PROJECTS, with(project(), "ExternalId", id)).await,
        ] {
            response.expect_refusal("VALIDATION_FAILED", "/ExternalId", code);
        }
    }
    let response = by.post(PROJECTS, with(project(), "ExternalId", "")).await;
    response.expect_refusal("VALIDATION_FAILED", "/ExternalId", "too_short");
    put_project(&by, &"я".repeat(128), project()).await.expect(201);
    // Two encodings of a letter are one id.
    put_project(&by, "и\u{306}", project()).await.expect(201);
    let composed = by.get(&named("projects", "й")).await.expect(200);
    assert_eq!(composed["ExternalId"], "й");
}

/// RULE-CHS-063: the order is 403, 400, then 404 of the developer.
#[tokio::test]
async fn project_upsert_rejections_follow_order() {
    let unpermitted = service().caller(&crate::user_claims(Some(guid()), &[]));
    put_project(&unpermitted, "a", json!({})).await.expect_problem(403, "FORBIDDEN");
    let stranger = manager(guid());
    let response = put_project(&stranger, "a", with(project(), "City", "")).await;
    response.expect_refusal("VALIDATION_FAILED", "/City", "too_short");
    put_project(&stranger, "a", project()).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}
