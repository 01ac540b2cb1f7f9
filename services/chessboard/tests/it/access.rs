//! Who may come in: every operation, as everybody.

use serde_json::{Value, json};
use testkit::access::{self, Case};
use testkit::issuer::Claims;

use crate::catalog_fill;
use crate::{
    MANAGE, MANAGE_ALL, company, create_developer, create_published_developer, guid, holder, objects,
    operator, path, profile, read_when, service, tell_company,
};

/// Each operation, and what it answers to whom. The organization scope gives nothing on the routes of the platform, the
/// platform scope reaches no further than the own company on the routes of managers.
const TABLE: &str = "
    operation                 | platform | manager | elsewhere | colleague | nobody | guest | forged | news | crm | issuer | other machines
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

/// A developer, and a request that concerns them.
async fn prepare(operation: &str) -> Case {
    let made = operation.split('_').next().unwrap_or_default();
    let is_catalog = operation.contains("catalog");
    let is_below =
        !is_catalog && ["project", "building", "object"].iter().any(|below| operation.contains(below));
    let developer = match (operation, made) {
        _ if is_below => create_published_developer().await,
        (_, "hide" | "withdraw") => create_published_developer().await,
        (_, "publish") => {
            let id = create_developer().await;
            operator().put(&path(id, ""), profile()).await.expect(200);
            id
        }
        ("create_developer", _) => {
            // One that waits for the platform to bring it back.
            let id = guid();
            tell_company(&company(id, "Active", 1)).await;
            read_when(id, "the developer", |_| true).await;
            operator().delete(&path(id, "")).await.expect(204);
            id
        }
        _ => create_developer().await,
    };
    let own = Some(developer);
    let (elsewhere, without): (Vec<Claims>, Vec<Claims>) = (
        vec![
            holder(Some(guid()), &[MANAGE]),
            holder(Some(guid()), &["chessboard.developers.manage@organization"]),
        ],
        vec![
            holder(own, &[]),
            holder(own, &["chessboard.developers.manage@elsewhere", "chessboard.developers"]),
        ],
    );
    let mut parameters = vec![("developer_id", developer.to_string())];
    let mut body = match operation {
        "create_developer" => json!({"CompanyId": developer}),
        _ if made == "update" => profile(),
        _ => Value::Null,
    };
    if is_below {
        let (below, sent) = objects::concerned(operation, developer).await;
        parameters.extend(below);
        body = sent;
    }
    if is_catalog {
        let shown = catalog_fill::one_with_an_object();
        shown.fill(service()).await;
        parameters = vec![
            ("developer_id", shown.developers[0].id.to_string()),
            ("project_id", shown.projects[0].id.to_string()),
            ("building_id", shown.buildings[0].id.to_string()),
            ("property_object_id", shown.objects[0].id.to_string()),
            ("ProjectId", shown.projects[0].id.to_string()),
        ];
    }
    Case {
        parameters,
        body,
        people: vec![
            ("platform", vec![holder(None, &[MANAGE_ALL])]),
            ("manager", vec![holder(own, &[MANAGE])]),
            ("elsewhere", elsewhere),
            ("colleague", without),
            ("nobody", vec![holder(None, &[MANAGE]), Claims::user(guid())]),
        ],
    }
}

/// Authentication, Check order, Token, section 2: the table above, which leaves out no operation and no flaw of a token.
#[tokio::test]
async fn every_operation_answers_each_caller_as_the_table_says() {
    access::check(service(), TABLE, prepare).await;
}
