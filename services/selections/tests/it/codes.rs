//! Public codes: their shape, collisions and the codes of deleted selections.

use std::collections::HashSet;

use futures_util::future::join_all;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::service::Running;

use crate::{
    CREATED, SELECTIONS, create_selection, events_of, items_path, open_path, path, service, text, topics,
};

/// INV-SEL-005: a code has twelve characters of base62, and no two selections share one.
#[tokio::test]
async fn public_code_has_twelve_characters_of_base62() {
    let (_, owner) = service().user();
    let created = join_all((0..50).map(|_| create_selection(&owner))).await;
    let codes: HashSet<&str> = created.iter().map(|selection| text(&selection["PublicCode"])).collect();
    assert_eq!(codes.len(), 50);
    for code in &codes {
        assert_eq!(code.len(), 12);
        assert!(code.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{code}");
    }
}

/// INV-SEL-005: a code never changes, and no request can choose one.
#[tokio::test]
async fn public_code_in_a_request_is_ignored() {
    let (_, owner) = service().user();
    let requested = "AAAAAAAAAAAA";
    let body = json!({"Title": "Spring", "PublicCode": requested});
    let selection = owner.post(SELECTIONS, body).await.expect(201);
    assert_ne!(selection["PublicCode"], requested);

    let body = json!({"Title": "Summer", "Description": null, "PublicCode": requested});
    let described = owner.put(&path(&selection), body).await.expect(200);
    let body = json!({"Items": crate::items(2), "PublicCode": requested});
    let replaced = owner.put(&items_path(&selection), body).await.expect(200);
    assert_eq!(
        (&described["PublicCode"], &replaced["PublicCode"]),
        (&selection["PublicCode"], &selection["PublicCode"])
    );
}

/// INV-SEL-005: the database refuses a change of a code, whichever client sends it.
#[tokio::test]
async fn database_refuses_a_change_of_a_code() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let sql = service().sql().await;
    let change =
        format!("update selection set public_code = 'AAAAAAAAAAAA' where id = '{}'", text(&selection["Id"]));
    let refused = sql.batch_execute(&change).await.expect_err("another code");
    let state = refused.code().expect("a refusal of the database").code();
    assert_eq!(state, "23001", "restrict_violation");
    service().guest().get(&open_path(&selection)).await.expect(200);
}

/// RULE-ALL-095: `Location` of a creation is the path that reads the created resource.
#[tokio::test]
async fn creation_returns_the_location_of_the_selection() {
    let (_, owner) = service().user();
    crate::mark(&owner, crate::guid()).await;
    for (route, body) in [(SELECTIONS, json!({"Title": "x"})), (crate::FROM_FAVORITES, json!({}))] {
        let created = owner.post(route, body).await;
        let location = created.header("location").to_owned();
        let created = created.expect(201);
        assert_eq!(location, open_path(&created));
        assert_eq!(service().guest().get(&location).await.expect(200)["Title"], created["Title"]);
    }
    let taken = crate::take_snapshot(&create_selection(&owner).await, crate::guid()).await;
    let location = taken.header("location").to_owned();
    assert_eq!(location, crate::snapshot_path(&taken.expect(201)));
}

/// RULE-SEL-005, RULE-SEL-006: times of a selection never go back, even if the clock of a replica
/// is behind.
#[tokio::test]
async fn times_of_changes_never_go_back() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let sql = service().sql().await;
    let ahead = format!(
        "update selection set created_at = now() + interval '1 hour', updated_at = now() + interval '1 hour' \
         where id = '{}'",
        text(&selection["Id"])
    );
    sql.batch_execute(&ahead).await.unwrap();
    let before = crate::reread(&owner, &selection).await["UpdatedAt"].take();
    let renamed = owner.put(&path(&selection), json!({"Title": "x", "Description": null})).await.expect(200);
    assert_eq!(renamed["UpdatedAt"], before);
    let replaced = owner.put(&items_path(&selection), json!({"Items": crate::items(1)})).await.expect(200);
    assert_eq!((&replaced["UpdatedAt"], &replaced["Items"][0]["AddedAt"]), (&before, &before));
    owner.delete(&path(&selection)).await.expect(204);
    let deleted = events_of(service(), &selection).await.pop().unwrap();
    assert_eq!(deleted.payload["DeletedAt"], before);
}

