//! Creations of deals.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    CREATED, MANAGE, MANAGE_OWN, OWN, PLATFORM, company, count, create_developer, create_object,
    creation_body, id_of, manager, object, platform, publish_company, publish_developer, publish_object, rub,
    selections, service, topics, user_with, with,
};

fn deals(base: &str) -> String {
    format!("{base}/deals")
}

/// INV-DEAL-1, RULE-CRM-001, RULE-EVT-012: a creation returns 201 with the deal and its location,
/// and publishes `deal-created`. Without `Amount` it uses the object's price.
#[tokio::test]
async fn created_deal_has_the_sent_fields_and_is_published() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let (client, owner) = selections().user();
    let selection = owner.post("/api/v1/selections", json!({"Title": "x"})).await.expect(201);
    let selection = id_of(&selection["Id"]);
    let body = with(creation_body(flat).await, "SelectionId", selection.to_string());
    let body = with(body, "ClientUserId", client.to_string());
    for (caller, base) in [(platform(), PLATFORM), (manager(developer), OWN)] {
        let response = caller.post(&deals(base), body.clone()).await;
        let location = response.header("location").to_owned();
        let created = response.expect(201);
        let id = id_of(&created["DealId"]);
        assert_eq!(location, format!("{base}/deals/{id}"));
        assert_eq!(caller.get(&location).await.expect(200), created);
        for (member, value) in [
            ("TenantId", json!(developer)),
            ("PropertyObjectId", json!(flat)),
            ("ClientUserId", body["ClientUserId"].clone()),
            ("AgentUserId", body["AgentUserId"].clone()),
            ("SelectionId", json!(selection)),
            ("Amount", rub(700_000_000)),
            ("Status", json!("Application")),
            ("StepGroup", json!("Application")),
            ("RowVersion", json!(1)),
            ("BookingExpiresAt", Value::Null),
            ("UpdatedByUserId", Value::Null),
        ] {
            assert_eq!(created[member], value, "{member}");
        }
        let events = service().published(id).await;
        assert_eq!(topics(&events), [CREATED]);
        for member in
            ["DealId", "TenantId", "ClientUserId", "AgentUserId", "Amount", "CreatedAt", "RowVersion"]
        {
            assert_eq!(events[0].payload[member], created[member], "{member}");
        }
    }
    let body = json!({"PropertyObjectId": flat, "ClientUserId": guid(), "Amount": {"AmountMinor": 1, "Currency": "USD"}});
    let created = platform().post(&deals(PLATFORM), body).await.expect(201);
    assert_eq!((&created["Amount"]["Currency"], &created["AgentUserId"]), (&json!("USD"), &Value::Null));
}

/// RULE-CRM-002, RULE-CRM-028, RULE-CRM-029, RULE-CRM-031: object, developer, availability and step
/// are checked in this order.
#[tokio::test]
async fn creation_with_several_faults_reports_the_first() {
    let developer = guid();
    let flat = guid();
    let create = async || platform().post(&deals(PLATFORM), creation_body(flat).await).await;
    create().await.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND");
    publish_object(&object(flat, developer, "Sold")).await;
    publish_company(&company(developer, "Suspended")).await;
    create().await.expect_problem(409, "CRM_DEVELOPER_NOT_ACTIVE");
    publish_company(&company(developer, "Archived")).await;
    create().await.expect_problem(409, "CRM_DEVELOPER_NOT_ACTIVE");
    publish_company(&company(developer, "Active")).await;
    create().await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    publish_object(&object(flat, developer, "Unavailable")).await;
    create().await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    publish_object(&object(flat, developer, "Booked")).await;
    create().await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
}

/// RULE-CRM-001: `Amount` is required if the object's price is out of bounds. The step is checked
/// before.
#[tokio::test]
async fn creation_without_amount_or_valid_price_is_refused() {
    for price in [0, 1_000_000_000_000_001] {
        let (developer, flat) = (guid(), guid());
        publish_object(&with(object(flat, developer, "Available"), "Price", rub(price))).await;
        let body = creation_body(flat).await;
        let refused = platform().post(&deals(PLATFORM), body.clone()).await;
        refused.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
        publish_developer(&crate::developer(developer)).await;
        let refused = platform().post(&deals(PLATFORM), body.clone()).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Amount", "required");
        let created = platform().post(&deals(PLATFORM), with(body, "Amount", rub(7))).await.expect(201);
        assert_eq!(created["Amount"], rub(7));
    }
}

/// RULE-CRM-001: the bounds are inclusive for a sent amount and for the object's price.
#[tokio::test]
async fn amount_bounds_are_inclusive() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    for amount in [1, 1_000_000_000_000_000] {
        let named = json!({"AmountMinor": amount, "Currency": "AZZ"});
        let created =
            platform().post(&deals(PLATFORM), with(creation_body(flat).await, "Amount", named.clone())).await;
        assert_eq!(created.expect(201)["Amount"], named);
        publish_object(&with(object(flat, developer, "Available"), "Price", rub(amount))).await;
        let created = manager(developer).post(&deals(OWN), creation_body(flat).await).await.expect(201);
        assert_eq!(created["Amount"], rub(amount));
    }
}

