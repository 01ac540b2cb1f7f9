//! Payout runs.

use serde_json::{Value, json};
use testkit::{eventually, guid};
use time::Duration;
use uuid::Uuid;

use crate::fixtures::{
    AccrualFixture, accrual, ago, await_completion, balance, decider, list_payouts, now, pay, pay_one, payer,
    payout_path, rfc3339, run_body, write_each,
};
use crate::{
    Deal, PAYOUT_STATUS_CHANGED, PAYOUTS, PLATFORM, accruals_of, claims_of, id_of, list, money, rub, service,
    start, with, without,
};

pub fn payouts_path() -> String {
    format!("{PLATFORM}/payouts")
}

/// RULE-AGT-017, INV-AGT-6, RULE-EVT-021: a run pays Approved accruals, with one payout per
/// currency.
#[tokio::test]
async fn run_pays_approved_accruals_by_currency() {
    let (service, agent) = (service(), guid());
    let one = AccrualFixture::approved(agent, 1_000).write(service).await;
    let two = AccrualFixture::approved(agent, 2_005).write(service).await;
    let foreign = AccrualFixture::approved(agent, 70).in_currency("USD").write(service).await;
    let pending = AccrualFixture::approved(agent, 5).pending().write(service).await;
    let body = with(run_body(&[agent]), "WithholdingBps", 1_300);
    let by = guid();
    let begun = service.caller(&claims_of(by, &[PAYOUTS])).post(&payouts_path(), body.clone()).await;
    assert_eq!(begun.header("location").rsplit('/').next(), begun.body["Id"].as_str());
    let begun = begun.expect(201);
    for (member, value) in [
        ("Status", json!("Running")),
        ("PayoutsCount", json!(0)),
        ("Totals", json!([])),
        ("CompletedAt", Value::Null),
        ("RunKey", body["RunKey"].clone()),
        ("AgentUserIds", json!([agent])),
        ("WithholdingBps", json!(1_300)),
        ("PeriodTo", body["PeriodTo"].clone()),
    ] {
        assert_eq!(begun[member], value, "{member}");
    }

    let run = await_completion(service, &begun["Id"]).await;
    assert_eq!(run["PayoutsCount"], 2);
    assert_eq!(
        run["Totals"],
        json!([
            {"Currency": "RUB", "Gross": money(3_005, "RUB"), "Withheld": money(391, "RUB"), "Net": money(2_614, "RUB")},
            {"Currency": "USD", "Gross": money(70, "USD"), "Withheld": money(9, "USD"), "Net": money(61, "USD")},
        ])
    );
    let created = list_payouts(service, &run).await;
    let in_roubles = &created[0];
    for (member, value) in [
        ("RunId", run["Id"].clone()),
        ("AgentUserId", json!(agent)),
        ("PeriodFrom", body["PeriodFrom"].clone()),
        ("PeriodTo", body["PeriodTo"].clone()),
        ("Gross", money(3_005, "RUB")),
        ("WithholdingBps", json!(1_300)),
        ("Withheld", money(391, "RUB")),
        ("Net", money(2_614, "RUB")),
        ("AccrualsCount", json!(2)),
        ("Status", json!("Scheduled")),
        ("Reference", Value::Null),
        ("FailureReason", Value::Null),
        ("SentAt", Value::Null),
        ("PaidAt", Value::Null),
        ("Version", json!(1)),
    ] {
        assert_eq!(in_roubles[member], value, "{member}");
    }
    for (written, payout) in [(one, in_roubles), (two, in_roubles), (foreign, &created[1])] {
        let shown = accrual(service, agent, written.id).await;
        assert_eq!((&shown["Status"], &shown["PayoutId"]), (&json!("Approved"), &payout["Id"]));
        assert_eq!(shown["Version"], 2);
    }
    assert_eq!(accrual(service, agent, pending.id).await["PayoutId"], Value::Null);

    let events = service.published(id_of(&in_roubles["Id"])).await;
    let [event] = &events[..] else { panic!("one event: {events:?}") };
    assert_eq!(event.topic, PAYOUT_STATUS_CHANGED);
    assert_eq!(
        event.payload,
        json!({
            "PayoutId": in_roubles["Id"], "AgentUserId": agent, "From": null, "To": "Scheduled", "Net": money(2_614, "RUB"),
            "AccrualsCount": 2, "Version": 1, "ChangedByUserId": by, "ChangedAt": in_roubles["CreatedAt"],
        })
    );
    assert!(service.published(one.id).await.is_empty(), "an accrual that enters a payout publishes nothing");
}

