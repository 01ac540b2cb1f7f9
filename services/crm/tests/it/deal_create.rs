//! Deals are made.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    CREATED, MANAGE, MANAGE_OWN, OWN, PLATFORM, application, company, count, create_developer, create_object,
    holder, id_of, manager, object, platform, rub, service, tell_company, tell_developer, tell_object,
    topics, with,
};

fn deals(base: &str) -> String {
    format!("{base}/deals")
}

/// Create: 201 with the deal, where it is and its event; without an amount it is the object's price.
#[tokio::test]
async fn a_deal_is_made_of_an_object() {
    let developer = create_developer().await;
    let (flat, selection) = (create_object(developer).await, guid());
    let body = with(application(flat), "SelectionId", selection.to_string());
    for (caller, base) in [(platform(), PLATFORM), (manager(developer), OWN)] {
        let answer = caller.post(&deals(base), body.clone()).await;
        let location = answer.header("location").to_owned();
        let made = answer.expect(201);
        let id = id_of(&made["DealId"]);
        assert_eq!(location, format!("{base}/deals/{id}"));
        assert_eq!(caller.get(&location).await.expect(200), made);
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
            assert_eq!(made[member], value, "{member}");
        }
        let events = service().published(id).await;
        assert_eq!(topics(&events), [CREATED]);
        for member in
            ["DealId", "TenantId", "ClientUserId", "AgentUserId", "Amount", "CreatedAt", "RowVersion"]
        {
            assert_eq!(events[0].payload[member], made[member], "{member}");
        }
    }
    let body = json!({"PropertyObjectId": flat, "ClientUserId": guid(), "Amount": {"AmountMinor": 1, "Currency": "USD"}});
    let made = platform().post(&deals(PLATFORM), body).await.expect(201);
    assert_eq!((&made["Amount"]["Currency"], &made["AgentUserId"]), (&json!("USD"), &Value::Null));
}

/// Create, order of answers: object, developer, availability, step.
#[tokio::test]
async fn a_creation_is_refused_in_order() {
    let developer = guid();
    let flat = guid();
    let create = async || platform().post(&deals(PLATFORM), application(flat)).await;
    create().await.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND");
    tell_object(&object(flat, developer, "Sold")).await;
    tell_company(&company(developer, "Suspended")).await;
    create().await.expect_problem(409, "CRM_DEVELOPER_NOT_ACTIVE");
    tell_company(&company(developer, "Archived")).await;
    create().await.expect_problem(409, "CRM_DEVELOPER_NOT_ACTIVE");
    tell_company(&company(developer, "Active")).await;
    create().await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    tell_object(&object(flat, developer, "Unavailable")).await;
    create().await.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
    tell_object(&object(flat, developer, "Booked")).await;
    create().await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
}

/// Create: where the object has no price that a deal could have, the amount is asked for, when nothing else speaks against it.
#[tokio::test]
async fn an_amount_is_required_where_the_object_has_no_price() {
    for price in [0, 1_000_000_000_000_001] {
        let (developer, flat) = (guid(), guid());
        tell_object(&with(object(flat, developer, "Available"), "Price", rub(price))).await;
        let body = application(flat);
        let refused = platform().post(&deals(PLATFORM), body.clone()).await;
        refused.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
        tell_developer(&crate::developer(developer)).await;
        let refused = platform().post(&deals(PLATFORM), body.clone()).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Amount", "required");
        let made = platform().post(&deals(PLATFORM), with(body, "Amount", rub(7))).await.expect(201);
        assert_eq!(made["Amount"], rub(7));
    }
}

/// Create: the bounds of an amount are inclusive, of one that is named and of the object's price.
#[tokio::test]
async fn the_least_and_the_most_of_an_amount_are_taken() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    for amount in [1, 1_000_000_000_000_000] {
        let named = json!({"AmountMinor": amount, "Currency": "AZZ"});
        let made = platform().post(&deals(PLATFORM), with(application(flat), "Amount", named.clone())).await;
        assert_eq!(made.expect(201)["Amount"], named);
        tell_object(&with(object(flat, developer, "Available"), "Price", rub(amount))).await;
        let made = manager(developer).post(&deals(OWN), application(flat)).await.expect(201);
        assert_eq!(made["Amount"], rub(amount));
    }
}

