//! Developers with projects: counts, deletion and suspension.

use chessboard::Service;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::service::Running;
use uuid::Uuid;

use crate::cat_visibility::VisibleObject;
use crate::objects::{flat, published_house};
use crate::{
    ME, administrator, create_developer, create_published_developer, eventually, manager, path, profile,
    read_developer, read_when, service, text, with,
};

const PROJECTS: &str = "/api/v1/developers/projects";

/// Number of rounds of a race with a random winner.
const ROUNDS: usize = 8;

fn project() -> Value {
    json!({"Name": "Лесной", "Class": "Comfort", "City": "Москва", "Address": "Лесная, 1"})
}

async fn create_project(developer: Uuid) -> String {
    text(&manager(developer).post(PROJECTS, project()).await.expect(201)["Id"]).to_owned()
}

async fn wait_for_count(developer: Uuid, count: i32) -> Value {
    read_when(developer, "the count", |found| found["ProjectsPublishedCount"] == count).await
}

/// INV-PRJ-2, RULE-EVT-008: the count is the number of live Published projects, although their
/// events arrive in parallel. The version does not change.
#[tokio::test]
async fn published_projects_are_counted() {
    let id = create_published_developer().await;
    let before = read_developer(id).await;
    let projects = join_all((0..8).map(|_| create_project(id))).await;
    let by = manager(id);
    let transition = async |project: &String, operation: &str| {
        by.post(&format!("{PROJECTS}/{project}/{operation}"), json!({})).await.expect(200);
    };
    join_all(projects.iter().map(|project| transition(project, "publish"))).await;
    wait_for_count(id, 8).await;
    transition(&projects[0], "hide").await;
    by.delete(&format!("{PROJECTS}/{}", projects[1])).await.expect(204);
    let after = wait_for_count(id, 6).await;
    assert_eq!((&after["Version"], &after["UpdatedAt"]), (&before["Version"], &before["UpdatedAt"]));
}

/// INV-PRJ-2: the job corrects a wrong count.
#[tokio::test]
async fn job_corrects_wrong_project_count() {
    let id = create_published_developer().await;
    let project = create_project(id).await;
    manager(id).post(&format!("{PROJECTS}/{project}/publish"), json!({})).await.expect(200);
    wait_for_count(id, 1).await;
    let sql = service().sql().await;
    let wrong = format!("update developer set projects_published_count = 7 where id = '{id}'");
    assert_eq!(sql.execute(&wrong, &[]).await.unwrap(), 1);
    // Another replica recounts every second.
    let _replica = Running::start::<Service>(&[
        ("DATABASE_URL", &service().database_url),
        ("PROJECT_RECOUNT_INTERVAL_S", "1"),
    ]);
    wait_for_count(id, 1).await;
}

/// RULE-CHS-021: a developer with a project that is not deleted, in any status, cannot be deleted.
#[tokio::test]
async fn developer_with_projects_is_not_deleted() {
    let id = create_developer().await;
    let project = create_project(id).await;
    let refused = administrator().delete(&path(id, "")).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_HAS_LIVE_PROJECTS");
    assert_eq!(read_developer(id).await["DeletedAt"], Value::Null);
    manager(id).delete(&format!("{PROJECTS}/{project}")).await.expect(204);
    administrator().delete(&path(id, "")).await.expect(204);
    let late = manager(id).post(PROJECTS, self::project()).await;
    late.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager(id).get(PROJECTS).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// RULE-CHS-021: if the creation of a project and the deletion of its developer race, one of them
/// is rejected.
#[tokio::test]
async fn only_one_of_project_creation_and_developer_deletion_succeeds() {
    for _ in 0..ROUNDS {
        let id = create_developer().await;
        let (by, administrator) = (manager(id), administrator());
        let developer_path = path(id, "");
        let (created, deleted) =
            join(by.post(PROJECTS, project()), administrator.delete(&developer_path)).await;
        assert!(
            matches!((created.status, deleted.status), (201, 409) | (404, 204)),
            "{} and {}",
            created.text,
            deleted.text
        );
    }
}

/// INV-DEV-6: a suspension behind a backlog of company events hides the developer and its data.
#[tokio::test]
async fn suspension_behind_backlog_hides_developer() {
    let house = published_house().await;
    house.grid(&[with(flat("1"), "Rooms", 1)]).await;
    let (id, name) = (house.developer, format!("Suspended {}", house.developer));
    house.manager.put(ME, with(profile(), "Name", name.clone())).await.expect(200);
    let shown = VisibleObject {
        developer: id,
        developer_name: name.clone(),
        project: house.project,
        building: house.building,
        object: house.id_of("1").await,
    };
    assert_eq!(shown.visibility().await, [true; 4]);
    // The lock makes the consumer wait for the company's row, so that later events form a backlog.
    let sql = service().sql().await;
    let held = format!("begin; select from company where id = '{id}' for update");
    sql.batch_execute(&held).await.unwrap();
    let holder: i32 = sql.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let last_version = 300;
    for version in 2..last_version {
        crate::publish_company(&with(
            crate::company_event(id, "Active", version),
            "LegalName",
            format!("{version}"),
        ))
        .await;
    }
    crate::publish_company(&crate::company_event(id, "Suspended", last_version)).await;
    let watcher = service().sql().await;
    let waiting = "select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
    eventually("the consumer to wait", async || watcher.query_opt(waiting, &[&holder]).await.unwrap()).await;
    assert_eq!(shown.visibility().await, [true; 4]);
    sql.batch_execute("rollback").await.unwrap();
    read_when(id, "the suspension", |found| found["Status"] == "Hidden").await;
    assert_eq!(shown.visibility().await, [false; 4]);
    assert_eq!(read_developer(id).await["LegalName"], "ООО «Ромашка»", "the suspension was applied last");
}
