//! Permissions: every operation with every kind of caller.

use serde_json::{Value, json};
use testkit::access::{self, Case, EmptyId, losses, repeats};
use testkit::issuer::Claims;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::{
    CARE, Deal, MANAGE, MANAGE_OWN, OWN, PIPELINE_OWN, PLATFORM, READ_OWN, agent, company, contract,
    create_developer, create_object, guid, id_of, in_days, manager, platform, publish_company, selections,
    service, steps, steps_of, user_with, with,
};

/// The status that each operation returns to each kind of caller.
///
/// Platform permissions are valid in platform scope and on platform routes only.
/// An `-own` permission covers the own company only, in any scope.
/// The callers *elsewhere* have `-own` permissions in another company, and *no one* has no company.
/// The callers *organization* have platform permissions in company scope.
/// The callers *colleague* are employees of the developer with unrelated permissions.
/// [`access::check_with`] describes the columns from *guest* on.
const TABLE: &str = "
    operation                 | platform | care | reader | manager | pipeline | elsewhere | organization | colleague | no one | guest | forged | news | crm | issuer | other machines
    create_deal               |   201    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_deals                |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_deal                  |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_deal_timeline        |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_deal_stages          |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_board                 |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_board_column          |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    move_deal                 |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_deal_contract         |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_deal_contract      |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    set_deal_agent            |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    book_deal                 |   201    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    prolong_booking           |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    cancel_deal               |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    complete_deal             |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    add_note                  |   201    | 201  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    override_deal_status      |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    preview_deal_override     |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_deal_selection        |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_client_selections    |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_pipeline              |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_pipeline          |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_status_overrides     |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    export_deals              |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    export_status_overrides   |   200    | 403  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    export_own_deals          |   403    | 403  |  200   |   200   |   403    |    200    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_saved_views          |   200    | 200  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_saved_view         |   201    | 201  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_saved_view            |   200    | 404  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_saved_view        |   200    | 404  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_saved_view         |   204    | 404  |  403   |   403   |   403    |    403    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_own_deal           |   403    | 403  |  403   |   201   |   403    |    422    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_deals            |   403    | 403  |  200   |   200   |   403    |    200    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_deal              |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_deal_timeline    |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_deal_stages      |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_board             |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_board_column      |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    move_own_deal             |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_deal_contract     |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    update_own_deal_contract  |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    set_own_deal_agent        |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    book_own_deal             |   403    | 403  |  403   |   201   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    prolong_own_booking       |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    cancel_own_deal           |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    complete_own_deal         |   403    | 403  |  403   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    add_own_note              |   403    | 403  |  403   |   201   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_deal_selection    |   403    | 403  |  200   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_pipeline          |   403    | 403  |  200   |   200   |   200    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_own_pipeline      |   403    | 403  |  403   |   403   |   200    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_saved_views      |   403    | 403  |  200   |   200   |   403    |    200    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    create_own_saved_view     |   403    | 403  |  201   |   201   |   403    |    201    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_saved_view        |   403    | 403  |  404   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_own_saved_view    |   403    | 403  |  404   |   200   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
    delete_own_saved_view     |   403    | 403  |  404   |   204   |   403    |    404    |     403      |    403    |  403   |  401  |  401   | 401  | 401 |  401   |  401
";

/// Returns the developer of most deals.
async fn developer() -> Uuid {
    static DEVELOPER: OnceCell<Uuid> = OnceCell::const_new();
    *DEVELOPER.get_or_init(create_developer).await
}

/// Returns the developer whose deals the platform completes while the developer is Suspended.
async fn developer_to_suspend() -> Uuid {
    static DEVELOPER: OnceCell<Uuid> = OnceCell::const_new();
    *DEVELOPER.get_or_init(create_developer).await
}

/// Creates a deal with a selection of its client.
async fn deal_of(developer: Uuid) -> Deal {
    static SELECTION: OnceCell<(Uuid, Uuid)> = OnceCell::const_new();
    let create = async || {
        let (client, owner) = selections().user();
        let body = json!({"Title": "x", "Items": [{"PropertyObjectId": guid()}]});
        let created = owner.post("/api/v1/selections", body).await.expect(201);
        (client, id_of(&created["Id"]))
    };
    let (client, selection) = SELECTION.get_or_init(create).await;
    let object = create_object(developer).await;
    let body = json!({"PropertyObjectId": object, "ClientUserId": client, "SelectionId": selection});
    let created = platform().post(&format!("{PLATFORM}/deals"), body).await.expect(201);
    Deal { id: id_of(&created["DealId"]), object, developer }
}

