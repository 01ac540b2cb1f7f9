//! Access of each caller to each operation.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::access::{self, Case, losses, repeats};
use testkit::client::send;
use testkit::issuer::Claims;

use crate::catalog_fill;
use crate::{
    ADMIN, MANAGE, MANAGE_ALL, administrator, create_developer, create_published_developer, guid, objects,
    path, profile, service, user_claims, with,
};

/// The status of each operation for each caller.
///
/// Organization scope grants nothing on administrator routes. On manager routes, platform scope
/// covers only the caller's own company. `platform` has no company, `elsewhere` manages another
/// company, `colleague` lacks the permission, and `outsider` has no company. [`access::check_with`]
/// describes the columns after `outsider`.
const TABLE: &str = "
    operation                 | platform | manager | elsewhere | colleague | outsider | guest | forged | news | crm | issuer | other machines
    get_my_developer          |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_my_developer       |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    publish_my_developer      |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    hide_my_developer         |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    withdraw_my_developer     |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_my_developer_events  |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_developers           |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_developer          |   201    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_developer             |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_developer          |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_developer          |   204    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    publish_developer         |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    hide_developer            |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    withdraw_developer        |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    release_developer         |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_developer_events     |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_projects             |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_project            |   403    |   201   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_project               |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_project            |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    publish_project           |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    hide_project              |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_project            |   403    |   204   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_developers_project |   204    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_building           |   403    |   201   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_building              |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_building           |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_building           |   403    |   204   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_property_objects  |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_property_object    |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_property_object_events |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_developers_property_object_events |   200    |   403   |    403    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_project_by_external_id |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    upsert_project |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_building_by_external_id |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    upsert_building |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_property_object_by_external_id |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    upsert_property_object |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_catalog_developers   |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_developer     |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    create_feed_import         |   403    |   201   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    upload_feed_file           |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_feed_imports          |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_feed_import            |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_feed_problems         |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_feed_buildings        |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_feed_changes          |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    apply_feed_import          |   403    |   200   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_feed_import         |   403    |   204   |    404    |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_catalog_feed          |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    list_catalog_projects     |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_facets        |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_project       |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_building      |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    search_catalog_objects    |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_object        |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_price_history |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
";

/// Creates a developer and a request about it.
async fn prepare(operation: &str) -> Case {
    let verb = operation.split('_').next().unwrap_or_default();
    let is_catalog = operation.contains("catalog");
    let is_within_developer =
        !is_catalog && ["project", "building", "object", "feed"].iter().any(|part| operation.contains(part));
    let developer = match (operation, verb) {
        _ if is_within_developer => create_published_developer().await,
        (_, "hide" | "withdraw") => create_published_developer().await,
        (_, "publish") => {
            let id = create_developer().await;
            administrator().put(&path(id, ""), profile()).await.expect(200);
            id
        }
        ("create_developer", _) => {
            // The operation restores a deleted profile.
            let id = create_developer().await;
            administrator().delete(&path(id, "")).await.expect(204);
            id
        }
        _ => create_developer().await,
    };
    let own = Some(developer);
    let (elsewhere, unpermitted): (Vec<Claims>, Vec<Claims>) = (
        vec![
            user_claims(Some(guid()), &[MANAGE]),
            user_claims(Some(guid()), &["chessboard.developers.manage@organization"]),
        ],
        vec![
            user_claims(own, &[]),
            user_claims(own, &["chessboard.developers.manage@elsewhere", "chessboard.developers"]),
        ],
    );
    let mut parameters = vec![("developer_id", developer.to_string())];
    let mut body = match operation {
        "create_developer" => json!({"CompanyId": developer}),
        _ if verb == "update" => profile(),
        _ => Value::Null,
    };
    if is_within_developer {
        let (ids, request_body) = objects::prepare_request(operation, developer).await;
        parameters.extend(ids);
        body = request_body;
    }
    if is_catalog {
        let catalog = catalog_fill::single_object_catalog();
        catalog.fill(service()).await;
        parameters = vec![
            ("developer_id", catalog.developers[0].id.to_string()),
            ("project_id", catalog.projects[0].id.to_string()),
            ("building_id", catalog.buildings[0].id.to_string()),
            ("property_object_id", catalog.objects[0].id.to_string()),
            ("ProjectId", catalog.projects[0].id.to_string()),
        ];
    }
    Case {
        parameters,
        body,
        people: vec![
            ("platform", vec![user_claims(None, &[MANAGE_ALL])]),
            ("manager", vec![user_claims(own, &[MANAGE])]),
            ("elsewhere", elsewhere),
            ("colleague", unpermitted),
            ("outsider", vec![user_claims(None, &[MANAGE]), Claims::user(guid())]),
        ],
    }
}

