//! Developers and the projects that they have: counts, and deletion.

use chessboard::Service;
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::service::Running;
use uuid::Uuid;

use crate::cat_withheld::Shown;
use crate::objects::{flat, house};
use crate::{
    ME, create_developer, create_published_developer, eventually, manager, operator, path, profile, read,
    read_when, service, text, with,
};

const PROJECTS: &str = "/api/v1/developers/projects";

/// Rounds of a race whose outcome hangs on who is first.
const ROUNDS: usize = 8;

fn project() -> Value {
    json!({"Name": "Лесной", "Class": "Comfort", "City": "Москва", "Address": "Лесная, 1"})
}

async fn create_project(developer: Uuid) -> String {
    text(&manager(developer).post(PROJECTS, project()).await.expect(201)["Id"]).to_owned()
}

async fn counted(developer: Uuid, count: i32) -> Value {
    read_when(developer, "the count", |found| found["ProjectsPublishedCount"] == count).await
}

/// INV-PRJ-2: the number of live Published projects, within seconds, though they are told side by side; the Version stays.
#[tokio::test]
async fn published_projects_are_counted() {
    let id = create_published_developer().await;
    let before = read(id).await;
    let projects = join_all((0..8).map(|_| create_project(id))).await;
    let by = manager(id);
    let make = async |project: &String, made: &str| {
        by.post(&format!("{PROJECTS}/{project}/{made}"), json!({})).await.expect(200);
    };
    join_all(projects.iter().map(|project| make(project, "publish"))).await;
    counted(id, 8).await;
    make(&projects[0], "hide").await;
    by.delete(&format!("{PROJECTS}/{}", projects[1])).await.expect(204);
    let after = counted(id, 6).await;
    assert_eq!((&after["Version"], &after["UpdatedAt"]), (&before["Version"], &before["UpdatedAt"]));
}

/// Section 10: a job counts anew, beside the consumer.
#[tokio::test]
async fn what_was_miscounted_is_counted_anew() {
    let id = create_published_developer().await;
    let project = create_project(id).await;
    manager(id).post(&format!("{PROJECTS}/{project}/publish"), json!({})).await.expect(200);
    counted(id, 1).await;
    let sql = service().sql().await;
    sql.batch_execute(&format!("update developer set projects_published_count = 7 where id = '{id}'"))
        .await
        .unwrap();
    assert_eq!(read(id).await["ProjectsPublishedCount"], 7);
    // Another replica, which counts more often.
    let _replica = Running::start::<Service>(&[
        ("DATABASE_URL", &service().database_url),
        ("PROJECT_RECOUNT_INTERVAL_S", "1"),
    ]);
    counted(id, 1).await;
}

/// A developer is not removed while there are projects that are not deleted, of whatever status.
#[tokio::test]
async fn a_developer_with_projects_is_not_deleted() {
    let id = create_developer().await;
    let project = create_project(id).await;
    let refused = operator().delete(&path(id, "")).await;
    refused.expect_problem(409, "CHESSBOARD_DEVELOPER_HAS_LIVE_PROJECTS");
    assert_eq!(read(id).await["DeletedAt"], Value::Null);
    manager(id).delete(&format!("{PROJECTS}/{project}")).await.expect(204);
    operator().delete(&path(id, "")).await.expect(204);
    let late = manager(id).post(PROJECTS, self::project()).await;
    late.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    manager(id).get(PROJECTS).await.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
}

/// Section 7: of a project made while its developer is deleted, one is refused.
#[tokio::test]
async fn of_a_project_and_a_deletion_one_is_refused() {
    for _ in 0..ROUNDS {
        let id = create_developer().await;
        let (by, operator) = (manager(id), operator());
        let below = path(id, "");
        let (made, deleted) = join(by.post(PROJECTS, project()), operator.delete(&below)).await;
        assert!(
            matches!((made.status, deleted.status), (201, 409) | (404, 204)),
            "{} and {}",
            made.text,
            deleted.text
        );
    }
}

/// INV-DEV-6: a suspension behind a backlog of company events hides the developer and everything below them in the catalog, once it is
/// applied. The test measures no time.
#[tokio::test]
async fn a_suspension_behind_a_backlog_hides_the_developer_and_everything_below() {
    let house = house().await;
    house.grid(&[with(flat("1"), "Rooms", 1)]).await;
    let (id, name) = (house.developer, format!("Suspended {}", house.developer));
    house.manager.put(ME, with(profile(), "Name", name.clone())).await.expect(200);
    let shown = Shown {
        developer: id,
        developer_name: name.clone(),
        project: house.project,
        building: house.building,
        object: house.id_of("1").await,
    };
    assert_eq!(shown.seen().await, [true; 4]);
    // The consumer of the company's partition waits for its row, so that the events after the first one are a backlog.
    let sql = service().sql().await;
    let held = format!("begin; select from company where id = '{id}' for update");
    sql.batch_execute(&held).await.unwrap();
    let holder: i32 = sql.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let backlog = 300;
    for version in 2..backlog {
        crate::tell_company(&with(crate::company(id, "Active", version), "LegalName", format!("{version}")))
            .await;
    }
    crate::tell_company(&crate::company(id, "Suspended", backlog)).await;
    let watcher = service().sql().await;
    let waiting = "select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
    eventually("the consumer to wait", async || watcher.query_opt(waiting, &[&holder]).await.unwrap()).await;
    assert_eq!(shown.seen().await, [true; 4]);
    sql.batch_execute("rollback").await.unwrap();
    read_when(id, "the suspension", |found| found["Status"] == "Hidden").await;
    assert_eq!(shown.seen().await, [false; 4]);
    assert_eq!(read(id).await["LegalName"], "ООО «Ромашка»", "the suspension was applied last");
}
