//! The performance of an agent.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::rows::{deal, insert, sold};
use crate::{
    CANCELLED, COMPLETED, CREATED, Deal, MY, STAGE_CHANGED, accruals_of, cabinet, deliver, developer, each,
    guid, id_of, list, moment, money, rub, service, set_rate, with,
};

const PERIOD: &str = "From=2026-01-01T00:00:00Z&To=2026-03-01T00:00:00Z";

async fn performance(agent: Uuid, query: &str) -> Value {
    cabinet(agent).get(&format!("{MY}/agent-performance?{query}")).await.expect(200)
}

async fn refused(query: &str) {
    let response = cabinet(guid()).get(&format!("{MY}/agent-performance?{query}")).await;
    response.expect_problem(400, "VALIDATION_FAILED");
}

/// RULE-AGT-044: without deals the counts are 0, and figures without a value are null.
#[tokio::test]
async fn agent_without_deals_has_empty_performance() {
    let found = performance(guid(), PERIOD).await;
    let month = |month: &str| json!({"Month": month, "DealsCreated": 0, "SalesCount": 0, "SalesVolume": [], "DealsCancelled": 0});
    let expected = json!({
        "From": "2026-01-01T00:00:00Z", "To": "2026-03-01T00:00:00Z", "DealsTotal": 0,
        "DealsByStatus": {"Application": 0, "Booking": 0, "Sale": 0, "Completed": 0, "Cancelled": 0},
        "ConversionBps": null, "SalesCount": 0, "SalesVolume": [], "MeanCycleDays": null,
        "Monthly": [month("2026-01"), month("2026-02")], "Developers": [],
    });
    assert_eq!(found, expected);
}

/// RULE-AGT-044: deals count by their own `CreatedAt` with their present status.
///
/// The period includes its start and not its end. An unknown status counts in the total alone.
#[tokio::test]
async fn deals_count_by_their_creation_time() {
    let agent = guid();
    let created = |status: &str, at: &str| with(deal(agent, status), "created_at", at);
    let rows = [
        created("Application", "2025-12-31T23:59:59.999999Z"),
        created("Application", "2026-01-01T00:00:00Z"),
        created("Booking", "2026-01-31T23:59:59Z"),
        created("Cancelled", "2026-02-01T00:00:00Z"),
        created("Other", "2026-02-03T00:00:00Z"),
        sold(agent, "Sale", "2026-04-01T00:00:00Z"),
        created("Completed", "2026-02-28T23:59:59.999999Z"),
        created("Completed", "2026-03-01T00:00:00Z"),
        with(deal(agent, "Booking"), "created_at", Value::Null),
        deal(guid(), "Booking"),
    ];
    insert("deal", &rows).await;
    let found = performance(agent, PERIOD).await;
    assert_eq!(found["DealsTotal"], 6);
    let expected = json!({"Application": 1, "Booking": 1, "Sale": 1, "Completed": 1, "Cancelled": 1});
    assert_eq!(found["DealsByStatus"], expected);
    // 2 of 6 is 3333.3 basis points.
    assert_eq!(found["ConversionBps"], 3_333);
    assert_eq!(each(list(&found["Monthly"]), "DealsCreated"), [3, 3]);
    // `AgentUserId` is ignored: callers read only their own data.
    assert_eq!(performance(guid(), &format!("{PERIOD}&AgentUserId={agent}")).await["DealsTotal"], 0);
}

/// RULE-AGT-044: `ConversionBps` is rounded half to even.
#[tokio::test]
async fn conversion_is_rounded_half_to_even() {
    // 1 of 32 is 312.5 basis points, and 3 of 32 are 937.5.
    for (sales, bps) in [(1, 312), (3, 938), (32, 10_000), (0, 0)] {
        let agent = guid();
        let status = |at: usize| if at < sales { "Completed" } else { "Application" };
        let rows: Vec<_> = (0..32).map(|at| deal(agent, status(at))).collect();
        insert("deal", &rows).await;
        assert_eq!(performance(agent, PERIOD).await["ConversionBps"], bps);
    }
}

