//! Lists of accruals, payouts, requests and deals.

use serde_json::{Value, json};
use testkit::client::Client;
use uuid::Uuid;

use crate::rows::{LONG_AGO, after, ids_of, insert, insert_accruals, payout, request, sold};
use crate::{
    DEVELOPER_UPSERTED, MY, PLATFORM, cabinet, commissions, deliver, developer, each, guid, id_of, list,
    money, payouts, rub, service, with,
};

/// Returns the number by which a row is sorted.
type Key = fn(&Value) -> i64;

async fn listed(by: &Client, path: &str) -> Vec<Uuid> {
    let page = by.get(path).await.expect(200);
    assert_eq!(page["TotalCount"], list(&page["Items"]).len(), "{path}");
    ids_of(&page["Items"])
}

fn sorted(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    ids.sort_unstable();
    ids
}

fn ids(rows: &[Value]) -> Vec<Uuid> {
    rows.iter().map(|row| id_of(&row["id"])).collect()
}

/// Returns the ids in the order of `key`. Ties are ordered by id in the same direction.
fn in_order(rows: &[Value], key: impl Fn(&Value) -> i64, descending: bool) -> Vec<Uuid> {
    let mut keyed: Vec<(i64, Uuid)> = rows.iter().map(|row| (key(row), id_of(&row["id"]))).collect();
    keyed.sort_unstable();
    if descending {
        keyed.reverse();
    }
    keyed.into_iter().map(|(_, id)| id).collect()
}

fn micros(at: &Value) -> i64 {
    i64::try_from(crate::moment(at.as_str().unwrap()).unix_timestamp_nanos() / 1_000).unwrap()
}

/// Reads a list of `count` items in pages of two.
async fn pages(by: &Client, path: &str, count: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for page in 1..=count.div_ceil(2) {
        let page = by.get(&format!("{path}&Page={page}&PageSize=2")).await.expect(200);
        assert_eq!((&page["PageSize"], &page["TotalCount"]), (&json!(2), &json!(count)));
        ids.extend(ids_of(&page["Items"]));
    }
    ids
}

/// RULE-AGT-052: an accrual has every field for agent and platform, and nothing about the decider.
#[tokio::test]
async fn accrual_has_every_field() {
    let agent = guid();
    let tenant = guid();
    deliver(service(), DEVELOPER_UPSERTED, &developer(tenant, "Ромашка")).await;
    let rejected = |_, row: Value| {
        let row = with(with(row, "status", "Rejected"), "developer_company_id", tenant.to_string());
        with(with(row, "decided_by_user_id", guid().to_string()), "decision_comment", "дважды")
    };
    let row = insert_accruals(agent, rejected, 1).await.remove(0);
    let expected = json!({
        "Id": row["id"], "AgentUserId": agent, "DealId": row["deal_id"], "PropertyObjectId": row["property_object_id"],
        "DeveloperCompanyId": tenant, "DeveloperName": "Ромашка", "Kind": "Base", "BaseAmount": rub(1_000),
        "RateBps": 1_000, "Amount": rub(100), "Status": "Rejected", "AwaitsRelease": false,
        "PayoutId": null, "ReversesAccrualId": null,
        "AdjustsAccrualId": null, "EarnedAt": LONG_AGO, "ApprovedAt": null, "PaidAt": null, "CreatedAt": LONG_AGO,
        "UpdatedAt": LONG_AGO, "Version": 1, "AdjustmentRequest": null,
    });
    for (by, path) in [
        (cabinet(agent), format!("{MY}/commission-accruals")),
        (commissions(), format!("{PLATFORM}/commission-accruals?AgentUserId={agent}")),
    ] {
        let response = by.get(&path).await;
        assert_eq!(response.header("cache-control"), "no-store");
        let members: Vec<_> = expected.as_object().unwrap().keys().cloned().collect();
        let page = response.expect(200);
        assert_eq!(page, json!({"Items": [expected], "Page": 1, "PageSize": 20, "TotalCount": 1}));
        assert_eq!(page["Items"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), members);
    }
}

