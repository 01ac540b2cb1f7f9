//! Operations on projects.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::objects::{
    PROJECT_CHANGED, PROJECTS, book_object, draft_house, flats, project, published_house,
    wait_for_object_event,
};
use crate::{
    ADMIN, administrator, create_developer, create_published_developer, each, id_of, list, manager,
    publish_profile, service, with, without,
};

/// RULE-CHS-023: a created project is a Draft and is returned as stored, regardless of the
/// developer's status.
#[tokio::test]
async fn created_project_is_draft() {
    let developer = create_developer().await;
    let by = manager(developer);
    let sent = project();
    let created = by.post(PROJECTS, sent.clone()).await.expect(201);
    for (member, value) in sent.as_object().unwrap() {
        assert_eq!(&created[member], value, "{member}");
    }
    assert_eq!(
        (
            &created["Status"],
            &created["Version"],
            &created["TenantId"],
            &created["PublishedAt"],
            &created["DeletedAt"]
        ),
        (&json!("Draft"), &json!(1), &json!(developer), &Value::Null, &Value::Null)
    );
    assert_eq!(
        (&created["CreatedAt"], &created["CreatedByUserId"]),
        (&created["UpdatedAt"], &created["UpdatedByUserId"])
    );
    let read = by.get(&format!("{PROJECTS}/{}", text(&created["Id"]))).await.expect(200);
    assert_eq!(read, with(created, "Buildings", json!([])));
}