/// RULE-AGT-078: a run of all agents has several parts. A part that waits delays no other part,
/// each account is paid once, and the last part completes the run.
#[tokio::test]
async fn run_of_all_agents_is_paid_in_parts() {
    let service = &start(&[]);
    let mut agents: Vec<Uuid> = (0..250).map(|_| guid()).collect();
    agents.sort_unstable();
    write_each(service, agents.iter().map(|agent| AccrualFixture::approved(*agent, 10))).await;
    let locked = service.sql().await;
    let lock = "select from account where agent_user_id = $1::text::uuid for update";
    locked.batch_execute("begin").await.unwrap();
    locked.execute(lock, &[&agents[0].to_string()]).await.unwrap();

    let begun =
        payer(service).post(&payouts_path(), without(run_body(&[]), "AgentUserIds")).await.expect(201);
    let sql = service.sql().await;
    let paid = async |count: i64| {
        let query = "select count(*) from payout";
        let paid: i64 = sql.query_one(query, &[]).await.unwrap().get(0);
        (paid == count).then_some(())
    };
    // The parts have 100, 100 and 50 accounts. The first one waits for the lock.
    eventually("the payouts of the other parts", async || paid(150).await).await;
    let path = format!("{PLATFORM}/payout-runs/{}", id_of(&begun["Id"]));
    assert_eq!(payer(service).get(&path).await.expect(200)["Status"], "Running");
    locked.batch_execute("rollback").await.unwrap();

    let run = await_completion(service, &begun["Id"]).await;
    assert_eq!(run["PayoutsCount"], 250);
    paid(250).await.expect("one payout for each account");
}

/// RULE-AGT-021, RULE-ALL-007: `Withheld` is rounded half to even, and `Net` is the rest.
#[tokio::test]
async fn withheld_amount_is_rounded_half_to_even() {
    let service = service();
    for (gross, bps, withheld) in [(5, 5_000, 2), (15, 5_000, 8), (1, 10_000, 1), (1, 0, 0), (3, 3_333, 1)] {
        let agent = guid();
        AccrualFixture::approved(agent, gross).write(service).await;
        let (_, created) = pay(service, with(run_body(&[agent]), "WithholdingBps", bps)).await;
        let shown = ["Gross", "Withheld", "Net"].map(|member| created[0][member]["AmountMinor"].clone());
        assert_eq!(shown, [json!(gross), json!(withheld), json!(gross - withheld)], "{gross} at {bps}");
    }
}

/// RULE-AGT-020: a debt is never paid. It is carried over and lowers the next payout.
#[tokio::test]
async fn debt_is_carried_over_to_the_next_payout() {
    let (service, agent) = (service(), guid());
    let debt =
        AccrualFixture { kind: "Correction", ..AccrualFixture::approved(agent, -100) }.write(service).await;
    AccrualFixture::approved(agent, 100).write(service).await;
    let (run, created) = pay(service, run_body(&[agent])).await;
    assert_eq!((created.len(), &run["PayoutsCount"]), (0, &json!(0)), "a sum of 0 is not paid");
    let unpaid = accrual(service, agent, debt.id).await;
    assert_eq!((&unpaid["PayoutId"], &unpaid["Version"]), (&Value::Null, &json!(1)));

    AccrualFixture::approved(agent, 1).write(service).await;
    let created = pay_one(service, agent).await;
    assert_eq!((&created["Gross"], &created["AccrualsCount"]), (&money(1, "RUB"), &json!(3)));
}