/// RULE-AGT-052: an accrual has its latest request in any status.
/// An unknown developer's name is null.
#[tokio::test]
async fn accrual_has_its_latest_request() {
    let agent = guid();
    let rows = insert_accruals(agent, |_, row| row, 3).await;
    let about = |at: usize, created: usize| {
        with(request(agent, id_of(&rows[at]["id"])), "created_at", after(created))
    };
    let rejected = |row: Value| with(with(row, "status", "Rejected"), "decided_at", after(9));
    let first = rejected(with(about(0, 1), "requested_amount", 50));
    let requests = [first, about(0, 2), rejected(about(1, 3)), rejected(about(1, 4))];
    insert("adjustment_request", &requests).await;
    let page = cabinet(agent).get(&format!("{MY}/commission-accruals")).await.expect(200);
    for item in list(&page["Items"]) {
        let at = rows.iter().position(|row| row["id"] == item["Id"]).unwrap();
        assert_eq!(item["DeveloperName"], Value::Null);
        match at {
            0 => {
                let expected = json!({
                    "Id": requests[1]["id"], "AccrualId": item["Id"], "AgentUserId": agent, "Reason": "Other",
                    "RequestedAmount": rub(7), "Comment": "мало", "Status": "Open", "GrantedAmount": null,
                    "DecisionComment": null, "ResultAccrualId": null, "CreatedAt": after(2), "DecidedAt": null,
                    "Version": 1,
                });
                assert_eq!(item["AdjustmentRequest"], expected);
            }
            1 => assert_eq!(item["AdjustmentRequest"]["Id"], requests[3]["id"]),
            _ => assert_eq!(item["AdjustmentRequest"], Value::Null),
        }
    }
}

/// RULE-AGT-053: accruals match every given filter.
#[tokio::test]
async fn accruals_are_filtered() {
    let agent = guid();
    let (run, scheduled) = payout(agent);
    insert("payout_run", &[run]).await;
    insert("payout", std::slice::from_ref(&scheduled)).await;
    let tenant = guid();
    let change = |at: usize, row: Value| {
        let row = with(row, "created_at", after(at * 10));
        match at {
            0 => with(row, "developer_company_id", tenant.to_string()),
            1 => with(with(row, "status", "Approved"), "approved_at", LONG_AGO),
            2 => with(
                with(with(row, "status", "Approved"), "approved_at", LONG_AGO),
                "payout_id",
                scheduled["id"].clone(),
            ),
            3 => with(with(row, "status", "Rejected"), "kind", "Bonus"),
            4 => with(with(row, "status", "Reversed"), "kind", "Correction"),
            _ => with(row, "currency", "USD"),
        }
    };
    let rows = insert_accruals(agent, change, 6).await;
    let other = insert_accruals(agent, |_, row| with(row, "created_at", after(100)), 1).await;
    let all: Vec<Uuid> = ids(&[rows.clone(), other.clone()].concat());
    let of = |at: &[usize]| sorted(at.iter().map(|at| all[*at]).collect());
    let payout_id = scheduled["id"].as_str().unwrap();
    let deal = other[0]["deal_id"].as_str().unwrap();
    for (query, found) in [
        (String::new(), &[0, 1, 2, 3, 4, 5, 6][..]),
        ("Status=Pending".to_owned(), &[0, 5, 6]),
        ("Status=Approved,Rejected".to_owned(), &[1, 2, 3]),
        ("Status=Pending,Approved,Paid,Rejected,Reversed".to_owned(), &[0, 1, 2, 3, 4, 5, 6]),
        ("Status=Paid".to_owned(), &[]),
        ("Kind=Bonus".to_owned(), &[3]),
        ("Kind=Bonus,Correction,Reversal".to_owned(), &[3, 4]),
        ("Kind=Base&Status=Pending&Currency=USD".to_owned(), &[5]),
        (format!("DealId={deal}"), &[6]),
        (format!("DeveloperCompanyId={tenant}"), &[0]),
        (format!("PayoutId={payout_id}"), &[2]),
        (format!("PayoutId={payout_id}&Status=Pending"), &[]),
        ("Currency=RUB".to_owned(), &[0, 1, 2, 3, 4, 6]),
        ("Currency=XTS".to_owned(), &[]),
        (format!("From={}", after(50)), &[5, 6]),
        (format!("To={}", after(20)), &[0, 1]),
        (format!("From={}&To={}", after(10), after(30)), &[1, 2]),
        (format!("DealId={}", guid()), &[]),
    ] {
        let own = format!("{MY}/commission-accruals?PageSize=100&{query}");
        assert_eq!(sorted(listed(&cabinet(agent), &own).await), of(found), "{query}");
        let of_platform = format!("{PLATFORM}/commission-accruals?PageSize=100&AgentUserId={agent}&{query}");
        assert_eq!(sorted(listed(&commissions(), &of_platform).await), of(found), "{query}");
        // `AgentUserId` is ignored: callers read only their own data.
        let foreign = format!("{MY}/commission-accruals?AgentUserId={agent}&{query}");
        assert!(listed(&cabinet(guid()), &foreign).await.is_empty());
    }
    // Without `AgentUserId` the list has the accruals of all agents.
    let by_deal = format!("{PLATFORM}/commission-accruals?DealId={deal}");
    assert_eq!(listed(&commissions(), &by_deal).await, ids(&other));
}