/// RULE-CHS-010, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073,
/// RULE-ALL-111: each operation returns the statuses of `TABLE`, and refuses each kind of invalid
/// token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check(service(), TABLE, prepare).await;
}

/// Returns the operations of the API document that change an existing entity: id, method and path.
async fn mutations() -> Vec<(String, Method, String)> {
    let document = service().guest().get("/docs/chessboard/openapi.json").await.expect(200);
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap_or_default();
            let creates = operation.pointer("/responses/201").is_some();
            // An upload takes no `Version`. The state of the import decides whether the service
            // accepts the file.
            if id == "upload_feed_file" {
                continue;
            }
            // A creation of a developer may restore a deleted one.
            if ["put", "patch", "delete"].contains(&method.as_str())
                || method == "post" && (!creates || id == "create_developer")
            {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                found.push((id.to_owned(), method, path.clone()));
            }
        }
    }
    found
}

/// RULE-CHS-059, RULE-ALL-031: each operation that changes an existing entity compares `Version`.
/// An outdated one returns 409, and the same request with the present one succeeds.
#[tokio::test]
async fn every_change_compares_version() {
    let mutations = mutations().await;
    assert!(mutations.len() >= 20, "{mutations:?}");
    for (operation, method, path) in mutations {
        let Case { parameters, mut body, people } = prepare(&operation).await;
        let of = |column: &str| &people.iter().find(|(name, _)| *name == column).unwrap().1[0];
        let is_platform = path.starts_with(ADMIN);
        let by = service().caller(of(if is_platform { "platform" } else { "manager" }));
        let path =
            parameters.iter().fold(path, |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
        // The service does not compare versions for a body that changes nothing, so the body must
        // change something.
        for (member, value) in [("Name", json!("Иное имя")), ("Rooms", json!(3))] {
            if body.get(member).is_some() {
                body[member] = value;
            }
        }
        let send_with = async |version: i64| {
            if method == Method::DELETE {
                return send(by.request(method.clone(), &format!("{path}?Version={version}"))).await;
            }
            let body = if body.is_null() { json!({}) } else { body.clone() };
            send(by.request(method.clone(), &path).json(&with(body, "Version", version))).await
        };
        send_with(0).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
        // The preparation decides the present version, which is at most 5.
        let mut response = send_with(1).await;
        for version in 2..6 {
            if response.status == 409 {
                response = send_with(version).await;
            }
        }
        assert!([200, 201, 204].contains(&response.status), "{operation}: {}", response.text);
    }
}

/// RULE-ALL-075, RULE-ALL-077: after each loss of rights, the old token gets the response to a
/// guest, and a fresh token has the remaining rights.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check(service(), TABLE, "", prepare).await;
}

/// RULE-ALL-081, RULE-ALL-082, RULE-ALL-095: each operation that creates accepts `Idempotency-Key`.
/// A repeat returns the first response, and another body is refused. Each response has `Location`.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    assert_eq!(repeats::check(service(), TABLE, prepare).await, [""; 0], "operations without `Location`");
}
