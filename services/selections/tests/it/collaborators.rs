//! Collaborators of a selection.

use serde_json::{Value, json};
use testkit::held::HeldLocks;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::{
    collaborator_path, create_selection, details_path, guid, guids, item_path, items, items_path,
    join_limited, link_path, members, path, reread, service, take_snapshot,
};

const SHARED: &str = "/api/v1/selections/shared-with-me";

/// RULE-SEL-058: a collaborator edits title, description and items, and is named as the author of
/// the last change.
#[tokio::test]
async fn collaborator_edits_title_and_items() {
    let (owner_id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (id, collaborator) = service().user();
    assert_eq!(collaborator.get(SHARED).await.expect(200)["Items"], json!([]));
    for _ in 0..2 {
        owner.put(&collaborator_path(&selection, id), Value::Null).await.expect(204);
    }
    assert_eq!(collaborator.get(SHARED).await.expect(200)["Items"], json!([selection]));

    let described = json!({"Title": "Summer", "Description": "Sea", "Version": 1});
    collaborator.put(&path(&selection), described).await.expect(200);
    collaborator.put(&items_path(&selection), json!({"Items": items(2)})).await.expect(200);
    let object = guid();
    collaborator.put(&item_path(&selection, object), Value::Null).await.expect(200);
    let changed = collaborator.delete(&item_path(&selection, object)).await.expect(200);
    assert_eq!((&changed["Version"], &changed["OwnerUserId"]), (&json!(5), &json!(owner_id)));
    let details = owner.get(&details_path(&selection)).await.expect(200);
    assert_eq!(details["UpdatedByUserId"], id.to_string());
    assert_eq!(collaborator.get(&details_path(&selection)).await.expect(200), details);

    let copy = collaborator.post(&format!("{}/duplicate", path(&selection)), json!({})).await.expect(201);
    assert_eq!(copy["OwnerUserId"], id.to_string());
    assert_eq!(owner.get(SHARED).await.expect(200)["TotalCount"], 0);
}

/// INV-SEL-002, RULE-SEL-058: only the owner can delete the selection, change its link or its
/// collaborators, and put it into a snapshot.
#[tokio::test]
async fn collaborator_cannot_act_as_the_owner() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (id, collaborator) = service().user();
    owner.put(&collaborator_path(&selection, id), Value::Null).await.expect(204);
    let list = format!("{}/collaborators", path(&selection));
    for refused in [
        collaborator.delete(&path(&selection)).await,
        collaborator.put(&link_path(&selection), json!({"IsEnabled": false, "ExpiresAt": null})).await,
        collaborator.get(&list).await,
        collaborator.put(&collaborator_path(&selection, guid()), Value::Null).await,
        collaborator.delete(&collaborator_path(&selection, guid())).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    let mut foreign = selection.clone();
    foreign["OwnerUserId"] = json!(id);
    take_snapshot(&foreign, guid()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    assert_eq!(reread(&owner, &selection).await, selection);
    let listed = owner.get(&list).await.expect(200);
    assert_eq!(members(&listed["Items"][0]), ["AddedAt", "UserId"]);
    assert_eq!(listed["Items"][0]["UserId"], id.to_string());
}

/// RULE-SEL-058: a removed collaborator can no longer edit, and can be added again. A collaborator
/// who has left cannot, also after the owner has removed the entry. No collaborator reads a deleted
/// selection.
#[tokio::test]
async fn removed_collaborator_loses_access() {
    let (owner_id, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (id, collaborator) = service().user();
    let add = async |user| owner.put(&collaborator_path(&selection, user), Value::Null).await;
    let list = format!("{}/collaborators", path(&selection));
    for remover in [&owner, &collaborator] {
        add(id).await.expect(204);
        collaborator.get(&details_path(&selection)).await.expect(200);
        remover.delete(&collaborator_path(&selection, id)).await.expect(204);
        assert_eq!(owner.get(&list).await.expect(200), json!({"Items": []}));
        for object_change in [
            collaborator.put(&item_path(&selection, guid()), Value::Null).await,
            collaborator.get(&details_path(&selection)).await,
        ] {
            object_change.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
        let refused = collaborator.put(&items_path(&selection), json!({"Items": []})).await;
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
        assert_eq!(collaborator.get(SHARED).await.expect(200)["TotalCount"], 0);
    }
    add(id).await.expect_problem(409, "SELECTIONS_COLLABORATOR_LEFT");
    owner.delete(&collaborator_path(&selection, id)).await.expect(204);
    add(id).await.expect_problem(409, "SELECTIONS_COLLABORATOR_LEFT");
    let again = collaborator.delete(&collaborator_path(&selection, id)).await;
    again.expect_problem(404, "SELECTIONS_NOT_FOUND");

    add(owner_id).await.expect(204);
    assert_eq!(owner.get(&list).await.expect(200), json!({"Items": []}));
    let (id, collaborator) = service().user();
    add(id).await.expect(204);
    owner.delete(&path(&selection)).await.expect(204);
    assert_eq!(collaborator.get(SHARED).await.expect(200)["TotalCount"], 0);
    let refused = collaborator.get(&details_path(&selection)).await;
    refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
}

/// RULE-SEL-059: a selection has at most 20 collaborators, also under concurrent requests.
#[tokio::test]
async fn twenty_first_collaborator_is_refused() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let users = guids(24);
    let add = async |user| owner.put(&collaborator_path(&selection, user), Value::Null).await;
    let responses = join_limited(users.iter().map(|user| add(*user))).await;
    assert_eq!(responses.iter().filter(|response| response.status == 204).count(), 20);
    let mut refused = responses.into_iter().filter(|response| response.status != 204);
    let response = refused.next().unwrap();
    response.expect_problem(409, "SELECTIONS_COLLABORATORS_LIMIT_EXCEEDED");
    let present = owner.get(&format!("{}/collaborators", path(&selection))).await.expect(200);
    let present = present["Items"][0]["UserId"].as_str().unwrap().parse().unwrap();
    add(present).await.expect(204);
}

/// Shares 1,000 selections of other users with a user.
pub async fn fill_shared(sql: &Client, person: Uuid) {
    let fill = format!(
        "with filled as (
             insert into selection (id, owner_user_id, public_code, title, items, created_at, updated_at,
                 version, updated_by_user_id)
             select gen_random_uuid(), gen_random_uuid(), left(md5(random()::text || n), 12), 'x', '[]',
                 now(), now(), 1, gen_random_uuid()
             from generate_series(1, 1000) as n
             returning id
         )
         insert into collaborator select id, '{person}', now() from filled"
    );
    sql.batch_execute(&fill).await.unwrap();
}

/// Shares new selections of an owner with a user.
pub async fn fill_shared_by(sql: &Client, owner: Uuid, person: Uuid, count: u32) {
    let fill = format!(
        "with filled as (
             insert into selection (id, owner_user_id, public_code, title, items, created_at, updated_at,
                 version, updated_by_user_id)
             select gen_random_uuid(), '{owner}', left(md5(random()::text || n), 12), 'x', '[]', now(), now(),
                 1, '{owner}'
             from generate_series(1, {count}) as n
             returning id
         )
         insert into collaborator select id, '{person}', now() from filled"
    );
    sql.batch_execute(&fill).await.unwrap();
}

/// RULE-SEL-059: at most 1,000 selections that are not deleted are shared with one user.
#[tokio::test]
async fn selection_above_the_shared_limit_is_refused() {
    let (_, owner) = service().user();
    let (first, second) = (create_selection(&owner).await, create_selection(&owner).await);
    let (id, person) = service().user();
    let sql = service().sql().await;
    fill_shared(&sql, id).await;
    let add = async |selection: &Value| owner.put(&collaborator_path(selection, id), Value::Null).await;
    add(&first).await.expect_problem(409, "SELECTIONS_SHARED_LIMIT_EXCEEDED");
    person.get(&details_path(&first)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");

    let shared = person.get(SHARED).await.expect(200)["Items"][0].clone();
    person.delete(&collaborator_path(&shared, id)).await.expect(204);
    add(&first).await.expect(204);
    add(&second).await.expect_problem(409, "SELECTIONS_SHARED_LIMIT_EXCEEDED");
    add(&first).await.expect(204);
    owner.delete(&path(&first)).await.expect(204);
    add(&second).await.expect(204);
}

/// RULE-SEL-059: an owner shares at most 50 selections with one person. A selection that the person
/// has left counts, also after its deletion.
#[tokio::test]
async fn selection_above_the_limit_of_one_owner_is_refused() {
    let ((owner_id, owner), (id, person)) = (service().user(), service().user());
    let (left, last, above) =
        (create_selection(&owner).await, create_selection(&owner).await, create_selection(&owner).await);
    let add = async |selection: &Value| owner.put(&collaborator_path(selection, id), Value::Null).await;
    add(&left).await.expect(204);
    person.delete(&collaborator_path(&left, id)).await.expect(204);
    owner.delete(&path(&left)).await.expect(204);
    fill_shared_by(&service().sql().await, owner_id, id, 48).await;
    add(&last).await.expect(204);
    add(&above).await.expect_problem(409, "SELECTIONS_SHARED_BY_OWNER_LIMIT_EXCEEDED");
    assert_eq!(person.get(SHARED).await.expect(200)["TotalCount"], 49);
    owner.delete(&collaborator_path(&last, id)).await.expect(204);
    add(&above).await.expect(204);
}

/// INV-SEL-002: the request of a stranger does not wait for a change of the selection.
#[tokio::test]
async fn stranger_waits_for_no_lock() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, stranger) = service().user();
    let lock = format!("select from selection where id = '{}' for update", crate::text(&selection["Id"]));
    let held = HeldLocks::lock(service(), &lock).await;
    for refused in [
        stranger.put(&item_path(&selection, guid()), Value::Null).await,
        stranger.delete(&item_path(&selection, guid())).await,
        stranger.put(&collaborator_path(&selection, guid()), Value::Null).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    held.release().await;
}
