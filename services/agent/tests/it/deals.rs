//! Section 4: from deals to accruals.

use serde_json::{Value, json};
use testkit::guid;

use crate::{
    ACCRUAL_CHANGED, Deal, MY, PLATFORM, STAGE_CHANGED, accruals_of, cabinet, commissions, id_of, in_days,
    list, money, next, pay, payouts, rub, run, service, taken, tell, text, with,
};

pub const SOLD: &str = "2026-05-01T10:00:00Z";
const LATER: &str = "2026-06-01T10:00:00Z";
const LATEST: &str = "2026-07-01T10:00:00Z";

/// A deal of a million, of which a developer pays ten per cent.
pub async fn deal() -> Deal {
    let developer = guid();
    pay(developer, 1_000).await;
    Deal::new(guid(), developer, rub(1_000_000))
}

/// What became of a deal: of each accrual its kind, status and amount.
pub async fn ledger(deal: &Deal) -> Vec<(String, String, i64)> {
    let accruals = accruals_of(deal.id).await;
    let shown = accruals.iter().map(|accrual| {
        let amount = accrual["Amount"]["AmountMinor"].as_i64().unwrap();
        (text(&accrual["Kind"]).to_owned(), text(&accrual["Status"]).to_owned(), amount)
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

pub fn lines(expected: &[(&str, &str, i64)]) -> Vec<(String, String, i64)> {
    let mut lines: Vec<_> = expected
        .iter()
        .map(|(kind, status, amount)| ((*kind).to_owned(), (*status).to_owned(), *amount))
        .collect();
    lines.sort();
    lines
}

/// Returns From, To and Version of every event of an accrual, in the order of arrival.
async fn status_changes(accrual: &Value) -> Vec<(Value, Value, i64)> {
    let events = service().published(id_of(&accrual["Id"])).await;
    let changes = events.into_iter().map(|event| {
        assert_eq!(event.topic, ACCRUAL_CHANGED);
        for member in ["AgentUserId", "DealId", "Kind", "Amount"] {
            assert_eq!(event.payload[member], accrual[member], "{member}");
        }
        let version = event.payload["Version"].as_i64().unwrap();
        (event.payload["From"].clone(), event.payload["To"].clone(), version)
    });
    changes.collect()
}

/// A sale makes a Base of the event's agent and amount, at the rate of that moment.
#[tokio::test]
async fn a_sale_earns_when_it_begins() {
    let mut deal = deal().await;
    deal.bring_to("Sale", SOLD).await;
    let accruals = accruals_of(deal.id).await;
    let [base] = &accruals[..] else { panic!("{accruals:?}") };
    for (member, value) in [
        ("AgentUserId", json!(deal.agent)),
        ("DealId", json!(deal.id)),
        ("PropertyObjectId", json!(deal.object)),
        ("DeveloperCompanyId", json!(deal.developer)),
        ("DeveloperName", Value::Null),
        ("Kind", json!("Base")),
        ("BaseAmount", rub(1_000_000)),
        ("RateBps", json!(1_000)),
        ("Amount", rub(100_000)),
        ("Status", json!("Pending")),
        ("PayoutId", Value::Null),
        ("ReversesAccrualId", Value::Null),
        ("AdjustsAccrualId", Value::Null),
        ("EarnedAt", json!(SOLD)),
        ("ApprovedAt", Value::Null),
        ("PaidAt", Value::Null),
        ("Version", json!(1)),
        ("AdjustmentRequest", Value::Null),
    ] {
        assert_eq!(base[member], value, "{member}");
    }
    assert_eq!(status_changes(base).await, [(Value::Null, json!("Pending"), 1)]);
    let event = service().bus().events(&id_of(&base["Id"])).remove(0);
    assert_eq!(event.payload["ChangedAt"], base["CreatedAt"], "when it was written, not when it was earned");
    assert_ne!(base["CreatedAt"], base["EarnedAt"]);
    let summary = cabinet(deal.agent.unwrap()).get(&format!("{MY}/commission-summary")).await.expect(200);
    assert_eq!(summary["Balances"][0]["Pending"], rub(100_000));
}

/// Each row of the table, by what is left in the ledger.
#[tokio::test]
async fn each_change_does_what_the_table_says() {
    let (pending, approved, reversed) =
        (("Base", "Pending", 100_000), ("Base", "Approved", 100_000), ("Base", "Reversed", 100_000));
    for (path, expected) in [
        (vec!["Sale"], vec![pending]),
        (vec!["Booking"], vec![]),
        (vec!["Booking", "Sale"], vec![pending]),
        (vec!["Cancelled", "Sale"], vec![pending]),
        (vec!["Frozen", "Sale"], vec![pending]),
        (vec!["Sale", "Sale"], vec![pending]),
        (vec!["Sale", "Frozen"], vec![pending]),
        (vec!["Sale", "Frozen", "Sale"], vec![pending]),
        (vec!["Sale", "Completed"], vec![approved]),
        (vec!["Sale", "Frozen", "Completed"], vec![approved]),
        (vec!["Completed"], vec![approved]),
        (vec!["Booking", "Completed"], vec![approved]),
        (vec!["Sale", "Completed", "Completed"], vec![approved]),
        (vec!["Sale", "Completed", "Sale"], vec![approved]),
        (vec!["Sale", "Application"], vec![reversed]),
        (vec!["Sale", "Booking"], vec![reversed]),
        (vec!["Sale", "Cancelled"], vec![reversed]),
        (vec!["Sale", "Frozen", "Cancelled"], vec![reversed]),
        (vec!["Sale", "Completed", "Cancelled"], vec![reversed]),
        (vec!["Completed", "Application"], vec![reversed]),
        (vec!["Sale", "Cancelled", "Application"], vec![reversed]),
        (vec!["Sale", "Booking", "Sale"], vec![reversed, pending]),
        (vec!["Sale", "Cancelled", "Sale", "Completed"], vec![reversed, approved]),
        (vec!["Sale", "Cancelled", "Completed", "Booking"], vec![reversed, reversed]),
    ] {
        let mut deal = deal().await;
        for status in &path {
            deal.bring_to(status, SOLD).await;
        }
        assert_eq!(ledger(&deal).await, lines(&expected), "{path:?}");
    }
}

/// Each change of an accrual's status is published once, in order. A completion without a sale is published as both changes.
#[tokio::test]
async fn each_change_of_a_status_is_published() {
    let mut deal = deal().await;
    deal.bring_to("Completed", LATER).await;
    let base = accruals_of(deal.id).await.remove(0);
    assert_eq!(
        (&base["ApprovedAt"], &base["EarnedAt"], &base["Version"]),
        (&json!(LATER), &json!(LATER), &json!(2))
    );
    let both = [(Value::Null, json!("Pending"), 1), (json!("Pending"), json!("Approved"), 2)];
    assert_eq!(status_changes(&base).await, both);
    deal.bring_to("Cancelled", LATEST).await;
    let third = [(json!("Approved"), json!("Reversed"), 3)];
    assert_eq!(status_changes(&base).await, [&both[..], &third].concat());
}

/// What is in a payout stays as it is when its sale ends, and gets a Reversal; that lowers the next payout, and is itself never undone.
#[tokio::test]
async fn what_is_paid_is_owed_back() {
    let mut deal = deal().await;
    deal.bring_to("Sale", SOLD).await;
    deal.bring_to("Completed", LATER).await;
    let agent = deal.agent.unwrap();
    assert_eq!(run(&[agent]).await["PayoutsCount"], 1);
    deal.bring_to("Cancelled", LATEST).await;
    assert_eq!(
        ledger(&deal).await,
        lines(&[("Base", "Approved", 100_000), ("Reversal", "Approved", -100_000)])
    );
    let accruals = accruals_of(deal.id).await;
    let of = |kind: &str| accruals.iter().find(|accrual| accrual["Kind"] == kind).unwrap();
    let (base, reversal) = (of("Base"), of("Reversal"));
    assert!(base["PayoutId"].is_string() && reversal["PayoutId"].is_null());
    for (member, value) in [
        ("AgentUserId", &base["AgentUserId"]),
        ("BaseAmount", &base["BaseAmount"]),
        ("RateBps", &base["RateBps"]),
        ("ReversesAccrualId", &base["Id"]),
        ("EarnedAt", &json!(LATEST)),
        ("ApprovedAt", &json!(LATEST)),
        ("Version", &json!(1)),
    ] {
        assert_eq!(&reversal[member], value, "{member}");
    }
    assert_eq!(status_changes(reversal).await, [(Value::Null, json!("Approved"), 1)]);
    // The debt is more than nothing: no payout.
    assert_eq!(run(&[agent]).await["PayoutsCount"], 0);
    // The deal revives, and ends again: the former sale is over.
    deal.bring_to("Sale", LATEST).await;
    deal.bring_to("Booking", LATEST).await;
    let left =
        [("Base", "Approved", 100_000), ("Base", "Reversed", 100_000), ("Reversal", "Approved", -100_000)];
    assert_eq!(ledger(&deal).await, lines(&left));
}

/// A payout that failed after its sale had ended gives back what is undone already.
#[tokio::test]
async fn what_a_failed_payout_gives_back_stays_undone() {
    let mut deal = deal().await;
    deal.bring_to("Completed", LATER).await;
    let agent = deal.agent.unwrap();
    let made = run(&[agent]).await;
    deal.bring_to("Cancelled", LATEST).await;
    let listed = payouts().get(&format!("{PLATFORM}/payouts?RunId={}", text(&made["Id"]))).await.expect(200);
    let path = format!("{PLATFORM}/payouts/{}/fail", text(&listed["Items"][0]["Id"]));
    payouts().post(&path, json!({"Reason": "счёт закрыт"})).await.expect(200);
    let both = lines(&[("Base", "Approved", 100_000), ("Reversal", "Approved", -100_000)]);
    assert_eq!(ledger(&deal).await, both);
    deal.bring_to("Sale", LATEST).await;
    deal.bring_to("Cancelled", LATEST).await;
    let expected =
        [("Base", "Approved", 100_000), ("Base", "Reversed", 100_000), ("Reversal", "Approved", -100_000)];
    assert_eq!(ledger(&deal).await, lines(&expected));
    assert_eq!(run(&[agent]).await["PayoutsCount"], 0);
}

/// Another amount at completion is made right by a Correction at the Base's rate; none where it comes to nothing.
#[tokio::test]
async fn another_amount_at_completion_is_a_correction() {
    for (amount, correction) in [
        (1_500_000, Some(50_000)),
        (400_000, Some(-60_000)),
        (0, Some(-100_000)),
        (1_000_000, None),
        // Half a unit, to the even one: 100000.5 is 100000.
        (1_000_005, None),
        (1_000_015, Some(2)),
    ] {
        let mut deal = deal().await;
        deal.bring_to("Sale", SOLD).await;
        // What is paid from now on is paid for other sales.
        pay(deal.developer, 2_000).await;
        deal.amount = rub(amount);
        deal.bring_to("Completed", LATER).await;
        let mut expected = vec![("Base", "Approved", 100_000)];
        expected.extend(correction.map(|amount| ("Correction", "Approved", amount)));
        assert_eq!(ledger(&deal).await, lines(&expected), "{amount}");
        let accruals = accruals_of(deal.id).await;
        if let Some(made) = accruals.iter().find(|accrual| accrual["Kind"] == "Correction") {
            let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
            assert_eq!((&made["AdjustsAccrualId"], &made["BaseAmount"]), (&base["Id"], &rub(1_000_000)));
            assert_eq!((&made["EarnedAt"], &made["ApprovedAt"]), (&json!(LATER), &json!(LATER)));
            assert_eq!(status_changes(made).await, [(Value::Null, json!("Approved"), 1)]);
        }
        deal.bring_to("Cancelled", LATEST).await;
        assert!(ledger(&deal).await.iter().all(|(_, status, _)| status == "Reversed"));
    }
}

/// Where somebody has decided about the amount already, or the Base does not stand, another amount corrects nothing.
#[tokio::test]
async fn what_was_decided_is_not_corrected() {
    let mut rejected = deal().await;
    rejected.bring_to("Sale", SOLD).await;
    let base = accruals_of(rejected.id).await.remove(0);
    let path = format!("{PLATFORM}/commission-accruals/{}/reject", text(&base["Id"]));
    commissions().post(&path, json!({"Comment": "дважды"})).await.expect(200);
    rejected.amount = rub(2_000_000);
    rejected.bring_to("Completed", LATER).await;
    assert_eq!(ledger(&rejected).await, lines(&[("Base", "Rejected", 100_000)]));

    let mut granted = deal().await;
    granted.bring_to("Sale", SOLD).await;
    let request = ask(&granted).await;
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&request["Id"]));
    commissions().post(&path, json!({})).await.expect(200);
    granted.amount = rub(2_000_000);
    granted.bring_to("Completed", LATER).await;
    assert_eq!(
        ledger(&granted).await,
        lines(&[("Base", "Approved", 100_000), ("Correction", "Approved", 23)])
    );
}

/// Has the agent ask for a little more of the Base.
async fn ask(deal: &Deal) -> Value {
    let base = accruals_of(deal.id).await.remove(0);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&base["Id"]));
    let body = json!({"Reason": "WrongAmount", "RequestedAmount": rub(100_023), "Comment": "мало"});
    cabinet(deal.agent.unwrap()).post(&path, body).await.expect(201)
}

