//! Projects: what managers do with them.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::objects::{
    PROJECT_CHANGED, PROJECTS, book, draft_house, flats, house, object_event_when, project,
};
use crate::{
    ADMIN, create_developer, create_published_developer, each, id_of, list, manager, operator, publish,
    service, with, without,
};

/// Project: what was sent is answered as it is kept, with what the service writes.
#[tokio::test]
async fn a_project_is_made_as_a_draft_whatever_its_developers_status() {
    let developer = create_developer().await;
    let by = manager(developer);
    let sent = project();
    let made = by.post(PROJECTS, sent.clone()).await.expect(201);
    for (member, value) in sent.as_object().unwrap() {
        assert_eq!(&made[member], value, "{member}");
    }
    assert_eq!(
        (&made["Status"], &made["Version"], &made["TenantId"], &made["PublishedAt"], &made["DeletedAt"]),
        (&json!("Draft"), &json!(1), &json!(developer), &Value::Null, &Value::Null)
    );
    assert_eq!(
        (&made["CreatedAt"], &made["CreatedByUserId"]),
        (&made["UpdatedAt"], &made["UpdatedByUserId"])
    );
    let read = by.get(&format!("{PROJECTS}/{}", text(&made["Id"]))).await.expect(200);
    assert_eq!(read, with(made, "Buildings", json!([])));
}