/// Returns a deal that no test changes.
async fn deal_to_read() -> Deal {
    static DEAL: OnceCell<Deal> = OnceCell::const_new();
    *DEAL.get_or_init(async || deal_of(developer().await).await).await
}

/// Returns a deal on which the operation succeeds.
async fn deal_for(operation: &str) -> Deal {
    if ["get_", "list_", "export_"].iter().any(|prefix| operation.starts_with(prefix)) {
        return deal_to_read().await;
    }
    if operation == "complete_deal" {
        let developer = developer_to_suspend().await;
        publish_company(&company(developer, "Active")).await;
        let deal = deal_of(developer).await;
        deal.bring_to("Sale").await;
        publish_company(&company(developer, "Suspended")).await;
        return deal;
    }
    let deal = deal_of(developer().await).await;
    match operation {
        "prolong_booking" | "prolong_own_booking" => drop(deal.book().await),
        "complete_own_deal" => deal.bring_to("Sale").await,
        _ => {}
    }
    deal
}

async fn body_of(operation: &str, deal: Deal) -> Value {
    match operation {
        "create_deal" | "create_own_deal" => json!({"PropertyObjectId": deal.object, "ClientUserId": guid()}),
        "move_deal" | "move_own_deal" => {
            json!({"StepId": steps_of(deal.developer, "Application").await[1]})
        }
        "update_deal_contract" | "update_own_deal_contract" => contract(),
        "set_deal_agent" | "set_own_deal_agent" => json!({"AgentUserId": agent().await}),
        "book_deal" | "book_own_deal" => json!({}),
        "prolong_booking" | "prolong_own_booking" => json!({"ExpiresAt": in_days(5)}),
        "cancel_deal" | "cancel_own_deal" => json!({"Reason": "x"}),
        "complete_deal" | "complete_own_deal" => json!({"RegistryRecordNumber": "x"}),
        "add_note" | "add_own_note" => json!({"Text": "x"}),
        "override_deal_status" => json!({"TargetStatus": "Booking", "Comment": "x"}),
        "preview_deal_override" => json!({"TargetStatus": "Booking"}),
        "create_saved_view" | "create_own_saved_view" => json!({"Name": "x", "Query": "Statuses=Sale"}),
        "replace_pipeline" | "replace_own_pipeline" => {
            let steps = steps(deal.developer).await.into_iter();
            let renamed = steps
                .enumerate()
                .map(|(at, step)| if at == 0 { with(step, "Name", guid().to_string()) } else { step });
            json!({"Steps": renamed.collect::<Vec<_>>()})
        }
        _ => Value::Null,
    }
}

/// Returns every kind of user in relation to a developer.
fn people(developer: Uuid) -> Vec<(&'static str, Vec<Claims>)> {
    let own = Some(developer);
    let anywhere =
        ["crm.deals.read-own@platform", "crm.deals.manage-own@platform", "crm.pipeline.manage-own@platform"];
    vec![
        // The company of a platform manager grants nothing on company routes.
        (
            "platform",
            vec![user_with(None, &[MANAGE]), user_with(own, &[MANAGE]), user_with(own, &[MANAGE, CARE])],
        ),
        ("care", vec![user_with(None, &[CARE]), user_with(own, &[CARE])]),
        ("reader", vec![user_with(own, &[READ_OWN]), user_with(own, &[anywhere[0]])]),
        ("manager", vec![user_with(own, &[MANAGE_OWN]), user_with(own, &[anywhere[1]])]),
        ("pipeline", vec![user_with(own, &[PIPELINE_OWN]), user_with(own, &[anywhere[2]])]),
        (
            "elsewhere",
            vec![
                user_with(Some(guid()), &anywhere),
                user_with(Some(guid()), &[READ_OWN, MANAGE_OWN, PIPELINE_OWN]),
            ],
        ),
        (
            "organization",
            vec![
                user_with(own, &["crm.deals.manage", "crm.deals.care"]),
                user_with(own, &["crm.deals.manage@organization", "crm.deals.care@elsewhere"]),
            ],
        ),
        (
            "colleague",
            vec![
                user_with(own, &[]),
                user_with(
                    own,
                    &[
                        "crm.deals",
                        "crm.deals.manage-own@elsewhere",
                        "crm.deals.read",
                        "chessboard.developers.manage",
                    ],
                ),
            ],
        ),
        (
            "no one",
            vec![user_with(None, &anywhere), user_with(None, &[READ_OWN, MANAGE_OWN]), Claims::user(guid())],
        ),
    ]
}