/// RULE-AGT-045: sales count in the UTC month of `SoldAt`, at their newest amount, by currency.
#[tokio::test]
async fn sales_count_in_the_utc_month_of_their_start() {
    let agent = guid();
    let of =
        |row: Value, amount: i64, currency: &str| with(with(row, "amount", amount), "currency", currency);
    let rows = [
        of(sold(agent, "Sale", "2026-01-01T00:00:00Z"), 5, "USD"),
        of(sold(agent, "Completed", "2026-01-31T23:59:59.999999Z"), 7, "RUB"),
        // February in Moscow, and January in UTC.
        of(sold(agent, "Sale", "2026-02-01T00:30:00+03:00"), 2, "RUB"),
        of(sold(agent, "Completed", "2026-02-28T23:59:59.999999Z"), 11, "RUB"),
        of(sold(agent, "Sale", "2026-03-01T00:00:00Z"), 13, "RUB"),
        of(sold(agent, "Sale", "2025-12-31T23:59:59.999999Z"), 17, "RUB"),
        // Another topic has already sent the cancellation.
        of(sold(agent, "Cancelled", "2026-01-15T00:00:00Z"), 19, "RUB"),
        of(sold(guid(), "Sale", "2026-01-15T00:00:00Z"), 23, "RUB"),
        // Another topic has sent the completion, and `SoldAt` is unknown.
        of(deal(agent, "Completed"), 29, "RUB"),
    ];
    insert("deal", &rows).await;
    let found = performance(agent, PERIOD).await;
    assert_eq!(found["SalesCount"], 4);
    assert_eq!(found["SalesVolume"], json!([rub(20), money(5, "USD")]));
    let months = list(&found["Monthly"]);
    assert_eq!(each(months, "SalesCount"), [3, 1]);
    assert_eq!(each(months, "SalesVolume"), [&json!([rub(9), money(5, "USD")]), &json!([rub(11)])]);
}

/// RULE-AGT-045: a reassigned sale counts for its present agent.
/// The commission stays with its first agent.
#[tokio::test]
async fn reassigned_sale_counts_for_its_new_agent_and_pays_its_first() {
    let (first, second, developer) = (guid(), guid(), guid());
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(first, developer, rub(100));
    deliver(service(), CREATED, &deal.created("2026-01-01T00:00:00Z")).await;
    deal.move_to("Sale", "2026-01-02T00:00:00Z").await;
    let figures = async |agent: Uuid| {
        let found = performance(agent, PERIOD).await;
        let path = format!("{MY}/commission-accruals");
        let accruals = cabinet(agent).get(&path).await.expect(200);
        let members = ["DealsTotal", "SalesCount", "SalesVolume", "ConversionBps"];
        (members.map(|member| found[member].clone()), accruals["TotalCount"].clone())
    };
    let whole = [json!(1), json!(1), json!([rub(100)]), json!(10_000)];
    let nothing = [json!(0), json!(0), json!([]), Value::Null];
    assert_eq!(figures(first).await, (whole.clone(), json!(1)));
    assert_eq!(figures(second).await, (nothing.clone(), json!(0)));

    deal.agent = Some(second);
    deal.move_to("Sale", "2026-01-03T00:00:00Z").await;
    assert_eq!(figures(first).await, (nothing.clone(), json!(1)));
    assert_eq!(figures(second).await, (whole.clone(), json!(0)));

    deal.move_to("Completed", "2026-01-04T00:00:00Z").await;
    assert_eq!(figures(first).await, (nothing, json!(1)));
    assert_eq!(figures(second).await, (whole, json!(0)));
    let accruals = accruals_of(deal.id).await;
    assert_eq!(each(&accruals, "AgentUserId"), [&json!(first)]);
}