/// `PUT` replaces: what is left out becomes null; what changes nothing changes no version, whatever version is sent.
#[tokio::test]
async fn a_project_is_replaced_and_a_repeat_changes_nothing() {
    let developer = create_developer().await;
    let by = manager(developer);
    let made = by.post(PROJECTS, project()).await.expect(201);
    let path = format!("{PROJECTS}/{}", text(&made["Id"]));
    let bare = json!({"Name": "Ели", "Class": "Elite", "City": "Уфа", "Address": "1"});
    let changed = by.put(&path, with(bare.clone(), "Version", 1)).await.expect(200);
    assert_eq!((&changed["Version"], &changed["Name"]), (&json!(2), &json!("Ели")));
    for member in ["Description", "Latitude", "Longitude", "CoverFileId"] {
        assert_eq!(changed[member], Value::Null, "{member}");
    }
    assert_eq!(by.put(&path, with(bare.clone(), "Version", 1)).await.expect(200), changed);
    let stale = with(with(bare, "Name", "Дубы"), "Version", 1);
    by.put(&path, stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
}

/// Section 4: the moves of a project, INV-PRJ-1, and what is told of them.
#[tokio::test]
async fn a_project_moves_as_the_table_says_and_tells_of_it() {
    let developer = create_developer().await;
    let by = manager(developer);
    let id = id_of(&by.post(PROJECTS, project()).await.expect(201)["Id"]);
    let path = |below: &str| format!("{PROJECTS}/{id}{below}");
    let conflict = "CHESSBOARD_PROJECT_INVALID_TRANSITION";
    by.post(&path("/hide"), json!({})).await.expect_problem(409, conflict);
    by.post(&path("/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
    publish(developer).await;
    by.post(&path("/publish"), json!({"Version": 2}))
        .await
        .expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let first = by.post(&path("/publish"), json!({"Version": 1})).await.expect(200);
    assert_eq!((&first["Status"], &first["Version"]), (&json!("Published"), &json!(2)));
    // No body is as good as `{}`.
    let bare = by.request(reqwest::Method::POST, &path("/publish"));
    testkit::client::send(bare).await.expect_problem(409, conflict);
    let hidden = by.post(&path("/hide"), json!({})).await.expect(200);
    by.post(&path("/hide"), json!({})).await.expect_problem(409, conflict);
    let second = by.post(&path("/publish"), json!({})).await.expect(200);
    assert_eq!((&second["PublishedAt"], &second["Version"]), (&first["PublishedAt"], &json!(4)));
    by.delete(&path("")).await.expect(204);
    by.delete(&path("")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let events = service().published(id).await;
    let moves: Vec<_> = events.iter().map(|event| (event.topic.as_str(), &event.payload)).collect();
    let change = |from: Value, to: Value, version: i64, at: &Value| json!({"ProjectId": id, "TenantId": developer, "From": from, "To": to, "Version": version, "ChangedAt": at});
    assert_eq!(moves.len(), 5);
    assert!(moves.iter().all(|(topic, _)| *topic == PROJECT_CHANGED));
    assert_eq!(moves[0].1["From"], Value::Null);
    assert_eq!(*moves[1].1, change(json!("Draft"), json!("Published"), 2, &first["UpdatedAt"]));
    assert_eq!(*moves[2].1, change(json!("Published"), json!("Hidden"), 3, &hidden["UpdatedAt"]));
    assert_eq!(*moves[4].1, change(json!("Published"), Value::Null, 5, &moves[4].1["ChangedAt"]));
}

/// Deleting takes buildings and objects along, and no object that a deal holds.
#[tokio::test]
async fn a_project_goes_with_all_that_is_below_unless_a_deal_holds_some() {
    let held = house().await;
    held.grid(&flats(2)).await;
    book(&held, "1").await;
    held.manager.delete(&held.project_path("")).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    operator()
        .delete(&format!("{ADMIN}/{}/projects/{}", held.developer, held.project))
        .await
        .expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let free = house().await;
    free.grid(&flats(2)).await;
    let object = free.id_of("1").await;
    operator().delete(&format!("{ADMIN}/{}/projects/{}", free.developer, free.project)).await.expect(204);
    free.manager.get(&free.path("")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let told = object_event_when(object, "that it is gone", |told| told["Status"] == "Unavailable").await;
    assert_eq!((&told["IsPublic"], &told["Version"]), (&json!(false), &json!(2)));
    operator()
        .delete(&format!("{ADMIN}/{}/projects/{}", free.developer, free.project))
        .await
        .expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    operator()
        .delete(&format!("{ADMIN}/{}/projects/{}", guid(), free.project))
        .await
        .expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// `GET P`: filters and sorts; another company's projects are not there.
#[tokio::test]
async fn a_list_has_the_developers_own_projects() {
    let (developer, other) = (create_published_developer().await, create_developer().await);
    let by = manager(developer);
    manager(other).post(PROJECTS, project()).await.expect(201);
    for (name, publishes) in [("Сосны 100%", true), ("ели", false), ("Ели-2", false)] {
        let made = by.post(PROJECTS, with(project(), "Name", name)).await.expect(201);
        if publishes {
            by.post(&format!("{PROJECTS}/{}/publish", text(&made["Id"])), json!({})).await.expect(200);
        }
    }
    let names = async |query: &str| {
        let page = by.get(&format!("{PROJECTS}{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len());
        each(&page["Items"], "Name").iter().map(|name| text(name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["Ели-2", "ели", "Сосны 100%"]);
    assert_eq!(names("?Sort=CreatedAt").await, ["Сосны 100%", "ели", "Ели-2"]);
    assert_eq!(names("?Sort=Name").await, ["ели", "Ели-2", "Сосны 100%"]);
    assert_eq!(names("?Sort=-UpdatedAt&PageSize=100").await.len(), 3);
    assert_eq!(names("?Query=%D0%95%D0%9B&Sort=Name").await, ["ели", "Ели-2"]);
    assert_eq!(names("?Query=0%25").await, ["Сосны 100%"]);
    assert_eq!(names("?Query=_").await, [""; 0]);
    assert_eq!(names("?Status=Published").await, ["Сосны 100%"]);
    assert_eq!(names("?Status=Published,Draft").await.len(), 3);
    for (query, field) in
        [("?Status=", "/Status"), ("?Status=draft", "/Status"), ("?Sort=City", "/Sort"), ("?Page=0", "/Page")]
    {
        let problem = by.get(&format!("{PROJECTS}{query}")).await.expect_problem(400, "VALIDATION_FAILED");
        assert_eq!(problem["errors"][0]["field"], field, "{query}");
    }
    manager(guid()).get(PROJECTS).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager(guid()).post(PROJECTS, project()).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// Fields: each bound of a project's, and both coordinates or neither.
#[tokio::test]
async fn what_breaks_a_projects_bounds_is_named() {
    let by = manager(create_developer().await);
    for (member, value, code) in [
        ("Name", json!(""), "too_short"),
        ("Name", json!("x".repeat(257)), "too_long"),
        ("Name", json!("a\0b"), "forbidden_character"),
        ("Description", json!("x".repeat(4001)), "too_long"),
        ("Class", json!("comfort"), "unknown_value"),
        ("City", json!("x".repeat(129)), "too_long"),
        ("Address", json!(""), "too_short"),
        ("Latitude", json!(90.01), "out_of_range"),
        ("Longitude", json!(-180.5), "out_of_range"),
        ("Latitude", json!("1"), "invalid_type"),
        ("CoverFileId", json!("00000000-0000-0000-0000-000000000000"), "empty_id"),
    ] {
        let answer = by.post(PROJECTS, with(project(), member, value)).await;
        answer.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    for (missing, blamed) in [("Latitude", "/Latitude"), ("Longitude", "/Longitude"), ("City", "/City")] {
        let answer = by.post(PROJECTS, without(project(), missing)).await;
        answer.expect_refusal("VALIDATION_FAILED", blamed, "required");
    }
    by.post(PROJECTS, with(with(project(), "Latitude", 90), "Longitude", -180)).await.expect(201);
}

/// Fields: bounds of a project's are inclusive.
#[tokio::test]
async fn the_least_and_the_most_of_a_project_are_kept() {
    let by = manager(create_developer().await);
    for (length, degrees) in [([1, 1, 1, 1], [-90_i32, -180]), ([256, 4_000, 128, 512], [90, 180])] {
        let members = ["Name", "Description", "City", "Address"];
        let texts: Vec<_> = members.into_iter().zip(length.map(|length| "🏠".repeat(length))).collect();
        let placed = with(with(project(), "Latitude", degrees[0]), "Longitude", degrees[1]);
        let sent = texts.iter().fold(placed, |sent, (member, text)| with(sent, member, text.as_str()));
        let made = by.post(PROJECTS, sent).await.expect(201);
        for (member, text) in &texts {
            assert_eq!(made[*member], *text, "{member}");
        }
        let place = [&made["Latitude"], &made["Longitude"]].map(Value::as_f64);
        assert_eq!(place, degrees.map(|degrees| Some(f64::from(degrees))));
    }
}

/// Another company's project is answered as if missing, and so is what is below it.
#[tokio::test]
async fn what_is_anothers_is_not_there() {
    let (own, other) = (draft_house().await, draft_house().await);
    let missing = "CHESSBOARD_PROJECT_NOT_FOUND";
    other.manager.get(&own.project_path("")).await.expect_problem(404, missing);
    other.manager.put(&own.project_path(""), project()).await.expect_problem(404, missing);
    other.manager.post(&own.project_path("/publish"), json!({})).await.expect_problem(404, missing);
    other.manager.delete(&own.project_path("")).await.expect_problem(404, missing);
    other.manager.get(&own.path("")).await.expect_problem(404, missing);
    other
        .manager
        .put(&own.path("/property-objects"), json!({"Objects": []}))
        .await
        .expect_problem(404, missing);
    // A building under another project.
    let path = other.project_path(&format!("/buildings/{}", own.building));
    other.manager.get(&path).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
}
