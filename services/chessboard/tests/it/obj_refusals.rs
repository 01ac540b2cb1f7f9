//! Section 6: of what stands against a request, the first in its order is told.

use serde_json::{Value, json};
use testkit::guid;

use crate::objects::{PROJECTS, book, building, flat, flats, house, project, put_of};
use crate::{create_developer, holder, id_of, manager, publish, service, with, without};

/// 403, then 400 of the request, then 404, then the version, then the move, then the developer.
#[tokio::test]
async fn moving_a_project_is_refused_in_order() {
    let developer = create_developer().await;
    let by = manager(developer);
    let id = id_of(&by.post(PROJECTS, project()).await.expect(201)["Id"]);
    let (here, nowhere) = (format!("{PROJECTS}/{id}"), format!("{PROJECTS}/{}", guid()));
    let nobody = service().caller(&holder(Some(developer), &[]));
    let broken = json!({"Version": "x"});
    nobody.post(&format!("{nowhere}/publish"), broken.clone()).await.expect_problem(403, "FORBIDDEN");
    let answer = by.post(&format!("{nowhere}/publish"), broken).await;
    answer.expect_refusal("VALIDATION_FAILED", "/Version", "invalid_type");
    by.post(&format!("{nowhere}/publish"), json!({"Version": 9}))
        .await
        .expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let conflict = "CHESSBOARD_CONCURRENCY_CONFLICT";
    by.post(&format!("{here}/publish"), json!({"Version": 9})).await.expect_problem(409, conflict);
    by.post(&format!("{here}/hide"), json!({"Version": 9})).await.expect_problem(409, conflict);
    by.post(&format!("{here}/hide"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_INVALID_TRANSITION");
    by.post(&format!("{here}/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
    publish(developer).await;
    by.post(&format!("{here}/publish"), json!({})).await.expect(200);
    // Also under a developer who is hidden again: the move comes before them.
    crate::operator().post(&crate::path(developer, "/hide"), json!({})).await.expect(200);
    by.post(&format!("{here}/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_INVALID_TRANSITION");
}

/// 400 of the request, 404, 400 of what the building must know, the no-op, the version.
#[tokio::test]
async fn replacing_a_grid_is_refused_in_order() {
    let house = house().await;
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
    let same = json!([put_of(&house.object("1").await)]);
    put(&here, same, json!(9)).await.expect(200);
    put(&here, json!([]), json!(9)).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let answer = house.manager.put(&here, json!({"Version": 2})).await;
    answer.expect_refusal("VALIDATION_FAILED", "/Objects", "required");
}

/// 400 of the request, 404 as the path goes, 400 of what stands there, the no-op, the version.
#[tokio::test]
async fn describing_a_building_is_refused_in_order() {
    let house = house().await;
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

/// Refusals repeat no value that was sent, and never say which deal holds.
#[tokio::test]
async fn a_refusal_repeats_nothing_that_was_sent() {
    let house = house().await;
    house.grid(&flats(2)).await;
    let deal = book(&house, "1").await;
    let secret = "s3cr3t".repeat(9);
    for (path, body) in [
        (house.project_path(""), with(project(), "Class", secret.clone())),
        (house.path(""), with(building(), "State", secret.clone())),
        (house.path("/property-objects"), json!({"Objects": [with(flat("1"), "Number", secret.clone())]})),
        (house.path("/property-objects"), json!({"Objects": [with(flat("1"), "Kind", secret.clone())]})),
    ] {
        let answer = house.manager.put(&path, body).await;
        assert!(answer.status == 400 && !answer.text.contains("s3cr3t"), "{}", answer.text);
    }
    let answer = house.manager.delete(&house.path("")).await;
    assert!(answer.status == 409 && !answer.text.contains(&deal.to_string()), "{}", answer.text);
}

/// All that is wrong with a request is told at once, up to sixteen.
#[tokio::test]
async fn all_that_is_wrong_is_told_at_once() {
    let house = house().await;
    let wrong = with(with(with(project(), "Name", ""), "Class", "x"), "Latitude", 91);
    let problem =
        house.manager.put(&house.project_path(""), wrong).await.expect_problem(400, "VALIDATION_FAILED");
    assert_eq!(crate::each(&problem["errors"], "field"), ["/Class", "/Latitude", "/Name"]);
    let beyond: Vec<_> = (0..40).map(|number| with(flat(&number.to_string()), "Floor", 11)).collect();
    let problem = house.send_grid(&beyond, None).await.expect_problem(400, "VALIDATION_FAILED");
    assert_eq!(crate::list(&problem["errors"]).len(), 16);
}