/// Creates a saved view. Its owner becomes the only caller in one column of `TABLE`, and the
/// callers in the other columns do not own the view.
async fn prepare_view(operation: &str, developer: Uuid) -> Case {
    let is_own = operation.contains("_own_");
    let (column, base, owner) = if is_own {
        ("manager", OWN, user_with(Some(developer), &[MANAGE_OWN]))
    } else {
        ("platform", PLATFORM, user_with(None, &[MANAGE]))
    };
    let by = service().caller(&owner);
    let view = by.post(&format!("{base}/saved-views"), json!({"Name": "x", "Query": ""})).await.expect(201);
    let mut people = people(developer);
    people.iter_mut().filter(|(name, _)| *name == column).for_each(|(_, users)| *users = vec![owner.clone()]);
    Case {
        parameters: vec![("view_id", id_of(&view["Id"]).to_string())],
        body: if operation.starts_with("replace_") { json!({"Name": "y", "Query": ""}) } else { Value::Null },
        people,
    }
}

async fn prepare(operation: &str) -> Case {
    if operation.ends_with("saved_view") && !operation.starts_with("create_") {
        return prepare_view(operation, developer().await).await;
    }
    let deal = deal_for(operation).await;
    let step = steps_of(deal.developer, "Application").await[0];
    Case {
        parameters: vec![
            ("deal_id", deal.id.to_string()),
            ("step_id", step.to_string()),
            ("TenantId", deal.developer.to_string()),
        ],
        body: body_of(operation, deal).await,
        people: people(deal.developer),
    }
}

/// RULE-CRM-032, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073,
/// RULE-ALL-111: every operation returns the statuses of `TABLE`, and refuses each kind of invalid
/// token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check_with(service(), TABLE, EmptyId::Refused, prepare).await;
}

/// RULE-CRM-032, RULE-ALL-030: a caller without the permission gets 403 for an invalid path, query
/// or body.
#[tokio::test]
async fn permission_is_checked_before_path_query_and_body() {
    let deal = deal_to_read().await;
    let unprivileged = service().caller(&user_with(Some(deal.developer), &[]));
    let nil = Uuid::nil();
    for path in [
        format!("{PLATFORM}/deals?Page=0&Sort=x"),
        format!("{OWN}/deals?Statuses=x"),
        format!("{PLATFORM}/status-overrides?Cursor=x"),
        format!("{OWN}/exports/deals?Format=x"),
        format!("{PLATFORM}/board"),
        format!("{PLATFORM}/pipeline-steps"),
        format!("{PLATFORM}/deals/{nil}"),
        format!("{OWN}/deals/{nil}/timeline?Cursor=x"),
        format!("{OWN}/board/columns/{nil}"),
        format!("{PLATFORM}/deals/no-id"),
    ] {
        unprivileged.get(&path).await.expect_problem(403, "FORBIDDEN");
    }
    for path in
        [deal.path("/override-status"), deal.path("/move-step"), deal.own("/cancel"), deal.own("/notes")]
    {
        unprivileged.post(&path, json!("x")).await.expect_problem(403, "FORBIDDEN");
    }
    unprivileged
        .put(&format!("{OWN}/pipeline-steps"), json!({"Steps": []}))
        .await
        .expect_problem(403, "FORBIDDEN");
}