/// Starts a service whose database gives the code `taken` to the selection [`TAKEN`], and to each
/// of the next `attempts` other insertions.
async fn start_with_collisions(attempts: u32, taken: &str) -> (Running, Client) {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let sql = service.sql().await;
    let trigger = format!(
        "create sequence attempt;
         create function collide() returns trigger language plpgsql as $$
         begin
             if new.title = '{TAKEN}' then new.public_code := '{taken}';
             elsif nextval('attempt') <= {attempts} then new.public_code := '{taken}'; end if;
             return new;
         end $$;
         create trigger collide before insert on selection for each row execute function collide();"
    );
    sql.batch_execute(&trigger).await.unwrap();
    (service, owner)
}

/// The title of the selection that has [`CODE`].
const TAKEN: &str = "Taken";
const CODE: &str = "taken0TAKEN1";

async fn create(owner: &Client, title: &str) -> testkit::client::Response {
    owner.post(SELECTIONS, json!({"Title": title, "Items": crate::items(1)})).await
}

/// INV-SEL-005, RULE-SEL-035: after a collision the service generates another code, up to three
/// times. A deleted selection keeps its code.
#[tokio::test]
async fn taken_code_is_regenerated_three_times() {
    let (service, owner) = start_with_collisions(3, CODE).await;
    let taken = create(&owner, TAKEN).await.expect(201);
    owner.delete(&path(&taken)).await.expect(204);

    let selection = create(&owner, "Spring").await.expect(201);

    assert_ne!(selection["PublicCode"], CODE);
    service.guest().get(&open_path(&selection)).await.expect(200);
    let guest = service.guest();
    guest.get(&format!("{SELECTIONS}/{CODE}")).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let events = events_of(&service, &selection).await;
    assert_eq!(topics(&events), [CREATED]);
    assert_eq!(events[0].payload["PublicCode"], selection["PublicCode"], "the event has the stored code");
}

/// INV-SEL-005, RULE-SEL-047: after the fourth collision the caller gets 503, and nothing is
/// stored.
#[tokio::test]
async fn fourth_collision_returns_503() {
    let (service, owner) = start_with_collisions(4, CODE).await;
    create(&owner, TAKEN).await.expect(201);

    let refused = create(&owner, "Spring").await;
    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    refused.expect_problem(503, "SELECTIONS_CODE_UNAVAILABLE");

    assert_eq!(owner.get(SELECTIONS).await.expect(200)["TotalCount"], 1);
    let opened = service.guest().get(&format!("{SELECTIONS}/{CODE}")).await.expect(200);
    assert_eq!(opened["Title"], TAKEN, "the code still opens its own selection");
    create(&owner, "Spring").await.expect(201);
}

/// INV-SEL-007: an attempt without a free code does not count against the limit.
#[tokio::test]
async fn failed_code_generation_does_not_count_as_a_selection() {
    let (service, owner) = start_with_collisions(4, CODE).await;
    create(&owner, TAKEN).await.expect(201);
    create(&owner, "Spring").await.expect_problem(503, "SELECTIONS_CODE_UNAVAILABLE");
    for response in join_all((0..99).map(|_| create(&owner, "Spring"))).await {
        response.expect(201);
    }
    create(&owner, "Spring").await.expect_problem(409, "SELECTIONS_LIMIT_EXCEEDED");
    drop(service);
}

/// INV-SEL-005, INV-SEL-009: a deleted selection does not open, not even for its owner.
#[tokio::test]
async fn code_of_a_deleted_selection_opens_nothing() {
    let (_, owner) = service().user();
    let selection: Value = create_selection(&owner).await;
    owner.delete(&path(&selection)).await.expect(204);
    for caller in [owner, service().guest()] {
        caller.get(&open_path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}