/// RULE-AGT-053: accruals are sorted by every key in both directions. Ties are sorted by id in the
/// same direction.
///
/// `Amount` compares minor units across currencies.
#[tokio::test]
async fn accruals_are_sorted_and_paged() {
    let agent = guid();
    let change = |at: usize, row: Value| {
        let row = with(with(row, "created_at", after(at / 3)), "earned_at", after(60 - at / 2));
        let row = with(row, "amount", [5, -5, 100, 5, 0, 100, 7][at]);
        with(row, "currency", ["RUB", "USD"][at % 2])
    };
    let rows = insert_accruals(agent, change, 7).await;
    let created: Key = |row| micros(&row["created_at"]);
    let earned: Key = |row| micros(&row["earned_at"]);
    let amount: Key = |row| row["amount"].as_i64().unwrap();
    for (sort, key, descending) in [
        ("", created, true),
        ("&Sort=-CreatedAt", created, true),
        ("&Sort=CreatedAt", created, false),
        ("&Sort=-EarnedAt", earned, true),
        ("&Sort=EarnedAt", earned, false),
        ("&Sort=-Amount", amount, true),
        ("&Sort=Amount", amount, false),
    ] {
        let expected = in_order(&rows, key, descending);
        // The service ignores the unknown parameter `x`.
        let own = format!("{MY}/commission-accruals?x=1{sort}");
        assert_eq!(pages(&cabinet(agent), &own, 7).await, expected, "{sort}");
        let of_platform = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}{sort}");
        assert_eq!(pages(&commissions(), &of_platform, 7).await, expected, "{sort}");
    }
}

