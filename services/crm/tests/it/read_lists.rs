//! Lists of deals.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::rows::{deal_ids, deal_row, insert, insert_deals, seconds_later};
use crate::{
    OWN, PLATFORM, READ_OWN, care, create_developer, create_object, guid, list, platform, service, steps,
    user_with, with,
};

/// Returns a client that reads the deals of a developer.
fn reader(developer: Uuid) -> Client {
    service().caller(&user_with(Some(developer), &[READ_OWN]))
}

async fn listed(query: &str) -> Vec<Uuid> {
    let page = platform().get(&format!("{PLATFORM}/deals?PageSize=100&{query}")).await.expect(200);
    assert_eq!(page["TotalCount"], list(&page["Items"]).len());
    deal_ids(&page["Items"])
}

fn sorted(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    ids.sort_unstable();
    ids
}

/// RULE-CRM-045: all filters are optional, and a deal must match all of them.
#[tokio::test]
async fn deals_are_filtered() {
    let developer = create_developer().await;
    let steps = steps(developer).await;
    let (object, client, agent) = (guid(), guid(), guid());
    let mut deals: Vec<Value> = steps
        .iter()
        .zip(0..)
        .map(|(step, at)| with(deal_row(step), "created_at", seconds_later(at * 10)))
        .collect();
    deals[0]["property_object_id"] = json!(object);
    deals[1]["property_object_id"] = json!(object);
    deals[1]["client_user_id"] = json!(client);
    deals[2]["client_user_id"] = json!(client);
    deals[2]["agent_user_id"] = json!(agent);
    let ids = insert_deals(&deals).await;
    let of = |at: &[usize]| sorted(at.iter().map(|at| ids[*at]).collect());
    let all: Vec<usize> = (0..ids.len()).collect();
    let step = &steps[3]["Id"];
    for (query, found) in [
        (String::new(), all.as_slice()),
        ("&Statuses=Application".to_owned(), &[0, 1]),
        ("&Statuses=Sale,Cancelled".to_owned(), &[3, 4, 6]),
        ("&Statuses=Application,Booking,Sale,Cancelled,Completed".to_owned(), &all),
        (format!("&PropertyObjectId={object}"), &[0, 1]),
        (format!("&ClientUserId={client}"), &[1, 2]),
        (format!("&AgentUserId={agent}"), &[2]),
        (format!("&ClientUserId={client}&PropertyObjectId={object}"), &[1]),
        (format!("&ClientUserId={client}&Statuses=Sale"), &[]),
        (format!("&StepId={}", step.as_str().unwrap()), &[3]),
        (format!("&CreatedFrom={}", seconds_later(50)), &[5, 6]),
        (format!("&CreatedTo={}", seconds_later(50)), &[0, 1, 2, 3, 4]),
        (format!("&CreatedFrom={}&CreatedTo={}", seconds_later(10), seconds_later(30)), &[1, 2]),
        (format!("&CreatedFrom={}&CreatedTo={}", "2026-01-01T03:00:10%2B03:00", seconds_later(11)), &[1]),
    ] {
        assert_eq!(sorted(listed(&format!("TenantId={developer}{query}")).await), of(found), "{query}");
    }
    // Without `TenantId` the list has the deals of every developer.
    assert_eq!(listed(&format!("StepId={}", step.as_str().unwrap())).await, [ids[3]]);
    assert_eq!(sorted(listed(&format!("PropertyObjectId={object}")).await), of(&[0, 1]));
    assert!(listed(&format!("TenantId={}", guid())).await.is_empty());
    assert!(listed(&format!("StepId={}", guid())).await.is_empty());
}

