//! Access of each caller to each operation.

use serde_json::{Value, json};
use testkit::access::{self, Case, losses, repeats};
use testkit::issuer::Claims;

use crate::catalog_fill;
use crate::{
    MANAGE, MANAGE_ALL, administrator, company_event, create_developer, create_published_developer, guid,
    objects, path, profile, publish_company, read_when, service, user_claims,
};

/// The status of each operation for each caller.
///
/// Organization scope grants nothing on administrator routes. On manager routes platform scope
/// reaches only the caller's own company. `elsewhere` manages another company, a `colleague` lacks
/// the permission, and an `outsider` has no company.
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
    list_catalog_developers   |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
    get_catalog_developer     |   200    |   200   |    200    |    200    |  200   |  200  |  200   | 200  | 200 |  200   |  200
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
    let is_below =
        !is_catalog && ["project", "building", "object"].iter().any(|below| operation.contains(below));
    let developer = match (operation, verb) {
        _ if is_below => create_published_developer().await,
        (_, "hide" | "withdraw") => create_published_developer().await,
        (_, "publish") => {
            let id = create_developer().await;
            administrator().put(&path(id, ""), profile()).await.expect(200);
            id
        }
        ("create_developer", _) => {
            // A deleted profile, which the operation restores.
            let id = guid();
            publish_company(&company_event(id, "Active", 1)).await;
            read_when(id, "the developer", |_| true).await;
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
    if is_below {
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

/// RULE-CHS-010, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073: the table
/// above covers each operation and each flaw of a token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check(service(), TABLE, prepare).await;
}

/// RULE-ALL-075, RULE-ALL-077: after each loss of rights, the old token gets the response to a
/// guest, and a fresh token has the remaining rights.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check(service(), TABLE, "", prepare).await;
}

/// RULE-ALL-081, RULE-ALL-082: each operation that creates accepts `Idempotency-Key`. A repeat
/// returns the first response, and another body is refused.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    repeats::check(service(), TABLE, prepare).await;
}