/// RULE-CHS-023: `PUT` replaces all fields. An identical body changes nothing, regardless of
/// `Version`.
#[tokio::test]
async fn put_replaces_whole_project() {
    let developer = create_developer().await;
    let by = manager(developer);
    let created = by.post(PROJECTS, project()).await.expect(201);
    let path = format!("{PROJECTS}/{}", text(&created["Id"]));
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

/// INV-PRJ-1, RULE-CHS-034, RULE-CHS-035, RULE-EVT-008: each transition of a project follows the
/// table and is published.
#[tokio::test]
async fn project_transition_follows_table_and_is_published() {
    let developer = create_developer().await;
    let by = manager(developer);
    let id = id_of(&by.post(PROJECTS, project()).await.expect(201)["Id"]);
    let path = |below: &str| format!("{PROJECTS}/{id}{below}");
    let conflict = "CHESSBOARD_PROJECT_INVALID_TRANSITION";
    by.post(&path("/hide"), json!({})).await.expect_problem(409, conflict);
    by.post(&path("/publish"), json!({}))
        .await
        .expect_problem(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
    publish_profile(developer).await;
    by.post(&path("/publish"), json!({"Version": 2}))
        .await
        .expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    let first = by.post(&path("/publish"), json!({"Version": 1})).await.expect(200);
    assert_eq!((&first["Status"], &first["Version"]), (&json!("Published"), &json!(2)));
    // A request without a body equals `{}`.
    let bare = by.request(reqwest::Method::POST, &path("/publish"));
    testkit::client::send(bare).await.expect_problem(409, conflict);
    let hidden = by.post(&path("/hide"), json!({})).await.expect(200);
    by.post(&path("/hide"), json!({})).await.expect_problem(409, conflict);
    let second = by.post(&path("/publish"), json!({})).await.expect(200);
    assert_eq!((&second["PublishedAt"], &second["Version"]), (&first["PublishedAt"], &json!(4)));
    by.delete(&path("")).await.expect(204);
    by.delete(&path("")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let events = service().published(id).await;
    let changes: Vec<_> = events.iter().map(|event| (event.topic.as_str(), &event.payload)).collect();
    let payload = |from: Value, to: Value, version: i64, at: &Value| json!({"ProjectId": id, "TenantId": developer, "From": from, "To": to, "Version": version, "ChangedAt": at});
    assert_eq!(changes.len(), 5);
    assert!(changes.iter().all(|(topic, _)| *topic == PROJECT_CHANGED));
    assert_eq!(changes[0].1["From"], Value::Null);
    assert_eq!(*changes[1].1, payload(json!("Draft"), json!("Published"), 2, &first["UpdatedAt"]));
    assert_eq!(*changes[2].1, payload(json!("Published"), json!("Hidden"), 3, &hidden["UpdatedAt"]));
    assert_eq!(*changes[4].1, payload(json!("Published"), Value::Null, 5, &changes[4].1["ChangedAt"]));
}

/// RULE-CHS-024: the deletion of a project includes buildings and objects, unless a deal holds one
/// of them.
#[tokio::test]
async fn project_deletion_includes_objects_unless_held() {
    let held = published_house().await;
    held.grid(&flats(2)).await;
    book_object(&held, "1").await;
    held.manager.delete(&held.project_path("")).await.expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    administrator()
        .delete(&format!("{ADMIN}/{}/projects/{}", held.developer, held.project))
        .await
        .expect_problem(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
    let free = published_house().await;
    free.grid(&flats(2)).await;
    let object = free.id_of("1").await;
    administrator()
        .delete(&format!("{ADMIN}/{}/projects/{}", free.developer, free.project))
        .await
        .expect(204);
    free.manager.get(&free.path("")).await.expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    let event = wait_for_object_event(object, "the deletion", |event| event["Status"] == "Unavailable").await;
    assert_eq!((&event["IsPublic"], &event["Version"]), (&json!(false), &json!(2)));
    administrator()
        .delete(&format!("{ADMIN}/{}/projects/{}", free.developer, free.project))
        .await
        .expect_problem(404, "CHESSBOARD_PROJECT_NOT_FOUND");
    administrator()
        .delete(&format!("{ADMIN}/{}/projects/{}", guid(), free.project))
        .await
        .expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// RULE-CHS-023: the list filters and sorts the projects of the manager's own developer.
#[tokio::test]
async fn list_has_own_projects_only() {
    let (developer, other) = (create_published_developer().await, create_developer().await);
    let by = manager(developer);
    manager(other).post(PROJECTS, project()).await.expect(201);
    for (name, publishes) in [("Сосны 100%", true), ("ели", false), ("Ели-2", false)] {
        let created = by.post(PROJECTS, with(project(), "Name", name)).await.expect(201);
        if publishes {
            by.post(&format!("{PROJECTS}/{}/publish", text(&created["Id"])), json!({})).await.expect(200);
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

/// RULE-CHS-023: an invalid member of a project, and one coordinate without the other, return 400.
#[tokio::test]
async fn invalid_project_member_is_rejected() {
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
        let response = by.post(PROJECTS, with(project(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    for (missing, field) in [("Latitude", "/Latitude"), ("Longitude", "/Longitude"), ("City", "/City")] {
        let response = by.post(PROJECTS, without(project(), missing)).await;
        response.expect_refusal("VALIDATION_FAILED", field, "required");
    }
    by.post(PROJECTS, with(with(project(), "Latitude", 90), "Longitude", -180)).await.expect(201);
}

/// RULE-CHS-023, RULE-ALL-006: limits of a project are inclusive, and texts are counted in Unicode
/// scalar values.
#[tokio::test]
async fn project_limits_are_inclusive() {
    let by = manager(create_developer().await);
    for (length, degrees) in [([1, 1, 1, 1], [-90_i32, -180]), ([256, 4_000, 128, 512], [90, 180])] {
        let members = ["Name", "Description", "City", "Address"];
        let texts: Vec<_> = members.into_iter().zip(length.map(|length| "🏠".repeat(length))).collect();
        let placed = with(with(project(), "Latitude", degrees[0]), "Longitude", degrees[1]);
        let sent = texts.iter().fold(placed, |sent, (member, text)| with(sent, member, text.as_str()));
        let created = by.post(PROJECTS, sent).await.expect(201);
        for (member, text) in &texts {
            assert_eq!(created[*member], *text, "{member}");
        }
        let place = [&created["Latitude"], &created["Longitude"]].map(Value::as_f64);
        assert_eq!(place, degrees.map(|degrees| Some(f64::from(degrees))));
    }
}

/// RULE-CHS-023, RULE-CHS-031: another company's project and everything below it return 404.
#[tokio::test]
async fn project_of_other_company_returns_404() {
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
    // The building of another project.
    let path = other.project_path(&format!("/buildings/{}", own.building));
    other.manager.get(&path).await.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
}

/// RULE-ALL-031: a deletion of a building or a project with an outdated `Version` returns 409 and
/// deletes nothing.
#[tokio::test]
async fn deletion_compares_version() {
    const CONFLICT: &str = "CHESSBOARD_CONCURRENCY_CONFLICT";
    let house = published_house().await;
    let by_platform = format!("{ADMIN}/{}/projects/{}", house.developer, house.project);
    for path in [house.path(""), house.project_path("")] {
        let version = house.manager.get(&path).await.expect(200)["Version"].as_i64().unwrap();
        let outdated = format!("?Version={}", version - 1);
        house.manager.delete(&format!("{path}{outdated}")).await.expect_problem(409, CONFLICT);
        administrator().delete(&format!("{by_platform}?Version=0")).await.expect_problem(409, CONFLICT);
        house.manager.get(&path).await.expect(200);
        house.manager.delete(&format!("{path}?Version={version}")).await.expect(204);
    }
}

/// RULE-CHS-010: a manager of a company that is not a developer finds no developer, and creates no
/// project.
#[tokio::test]
async fn manager_of_agency_has_no_developer() {
    const NOT_FOUND: &str = "CHESSBOARD_DEVELOPER_NOT_FOUND";
    let (agency, marker) = (guid(), guid());
    crate::publish_company(&with(crate::company_event(agency, "Active", 1), "Type", "Agency")).await;
    crate::publish_company(&crate::company_event(marker, "Active", 1)).await;
    crate::read_when(marker, "the marker", |_| true).await;
    let by = manager(agency);
    by.get(crate::ME).await.expect_problem(404, NOT_FOUND);
    by.put(crate::ME, crate::profile()).await.expect_problem(404, NOT_FOUND);
    by.post(PROJECTS, project()).await.expect_problem(404, NOT_FOUND);
}