/// Another currency at completion: the sale ends and begins with that event.
#[tokio::test]
async fn another_currency_at_completion_is_another_sale() {
    let mut deal = deal().await;
    deal.bring_to("Sale", SOLD).await;
    deal.amount = money(500, "USD");
    deal.bring_to("Completed", LATER).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 50), ("Base", "Reversed", 100_000)]));
    let accruals = accruals_of(deal.id).await;
    let latter = accruals.iter().find(|accrual| accrual["Status"] == "Approved").unwrap();
    assert_eq!((&latter["Amount"], &latter["EarnedAt"]), (&money(50, "USD"), &json!(LATER)));
    assert_eq!(status_changes(latter).await.len(), 2);
    let summary = cabinet(deal.agent.unwrap()).get(&format!("{MY}/commission-summary")).await.expect(200);
    let balances = list(&summary["Balances"]);
    assert_eq!(balances[0]["Total"], rub(0));
    assert_eq!(balances[1]["Approved"], money(50, "USD"));
}

/// Another currency ends the former sale as any end does: what was granted for it goes with it, its open request is closed, and the sale
/// that begins can be asked about.
#[tokio::test]
async fn another_currency_takes_along_what_was_granted_and_asked() {
    let mut deal = deal().await;
    deal.bring_to("Sale", SOLD).await;
    let granted = ask(&deal).await;
    let approve = format!("{PLATFORM}/adjustment-requests/{}/approve", text(&granted["Id"]));
    commissions().post(&approve, json!({})).await.expect(200);
    let open = ask(&deal).await;
    deal.amount = money(500, "USD");
    deal.bring_to("Completed", LATER).await;
    let left = [("Base", "Approved", 50), ("Base", "Reversed", 100_000), ("Correction", "Reversed", 23)];
    assert_eq!(ledger(&deal).await, lines(&left));

    let agent = deal.agent.unwrap();
    let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={agent}");
    let listed = commissions().get(&path).await.expect(200);
    let [first, second] = list(&listed["Items"]) else { panic!("{listed}") };
    assert_eq!((&first["Id"], &first["Status"]), (&granted["Id"], &json!("Approved")));
    assert_eq!((&second["Id"], &second["Status"]), (&open["Id"], &json!("Rejected")));
    assert_eq!((&second["DecisionComment"], &second["Version"]), (&Value::Null, &json!(2)));

    let accruals = accruals_of(deal.id).await;
    let begun = accruals.iter().find(|accrual| accrual["Status"] == "Approved").unwrap();
    assert_eq!(begun["AdjustmentRequest"], Value::Null);
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", text(&begun["Id"]));
    let body = json!({"Reason": "WrongRate", "RequestedAmount": money(60, "USD"), "Comment": "мало"});
    cabinet(agent).post(&path, body).await.expect(201);
}