/// RULE-AGT-053: payouts match every given filter, and have every field for agent and platform.
#[tokio::test]
async fn payouts_are_filtered() {
    let agent = guid();
    let (runs, rows): (Vec<_>, Vec<_>) = (0..5)
        .map(|at: usize| {
            let (run, row) = payout(agent);
            let row = with(row, "created_at", after(at * 10));
            let row = match at {
                0 => with(row, "currency", "USD"),
                1 => with(row, "status", "InTransit"),
                2 => with(with(row, "status", "Paid"), "paid_at", LONG_AGO),
                3 => with(with(row, "status", "Failed"), "failure_reason", "закрыт"),
                _ => with(row, "status", "Cancelled"),
            };
            (run, row)
        })
        .unzip();
    insert("payout_run", &runs).await;
    insert("payout", &rows).await;
    let all = ids(&rows);
    let of = |at: &[usize]| sorted(at.iter().map(|at| all[*at]).collect());
    for (query, found) in [
        (String::new(), &[0, 1, 2, 3, 4][..]),
        ("Status=Scheduled".to_owned(), &[0]),
        ("Status=InTransit,Paid,Failed".to_owned(), &[1, 2, 3]),
        ("Status=Cancelled&Currency=RUB".to_owned(), &[4]),
        ("Currency=USD".to_owned(), &[0]),
        ("Currency=EUR".to_owned(), &[]),
        (format!("From={}", after(30)), &[3, 4]),
        (format!("To={}", after(30)), &[0, 1, 2]),
        (format!("From={}&To={}&Status=Paid", after(10), after(30)), &[2]),
    ] {
        let own = format!("{MY}/payouts?PageSize=100&{query}");
        assert_eq!(sorted(listed(&cabinet(agent), &own).await), of(found), "{query}");
        let of_platform = format!("{PLATFORM}/payouts?PageSize=100&AgentUserId={agent}&{query}");
        assert_eq!(sorted(listed(&payouts(), &of_platform).await), of(found), "{query}");
        assert!(
            listed(&cabinet(guid()), &format!("{MY}/payouts?AgentUserId={agent}&{query}")).await.is_empty()
        );
    }
    let run = rows[2]["run_id"].as_str().unwrap();
    assert_eq!(listed(&payouts(), &format!("{PLATFORM}/payouts?RunId={run}")).await, [all[2]]);
    let other = rows[1]["run_id"].as_str().unwrap();
    assert!(listed(&payouts(), &format!("{PLATFORM}/payouts?RunId={other}&Status=Paid")).await.is_empty());
    let shown = json!({
        "Id": all[3], "RunId": rows[3]["run_id"], "AgentUserId": agent, "PeriodFrom": "2025-12-01T00:00:00Z",
        "PeriodTo": LONG_AGO, "Gross": rub(100), "WithholdingBps": 0, "Withheld": rub(0), "Net": rub(100),
        "AccrualsCount": 1, "Status": "Failed", "Reference": null, "FailureReason": "закрыт",
        "CreatedAt": after(30), "SentAt": null, "PaidAt": null, "UpdatedAt": LONG_AGO, "Version": 1,
    });
    let page = cabinet(agent).get(&format!("{MY}/payouts?Status=Failed")).await;
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.expect(200), json!({"Items": [shown], "Page": 1, "PageSize": 20, "TotalCount": 1}));
}

/// RULE-AGT-053: payouts are sorted by every key in both directions. Ties are sorted by id in the
/// same direction.
#[tokio::test]
async fn payouts_are_sorted_and_paged() {
    let agent = guid();
    let (runs, rows): (Vec<_>, Vec<_>) = (0..7)
        .map(|at: usize| {
            let (run, row) = payout(agent);
            let row = with(with(row, "created_at", after(at / 3)), "period_to", after(60 - at / 2));
            let net: i64 = [5, 1, 100, 5, 0, 100, 7][at];
            let row = with(with(row, "net", net), "withheld", 100 - net);
            (run, with(row, "currency", ["RUB", "USD"][at % 2]))
        })
        .unzip();
    insert("payout_run", &runs).await;
    insert("payout", &rows).await;
    let created: Key = |row| micros(&row["created_at"]);
    let period: Key = |row| micros(&row["period_to"]);
    let net: Key = |row| row["net"].as_i64().unwrap();
    for (sort, key, descending) in [
        ("", created, true),
        ("&Sort=-CreatedAt", created, true),
        ("&Sort=CreatedAt", created, false),
        ("&Sort=-PeriodTo", period, true),
        ("&Sort=PeriodTo", period, false),
        ("&Sort=-Net", net, true),
        ("&Sort=Net", net, false),
    ] {
        let expected = in_order(&rows, key, descending);
        assert_eq!(pages(&cabinet(agent), &format!("{MY}/payouts?x=1{sort}"), 7).await, expected, "{sort}");
        let of_platform = format!("{PLATFORM}/payouts?AgentUserId={agent}{sort}");
        assert_eq!(pages(&payouts(), &of_platform, 7).await, expected, "{sort}");
    }
}