/// RULE-AGT-071: with `CountBy=CommissionAgent` a sale counts for the agent of its commission. The
/// figures therefore agree with the accruals, even after a change of the deal's agent.
#[tokio::test]
async fn sale_counts_for_the_agent_of_its_commission_on_request() {
    let (first, second, developer) = (guid(), guid(), guid());
    set_rate(developer, 1_000).await;
    let mut kept = Deal::new(first, developer, rub(100));
    let mut taken_over = Deal::new(first, developer, rub(200));
    let mut open = Deal::new(first, developer, rub(400));
    let mut direct = Deal::new(None, developer, rub(800));
    for deal in [&mut kept, &mut taken_over, &mut open, &mut direct] {
        deliver(service(), CREATED, &deal.created("2026-01-01T00:00:00Z")).await;
        // The deal `open` has no sale.
        let status = if deal.amount == rub(400) { "Booking" } else { "Sale" };
        deal.move_to(status, "2026-01-02T00:00:00Z").await;
    }
    for deal in [&mut taken_over, &mut open, &mut direct] {
        deal.agent = Some(second);
        deal.move_to(deal.status, "2026-02-03T00:00:00Z").await;
    }
    let figures = async |agent: Uuid, count_by: &str| {
        let found = performance(agent, &format!("{PERIOD}{count_by}")).await;
        let months = each(list(&found["Monthly"]), "SalesCount").into_iter().cloned().collect::<Vec<_>>();
        let members = ["DealsTotal", "SalesCount", "SalesVolume", "ConversionBps"];
        let volume = found["Developers"][0]["SalesVolume"].clone();
        (members.map(|member| found[member].clone()), json!(months), volume)
    };
    let of = |deals: i64, sales: i64, volume: i64, bps: i64| {
        let volume = json!([rub(volume)]);
        ([json!(deals), json!(sales), volume.clone(), json!(bps)], json!([sales, 0]), volume)
    };
    for default in ["", "&CountBy=DealAgent"] {
        assert_eq!(figures(first, default).await, of(1, 1, 100, 10_000));
        assert_eq!(figures(second, default).await, of(3, 2, 1_000, 6_667));
    }
    assert_eq!(figures(first, "&CountBy=CommissionAgent").await, of(2, 2, 300, 10_000));
    // `open` has no sale, so it counts for its present agent. `direct` counts for no agent, because
    // its sale began without one.
    let found = performance(second, &format!("{PERIOD}&CountBy=CommissionAgent")).await;
    assert_eq!((&found["DealsTotal"], &found["SalesCount"]), (&json!(1), &json!(0)));
    for agent in [first, second] {
        let found = performance(agent, &format!("{PERIOD}&CountBy=CommissionAgent")).await;
        let accruals = cabinet(agent).get(&format!("{MY}/commission-accruals?Kind=Base")).await.expect(200);
        assert_eq!(found["SalesCount"], accruals["TotalCount"]);
    }
    // After the end of its sale a deal counts for its present agent again.
    taken_over.move_to("Cancelled", "2026-02-04T00:00:00Z").await;
    let found = performance(second, &format!("{PERIOD}&CountBy=CommissionAgent")).await;
    assert_eq!(each(list(&found["Monthly"]), "DealsCancelled"), [0, 1]);
    let path = format!("{MY}/agent-performance?{PERIOD}&CountBy=Client");
    cabinet(first).get(&path).await.expect_refusal("VALIDATION_FAILED", "/CountBy", "unknown_value");
}

/// RULE-AGT-045: the volume of sales may exceed 64 bits.
#[tokio::test]
async fn sales_volume_may_exceed_64_bits() {
    let agent = guid();
    let greatest = with(sold(agent, "Sale", "2026-01-02T00:00:00Z"), "amount", i64::MAX);
    insert("deal", &[greatest.clone(), with(greatest, "id", guid().to_string())]).await;
    let response = cabinet(agent).get(&format!("{MY}/agent-performance?{PERIOD}")).await;
    assert_eq!(response.status, 200);
    let expected = r#"[{"AmountMinor":18446744073709551614,"Currency":"RUB"}]"#;
    // The sum of the period, of the month and of the developer.
    assert_eq!(response.text.matches(expected).count(), 3, "{}", response.text);
}

/// RULE-AGT-046: `MeanCycleDays` is in days of 86,400 s with one decimal place, half to even.
///
/// Deals of unknown creation are left out.
#[tokio::test]
async fn mean_cycle_has_one_decimal_place() {
    for (hours, mean) in [
        (&[6][..], json!(0.2)),      // 0.25
        (&[18], json!(0.8)),         // 0.75
        (&[24], json!(1.0)),         // whole
        (&[0, 1], json!(0.0)),       // 0.0208…
        (&[24, 48, 49], json!(1.7)), // 1.680…
        (&[600, 30], json!(13.1)),   // 13.125
        (&[], Value::Null),
    ] {
        let agent = guid();
        let cycle = |hours: &i64| {
            let at = moment("2026-01-01T00:00:00Z") + time::Duration::hours(*hours);
            sold(agent, "Sale", &at.format(&time::format_description::well_known::Rfc3339).unwrap())
        };
        let mut rows: Vec<_> = hours.iter().map(cycle).collect();
        rows.push(with(sold(agent, "Sale", "2026-02-02T00:00:00Z"), "created_at", Value::Null));
        insert("deal", &rows).await;
        let found = performance(agent, PERIOD).await;
        assert_eq!(found["SalesCount"], rows.len());
        assert_eq!(found["MeanCycleDays"].as_f64(), mean.as_f64(), "{hours:?}");
    }
}

