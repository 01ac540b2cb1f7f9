//! Rates of sales, rate cards and agencies.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;
use uuid::Uuid;

use crate::{Deal, PLATFORM, accruals_of, commissions, list, rub, with};

const SOLD: &str = "2026-05-01T10:00:00Z";

fn rates_path() -> String {
    format!("{PLATFORM}/commission-rates")
}

/// Creates the rates of a card: one rate, which is valid from 2000 on.
fn always(rate_bps: i64) -> Value {
    json!([{"RateBps": rate_bps, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}])
}

async fn put(card: &Value) -> Response {
    commissions().put(&rates_path(), card.clone()).await
}

/// Begins a sale at `at`, and returns the rate of its Base.
async fn rate_of(agent: Uuid, developer: Uuid, at: &str) -> Option<i64> {
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.move_to("Sale", at).await;
    let accruals = accruals_of(deal.id).await;
    accruals.first().map(|base| base["RateBps"].as_i64().unwrap())
}

/// RULE-AGT-008: the nearest card with a rate decides.
///
/// The order is agent and developer, agent, agency and developer, agency, developer.
#[tokio::test]
async fn nearest_card_decides_the_rate() {
    let (agent, developer, agency) = (guid(), guid(), guid());
    let path = format!("{PLATFORM}/agents/{agent}");
    commissions().put(&path, json!({"AgencyCompanyId": agency})).await.expect(200);
    assert_eq!(rate_of(agent, developer, SOLD).await, None);
    for (card, rate) in [
        (json!({"DeveloperCompanyId": developer}), 1),
        (json!({"AgencyCompanyId": agency}), 2),
        (json!({"AgencyCompanyId": agency, "DeveloperCompanyId": developer}), 3),
        (json!({"AgentUserId": agent}), 4),
        (json!({"AgentUserId": agent, "DeveloperCompanyId": developer}), 5),
    ] {
        put(&with(card, "Rates", always(rate))).await.expect(200);
        assert_eq!(rate_of(agent, developer, SOLD).await, Some(rate));
    }
    // A card that names an agent or a developer does not cover sales of another one.
    assert_eq!(rate_of(guid(), developer, SOLD).await, Some(1));
    assert_eq!(rate_of(agent, guid(), SOLD).await, Some(4));
    // A card without a rate for the time is skipped.
    let expired = json!([{"RateBps": 9, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": SOLD}]);
    for card in
        [json!({"AgentUserId": agent}), json!({"AgentUserId": agent, "DeveloperCompanyId": developer})]
    {
        put(&with(card, "Rates", expired.clone())).await.expect(200);
    }
    assert_eq!(rate_of(agent, developer, SOLD).await, Some(3));
    assert_eq!(rate_of(agent, guid(), SOLD).await, Some(2));
    // The cards of a former agency do not apply.
    commissions().put(&path, json!({"AgencyCompanyId": null})).await.expect(200);
    assert_eq!(rate_of(agent, developer, SOLD).await, Some(1));
}

/// RULE-AGT-008: a rate covers `ValidFrom` ≤ `ChangedAt` < `ValidTo`, to the microsecond.
#[tokio::test]
async fn rate_applies_from_valid_from_until_before_valid_to() {
    let developer = guid();
    let card = json!({"DeveloperCompanyId": developer, "Rates": [
        {"RateBps": 300, "ValidFrom": "2026-03-01T00:00:00Z"},
        {"RateBps": 100, "ValidFrom": "2026-01-01T00:00:00Z", "ValidTo": "2026-02-01T00:00:00Z"},
        {"RateBps": 0, "ValidFrom": "2026-02-01T00:00:00Z", "ValidTo": "2026-02-15T00:00:00Z"},
    ]});
    put(&card).await.expect(200);
    for (at, rate) in [
        ("2025-12-31T23:59:59.999999Z", None),
        ("2026-01-01T00:00:00Z", Some(100)),
        ("2026-01-01T03:00:00+03:00", Some(100)),
        ("2026-01-31T23:59:59.999999Z", Some(100)),
        ("2026-02-01T00:00:00Z", Some(0)),
        ("2026-02-15T00:00:00Z", None),
        ("2026-02-28T23:59:59.999999Z", None),
        ("2026-03-01T00:00:00Z", Some(300)),
        ("9999-12-31T23:59:59Z", Some(300)),
    ] {
        assert_eq!(rate_of(guid(), developer, at).await, rate, "{at}");
    }
}

/// RULE-AGT-014: `PUT` replaces or creates the card of exactly these ids.
///
/// Equal content changes nothing, regardless of `Version`.
#[tokio::test]
async fn card_is_replaced_as_a_whole() {
    let (developer, agency) = (guid(), guid());
    let of_both = json!({"DeveloperCompanyId": developer, "AgencyCompanyId": agency, "Rates": always(100)});
    let created = put(&with(of_both.clone(), "Version", 0)).await.expect(200);
    assert_eq!((&created["Version"], &created["AgentUserId"]), (&json!(1), &Value::Null));
    assert_eq!(created["Rates"], always(100));
    assert_eq!(created["CreatedAt"], created["UpdatedAt"]);
    for version in [json!(0), json!(1), json!(99), Value::Null] {
        assert_eq!(put(&with(of_both.clone(), "Version", version)).await.expect(200), created);
    }
    let other = with(of_both.clone(), "Rates", always(200));
    for version in [0, 2, 99] {
        let refused = put(&with(other.clone(), "Version", version)).await;
        refused.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
    }
    let replaced = put(&with(other.clone(), "Version", 1)).await.expect(200);
    assert_eq!((&replaced["Version"], &replaced["Id"]), (&json!(2), &created["Id"]));
    assert_eq!((&replaced["Rates"], &replaced["CreatedAt"]), (&always(200), &created["CreatedAt"]));
    let emptied = put(&with(other, "Rates", json!([]))).await.expect(200);
    assert_eq!((&emptied["Version"], &emptied["Rates"]), (&json!(3), &json!([])));
    // Fewer ids name another card.
    let of_one = json!({"DeveloperCompanyId": developer, "Rates": always(1)});
    put(&with(of_one.clone(), "Version", 1)).await.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
    assert_ne!(put(&of_one).await.expect(200)["Id"], created["Id"]);
}

/// RULE-AGT-014: rates are sorted by `ValidFrom`. Their order in a request does not matter.
#[tokio::test]
async fn rates_are_sorted_by_valid_from() {
    let rate = |bps: i64, from: &str, to: &str| json!({"RateBps": bps, "ValidFrom": from, "ValidTo": to});
    let (first, second) = (
        rate(1, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        rate(2, "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
    );
    let card = json!({"AgentUserId": guid(), "Rates": [second, first]});
    let created = put(&card).await.expect(200);
    assert_eq!(created["Rates"], json!([first, second]));
    assert_eq!(put(&with(card, "Rates", json!([first, second]))).await.expect(200), created);
}

/// RULE-AGT-014, RULE-ALL-007: a card with wrong ids, rates or overlaps is refused.
#[tokio::test]
async fn invalid_card_is_refused() {
    let refused = async |body: Value, field: &str, code: &str| {
        put(&body).await.expect_refusal("VALIDATION_FAILED", field, code);
    };
    let of = |rates: Value| json!({"AgentUserId": guid(), "Rates": rates});
    let rate = |bps: Value, from: &str, to: Value| json!({"RateBps": bps, "ValidFrom": from, "ValidTo": to});
    let (january, february) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    refused(json!({"Rates": []}), "/DeveloperCompanyId", "required").await;
    let both = json!({"AgencyCompanyId": guid(), "AgentUserId": guid(), "Rates": []});
    refused(both, "/AgencyCompanyId", "not_together").await;
    refused(json!({"AgentUserId": guid()}), "/Rates", "required").await;
    refused(json!({"AgentUserId": Uuid::nil(), "Rates": []}), "/AgentUserId", "empty_id").await;
    refused(with(of(json!([])), "Version", -1), "/Version", "out_of_range").await;
    for bps in [-1, 10_001] {
        refused(of(json!([rate(json!(bps), january, Value::Null)])), "/Rates/0/RateBps", "out_of_range")
            .await;
    }
    for to in ["2026-01-01T00:00:00Z", "2025-12-31T23:59:59.999999Z"] {
        refused(of(json!([rate(json!(1), january, json!(to))])), "/Rates/0/ValidTo", "empty_range").await;
    }
    for (first, second, field) in [
        (rate(json!(1), january, Value::Null), rate(json!(2), february, Value::Null), "/Rates/1/ValidFrom"),
        (rate(json!(2), february, Value::Null), rate(json!(1), january, Value::Null), "/Rates/0/ValidFrom"),
        (
            rate(json!(1), january, json!("2026-02-01T00:00:00.000001Z")),
            rate(json!(2), february, Value::Null),
            "/Rates/1/ValidFrom",
        ),
        (
            rate(json!(1), january, json!(february)),
            rate(json!(1), january, json!(february)),
            "/Rates/1/ValidFrom",
        ),
    ] {
        refused(of(json!([first, second])), field, "overlapping").await;
    }
    let monthly = |count: usize| {
        let day = |at: usize| format!("20{:02}-{:02}-01T00:00:00Z", 10 + at / 12, 1 + at % 12);
        (0..count).map(|at| rate(json!(at), &day(at), json!(day(at + 1)))).collect::<Vec<_>>()
    };
    refused(of(json!(monthly(101))), "/Rates", "too_many").await;
    assert_eq!(list(&put(&of(json!(monthly(100)))).await.expect(200)["Rates"]).len(), 100);
}

/// RULE-AGT-014: cards are listed by the ids that they name, the latest change first.
#[tokio::test]
async fn cards_are_listed_by_their_ids() {
    let (developer, agency, agent) = (guid(), guid(), guid());
    let mut created = Vec::new();
    for card in [
        json!({"DeveloperCompanyId": developer}),
        json!({"DeveloperCompanyId": developer, "AgencyCompanyId": agency}),
        json!({"DeveloperCompanyId": developer, "AgentUserId": agent}),
    ] {
        created.push(put(&with(card, "Rates", always(1))).await.expect(200));
    }
    let listed = async |query: String| {
        let page = commissions().get(&format!("{}?{query}", rates_path())).await.expect(200);
        list(&page["Items"]).to_vec()
    };
    let newest_first: Vec<_> = created.iter().rev().cloned().collect();
    assert_eq!(listed(format!("DeveloperCompanyId={developer}")).await, newest_first);
    assert_eq!(listed(format!("DeveloperCompanyId={developer}&Sort=UpdatedAt")).await, created);
    assert_eq!(listed(format!("AgencyCompanyId={agency}")).await, created[1..2]);
    assert_eq!(listed(format!("AgentUserId={agent}")).await, created[2..]);
    let none = listed(format!("AgencyCompanyId={agency}&AgentUserId={agent}")).await;
    assert_eq!(none, Vec::<Value>::new());
    let unknown = commissions().get(&format!("{}?Sort=CreatedAt", rates_path())).await;
    unknown.expect_refusal("VALIDATION_FAILED", "/Sort", "unknown_value");
}

/// RULE-AGT-015: an agent needs no entry. An entry has a version, like a card.
#[tokio::test]
async fn agent_without_an_entry_gets_an_agency() {
    let (agent, agency) = (guid(), guid());
    let path = format!("{PLATFORM}/agents/{agent}");
    let view = |agency: Value, version: i64| json!({"AgentUserId": agent, "AgencyCompanyId": agency, "Version": version});
    let by = commissions();
    assert_eq!(by.get(&path).await.expect(200), view(Value::Null, 0));
    for no_agency in [json!({}), json!({"AgencyCompanyId": null, "Version": 5})] {
        assert_eq!(by.put(&path, no_agency).await.expect(200), view(Value::Null, 0), "no change");
    }
    let conflict = by.put(&path, json!({"AgencyCompanyId": agency, "Version": 1})).await;
    conflict.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
    let entered = by.put(&path, json!({"AgencyCompanyId": agency, "Version": 0})).await.expect(200);
    assert_eq!(entered, view(json!(agency), 1));
    assert_eq!(by.put(&path, json!({"AgencyCompanyId": agency, "Version": 0})).await.expect(200), entered);
    by.put(&path, json!({"Version": 0})).await.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
    assert_eq!(by.put(&path, json!({})).await.expect(200), view(Value::Null, 2));
    assert_eq!(by.get(&path).await.expect(200), view(Value::Null, 2));
    let empty = json!({"AgencyCompanyId": Uuid::nil()});
    by.put(&path, empty).await.expect_refusal("VALIDATION_FAILED", "/AgencyCompanyId", "empty_id");
    let nil = format!("{PLATFORM}/agents/{}", Uuid::nil());
    by.get(&nil).await.expect_problem(404, "NOT_FOUND");
    by.put(&nil, json!({"AgencyCompanyId": agency})).await.expect_problem(404, "NOT_FOUND");
    by.get(&format!("{PLATFORM}/agents/x")).await.expect_problem(404, "NOT_FOUND");
}

/// RULE-AGT-016, RULE-ALL-031: only one of several concurrent replacements of one version succeeds.
#[tokio::test]
async fn only_one_concurrent_replacement_of_a_version_succeeds() {
    let (developer, agent) = (guid(), guid());
    for version in 0..3_i64 {
        let cards = (0..10_i64).map(|at| {
            let card = json!({"DeveloperCompanyId": developer, "Rates": always(version * 10 + at), "Version": version});
            async move { put(&card).await }
        });
        let path = format!("{PLATFORM}/agents/{agent}");
        let agents = (0..10).map(|_| {
            let (by, path) = (commissions(), path.clone());
            async move { by.put(&path, json!({"AgencyCompanyId": guid(), "Version": version})).await }
        });
        for responses in [join_all(cards).await, join_all(agents).await] {
            let (kept, lost): (Vec<_>, Vec<_>) =
                responses.into_iter().partition(|response| response.status == 200);
            assert_eq!((kept.len(), &kept[0].body["Version"]), (1, &json!(version + 1)));
            for response in lost {
                response.expect_problem(409, "AGENT_CONCURRENCY_CONFLICT");
            }
        }
    }
    let page =
        commissions().get(&format!("{}?DeveloperCompanyId={developer}", rates_path())).await.expect(200);
    let [card] = list(&page["Items"]) else { panic!("{page}") };
    assert_eq!(list(&card["Rates"]).len(), 1);
}

/// RULE-AGT-016: concurrent replacements with the same content all succeed, and are stored once.
#[tokio::test]
async fn concurrent_identical_replacements_all_succeed() {
    let (developer, agent) = (guid(), guid());
    for version in 1..4_i64 {
        let card = json!({"DeveloperCompanyId": developer, "Rates": always(version), "Version": version - 1});
        let cards = join_all((0..10).map(|_| put(&card))).await;
        let terms = json!({"AgencyCompanyId": guid(), "Version": version - 1});
        let path = format!("{PLATFORM}/agents/{agent}");
        let agents = (0..10).map(|_| {
            let (by, path, terms) = (commissions(), path.clone(), terms.clone());
            async move { by.put(&path, terms).await }
        });
        for response in cards.into_iter().chain(join_all(agents).await) {
            assert_eq!(response.expect(200)["Version"], version);
        }
    }
}