/// No agent in the event that begins a sale: no accrual, later neither, and it is not unrated.
#[tokio::test]
async fn a_sale_without_an_agent_earns_nothing() {
    let mut deal = deal().await;
    let agent = deal.agent.take();
    deal.bring_to("Sale", SOLD).await;
    deal.agent = agent;
    deal.bring_to("Sale", SOLD).await;
    deal.bring_to("Completed", LATER).await;
    deal.bring_to("Cancelled", LATER).await;
    assert_eq!(ledger(&deal).await, []);
    deal.bring_to("Sale", LATEST).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Pending", 100_000)]), "a sale of its own");
}

/// Agent, amount and rate of a sale are those of its beginning.
#[tokio::test]
async fn a_sale_is_what_it_was_when_it_began() {
    let mut deal = deal().await;
    let agent = deal.agent;
    deal.bring_to("Sale", SOLD).await;
    pay(deal.developer, 5_000).await;
    (deal.agent, deal.amount) = (Some(guid()), rub(9_000_000));
    deal.bring_to("Sale", LATER).await;
    deal.amount = rub(1_000_000);
    deal.bring_to("Completed", LATEST).await;
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 100_000)]));
    assert_eq!(accruals_of(deal.id).await[0]["AgentUserId"], json!(agent));
}