/// RULE-AGT-047: `Monthly` has each UTC month of the period, oldest first, including empty ones.
/// The first and the last month are cut to the period.
#[tokio::test]
async fn months_are_cut_to_the_period() {
    let agent = guid();
    let cancelled = |at: &str| with(deal(agent, "Cancelled"), "cancelled_at", at);
    let rows = [
        cancelled("2026-01-15T11:59:59.999999Z"),
        cancelled("2026-01-15T12:00:00Z"),
        cancelled("2026-01-31T23:59:59.999999Z"),
        cancelled("2026-03-31T23:30:00Z"),
        cancelled("2026-04-01T00:30:00Z"),
        cancelled("2026-04-01T01:00:00Z"),
        sold(agent, "Sale", "2026-03-02T00:00:00Z"),
        with(deal(agent, "Booking"), "created_at", "2026-04-01T00:00:00Z"),
    ];
    insert("deal", &rows).await;
    // The end is 01:00 on April 1 in UTC.
    let query = "From=2026-01-15T12:00:00Z&To=2026-04-01T04:00:00%2B03:00";
    let found = performance(agent, query).await;
    assert_eq!(
        (&found["From"], &found["To"]),
        (&json!("2026-01-15T12:00:00Z"), &json!("2026-04-01T01:00:00Z"))
    );
    let months = list(&found["Monthly"]);
    assert_eq!(each(months, "Month"), ["2026-01", "2026-02", "2026-03", "2026-04"]);
    assert_eq!(each(months, "DealsCancelled"), [2, 0, 1, 1]);
    assert_eq!(each(months, "SalesCount"), [0, 0, 1, 0]);
    assert_eq!(each(months, "DealsCreated"), [0, 0, 0, 1]);
    let until_april = performance(agent, "From=2026-03-01T00:00:00Z&To=2026-04-01T00:00:00Z").await;
    assert_eq!(each(list(&until_april["Monthly"]), "Month"), ["2026-03"]);
}

/// RULE-AGT-048: `Developers` has at most 50 developers with their current names, sorted by the
/// number of sales, descending, then by id.
#[tokio::test]
async fn developers_with_most_sales_are_listed_first() {
    let agent = guid();
    let mut developers: Vec<_> = (0..53).map(|_| guid()).collect();
    developers.sort_unstable();
    let of = |developer: Uuid, amount: i64, currency: &str| {
        let row = sold(agent, "Sale", "2026-01-02T00:00:00Z");
        with(
            with(with(row, "developer_company_id", developer.to_string()), "amount", amount),
            "currency",
            currency,
        )
    };
    let mut rows: Vec<_> = developers.iter().map(|id| of(*id, 1, "RUB")).collect();
    // The last developer has the most sales, in three currencies. The last but one has as many as
    // the first.
    rows.extend([
        of(developers[52], 5, "USD"),
        of(developers[52], 7, "EUR"),
        of(developers[51], 3, "RUB"),
        of(developers[0], 4, "RUB"),
    ]);
    insert("deal", &rows).await;
    deliver(service(), crate::DEVELOPER_UPSERTED, &developer(developers[52], "Ромашка")).await;
    let found = performance(agent, PERIOD).await;
    let shown = list(&found["Developers"]);
    assert_eq!(shown.len(), 50);
    let ids: Vec<_> = shown.iter().map(|shown| id_of(&shown["DeveloperCompanyId"])).collect();
    assert_eq!(ids[..3], [developers[52], developers[0], developers[51]]);
    assert_eq!(ids[3..], developers[1..48]);
    let volume = json!([money(7, "EUR"), rub(1), money(5, "USD")]);
    assert_eq!(
        shown[0],
        json!({"DeveloperCompanyId": developers[52], "Name": "Ромашка", "SalesCount": 3, "SalesVolume": volume})
    );
    assert_eq!((&shown[1]["Name"], &shown[1]["SalesVolume"]), (&Value::Null, &json!([rub(5)])));
    // The sums include the developers that are not listed.
    assert_eq!((&found["SalesCount"], &found["SalesVolume"][1]), (&json!(57), &rub(60)));
    deliver(service(), crate::DEVELOPER_UPSERTED, &developer(developers[52], "Лютик")).await;
    assert_eq!(performance(agent, PERIOD).await["Developers"][0]["Name"], "Лютик");
}