/// RULE-CRM-002: on company routes an object of another developer is refused like an unknown one.
#[tokio::test]
async fn object_of_another_developer_is_refused_like_an_unknown_one() {
    let flat = create_object(create_developer().await).await;
    let stranger = manager(create_developer().await);
    let response = stranger.post(&deals(OWN), creation_body(flat).await).await;
    let unknown = stranger.post(&deals(OWN), creation_body(guid()).await).await;
    let (response, unknown) = (
        response.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND"),
        unknown.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND"),
    );
    for member in ["title", "detail", "type", "errors"] {
        assert_eq!(response[member], unknown[member]);
    }
}

/// RULE-CRM-001: a repeat of a `RequestId` returns 200 with the current deal, whatever else the
/// body has. Each user and each route family has its own ids.
#[tokio::test]
async fn repeated_creation_returns_the_current_deal() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let request = guid();
    let body = with(creation_body(flat).await, "RequestId", request.to_string());
    let both = Claims { company_id: Some(developer), ..Claims::user(guid()) };
    let both = service().caller(&both.permission(MANAGE).permission(MANAGE_OWN));
    let created = both.post(&deals(PLATFORM), body.clone()).await.expect(201);
    let id = id_of(&created["DealId"]);
    both.post(&format!("{PLATFORM}/deals/{id}/cancel"), json!({"Reason": "x"})).await.expect(200);
    publish_object(&object(flat, developer, "Sold")).await;
    let again = with(creation_body(guid()).await, "RequestId", request.to_string());
    let repeat = both.post(&deals(PLATFORM), again).await.expect(200);
    assert_eq!((id_of(&repeat["DealId"]), &repeat["Status"]), (id, &json!("Cancelled")));
    publish_object(&object(flat, developer, "Available")).await;
    let own = both.post(&deals(OWN), body.clone()).await.expect(201);
    assert_ne!(id_of(&own["DealId"]), id);
    platform().post(&deals(PLATFORM), body).await.expect(201);
}

/// RULE-CRM-001: a user of two companies may use one `RequestId` in both.
#[tokio::test]
async fn request_id_is_separate_for_each_company() {
    let (request, person) = (guid(), guid());
    let create = async |developer: Uuid| {
        let flat = create_object(developer).await;
        let claims = Claims { company_id: Some(developer), ..Claims::user(person) }.permission(MANAGE_OWN);
        let body = with(creation_body(flat).await, "RequestId", request.to_string());
        service().caller(&claims).post(&deals(OWN), body).await.expect(201)
    };
    let first = create(create_developer().await).await;
    let second = create(create_developer().await).await;
    assert_ne!(first["DealId"], second["DealId"]);
}

/// RULE-CRM-001: one of several concurrent repeats returns 201, and the others return 200 with the
/// same deal.
#[tokio::test]
async fn concurrent_repeats_create_one_deal() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    for (caller, base) in
        [(service().caller(&user_with(None, &[MANAGE])), PLATFORM), (manager(developer), OWN)]
    {
        let body = with(creation_body(flat).await, "RequestId", guid().to_string());
        let path = deals(base);
        let responses = join_all((0..12).map(|_| caller.post(&path, body.clone()))).await;
        assert_eq!((count(&responses, 201), count(&responses, 200)), (1, 11));
        let first = &responses[0].body["DealId"];
        assert!(responses.iter().all(|response| response.body["DealId"] == *first));
        assert_eq!(topics(&service().published(id_of(first)).await), [CREATED]);
    }
}

/// RULE-CRM-001: an empty or malformed id, an amount out of bounds and an invalid currency are
/// refused.
#[tokio::test]
async fn invalid_creation_is_refused() {
    let refused = async |member: &str, value: Value, field: &str, code: &str| {
        let body = with(creation_body(guid()).await, member, value);
        for (caller, base) in [(platform(), PLATFORM), (manager(guid()), OWN)] {
            let response = caller.post(&deals(base), body.clone()).await;
            response.expect_refusal("VALIDATION_FAILED", field, code);
        }
    };
    for member in ["PropertyObjectId", "ClientUserId", "AgentUserId", "SelectionId", "RequestId"] {
        refused(member, json!(Uuid::nil()), &format!("/{member}"), "empty_id").await;
        refused(member, json!("x"), &format!("/{member}"), "invalid_type").await;
    }
    for amount in [0, -1, 1_000_000_000_000_001] {
        refused("Amount", rub(amount), "/Amount/AmountMinor", "out_of_range").await;
    }
    for currency in ["rub", "RU", "RUBL", "РУБ"] {
        let amount = json!({"AmountMinor": 1, "Currency": currency});
        refused("Amount", amount, "/Amount/Currency", "unknown_value").await;
    }
    let response = platform().post(&deals(PLATFORM), json!({})).await;
    response.expect_refusal("VALIDATION_FAILED", "/ClientUserId", "required");
}