/// RULE-CRM-032, RULE-ALL-030: an invalid body returns 400, even for an unknown deal.
#[tokio::test]
async fn invalid_body_is_refused_before_an_unknown_deal() {
    let missing = guid();
    let path = |below: &str| format!("{PLATFORM}/deals/{missing}{below}");
    let by = platform();
    by.post(&path("/cancel"), json!({"Reason": " "})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Reason",
        "too_short",
    );
    by.post(&path("/cancel"), json!({"Reason": "x"})).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    let completed = json!({"TargetStatus": "Completed", "Comment": "x"});
    by.post(&path("/override-status"), completed.clone())
        .await
        .expect_problem(422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN");
    by.post(&path("/override-status"), with(completed, "Comment", "\u{2003}")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Comment",
        "too_short",
    );
    by.post(&path("/override-status"), json!({"TargetStatus": "Sale", "Comment": "x"}))
        .await
        .expect_problem(404, "CRM_DEAL_NOT_FOUND");
}

/// RULE-CRM-033: on company routes a deal, step or object of another company is refused
/// like an unknown one.
#[tokio::test]
async fn entity_of_another_company_is_refused_like_an_unknown_one() {
    let (foreign_deal, own) = (deal_to_read().await, create_developer().await);
    let by = manager(own);
    let strip = |response: testkit::client::Response, id: Uuid| {
        let body = with(response.body, "traceId", Value::Null);
        (response.status, body.to_string().replace(&id.to_string(), "-"))
    };
    let step = steps_of(foreign_deal.developer, "Application").await[0];
    let (deal, unknown) = (foreign_deal.id, guid());
    let path = |id: Uuid, below: &str| format!("{OWN}/deals/{id}{below}");
    for below in ["", "/timeline", "/stages", "/contract", "/selection"] {
        let (found, missing) = (by.get(&path(deal, below)).await, by.get(&path(unknown, below)).await);
        assert_eq!((found.status, strip(found, deal)), (404, strip(missing, unknown)), "{below}");
    }
    for (below, body) in [
        ("/move-step", json!({"StepId": step})),
        ("/booking", json!({})),
        ("/cancel", json!({"Reason": "x"})),
        ("/complete", json!({"RegistryRecordNumber": "x"})),
        ("/notes", json!({"Text": "x"})),
    ] {
        let found = by.post(&path(deal, below), body.clone()).await;
        let missing = by.post(&path(unknown, below), body).await;
        assert_eq!((found.status, strip(found, deal)), (404, strip(missing, unknown)), "{below}");
    }
    let column = |id: Uuid| format!("{OWN}/board/columns/{id}");
    assert_eq!(strip(by.get(&column(step)).await, step), strip(by.get(&column(unknown)).await, unknown));
    by.get(&column(step)).await.expect_problem(404, "CRM_STEP_NOT_FOUND");
    let create = |object: Uuid| json!({"PropertyObjectId": object, "ClientUserId": guid()});
    let created = by.post(&format!("{OWN}/deals"), create(foreign_deal.object)).await;
    let missing = by.post(&format!("{OWN}/deals"), create(unknown)).await;
    assert_eq!(strip(created, foreign_deal.object), strip(missing, unknown));
    by.post(&format!("{OWN}/deals"), create(foreign_deal.object))
        .await
        .expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND");
    let own_deal = crate::create_deal_of(own, create_object(own).await).await;
    let moved = |step: Uuid| json!({"StepId": step});
    let foreign = by.post(&own_deal.own("/move-step"), moved(step)).await;
    let none = by.post(&own_deal.own("/move-step"), moved(unknown)).await;
    assert_eq!(strip(foreign, step), strip(none, unknown));
    by.post(&own_deal.own("/move-step"), moved(step)).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    for filter in ["StepId", "PropertyObjectId"] {
        let id = if filter == "StepId" { step } else { foreign_deal.object };
        let page = by.get(&format!("{OWN}/deals?{filter}={id}")).await.expect(200);
        assert_eq!(page["TotalCount"], 0, "{filter}");
    }
}

/// RULE-CRM-033: the company comes from the token, with any query.
#[tokio::test]
async fn tenant_in_the_query_has_no_effect_on_company_routes() {
    let (own, other) = (create_developer().await, create_developer().await);
    let by = manager(own);
    for below in ["/deals", "/board", "/pipeline-steps"] {
        let expected = by.get(&format!("{OWN}{below}")).await.expect(200);
        for tenant in [other.to_string(), Uuid::nil().to_string(), "x".to_owned()] {
            let response = by.get(&format!("{OWN}{below}?TenantId={tenant}")).await;
            assert_eq!(response.expect(200), expected, "{below} {tenant}");
        }
    }
    let before = steps(other).await;
    let replaced = json!({"Steps": [{"Group": "Booking", "Name": "x"}]});
    by.put(&format!("{OWN}/pipeline-steps?TenantId={other}"), replaced).await.expect(200);
    assert_eq!((steps(own).await.len(), steps(other).await), (1, before));
}

/// RULE-CRM-034: the timeline records `PlatformManager` before `CareService` on platform routes,
/// and `DeveloperManager` on company routes.
#[tokio::test]
async fn actor_with_several_permissions_has_the_first_role_in_the_timeline() {
    let deal = crate::create_deal().await;
    let all = ["crm.deals.care@platform", "crm.deals.manage@platform", READ_OWN, MANAGE_OWN];
    let both = service().caller(&user_with(Some(deal.developer), &all));
    let care = service().caller(&user_with(Some(deal.developer), &[CARE, MANAGE_OWN]));
    for (by, path, kind, role) in [
        (&both, deal.path("/notes"), "ManualNote", "PlatformManager"),
        (&care, deal.path("/notes"), "ManualNote", "CareService"),
        (&both, deal.own("/notes"), "CompanyNote", "DeveloperManager"),
        (&care, deal.own("/notes"), "CompanyNote", "DeveloperManager"),
    ] {
        let row = by.post(&path, json!({"Text": "x"})).await.expect(201);
        assert_eq!((&row["Kind"], &row["ActorRole"]), (&json!(kind), &json!(role)));
    }
}

/// RULE-ALL-075, RULE-ALL-077: after each loss of rights, a request with the old token gets the
/// response that a guest gets, and a fresh token has the remaining rights.
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