/// RULE-AGT-049: the period is at most 366 × 24 h, and its start is before its end. Defaults are
/// in UTC.
#[tokio::test]
async fn period_longer_than_366_days_is_refused() {
    let agent = guid();
    performance(agent, "From=2026-01-01T00:00:00Z&To=2027-01-02T00:00:00Z").await;
    refused("From=2026-01-01T00:00:00Z&To=2027-01-02T00:00:00.000001Z").await;
    refused("From=2026-01-01T00:00:00Z&To=2026-01-01T00:00:00Z").await;
    refused("From=2026-01-02T00:00:00Z&To=2026-01-01T00:00:00Z").await;
    refused("From=9999-01-01T00:00:00Z").await;
    refused("From=2020-01-01T00:00:00Z").await;
    for broken in
        ["From=2026-01-01", "To=", "To=now", "From=2026-01-01T00:00:00", "To=9999-12-31T23:59:59-01:00"]
    {
        refused(broken).await;
    }
    refused("From=2026-01-01T00:00:00Z&From=2026-01-01T00:00:00Z").await;
    let until = performance(agent, "To=2026-05-31T22:00:00-03:00").await;
    assert_eq!(
        (&until["From"], &until["To"]),
        (&json!("2025-07-01T00:00:00Z"), &json!("2026-06-01T01:00:00Z"))
    );
    assert_eq!(list(&until["Monthly"]).len(), 12);
    let far = performance(agent, "To=9999-12-31T23:59:59Z").await;
    assert_eq!(far["From"], "9999-01-01T00:00:00Z");
    let early = performance(agent, "To=0000-02-01T00:00:00Z").await;
    assert_eq!(early["From"], "0000-01-01T00:00:00Z");
    let before = runtime::clock::now();
    let by_default = performance(agent, "").await;
    let to = moment(by_default["To"].as_str().unwrap());
    assert!(before <= to && to <= runtime::clock::now(), "{by_default}");
    let from = moment(by_default["From"].as_str().unwrap());
    let months =
        (to.year() - from.year()) * 12 + i32::from(u8::from(to.month())) - i32::from(u8::from(from.month()));
    assert_eq!((months, from.day(), from.time()), (11, 1, time::Time::MIDNIGHT));
    assert_eq!(list(&by_default["Monthly"]).len(), 12);
}