/// RULE-AGT-017: accruals approved before `PeriodTo` are paid, however old they are. `PeriodTo` is
/// exclusive.
#[tokio::test]
async fn run_pays_accruals_approved_before_the_period_end() {
    let (service, agent) = (service(), guid());
    let end = ago(Duration::hours(1));
    AccrualFixture::approved(agent, 1).approved_at(ago(Duration::days(3_000))).write(service).await;
    AccrualFixture::approved(agent, 10).approved_at(end - Duration::microseconds(1)).write(service).await;
    AccrualFixture::approved(agent, 100).approved_at(end).write(service).await;
    let body = with(run_body(&[agent]), "PeriodTo", rfc3339(end));
    let (_, created) = pay(service, body).await;
    assert_eq!(created[0]["Gross"], money(11, "RUB"));
}

/// RULE-AGT-019: a payout takes debts first, then other accruals by `ApprovedAt`, up to the
/// configured number of lines.
#[tokio::test]
async fn payout_takes_debts_first_up_to_the_line_limit() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "3")]);
    let agent = guid();
    for (amount, days) in [(100, 5), (200, 4), (400, 3), (800, 2)] {
        AccrualFixture::approved(agent, amount).approved_at(ago(Duration::days(days))).write(&service).await;
    }
    let late = ago(Duration::hours(1));
    AccrualFixture { kind: "Correction", ..AccrualFixture::approved(agent, -50) }
        .approved_at(late)
        .write(&service)
        .await;
    let first = pay_one(&service, agent).await;
    assert_eq!((&first["Gross"], &first["AccrualsCount"]), (&money(250, "RUB"), &json!(3)));
    let second = pay_one(&service, agent).await;
    assert_eq!((&second["Gross"], &second["AccrualsCount"]), (&money(1_200, "RUB"), &json!(2)));
}

/// RULE-AGT-019: accruals approved at the same time are paid in the order of their ids.
#[tokio::test]
async fn accruals_approved_at_one_time_are_paid_by_id() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "2")]);
    let agent = guid();
    let mut stored = AccrualFixture::approved(agent, 10).write_all(&service, 5).await;
    stored.sort_by_key(|line| line.id);
    for lines in stored.chunks(2) {
        let created = pay_one(&service, agent).await;
        assert_eq!(created["AccrualsCount"], lines.len());
        for line in lines {
            assert_eq!(accrual(&service, agent, line.id).await["PayoutId"], created["Id"]);
        }
    }
}

/// RULE-AGT-020: debts that fill all lines prevent a payout, even if more accruals are payable.
#[tokio::test]
async fn debts_that_fill_all_lines_prevent_a_payout() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "2")]);
    let agent = guid();
    let approved = |amount: i64, days: i64| {
        let kind = if amount < 0 { "Correction" } else { "Base" };
        AccrualFixture { kind, ..AccrualFixture::approved(agent, amount) }
            .approved_at(ago(Duration::days(days)))
    };
    let debt = approved(-30, 2).write(&service).await;
    approved(-30, 5).write(&service).await;
    approved(1_000, 4).write(&service).await;
    let (run, created) = pay(&service, run_body(&[agent])).await;
    assert_eq!((created.len(), &run["PayoutsCount"]), (0, &json!(0)));
    let unpaid = accrual(&service, agent, debt.id).await;
    assert_eq!((&unpaid["PayoutId"], &unpaid["Version"]), (&Value::Null, &json!(1)));

    // The period of this run ends before the approval of `debt`.
    let with_one_debt = with(run_body(&[agent]), "PeriodTo", rfc3339(ago(Duration::days(3))));
    let (_, created) = pay(&service, with_one_debt).await;
    assert_eq!((&created[0]["Gross"], &created[0]["AccrualsCount"]), (&money(970, "RUB"), &json!(2)));
}

