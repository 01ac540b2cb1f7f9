//! Searches and filters of the list of deals.

use serde_json::{Value, json};
use testkit::guid;

use crate::rows::{deal_ids, deal_row, insert, insert_deals, seconds_later};
use crate::{
    CARE, MANAGE_OWN, OWN, PLATFORM, READ_OWN, care, create_developer, list, manager, object, platform,
    publish_object, service, steps, user_with, with,
};

/// RULE-CRM-077: a deal is found by its object, project, contract, participant, amount, booking and
/// last change. All filters must match.
#[tokio::test]
async fn deals_are_searched() {
    let developer = create_developer().await;
    let step = &steps(developer).await[0];
    let mut deals: Vec<Value> = (0..5)
        .map(|at: usize| {
            let deal = with(deal_row(step), "created_at", seconds_later(at));
            with(with(deal, "updated_at", seconds_later(100 + at)), "amount", 100 * (at + 1))
        })
        .collect();
    let (person, agent) = (guid(), guid());
    deals[0]["client_user_id"] = json!(person);
    deals[1]["agent_user_id"] = json!(person);
    deals[2]["agent_user_id"] = json!(agent);
    deals[3]["currency"] = json!("USD");
    deals[4]["contract_number"] = json!("ДДУ – 17/Б");
    deals[4]["folded_contract_number"] = json!("дду - 17/б");
    insert_deals(&deals).await;
    for (deal, number, project) in
        [(0, "12А", "ЖК «Лесной»"), (1, "12 – Б", "Лесная опушка"), (2, "112а", "Звёздный")]
    {
        let known = object(crate::id_of(&deals[deal]["property_object_id"]), developer, "Available");
        publish_object(&with(with(known, "Number", number), "ProjectName", project)).await;
    }
    let booking = |at: usize, status: &str, expires_at: &str, ended_at: Value| {
        json!({
            "id": guid(), "deal_id": deals[at]["id"], "property_object_id": deals[at]["property_object_id"], "status": status,
            "expires_at": expires_at, "created_at": seconds_later(0), "ended_at": ended_at, "row_version": 1,
            "is_expiry_suspended": true,
        })
    };
    let bookings = [
        booking(0, "Active", "2027-01-01T00:00:00Z", Value::Null),
        booking(1, "Active", "2027-02-01T00:00:00Z", Value::Null),
        booking(2, "Expired", "2027-01-01T00:00:00Z", json!(seconds_later(9))),
    ];
    insert("booking", &bookings).await;
    let nowhere = guid();
    for (query, found) in [
        ("ObjectNumber=12а", &[0][..]),
        ("ObjectNumber=12%20-%20б", &[1]),
        ("ObjectNumber=12", &[]),
        ("ObjectNumber=%20", &[0, 1, 2, 3, 4]),
        ("ProjectName=лесн", &[0, 1]),
        ("ProjectName=ЗВЕЗД", &[2]),
        ("ProjectName=лесная%20%20ОПУШКА", &[1]),
        ("ProjectName=«ле", &[0]),
        ("ProjectName=%25ле", &[]),
        ("ProjectName=%20%20", &[0, 1, 2, 3, 4]),
        ("ContractNumber=дду-17/б", &[]),
        ("ContractNumber=дду%20-%2017/Б", &[4]),
        (&format!("ParticipantUserId={person}"), &[0, 1]),
        (&format!("ParticipantUserId={agent}"), &[2]),
        (&format!("ParticipantUserId={nowhere}"), &[]),
        ("AmountFrom=300", &[2, 3, 4]),
        ("AmountTo=300", &[0, 1]),
        ("AmountFrom=200&AmountTo=500&Currency=RUB", &[1, 2]),
        ("Currency=USD", &[3]),
        ("BookingExpiresFrom=2027-01-01T00:00:00Z", &[0, 1]),
        ("BookingExpiresTo=2027-02-01T00:00:00Z", &[0]),
        ("BookingExpiresFrom=2027-01-01T00:00:01Z&BookingExpiresTo=2027-02-01T00:00:00Z", &[]),
        (&format!("UpdatedFrom={}", seconds_later(103)), &[3, 4]),
        (&format!("UpdatedTo={}", seconds_later(101)), &[0]),
        ("WithoutAgent=true", &[0, 3, 4]),
        ("WithoutAgent=false", &[0, 1, 2, 3, 4]),
        (&format!("WithoutAgent=true&ParticipantUserId={person}&ProjectName=лесн&AmountTo=200"), &[0]),
    ] {
        let expected: Vec<_> = found.iter().map(|at| crate::id_of(&deals[*at]["id"])).collect();
        let page = platform()
            .get(&format!("{PLATFORM}/deals?TenantId={developer}&PageSize=100&Sort=CreatedAt&{query}"))
            .await
            .expect(200);
        assert_eq!(deal_ids(&page["Items"]), expected, "{query}");
        assert_eq!(page["TotalCount"], expected.len(), "{query}");
        let own = manager(developer).get(&format!("{OWN}/deals?PageSize=100&Sort=CreatedAt&{query}")).await;
        assert_eq!(deal_ids(&own.expect(200)["Items"]), expected, "{query}");
        let file = platform().get(&format!("{PLATFORM}/exports/deals?TenantId={developer}&{query}")).await;
        assert_eq!(file.text.lines().count(), 1 + expected.len(), "the export has the same filters: {query}");
    }
    let other = create_developer().await;
    let foreign = manager(other).get(&format!("{OWN}/deals?ObjectNumber=12а")).await.expect(200);
    assert_eq!(list(&foreign["Items"]).len(), 0, "another company's deals are not found");
}