/// RULE-AGT-050: status and agent follow all four topics, and sales follow stage changes alone.
#[tokio::test]
async fn statistics_follow_all_deal_topics() {
    let (agent, other, tenant) = (guid(), guid(), guid());
    let mut deal = Deal::new(agent, tenant, rub(100));
    let day = |day: u8| format!("2026-01-{day:02}T00:00:00Z");
    let created = deal.created(&day(1));
    // The deal counts once `deal-created` has arrived, which is older and keeps the newer status.
    deal.move_to("Booking", &day(2)).await;
    assert_eq!(performance(agent, PERIOD).await["DealsTotal"], 0);
    deliver(service(), CREATED, &created).await;
    let found = performance(agent, PERIOD).await;
    assert_eq!((&found["DealsTotal"], &found["DealsByStatus"]["Booking"]), (&json!(1), &json!(1)));

    deal.amount = rub(120);
    deal.move_to("Sale", &day(4)).await;
    let found = performance(agent, PERIOD).await;
    assert_eq!((&found["SalesVolume"], &found["MeanCycleDays"].as_f64()), (&json!([rub(120)]), &Some(3.0)));

    // The deal gets another agent and another amount, and counts for the new agent in full.
    (deal.agent, deal.amount) = (Some(other), rub(130));
    deal.move_to("Sale", &day(5)).await;
    assert_eq!(performance(agent, PERIOD).await["DealsTotal"], 0);
    let found = performance(other, PERIOD).await;
    assert_eq!((&found["DealsTotal"], &found["SalesVolume"]), (&json!(1), &json!([rub(130)])));

    // `deal-cancelled` arrives before the stage change of its version. That stage change then
    // changes no figure.
    let change = deal.stage_changed("Cancelled", &day(6));
    deliver(service(), CANCELLED, &deal.cancelled(&day(6))).await;
    for _ in 0..2 {
        let found = performance(other, PERIOD).await;
        let monthly = each(list(&found["Monthly"]), "DealsCancelled");
        assert_eq!((&found["SalesCount"], monthly), (&json!(0), vec![&json!(1), &json!(0)]));
        assert_eq!((&found["DealsByStatus"]["Cancelled"], &found["ConversionBps"]), (&json!(1), &json!(0)));
        deliver(service(), STAGE_CHANGED, &change).await;
    }
    // A change of a cancelled deal keeps the time of the cancellation.
    deal.agent = Some(agent);
    deal.move_to("Cancelled", "2026-02-06T00:00:00Z").await;
    let found = performance(agent, PERIOD).await;
    assert_eq!(each(list(&found["Monthly"]), "DealsCancelled"), [1, 0]);
    // A deal that returns to Application is no longer cancelled.
    deal.agent = Some(other);
    deal.move_to("Application", &day(7)).await;
    let found = performance(other, PERIOD).await;
    assert_eq!(each(list(&found["Monthly"]), "DealsCancelled"), [0, 0]);
    assert_eq!(found["DealsByStatus"]["Application"], 1);

    // `deal-completed` arrives without its stage change, so no sale has begun.
    deal.stage_changed("Completed", &day(8));
    deliver(service(), COMPLETED, &deal.completed(&day(8))).await;
    let found = performance(other, PERIOD).await;
    assert_eq!((&found["DealsByStatus"]["Completed"], &found["SalesCount"]), (&json!(1), &json!(0)));
}

/// RULE-AGT-066: `TimeZone` decides in which month a sale, a deal and a cancellation count, and
/// when the default period begins. An unknown name is refused.
#[tokio::test]
async fn months_are_those_of_the_requested_time_zone() {
    let agent = guid();
    // 1 May, 00:30 in Moscow.
    let at = "2026-04-30T21:30:00Z";
    let rows = [
        with(sold(agent, "Sale", at), "created_at", at),
        with(with(deal(agent, "Cancelled"), "cancelled_at", at), "created_at", at),
    ];
    insert("deal", &rows).await;
    let period = "From=2026-03-31T21:00:00Z&To=2026-05-31T21:00:00Z";
    for (zone, months, counts) in [
        ("", &["2026-03", "2026-04", "2026-05"][..], &[0, 1, 0][..]),
        ("&TimeZone=UTC", &["2026-03", "2026-04", "2026-05"], &[0, 1, 0]),
        ("&TimeZone=Europe/Moscow", &["2026-04", "2026-05"], &[0, 1]),
        ("&TimeZone=Europe%2FMoscow", &["2026-04", "2026-05"], &[0, 1]),
        ("&TimeZone=America/New_York", &["2026-03", "2026-04", "2026-05"], &[0, 1, 0]),
    ] {
        let found = performance(agent, &format!("{period}{zone}")).await;
        let monthly = list(&found["Monthly"]);
        assert_eq!(each(monthly, "Month"), months, "{zone}");
        assert_eq!(each(monthly, "SalesCount"), counts, "{zone}");
        assert_eq!(each(monthly, "DealsCancelled"), counts, "{zone}");
        assert_eq!(each(monthly, "DealsCreated"), counts.iter().map(|count| 2 * count).collect::<Vec<_>>());
    }
    let by_default = performance(agent, "To=2026-05-31T21:00:00Z&TimeZone=Europe/Moscow").await;
    assert_eq!(by_default["From"], "2025-06-30T21:00:00Z");
    for unknown in ["Moscow", "", "UTC%2B3", "%2B03:00", "../UTC"] {
        let path = format!("{MY}/agent-performance?{period}&TimeZone={unknown}");
        let response = cabinet(agent).get(&path).await;
        response.expect_refusal("VALIDATION_FAILED", "/TimeZone", "unknown_value");
    }
}