/// RULE-AGT-020: accruals of 0 wait for a payout with a sum above 0.
#[tokio::test]
async fn accruals_of_zero_make_no_payout() {
    let (service, agent, developer) = (service(), guid(), guid());
    crate::set_rate(developer, 0).await;
    let mut deal = Deal::new(agent, developer, rub(1_000_000));
    deal.move_to("Sale", "2026-05-01T10:00:00Z").await;
    deal.move_to("Completed", "2026-06-01T10:00:00Z").await;
    let earned = accruals_of(deal.id).await;
    assert_eq!((earned.len(), &earned[0]["Status"], &earned[0]["Amount"]), (1, &json!("Approved"), &rub(0)));
    let (run, created) = pay(service, run_body(&[agent])).await;
    assert_eq!((created.len(), &run["Totals"]), (0, &json!([])));
    assert_eq!(accruals_of(deal.id).await, earned, "accruals of 0 wait");

    AccrualFixture::approved(agent, 7).write(service).await;
    let created = pay_one(service, agent).await;
    assert_eq!((&created["Gross"], &created["AccrualsCount"]), (&rub(7), &json!(2)));
}

/// INV-AGT-8: an accrual of a held deal enters no payout until the ledger has caught up.
#[tokio::test]
async fn held_deal_is_not_paid() {
    let (service, agent) = (service(), guid());
    let waiting = AccrualFixture::approved(agent, 1).write(service).await;
    AccrualFixture::approved(agent, 10).write(service).await;
    let sql = service.sql().await;
    let hold = "update deal set known_row_version = 2, held_since = now() where id = $1::text::uuid";
    sql.execute(hold, &[&waiting.deal.to_string()]).await.unwrap();
    assert_eq!(pay_one(service, agent).await["Gross"], money(10, "RUB"));

    let release = "update deal set applied_row_version = 2, held_since = null where id = $1::text::uuid";
    sql.execute(release, &[&waiting.deal.to_string()]).await.unwrap();
    assert_eq!(pay_one(service, agent).await["Gross"], money(1, "RUB"));
}

/// RULE-AGT-017: a run pays the named agents, or all of them.
/// An agent without accruals gets no payout.
#[tokio::test]
async fn run_pays_the_named_agents_or_all() {
    let service = start(&[]);
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(5).collect();
    for agent in &agents[..4] {
        AccrualFixture::approved(*agent, 10).write(&service).await;
    }
    let named = [agents[4], agents[1], agents[0]];
    let (run, created) = pay(&service, run_body(&named)).await;
    assert_eq!(run["AgentUserIds"], json!(named));
    assert_eq!(created.len(), 2);
    let (run, created) = pay(&service, without(run_body(&[]), "AgentUserIds")).await;
    assert_eq!((&run["AgentUserIds"], created.len()), (&Value::Null, 2));
    let (run, created) = pay(&service, with(run_body(&[]), "AgentUserIds", Value::Null)).await;
    assert_eq!((created.len(), &run["Totals"]), (0, &json!([])));
}