/// A developer's people make deals of their own objects; another's is as unknown.
#[tokio::test]
async fn another_developers_object_is_as_unknown() {
    let flat = create_object(create_developer().await).await;
    let stranger = manager(create_developer().await);
    let answer = stranger.post(&deals(OWN), application(flat)).await;
    let unknown = stranger.post(&deals(OWN), application(guid())).await;
    let (answer, unknown) = (
        answer.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND"),
        unknown.expect_problem(422, "CRM_PROPERTY_OBJECT_NOT_FOUND"),
    );
    for member in ["title", "detail", "type", "errors"] {
        assert_eq!(answer[member], unknown[member]);
    }
}

/// Create: with a `RequestId` a repeat is 200 with the deal as it is now, whatever else is in it; each person and each family
/// has its own.
#[tokio::test]
async fn a_repeat_is_answered_with_the_deal_as_it_is_now() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    let request = guid();
    let body = with(application(flat), "RequestId", request.to_string());
    let both = Claims { company_id: Some(developer), ..Claims::user(guid()) };
    let both = service().caller(&both.permission(MANAGE).permission(MANAGE_OWN));
    let made = both.post(&deals(PLATFORM), body.clone()).await.expect(201);
    let id = id_of(&made["DealId"]);
    both.post(&format!("{PLATFORM}/deals/{id}/cancel"), json!({"Reason": "x"})).await.expect(200);
    tell_object(&object(flat, developer, "Sold")).await;
    let again = with(application(guid()), "RequestId", request.to_string());
    let repeat = both.post(&deals(PLATFORM), again).await.expect(200);
    assert_eq!((id_of(&repeat["DealId"]), &repeat["Status"]), (id, &json!("Cancelled")));
    tell_object(&object(flat, developer, "Available")).await;
    let own = both.post(&deals(OWN), body.clone()).await.expect(201);
    assert_ne!(id_of(&own["DealId"]), id);
    platform().post(&deals(PLATFORM), body).await.expect(201);
}

/// A person of two companies sees of each what is its own.
#[tokio::test]
async fn a_request_of_another_company_is_not_shown() {
    let (request, person) = (guid(), guid());
    let make = async |developer: Uuid| {
        let flat = create_object(developer).await;
        let claims = Claims { company_id: Some(developer), ..Claims::user(person) }.permission(MANAGE_OWN);
        let body = with(application(flat), "RequestId", request.to_string());
        service().caller(&claims).post(&deals(OWN), body).await.expect(201)
    };
    let first = make(create_developer().await).await;
    let second = make(create_developer().await).await;
    assert_ne!(first["DealId"], second["DealId"]);
}

/// Races: of racing repeats one is 201, the others 200 with the same deal.
#[tokio::test]
async fn of_racing_repeats_one_makes_the_deal() {
    let developer = create_developer().await;
    let flat = create_object(developer).await;
    for (caller, base) in [(service().caller(&holder(None, &[MANAGE])), PLATFORM), (manager(developer), OWN)]
    {
        let body = with(application(flat), "RequestId", guid().to_string());
        let path = deals(base);
        let answers = join_all((0..12).map(|_| caller.post(&path, body.clone()))).await;
        assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 11));
        let first = &answers[0].body["DealId"];
        assert!(answers.iter().all(|answer| answer.body["DealId"] == *first));
        assert_eq!(topics(&service().published(id_of(first)).await), [CREATED]);
    }
}

/// Bodies: every id that is empty, every bound of the amount.
#[tokio::test]
async fn a_creation_that_makes_no_sense_is_refused() {
    let refused = async |member: &str, value: Value, field: &str, code: &str| {
        let body = with(application(guid()), member, value);
        for (caller, base) in [(platform(), PLATFORM), (manager(guid()), OWN)] {
            let answer = caller.post(&deals(base), body.clone()).await;
            answer.expect_refusal("VALIDATION_FAILED", field, code);
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
    let answer = platform().post(&deals(PLATFORM), json!({})).await;
    answer.expect_refusal("VALIDATION_FAILED", "/ClientUserId", "required");
}