/// RULE-CRM-045, RULE-ALL-021: deals with equal sort keys are sorted by id. Pages have neither gaps
/// nor overlaps.
#[tokio::test]
async fn deals_are_sorted_and_paged() {
    let developer = create_developer().await;
    let step = &steps(developer).await[0];
    let deals: Vec<Value> = (0..7)
        .map(|at: usize| {
            let deal = with(deal_row(step), "created_at", seconds_later(at / 3));
            with(deal, "updated_at", seconds_later(60 - at / 2))
        })
        .collect();
    insert_deals(&deals).await;
    for (sort, key, descending) in [
        ("", "created_at", true),
        ("&Sort=-CreatedAt", "created_at", true),
        ("&Sort=CreatedAt", "created_at", false),
        ("&Sort=-UpdatedAt", "updated_at", true),
        ("&Sort=UpdatedAt", "updated_at", false),
    ] {
        let mut expected: Vec<(&str, Uuid)> =
            deals.iter().map(|deal| (deal[key].as_str().unwrap(), crate::id_of(&deal["id"]))).collect();
        expected.sort_unstable_by(|(a, a_id), (b, b_id)| {
            let by_time = if descending { b.cmp(a) } else { a.cmp(b) };
            by_time.then(a_id.cmp(b_id))
        });
        let expected: Vec<Uuid> = expected.into_iter().map(|(_, id)| id).collect();
        let mut met = Vec::new();
        for page in 1..=4 {
            let path = format!("{PLATFORM}/deals?TenantId={developer}&Page={page}&PageSize=2{sort}");
            let page = platform().get(&path).await.expect(200);
            assert_eq!((&page["PageSize"], &page["TotalCount"]), (&json!(2), &json!(7)));
            met.extend(deal_ids(&page["Items"]));
        }
        assert_eq!(met, expected, "{sort}");
    }
}

/// RULE-CRM-045: `TotalCount` is exact below 10,000, and 10,000 means 10,000 or more. Pages beyond
/// the first 10,000 deals are refused.
#[tokio::test]
async fn count_is_exact_up_to_10000() {
    let developer = create_developer().await;
    let step = &steps(developer).await[0];
    let of = |count: usize| (0..count).map(|_| deal_row(step)).collect::<Vec<_>>();
    let total = async || {
        let page = reader(developer).get(&format!("{OWN}/deals?Page=100&PageSize=100")).await.expect(200);
        (page["TotalCount"].as_i64().unwrap(), list(&page["Items"]).len())
    };
    insert_deals(&of(9_999)).await;
    assert_eq!(total().await, (9_999, 99));
    insert_deals(&of(1)).await;
    assert_eq!(total().await, (10_000, 100));
    insert_deals(&of(2)).await;
    assert_eq!(total().await, (10_000, 100));
    for query in ["Page=101&PageSize=100", "Page=501", "Page=10001&PageSize=1"] {
        let refused = reader(developer).get(&format!("{OWN}/deals?{query}")).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Page", "out_of_range");
    }
}

/// RULE-CRM-045: on company routes a list has the deals of the token's company, with any query.
#[tokio::test]
async fn company_route_lists_the_own_deals_only() {
    let (developer, other) = (create_developer().await, create_developer().await);
    let own = insert_deals(&[deal_row(&steps(developer).await[0])]).await;
    let foreign = insert_deals(&[deal_row(&steps(other).await[0])]).await;
    let page = reader(developer).get(&format!("{OWN}/deals?TenantId={other}")).await.expect(200);
    assert_eq!(deal_ids(&page["Items"]), own);
    let step = steps(other).await[0]["Id"].clone();
    let page =
        reader(developer).get(&format!("{OWN}/deals?StepId={}", step.as_str().unwrap())).await.expect(200);
    assert_eq!(page["TotalCount"], 0, "a step of another company matches nothing");
    let page = care().get(&format!("{PLATFORM}/deals?TenantId={other}")).await.expect(200);
    assert_eq!(deal_ids(&page["Items"]), foreign, "the care service reads every company's deals");
}