/// RULE-AGT-053: requests are sorted in both directions, oldest first by default, ties by id.
#[tokio::test]
async fn requests_are_sorted_and_paged() {
    let agent = guid();
    let accruals = insert_accruals(agent, |_, row| row, 7).await;
    let row_of = |(at, accrual): (usize, &Value)| {
        with(request(agent, id_of(&accrual["id"])), "created_at", after(at / 3))
    };
    let rows: Vec<_> = accruals.iter().enumerate().map(row_of).collect();
    insert("adjustment_request", &rows).await;
    let created: Key = |row| micros(&row["created_at"]);
    for (sort, descending) in [("", false), ("&Sort=CreatedAt", false), ("&Sort=-CreatedAt", true)] {
        let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={agent}{sort}");
        assert_eq!(pages(&commissions(), &path, 7).await, in_order(&rows, created, descending), "{sort}");
    }
}

/// RULE-AGT-053: unrated and held deals are sorted in both directions, ties by id.
#[tokio::test]
async fn unrated_and_held_deals_are_sorted_and_paged() {
    let (agent, by) = (guid(), commissions());
    let row = |at: usize| {
        let row = with(sold(agent, "Sale", &after(at / 3)), "is_unrated", true);
        with(with(row, "known_row_version", 2), "held_since", after(60 - at / 2))
    };
    let rows: Vec<_> = (0..7).map(row).collect();
    insert("deal", &rows).await;
    let found = async |path: &str| -> Vec<Uuid> {
        let mut ids = Vec::new();
        for page in 1..=4 {
            let page = by.get(&format!("{path}&Page={page}&PageSize=2")).await.expect(200);
            assert_eq!(page["TotalCount"], 7, "{path}");
            ids.extend(each(list(&page["Items"]), "DealId").into_iter().map(id_of));
        }
        ids
    };
    let sold_at: Key = |row| micros(&row["sold_at"]);
    let since: Key = |row| micros(&row["held_since"]);
    for (resource, name, key) in [("unrated-deals", "SoldAt", sold_at), ("held-deals", "Since", since)] {
        let path = format!("{PLATFORM}/{resource}?AgentUserId={agent}");
        assert_eq!(found(&path).await, in_order(&rows, key, false), "{resource}");
        for (sort, descending) in [(name.to_owned(), false), (format!("-{name}"), true)] {
            let sorted = found(&format!("{path}&Sort={sort}")).await;
            assert_eq!(sorted, in_order(&rows, key, descending), "{resource} by {sort}");
        }
        for query in ["Sort=CreatedAt", "Sort=", "AgentUserId=x", "AgentUserId=", "Page=501", "PageSize=0"] {
            let refused = by.get(&format!("{PLATFORM}/{resource}?{query}")).await;
            refused.expect_problem(400, "VALIDATION_FAILED");
        }
    }
}

/// RULE-AGT-053: `TotalCount` is exact up to 10,000. To reach older rows, the caller narrows the
/// period.
#[tokio::test]
async fn total_count_is_exact_up_to_ten_thousand() {
    let agent = guid();
    let by = cabinet(agent);
    let total = async || {
        let page = by.get(&format!("{MY}/commission-accruals?Page=100&PageSize=100")).await.expect(200);
        (page["TotalCount"].as_i64().unwrap(), list(&page["Items"]).len())
    };
    insert_accruals(agent, |_, row| row, 9_999).await;
    assert_eq!(total().await, (9_999, 99));
    insert_accruals(agent, |_, row| row, 1).await;
    assert_eq!(total().await, (10_000, 100));
    insert_accruals(agent, |_, row| with(row, "created_at", after(5)), 1).await;
    assert_eq!(total().await, (10_000, 100));
    let narrowed = by.get(&format!("{MY}/commission-accruals?From={}", after(5))).await.expect(200);
    assert_eq!(narrowed["TotalCount"], 1);
}