/// RULE-AGT-018, RULE-AGT-043: a repeated key with the same content returns the run as it is now.
///
/// Other content is refused.
#[tokio::test]
async fn repeated_run_key_returns_its_run_or_is_refused() {
    let (service, agent, other) = (service(), guid(), guid());
    AccrualFixture::approved(agent, 10).write(service).await;
    let body = with(run_body(&[agent, other]), "WithholdingBps", 100);
    let (run, _) = pay(service, body.clone()).await;
    let payer = payer(service);
    for same in [
        body.clone(),
        with(body.clone(), "AgentUserIds", json!([other, agent])),
        with(body.clone(), "PeriodTo", body["PeriodTo"].as_str().unwrap().replace('Z', "+00:00")),
        with(body.clone(), "Unknown", 1),
    ] {
        assert_eq!(payer.post(&payouts_path(), same).await.expect(200), run);
    }
    for another in [
        with(body.clone(), "AgentUserIds", json!([agent])),
        without(body.clone(), "AgentUserIds"),
        with(body.clone(), "WithholdingBps", 101),
        without(body.clone(), "WithholdingBps"),
        with(body.clone(), "PeriodFrom", rfc3339(ago(Duration::days(31)))),
        with(body.clone(), "PeriodTo", rfc3339(ago(Duration::days(1)))),
    ] {
        payer.post(&payouts_path(), another).await.expect_problem(409, "AGENT_PAYOUT_RUN_KEY_REUSED");
    }
    let (run, created) = pay(service, with(body, "RunKey", guid().to_string())).await;
    assert_eq!((created.len(), &run["PayoutsCount"]), (0, &json!(0)), "nothing is paid twice");
    assert_eq!(run["WithholdingBps"], 100);
}

/// RULE-AGT-017, RULE-AGT-042: invalid requests about runs are refused.
#[tokio::test]
async fn invalid_run_request_is_refused() {
    let payer = payer(service());
    let body = run_body(&[guid()]);
    let twice = guid();
    let many: Vec<Uuid> = std::iter::repeat_with(guid).take(1_001).collect();
    for (member, value, field, code) in [
        ("RunKey", json!(""), "/RunKey", "too_short"),
        ("RunKey", json!("x".repeat(65)), "/RunKey", "too_long"),
        ("RunKey", json!("a b"), "/RunKey", "forbidden_character"),
        ("RunKey", json!("é"), "/RunKey", "forbidden_character"),
        ("RunKey", json!("a\n"), "/RunKey", "forbidden_character"),
        ("RunKey", json!(1), "/RunKey", "invalid_type"),
        ("PeriodFrom", body["PeriodTo"].clone(), "/PeriodTo", "empty_range"),
        ("PeriodFrom", json!("2026-01-01"), "/PeriodFrom", "invalid_type"),
        ("PeriodTo", json!(rfc3339(now() + Duration::minutes(1))), "/PeriodTo", "out_of_bounds"),
        ("PeriodFrom", json!(rfc3339(now() - Duration::days(367))), "/PeriodTo", "out_of_bounds"),
        ("AgentUserIds", json!([]), "/AgentUserIds", "too_few"),
        ("AgentUserIds", json!(many), "/AgentUserIds", "too_many"),
        ("AgentUserIds", json!([twice, guid(), twice]), "/AgentUserIds/2", "duplicate"),
        ("AgentUserIds", json!([Uuid::nil()]), "/AgentUserIds/0", "empty_id"),
        ("WithholdingBps", json!(-1), "/WithholdingBps", "out_of_range"),
        ("WithholdingBps", json!(10_001), "/WithholdingBps", "out_of_range"),
        ("WithholdingBps", json!(1.5), "/WithholdingBps", "invalid_type"),
    ] {
        let response = payer.post(&payouts_path(), with(body.clone(), member, value)).await;
        response.expect_refusal("VALIDATION_FAILED", field, code);
    }
    for member in ["RunKey", "PeriodFrom", "PeriodTo"] {
        let response = payer.post(&payouts_path(), without(body.clone(), member)).await;
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "required");
    }
    let end = ago(Duration::seconds(1));
    let start = end - Duration::days(366);
    let whole = with(body.clone(), "PeriodTo", rfc3339(end));
    let longer = with(whole.clone(), "PeriodFrom", rfc3339(start - Duration::microseconds(1)));
    let refused = payer.post(&payouts_path(), longer).await;
    refused.expect_refusal("VALIDATION_FAILED", "/PeriodTo", "out_of_bounds");
    let whole = with(with(whole, "PeriodFrom", rfc3339(start)), "AgentUserIds", json!(many[..1_000]));
    // 64 characters.
    let key = format!("A-z.0_{}{}", guid(), "9".repeat(22));
    assert_eq!(
        payer.post(&payouts_path(), with(whole, "RunKey", key.clone())).await.expect(201)["RunKey"],
        key
    );
    for (id, code) in [
        (guid().to_string(), "AGENT_PAYOUT_RUN_NOT_FOUND"),
        (Uuid::nil().to_string(), "AGENT_PAYOUT_RUN_NOT_FOUND"),
        ("x".to_owned(), "NOT_FOUND"),
    ] {
        payer.get(&format!("{PLATFORM}/payout-runs/{id}")).await.expect_problem(404, code);
    }
}