/// RULE-CRM-046: names come from the copies and may be null. The expiry time is that of the Active
/// booking.
#[tokio::test]
async fn summary_shows_names_and_the_active_booking() {
    let developer = create_developer().await;
    let object = create_object(developer).await;
    let step = &steps(developer).await[0];
    let known = with(deal_row(step), "property_object_id", json!(object));
    let unknown = with(deal_row(step), "created_at", seconds_later(1));
    let booking = |status: &str, expires_at: &str, ended_at: Value| {
        json!({
            "id": guid(), "deal_id": known["id"], "property_object_id": object, "status": status, "expires_at": expires_at,
            "created_at": seconds_later(0), "ended_at": ended_at, "row_version": 1, "is_expiry_suspended": false,
        })
    };
    insert_deals(&[known.clone(), unknown.clone()]).await;
    insert("booking", &[booking("Expired", "2027-01-01T00:00:00Z", json!(seconds_later(1)))]).await;
    insert("booking", &[booking("Active", "2099-01-01T00:00:00Z", Value::Null)]).await;
    let page = platform().get(&format!("{PLATFORM}/deals?TenantId={developer}")).await.expect(200);
    let items = list(&page["Items"]);
    let expected = |deal: &Value, names: [Value; 3], expires_at: Value| {
        json!({
            "DealId": deal["id"], "Status": "Application", "StepId": step["Id"], "StepGroup": "Application",
            "UpdatedAt": deal["updated_at"], "RowVersion": 1, "TenantId": developer,
            "PropertyObjectId": deal["property_object_id"], "ProjectName": names[0], "BuildingName": names[1],
            "Number": names[2], "ClientUserId": deal["client_user_id"], "AgentUserId": null,
            "Amount": {"AmountMinor": 100, "Currency": "RUB"}, "StepEnteredAt": deal["step_entered_at"],
            "BookingExpiresAt": expires_at, "CreatedAt": deal["created_at"],
        })
    };
    assert_eq!(items[0], expected(&unknown, [Value::Null, Value::Null, Value::Null], Value::Null));
    let names = ["Лесной", "1", "12"].map(|name| json!(name));
    assert_eq!(items[1], expected(&known, names, json!("2099-01-01T00:00:00Z")));
}

/// RULE-CRM-045, RULE-ALL-019: each invalid parameter is reported by its name, and all of them
/// together.
#[tokio::test]
async fn invalid_list_query_is_refused() {
    let empty = Uuid::nil();
    for (query, field, code) in [
        (format!("TenantId={empty}"), "/TenantId", "empty_id"),
        (format!("StepId={empty}"), "/StepId", "empty_id"),
        (format!("PropertyObjectId={empty}"), "/PropertyObjectId", "empty_id"),
        (format!("ClientUserId={empty}"), "/ClientUserId", "empty_id"),
        (format!("AgentUserId={empty}"), "/AgentUserId", "empty_id"),
        ("TenantId=x".to_owned(), "/TenantId", "invalid_type"),
        ("Statuses=".to_owned(), "/Statuses", "unknown_value"),
        ("Statuses=Sale,".to_owned(), "/Statuses", "unknown_value"),
        ("Statuses=sale".to_owned(), "/Statuses", "unknown_value"),
        ("Statuses=Contract".to_owned(), "/Statuses", "unknown_value"),
        ("Sort=Amount".to_owned(), "/Sort", "unknown_value"),
        ("Sort=--CreatedAt".to_owned(), "/Sort", "unknown_value"),
        ("PageSize=0".to_owned(), "/PageSize", "out_of_range"),
        ("PageSize=101".to_owned(), "/PageSize", "out_of_range"),
        ("Page=0".to_owned(), "/Page", "out_of_range"),
        ("CreatedFrom=2026-01-01".to_owned(), "/CreatedFrom", "invalid_type"),
        ("CreatedFrom=0000-01-01T00:00:00%2B01:00".to_owned(), "/CreatedFrom", "invalid_type"),
        ("CreatedTo=9999-12-31T23:59:59-01:00".to_owned(), "/CreatedTo", "invalid_type"),
        (format!("CreatedFrom={0}&CreatedTo={0}", seconds_later(5)), "/CreatedTo", "empty_range"),
        (
            format!("CreatedFrom={}&CreatedTo={}", seconds_later(6), seconds_later(5)),
            "/CreatedTo",
            "empty_range",
        ),
        (format!("StepId={0}&StepId={0}", guid()), "/StepId", "duplicate"),
    ] {
        platform().get(&format!("{PLATFORM}/deals?{query}")).await.expect_refusal(
            "VALIDATION_FAILED",
            field,
            code,
        );
        // Company routes ignore `TenantId`.
        if !query.starts_with("TenantId") {
            let own = reader(guid()).get(&format!("{OWN}/deals?{query}")).await;
            own.expect_refusal("VALIDATION_FAILED", field, code);
        }
    }
    let query = "CreatedFrom=0000-01-01T00:00:00Z&CreatedTo=9999-12-31T23:59:59Z&PageSize=1";
    platform().get(&format!("{PLATFORM}/deals?{query}")).await.expect(200);
    let response = platform().get(&format!("{PLATFORM}/deals?PageSize=0&Statuses=x&StepId=x&Sort=x")).await;
    assert_eq!(
        list(&response.expect_problem(400, "VALIDATION_FAILED")["errors"]).len(),
        4,
        "all errors together"
    );
}