/// RULE-CRM-077, RULE-ALL-019: each invalid parameter is reported by its name.
#[tokio::test]
async fn invalid_search_is_refused() {
    let long = "ё".repeat(101);
    for (query, field, code) in [
        (format!("ObjectNumber={long}"), "/ObjectNumber", "too_long"),
        (format!("ProjectName={long}"), "/ProjectName", "too_long"),
        ("ProjectName=%20ле%20".to_owned(), "/ProjectName", "too_short"),
        (format!("ContractNumber={long}"), "/ContractNumber", "too_long"),
        ("ParticipantUserId=x".to_owned(), "/ParticipantUserId", "invalid_type"),
        ("AmountFrom=-1".to_owned(), "/AmountFrom", "out_of_range"),
        ("AmountFrom=5&AmountTo=5".to_owned(), "/AmountTo", "empty_range"),
        ("Currency=rub".to_owned(), "/Currency", "unknown_value"),
        ("UpdatedFrom=x".to_owned(), "/UpdatedFrom", "invalid_type"),
        (format!("UpdatedFrom={0}&UpdatedTo={0}", seconds_later(1)), "/UpdatedTo", "empty_range"),
        (
            format!("BookingExpiresFrom={0}&BookingExpiresTo={0}", seconds_later(1)),
            "/BookingExpiresTo",
            "empty_range",
        ),
        ("WithoutAgent=yes".to_owned(), "/WithoutAgent", "invalid_type"),
    ] {
        for path in ["deals", "exports/deals"] {
            let refused = platform().get(&format!("{PLATFORM}/{path}?{query}")).await;
            refused.expect_refusal("VALIDATION_FAILED", field, code);
        }
    }
}

/// RULE-CRM-078: the number of the contract is stored trimmed, shown in the contract data and in
/// the deal, and found by a search. It is null while the deal has none.
#[tokio::test]
async fn contract_number_is_stored_shown_and_found() {
    let deal = crate::create_deal().await;
    let contract = async || platform().get(&deal.path("/contract")).await.expect(200);
    assert_eq!(contract().await["ContractNumber"], Value::Null);
    let body = with(crate::contract(), "ContractNumber", " ДДУ-17/Б ");
    platform().put(&deal.path("/contract"), body.clone()).await.expect(200);
    assert_eq!(contract().await["ContractNumber"], "ДДУ-17/Б");
    assert_eq!(deal.read().await["ContractNumber"], "ДДУ-17/Б");
    let timeline = deal.timeline().await;
    let fields = json!(["ContractType", "PaymentMethod", "ContractNumber"]);
    assert_eq!(timeline.last().unwrap()["Payload"], json!({"ChangedFields": fields}));
    let search = format!("{PLATFORM}/deals?TenantId={}&ContractNumber=дду-17/б", deal.developer);
    assert_eq!(deal_ids(&platform().get(&search).await.expect(200)["Items"]), [deal.id]);
    platform().put(&deal.path("/contract"), crate::contract()).await.expect(200);
    assert_eq!(contract().await["ContractNumber"], Value::Null);
    assert!(deal_ids(&platform().get(&search).await.expect(200)["Items"]).is_empty());
    for (number, code) in [(" ", "too_short"), (&"x".repeat(65), "too_long"), ("a\0", "forbidden_character")]
    {
        let refused =
            platform().put(&deal.path("/contract"), with(body.clone(), "ContractNumber", number)).await;
        refused.expect_refusal("VALIDATION_FAILED", "/ContractNumber", code);
    }
}

/// RULE-CRM-078: without access to contract data a deal and an export show no contract number, and
/// a search for one is refused.
#[tokio::test]
async fn contract_number_is_hidden_from_readers_without_contract_data() {
    let deal = crate::create_deal().await;
    let body = with(crate::contract(), "ContractNumber", "ДДУ-18");
    platform().put(&deal.path("/contract"), body).await.expect(200);
    let of_company = |permissions: &[&str]| service().caller(&user_with(Some(deal.developer), permissions));
    for (by, family, is_shown) in [
        (care(), PLATFORM, false),
        (of_company(&[CARE, MANAGE_OWN]), PLATFORM, false),
        (of_company(&[READ_OWN]), OWN, false),
        (of_company(&[READ_OWN, MANAGE_OWN]), OWN, true),
        (platform(), PLATFORM, true),
    ] {
        let shown = if is_shown { json!("ДДУ-18") } else { Value::Null };
        assert_eq!(by.get(&format!("{family}/deals/{}", deal.id)).await.expect(200)["ContractNumber"], shown);
        let file = by.get(&format!("{family}/exports/deals?TenantId={}", deal.developer)).await;
        assert_eq!(file.status, 200);
        assert_eq!(
            (file.text.contains(&deal.id.to_string()), file.text.contains("ДДУ-18")),
            (true, is_shown)
        );
        for path in ["deals", "exports/deals"] {
            let found = by.get(&format!("{family}/{path}?ContractNumber=ДДУ-18")).await;
            if is_shown {
                assert_eq!(found.status, 200);
            } else {
                found.expect_refusal("VALIDATION_FAILED", "/ContractNumber", "not_permitted");
            }
        }
    }
}