/// RULE-AGT-021: the totals of a run may exceed 64 bits. The sums of an account do not.
#[tokio::test]
async fn run_totals_may_exceed_64_bits() {
    let (service, one, other) = (service(), guid(), guid());
    for agent in [one, other] {
        AccrualFixture::approved(agent, i64::MAX).write(service).await;
    }
    let (run, created) = pay(service, with(run_body(&[one, other]), "WithholdingBps", 5_000)).await;
    assert_eq!(created.len(), 2);
    let total = serde_json::to_string(&run["Totals"][0]["Gross"]).unwrap();
    assert!(total.contains("18446744073709551614"), "{total}");
    let half = i64::MAX / 2 + 1;
    assert_eq!(created[0]["Withheld"], money(half, "RUB"), "half to even");
    assert_eq!(created[0]["Net"], money(i64::MAX - half, "RUB"));
}

/// RULE-AGT-012: only the final sum must fit into 64 bits, so a payout of the greatest amount may
/// include a debt.
#[tokio::test]
async fn debt_beside_the_greatest_amount_is_paid_with_it() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    let debt =
        AccrualFixture { kind: "Correction", adjusts: Some(base), ..AccrualFixture::approved(agent, -60) };
    debt.write(service).await;
    AccrualFixture::approved(agent, i64::MAX - 40).write(service).await;
    let payout = pay_one(service, agent).await;
    assert_eq!((&payout["AccrualsCount"], &payout["Gross"]), (&json!(3), &money(i64::MAX, "RUB")));
    let paid = payer(service).post(&payout_path(&payout, "confirm"), json!({})).await.expect(200);
    assert_eq!(paid["Status"], "Paid");
    assert_eq!(balance(service, agent, "RUB").await["Paid"], i64::MAX);
}

/// RULE-AGT-019: a payout of 5,000 lines can be created, read, failed and confirmed.
#[tokio::test]
async fn payout_of_5000_lines_can_be_failed_and_confirmed() {
    let (service, agent) = (service(), guid());
    let written = AccrualFixture::approved(agent, 1).write_all(service, 5_001).await;
    let payout = pay_one(service, agent).await;
    assert_eq!((&payout["AccrualsCount"], &payout["Gross"]), (&json!(5_000), &money(5_000, "RUB")));
    let payer = payer(service);
    payer.post(&payout_path(&payout, "fail"), json!({"Reason": "no such account"})).await.expect(200);
    let payout = pay_one(service, agent).await;
    assert_eq!(payout["AccrualsCount"], 5_000);
    let statement = payer.get(&payout_path(&payout, "statement")).await.expect(200);
    assert_eq!(list(&statement["Lines"]).len(), 5_000);
    let csv = payer.get(&payout_path(&payout, "statement?Format=Csv")).await;
    assert_eq!(csv.text.matches("\r\n").count(), 5_001);
    payer.post(&payout_path(&payout, "confirm"), json!({})).await.expect(200);
    let ids: Vec<Uuid> = written.iter().map(|accrual| accrual.id).collect();
    crate::await_published(service).await;
    assert_eq!(ids.iter().flat_map(|id| service.bus().events(id)).count(), 5_000);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&Status=Approved");
    assert_eq!(decider(service).get(&path).await.expect(200)["TotalCount"], 1);
}