/// RULE-AGT-053, RULE-ALL-021: invalid parameters are refused together, and the response repeats no
/// value.
#[tokio::test]
async fn invalid_list_parameters_are_refused() {
    let by =
        service().caller(&crate::claims_of(guid(), &[crate::CABINET, crate::COMMISSIONS, crate::PAYOUTS]));
    let common = [
        "Status=pending",
        "Status=",
        "Status=Open",
        "Currency=rub",
        "Currency=RU",
        "Currency=RUBB",
        "Currency=",
        "Currency=R%C3%9CB",
        "From=2026-01-01",
        "To=",
        "From=2026-01-02T00:00:00Z&To=2026-01-02T00:00:00Z",
        "From=2026-01-03T00:00:00Z&To=2026-01-02T00:00:00Z",
        "Sort=Id",
        "Sort=--CreatedAt",
        "Sort=createdAt",
        "Sort=",
        "Page=0",
        "PageSize=0",
        "PageSize=101",
        "Page=101&PageSize=100",
        "Page=501",
        "Page=x",
        "Currency=RUB&Currency=USD",
    ];
    let accruals = [
        "Kind=base",
        "Kind=Base,",
        "Kind=Base,,Bonus",
        "Status=Scheduled",
        "DealId=x",
        "DealId=",
        "DealId=00000000-0000-0000-0000-000000000000",
        "PayoutId=00000000-0000-0000-0000-000000000000",
        "DeveloperCompanyId=00000000-0000-0000-0000-000000000000",
        "Sort=Net",
    ];
    let payouts = ["Status=Pending", "Sort=Amount", "Sort=EarnedAt"];
    let nil = "AgentUserId=00000000-0000-0000-0000-000000000000";
    for (path, more, is_platform) in [
        (format!("{MY}/commission-accruals"), &accruals[..], false),
        (format!("{PLATFORM}/commission-accruals"), &accruals[..], true),
        (format!("{MY}/payouts"), &payouts[..], false),
        (format!("{PLATFORM}/payouts"), &payouts[..], true),
    ] {
        for query in common.iter().chain(more) {
            by.get(&format!("{path}?{query}")).await.expect_problem(400, "VALIDATION_FAILED");
        }
        // Own lists ignore `AgentUserId`.
        let of_nil = by.get(&format!("{path}?{nil}")).await;
        assert_eq!(of_nil.status, if is_platform { 400 } else { 200 }, "{path}");
        let several = by.get(&format!("{path}?Status=marked&Currency=marked&Sort=marked&Page=marked")).await;
        assert!(!several.text.contains("marked"), "{}", several.text);
        let errors = several.expect(400);
        let fields = each(list(&errors["errors"]), "field");
        for field in ["/Currency", "/Sort", "/Page"] {
            assert!(fields.contains(&&json!(field)), "{errors}");
        }
        by.get(&format!("{path}?Page=500&Other=1")).await.expect(200);
        by.get(&format!("{path}?Page=100&PageSize=100")).await.expect(200);
    }
    let no_run = format!("{PLATFORM}/payouts?RunId=00000000-0000-0000-0000-000000000000");
    by.get(&no_run).await.expect_problem(400, "VALIDATION_FAILED");
}

/// RULE-AGT-052: amounts in a list with several currencies keep their own currency.
#[tokio::test]
async fn amounts_keep_their_own_currency() {
    let agent = guid();
    let change = |at: usize, row: Value| with(with(row, "currency", ["RUB", "EUR"][at]), "amount", -5);
    insert_accruals(agent, change, 2).await;
    let page = cabinet(agent).get(&format!("{MY}/commission-accruals?Currency=EUR")).await.expect(200);
    assert_eq!(page["Items"][0]["Amount"], money(-5, "EUR"));
    assert_eq!(page["Items"][0]["BaseAmount"], money(1_000, "EUR"));
}
