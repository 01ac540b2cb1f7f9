//! The order of rejections of requests about projects, buildings and grids.

use serde_json::{Value, json};
use testkit::guid;

use crate::objects::{
    PROJECTS, book_object, building, flat, flats, project, published_house, unchanged_body,
};
use crate::{create_developer, id_of, manager, publish_profile, service, user_claims, with, without};

/// RULE-CHS-028: the order is 403, 400, 404, `Version`, the transition, then the developer's
/// status.
#[tokio::test]
async fn project_transition_rejections_follow_order() {
    let developer = create_developer().await;
    let by = manager(developer);
    let id = id_of(&by.post(PROJECTS, project()).await.expect(201)["Id"]);
    let (known, unknown) = (format!("{PROJECTS}/{id}"), format!("{PROJECTS}/{}", guid()));
    let unpermitted = service().caller(&user_claims(Some(developer), &[]));
    let broken = json!({"Version": "x"});
    unpermitted.post(&format!("{unknown}/publish"), broken.clone()).await.expect_problem(403, "FORBIDDEN");
    let response = by.post(&format!("{unknown}/publish"), broken).await;
    response.expect_refusal("VALIDATION_FAILED", "/Version", "invalid_type");
    by.post(&format!("{unknown}/publish"), json!({"Version": 9}))
        .await
        .expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let conflict = "CHESSBOARD_CONCURRENCY_CONFLICT";
    by.post(&format!("{known}/publish"), json!({"Version": 9})).await.expect_problem(409, conflict);
    by.post(&format!("{known}/hide"), json!({"Version": 9})).await.expect_problem(409, conflict);
    by.post(&format!("{known}/hide"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_INVALID_TRANSITION");
    by.post(&format!("{known}/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
    publish_profile(developer).await;
    by.post(&format!("{known}/publish"), json!({})).await.expect(200);
    // The transition is checked before the developer's status, also under a hidden developer.
    crate::administrator().post(&crate::path(developer, "/hide"), json!({})).await.expect(200);
    by.post(&format!("{known}/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_INVALID_TRANSITION");
}

/// RULE-CHS-028: the order is 400 of the request, 404, 400 of the stored building, no change, then
/// `Version`.
#[tokio::test]
async fn grid_rejections_follow_order() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    let put = async |path: &str, objects: Value, version: Value| {
        house.manager.put(path, json!({"Objects": objects, "Version": version})).await
    };
    let here = house.path("/property-objects");
    let nowhere = house.project_path(&format!("/buildings/{}/property-objects", guid()));
    let twice = json!([flat("1"), flat("1")]);
    put(&nowhere, twice, json!(9)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Objects/1/Number",
        "duplicate",
    );
    let beyond = json!([with(flat("2"), "Section", 4)]);
    put(&nowhere, beyond.clone(), json!(9)).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    put(&here, beyond, json!(9)).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Objects/0/Section",
        "out_of_range",
    );
    let same = json!([unchanged_body(&house.object("1").await)]);
    put(&here, same, json!(9)).await.expect(200);
    put(&here, json!([]), json!(9)).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let response = house.manager.put(&here, json!({"Version": 2})).await;
    response.expect_refusal("VALIDATION_FAILED", "/Objects", "required");
}

/// RULE-CHS-028: the order is 400 of the request, 404 along the path, 400 of the stored objects, no
/// change, then `Version`.
#[tokio::test]
async fn building_update_rejections_follow_order() {
    let house = published_house().await;
    house.grid(&[with(flat("1"), "Floor", 10)]).await;
    let put = async |path: &str, body: Value| house.manager.put(path, body).await;
    let (here, nowhere) = (house.path(""), house.project_path(&format!("/buildings/{}", guid())));
    let elsewhere = format!("{PROJECTS}/{}/buildings/{}", guid(), house.building);
    let low = with(with(building(), "FloorsTotal", 9), "Version", 99);
    put(&nowhere, without(low.clone(), "ReadyYear")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/ReadyYear",
        "required",
    );
    put(&elsewhere, low.clone()).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    put(&nowhere, low.clone()).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    put(&here, low).await.expect_refusal("VALIDATION_FAILED", "/FloorsTotal", "cuts_off");
    put(&here, with(building(), "Version", 99)).await.expect(200);
    put(&here, with(with(building(), "Name", "x"), "Version", 99))
        .await
        .expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
}

/// RULE-CHS-028: a problem repeats no sent value and never names the deal that holds an object.
#[tokio::test]
async fn problem_repeats_no_sent_value() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let deal = book_object(&house, "1").await;
    let secret = "s3cr3t".repeat(9);
    for (path, body) in [
        (house.project_path(""), with(project(), "Class", secret.clone())),
        (house.path(""), with(building(), "State", secret.clone())),
        (house.path("/property-objects"), json!({"Objects": [with(flat("1"), "Number", secret.clone())]})),
        (house.path("/property-objects"), json!({"Objects": [with(flat("1"), "Kind", secret.clone())]})),
    ] {
        let response = house.manager.put(&path, body).await;
        assert!(response.status == 400 && !response.text.contains("s3cr3t"), "{}", response.text);
    }
    let response = house.manager.delete(&house.path("")).await;
    assert!(response.status == 409 && !response.text.contains(&deal.to_string()), "{}", response.text);
}

/// RULE-CHS-028: a 400 lists all errors of a request, and at most 16 from stored data.
#[tokio::test]
async fn all_errors_are_reported_together() {
    let house = published_house().await;
    let wrong = with(with(with(project(), "Name", ""), "Class", "x"), "Latitude", 91);
    let problem =
        house.manager.put(&house.project_path(""), wrong).await.expect_problem(400, "VALIDATION_FAILED");
    assert_eq!(crate::each(&problem["errors"], "field"), ["/Class", "/Latitude", "/Name"]);
    let beyond: Vec<_> = (0..40).map(|number| with(flat(&number.to_string()), "Floor", 11)).collect();
    let problem = house.send_grid(&beyond, None).await.expect_problem(400, "VALIDATION_FAILED");
    assert_eq!(crate::list(&problem["errors"]).len(), 16);
}