/// What is not above the last version that was applied is dropped, under whatever `ce_id` and `ce_sequence`.
#[tokio::test]
async fn what_was_applied_is_not_applied_again() {
    let mut deal = deal().await;
    let booked = deal.moves("Booking", SOLD);
    let sold = deal.moves("Sale", SOLD);
    let back = with(deal.clone().moves("Cancelled", LATER), "RowVersion", sold["RowVersion"].clone());
    let completed = deal.moves("Completed", LATER);
    for told in [&sold, &sold, &booked, &back, &completed, &sold, &completed, &back, &booked] {
        tell(service(), STAGE_CHANGED, told).await;
    }
    assert_eq!(ledger(&deal).await, lines(&[("Base", "Approved", 100_000)]));
    let base = accruals_of(deal.id).await.remove(0);
    assert_eq!(status_changes(&base).await.len(), 2);
    assert_eq!(base["Version"], 2);
}

/// The end of a sale closes its open requests: Rejected, without a word.
#[tokio::test]
async fn the_end_of_a_sale_closes_its_requests() {
    let mut deal = deal().await;
    deal.bring_to("Sale", SOLD).await;
    let asked = ask(&deal).await;
    deal.bring_to("Cancelled", LATER).await;
    let path = format!("{PLATFORM}/adjustment-requests?AgentUserId={}", deal.agent.unwrap());
    let listed = commissions().get(&path).await.expect(200);
    let [request] = list(&listed["Items"]) else { panic!("{listed}") };
    assert_eq!((&request["Id"], &request["Status"]), (&asked["Id"], &json!("Rejected")));
    assert_eq!((&request["DecisionComment"], &request["Version"]), (&Value::Null, &json!(2)));
    assert!(request["DecidedAt"].is_string());
}

/// Changes of one deal and of others of the agent, told at once, end in one ledger.
#[tokio::test]
async fn deals_of_one_agent_side_by_side_come_to_one_sum() {
    let (developer, agent) = (guid(), guid());
    pay(developer, 1_000).await;
    let mut last = Vec::new();
    for _ in 0..30 {
        let mut deal = Deal::new(agent, developer, rub(1_000));
        for status in ["Sale", "Completed"] {
            let sequence = next();
            let told = deal.moves(status, SOLD);
            service().bus().publish(STAGE_CHANGED, deal.id, sequence, &told).await;
            last.push((deal.id, sequence));
        }
    }
    for (id, sequence) in last {
        taken(service(), STAGE_CHANGED, id, sequence).await;
    }
    let summary = cabinet(agent).get(&format!("{MY}/commission-summary")).await.expect(200);
    assert_eq!(summary["Balances"][0]["Approved"], rub(3_000));
    let from = in_days(-1);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&From={from}");
    assert_eq!(commissions().get(&path).await.expect(200)["TotalCount"], 30);
}
