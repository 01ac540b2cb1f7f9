//! Races of upserts by external ids.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;
use testkit::held::HeldLocks;

use crate::ext_buildings::put_building;
use crate::ext_objects::put_object;
use crate::ext_projects::put_project;
use crate::objects::{PROJECT_CHANGED, building, draft_house, flat, object_events, project};
use crate::{create_developer, id_of, manager, service, with};

/// The statement that locks a building. The consumer that counts the developer's projects may wait
/// behind the same transactions, so a test does not count all waiting statements.
const BUILDING_LOCK: &str = "%from \"building\"%for no key update%";

const CONFLICT: &str = "CHESSBOARD_CONCURRENCY_CONFLICT";

/// Asserts that one of two upserts of a new external id created the entity, and returns the entity.
/// The other upsert returned it, too, if the bodies are identical, and 409 otherwise.
fn expect_one_created(responses: (Response, Response), is_identical: bool) -> Value {
    let (created, other) = if responses.0.status == 201 { responses } else { (responses.1, responses.0) };
    let created = created.expect(201);
    if is_identical {
        assert_eq!(other.expect(200), created);
    } else {
        other.expect_problem(409, CONFLICT);
    }
    created
}

/// RULE-CHS-069: two upserts of one new external id, neither of which has seen the other one's
/// project, create one project with one event. The loser gets the project, or 409 for another body.
#[tokio::test]
async fn two_upserts_of_new_external_id_create_one_project() {
    for is_identical in [true, false] {
        let developer = create_developer().await;
        let by = manager(developer);
        let sent = project();
        let other = if is_identical { sent.clone() } else { with(sent.clone(), "Name", "Ели") };
        // The uncommitted row makes both insertions wait until it is rolled back.
        let row = format!(
            "insert into project (id, tenant_id, external_id, name, class, city, address, status, created_at, \
                created_by_user_id, updated_at, updated_by_user_id, version, folded_name, folded_city) \
             values ('{}', '{developer}', 'a', 'x', 'Elite', 'x', 'x', 'Draft', now(), '{developer}', now(), \
                '{developer}', 1, 'x', 'x')",
            guid()
        );
        let held = HeldLocks::lock(service(), &row).await;
        let pattern = "insert into \"project\"%";
        let responses = held.queue(pattern, put_project(&by, "a", sent), put_project(&by, "a", other)).await;
        let created = expect_one_created(responses, is_identical);
        let events = service().published(id_of(&created["Id"])).await;
        assert_eq!(events.iter().filter(|event| event.topic == PROJECT_CHANGED).count(), 1);
        let page = by.get(crate::objects::PROJECTS).await.expect(200);
        assert_eq!(page["TotalCount"], 1);
    }
}

/// RULE-CHS-069: two upserts of one new external id create one building in a project. In two
/// projects, the loser gets 409.
#[tokio::test]
async fn two_upserts_of_new_external_id_create_one_building() {
    let by = manager(create_developer().await);
    let one = put_project(&by, "1", project()).await.expect(201);
    let two = put_project(&by, "2", project()).await.expect(201);
    let (in_one, in_two) =
        (with(building(), "ProjectExternalId", "1"), with(building(), "ProjectExternalId", "2"));
    let projects = format!("'{}', '{}'", id_of(&one["Id"]), id_of(&two["Id"]));
    for (id, is_identical) in [("a", true), ("b", false)] {
        let other = if is_identical { in_one.clone() } else { with(in_one.clone(), "Name", "x") };
        let lock = format!("select from project where id in ({projects}) for update");
        let held = HeldLocks::lock(service(), &lock).await;
        let responses = held
            .queue(HeldLocks::ANY, put_building(&by, id, in_one.clone()), put_building(&by, id, other))
            .await;
        expect_one_created(responses, is_identical);
    }
    // The uncommitted row makes both insertions wait until it is rolled back.
    let row = format!(
        "insert into building (id, project_id, tenant_id, external_id, name, sections_count, floors_total, \
            state, created_at, updated_at, version) \
         select '{}', id, tenant_id, 'c', 'x', 1, 1, 'Planned', now(), now(), 1 from project where id = '{}'",
        guid(),
        id_of(&one["Id"])
    );
    let held = HeldLocks::lock(service(), &row).await;
    let pattern = "insert into \"building\"%";
    let responses = held.queue(pattern, put_building(&by, "c", in_one), put_building(&by, "c", in_two)).await;
    let (created, other) = if responses.0.status == 201 { responses } else { (responses.1, responses.0) };
    created.expect(201);
    other.expect_problem(409, "CHESSBOARD_EXTERNAL_ID_TAKEN");
}

/// RULE-CHS-069: two upserts of one new external id, neither of which has seen the other one's
/// object, create one object with one event. The loser gets the object, or 409 for another body.
/// Its next request replaces the object.
#[tokio::test]
async fn two_upserts_of_new_external_id_create_one_object() {
    let house = draft_house().await;
    for (id, is_identical) in [("a", true), ("b", false)] {
        let (sent, number) = (flat(id), if is_identical { id } else { "c" });
        let other = with(sent.clone(), "Number", number);
        let (first, second) = (put_object(&house, id, sent), put_object(&house, id, other.clone()));
        let lock = format!("select from building where id = '{}' for update", house.building);
        let held = HeldLocks::lock(service(), &lock).await;
        let created = expect_one_created(held.queue(BUILDING_LOCK, first, second).await, is_identical);
        assert_eq!((&created["Version"], &created["Number"]), (&json!(1), &json!(id)));
        assert_eq!(object_events(id_of(&created["Id"]), 1).await.len(), 1);
        let replaced = put_object(&house, id, other).await.expect(200);
        assert_eq!((&replaced["Id"], &replaced["Number"]), (&created["Id"], &json!(number)));
    }
    assert_eq!(house.objects().await.len(), 2);
}

/// RULE-CHS-069: an upsert behind the deletion of its building or of the project returns 404.
#[tokio::test]
async fn upsert_behind_deletion_returns_404() {
    for table in ["building", "project"] {
        let house = draft_house().await;
        let (id, path) = match table {
            "building" => (house.building, house.path("")),
            _ => (house.project, house.project_path("")),
        };
        let held =
            HeldLocks::lock(service(), &format!("select from {table} where id = '{id}' for update")).await;
        let upsert = put_object(&house, "a", flat("1"));
        let (deleted, upserted) = held.queue(HeldLocks::ANY, house.manager.delete(&path), upsert).await;
        deleted.expect(204);
        upserted.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    }
}
