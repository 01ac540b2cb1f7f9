//! Runs: section 6.

use serde_json::{Value, json};
use testkit::{eventually, guid};
use time::Duration;
use uuid::Uuid;

use crate::owed::{
    Owed, accrual, ago, balances, complete, decider, now, pay, pay_one, payer, payouts_of, run_of, to,
    written,
};
use crate::{
    Deal, PAYOUT_STATUS_CHANGED, PLATFORM, accruals_of, id_of, list, money, rub, service, start, with,
    without,
};

pub fn payouts() -> String {
    format!("{PLATFORM}/payouts")
}

/// What is Approved is paid, each currency by itself; what is Pending is not.
#[tokio::test]
async fn what_is_approved_is_paid() {
    let (service, agent) = (service(), guid());
    let one = Owed::to(agent, 1_000).write(service).await;
    let two = Owed::to(agent, 2_005).write(service).await;
    let foreign = Owed::to(agent, 70).of_currency("USD").write(service).await;
    let pending = Owed::to(agent, 5).pending().write(service).await;
    let body = with(run_of(&[agent]), "WithholdingBps", 1_300);
    let begun = payer(service).post(&payouts(), body.clone()).await;
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

    let run = complete(service, &begun["Id"]).await;
    assert_eq!(run["PayoutsCount"], 2);
    assert_eq!(
        run["Totals"],
        json!([
            {"Currency": "RUB", "Gross": money(3_005, "RUB"), "Withheld": money(391, "RUB"), "Net": money(2_614, "RUB")},
            {"Currency": "USD", "Gross": money(70, "USD"), "Withheld": money(9, "USD"), "Net": money(61, "USD")},
        ])
    );
    let made = payouts_of(service, &run).await;
    let rub = &made[0];
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
        assert_eq!(rub[member], value, "{member}");
    }
    for (written, payout) in [(one, rub), (two, rub), (foreign, &made[1])] {
        let shown = accrual(service, agent, written.id).await;
        assert_eq!((&shown["Status"], &shown["PayoutId"]), (&json!("Approved"), &payout["Id"]));
        assert_eq!(shown["Version"], 2);
    }
    assert_eq!(accrual(service, agent, pending.id).await["PayoutId"], Value::Null);

    let events = service.published(id_of(&rub["Id"])).await;
    let [event] = &events[..] else { panic!("one event: {events:?}") };
    assert_eq!(event.topic, PAYOUT_STATUS_CHANGED);
    assert_eq!(
        event.payload,
        json!({
            "PayoutId": rub["Id"], "AgentUserId": agent, "From": null, "To": "Scheduled", "Net": money(2_614, "RUB"),
            "AccrualsCount": 2, "Version": 1, "ChangedAt": rub["CreatedAt"],
        })
    );
    assert!(service.published(one.id).await.is_empty(), "an accrual that enters a payout publishes nothing");
}

/// `Withheld` is rounded half to even, and `Net` is the rest.
#[tokio::test]
async fn what_is_withheld_is_rounded_half_to_even() {
    let service = service();
    for (gross, bps, withheld) in [(5, 5_000, 2), (15, 5_000, 8), (1, 10_000, 1), (1, 0, 0), (3, 3_333, 1)] {
        let agent = guid();
        Owed::to(agent, gross).write(service).await;
        let (_, made) = pay(service, with(run_of(&[agent]), "WithholdingBps", bps)).await;
        let shown = ["Gross", "Withheld", "Net"].map(|member| made[0][member]["AmountMinor"].clone());
        assert_eq!(shown, [json!(gross), json!(withheld), json!(gross - withheld)], "{gross} at {bps}");
    }
}

/// A debt is carried over, never paid, and lowers the next payout.
#[tokio::test]
async fn a_debt_is_carried_over() {
    let (service, agent) = (service(), guid());
    let debt = Owed { kind: "Correction", ..Owed::to(agent, -100) }.write(service).await;
    Owed::to(agent, 100).write(service).await;
    let (run, made) = pay(service, run_of(&[agent])).await;
    assert_eq!((made.len(), &run["PayoutsCount"]), (0, &json!(0)), "what comes to 0 is not paid");
    let waits = accrual(service, agent, debt.id).await;
    assert_eq!((&waits["PayoutId"], &waits["Version"]), (&Value::Null, &json!(1)));

    Owed::to(agent, 1).write(service).await;
    let made = pay_one(service, agent).await;
    assert_eq!((&made["Gross"], &made["AccrualsCount"]), (&money(1, "RUB"), &json!(3)));
}

/// What was approved before `PeriodTo` is paid, however long before; `PeriodTo` itself is after it.
#[tokio::test]
async fn what_was_approved_before_the_period_ends_is_paid() {
    let (service, agent) = (service(), guid());
    let end = ago(Duration::hours(1));
    Owed::to(agent, 1).approved_at(ago(Duration::days(3_000))).write(service).await;
    Owed::to(agent, 10).approved_at(end - Duration::microseconds(1)).write(service).await;
    Owed::to(agent, 100).approved_at(end).write(service).await;
    let body = with(run_of(&[agent]), "PeriodTo", written(end));
    let (_, made) = pay(service, body).await;
    assert_eq!(made[0]["Gross"], money(11, "RUB"));
}

/// What is owed back first, then by `ApprovedAt` and id, as many as a payout may have.
#[tokio::test]
async fn a_payout_has_so_many_lines() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "3")]);
    let agent = guid();
    for (amount, days) in [(100, 5), (200, 4), (400, 3), (800, 2)] {
        Owed::to(agent, amount).approved_at(ago(Duration::days(days))).write(&service).await;
    }
    let late = ago(Duration::hours(1));
    Owed { kind: "Correction", ..Owed::to(agent, -50) }.approved_at(late).write(&service).await;
    let first = pay_one(&service, agent).await;
    assert_eq!((&first["Gross"], &first["AccrualsCount"]), (&money(250, "RUB"), &json!(3)));
    let second = pay_one(&service, agent).await;
    assert_eq!((&second["Gross"], &second["AccrualsCount"]), (&money(1_200, "RUB"), &json!(2)));
}

/// Of what was approved at one moment the lowest ids are paid first.
#[tokio::test]
async fn of_one_moment_the_lowest_ids_are_paid_first() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "2")]);
    let agent = guid();
    let mut owed = Owed::to(agent, 10).write_all(&service, 5).await;
    owed.sort_by_key(|line| line.id);
    for lines in owed.chunks(2) {
        let made = pay_one(&service, agent).await;
        assert_eq!(made["AccrualsCount"], lines.len());
        for line in lines {
            assert_eq!(accrual(&service, agent, line.id).await["PayoutId"], made["Id"]);
        }
    }
}

/// A debt is never paid: where what is owed back takes all the lines of a payout there is none, however much waits behind it.
#[tokio::test]
async fn debts_that_take_all_lines_leave_no_payout() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", "2")]);
    let agent = guid();
    let owed = |amount: i64, days: i64| {
        let kind = if amount < 0 { "Correction" } else { "Base" };
        Owed { kind, ..Owed::to(agent, amount) }.approved_at(ago(Duration::days(days)))
    };
    let debt = owed(-30, 2).write(&service).await;
    owed(-30, 5).write(&service).await;
    owed(1_000, 4).write(&service).await;
    let (run, made) = pay(&service, run_of(&[agent])).await;
    assert_eq!((made.len(), &run["PayoutsCount"]), (0, &json!(0)));
    let waits = accrual(&service, agent, debt.id).await;
    assert_eq!((&waits["PayoutId"], &waits["Version"]), (&Value::Null, &json!(1)));

    let before_it = with(run_of(&[agent]), "PeriodTo", written(ago(Duration::days(3))));
    let (_, made) = pay(&service, before_it).await;
    assert_eq!((&made[0]["Gross"], &made[0]["AccrualsCount"]), (&money(970, "RUB"), &json!(2)));
}

/// A rate of 0 earns accruals of 0, of which no payout comes: they wait, and go along with what is more.
#[tokio::test]
async fn a_rate_of_0_makes_no_payout() {
    let (service, agent, developer) = (service(), guid(), guid());
    crate::pay(developer, 0).await;
    let mut deal = Deal::new(agent, developer, rub(1_000_000));
    deal.bring_to("Sale", "2026-05-01T10:00:00Z").await;
    deal.bring_to("Completed", "2026-06-01T10:00:00Z").await;
    let earned = accruals_of(deal.id).await;
    assert_eq!((earned.len(), &earned[0]["Status"], &earned[0]["Amount"]), (1, &json!("Approved"), &rub(0)));
    let (run, made) = pay(service, run_of(&[agent])).await;
    assert_eq!((made.len(), &run["Totals"]), (0, &json!([])));
    assert_eq!(accruals_of(deal.id).await, earned, "they wait");

    Owed::to(agent, 7).write(service).await;
    let made = pay_one(service, agent).await;
    assert_eq!((&made["Gross"], &made["AccrualsCount"]), (&rub(7), &json!(2)));
}

/// INV-AGT-8: nothing of a deal that is held enters a payout, until the ledger has caught up.
#[tokio::test]
async fn nothing_of_a_held_deal_is_paid() {
    let (service, agent) = (service(), guid());
    let waiting = Owed::to(agent, 1).write(service).await;
    Owed::to(agent, 10).write(service).await;
    let sql = service.sql().await;
    let hold = "update deal set known_row_version = 2, held_since = now() where id = $1::text::uuid";
    sql.execute(hold, &[&waiting.deal.to_string()]).await.unwrap();
    assert_eq!(pay_one(service, agent).await["Gross"], money(10, "RUB"));

    let release = "update deal set applied_row_version = 2, held_since = null where id = $1::text::uuid";
    sql.execute(release, &[&waiting.deal.to_string()]).await.unwrap();
    assert_eq!(pay_one(service, agent).await["Gross"], money(1, "RUB"));
}

/// A run pays whom it names, or everybody; whom nothing is owed gets nothing.
#[tokio::test]
async fn a_run_pays_whom_it_names() {
    let service = start(&[]);
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(5).collect();
    for agent in &agents[..4] {
        Owed::to(*agent, 10).write(&service).await;
    }
    let named = [agents[4], agents[1], agents[0]];
    let (run, made) = pay(&service, run_of(&named)).await;
    assert_eq!(run["AgentUserIds"], json!(named));
    assert_eq!(made.len(), 2);
    let (run, made) = pay(&service, without(run_of(&[]), "AgentUserIds")).await;
    assert_eq!((&run["AgentUserIds"], made.len()), (&Value::Null, 2));
    let (run, made) = pay(&service, with(run_of(&[]), "AgentUserIds", Value::Null)).await;
    assert_eq!((made.len(), &run["Totals"]), (0, &json!([])));
}

/// The key again with the same content is the same run as it stands; with other content it is refused.
#[tokio::test]
async fn a_run_is_asked_for_again_by_its_key() {
    let (service, agent, other) = (service(), guid(), guid());
    Owed::to(agent, 10).write(service).await;
    let body = with(run_of(&[agent, other]), "WithholdingBps", 100);
    let (run, _) = pay(service, body.clone()).await;
    let payer = payer(service);
    for same in [
        body.clone(),
        with(body.clone(), "AgentUserIds", json!([other, agent])),
        with(body.clone(), "PeriodTo", body["PeriodTo"].as_str().unwrap().replace('Z', "+00:00")),
        with(body.clone(), "Unknown", 1),
    ] {
        assert_eq!(payer.post(&payouts(), same).await.expect(200), run);
    }
    for another in [
        with(body.clone(), "AgentUserIds", json!([agent])),
        without(body.clone(), "AgentUserIds"),
        with(body.clone(), "WithholdingBps", 101),
        without(body.clone(), "WithholdingBps"),
        with(body.clone(), "PeriodFrom", written(ago(Duration::days(31)))),
        with(body.clone(), "PeriodTo", written(ago(Duration::days(1)))),
    ] {
        payer.post(&payouts(), another).await.expect_problem(409, "AGENT_PAYOUT_RUN_KEY_REUSED");
    }
    let (run, made) = pay(service, with(body, "RunKey", guid().to_string())).await;
    assert_eq!((made.len(), &run["PayoutsCount"]), (0, &json!(0)), "nothing is paid twice");
    assert_eq!(run["WithholdingBps"], 100);
}

/// What a run may be asked for.
#[tokio::test]
async fn what_a_run_is_asked_for_is_checked() {
    let payer = payer(service());
    let body = run_of(&[guid()]);
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
        ("PeriodTo", json!(written(now() + Duration::minutes(1))), "/PeriodTo", "out_of_bounds"),
        ("PeriodFrom", json!(written(now() - Duration::days(367))), "/PeriodTo", "out_of_bounds"),
        ("AgentUserIds", json!([]), "/AgentUserIds", "too_few"),
        ("AgentUserIds", json!(many), "/AgentUserIds", "too_many"),
        ("AgentUserIds", json!([twice, guid(), twice]), "/AgentUserIds/2", "duplicate"),
        ("AgentUserIds", json!([Uuid::nil()]), "/AgentUserIds/0", "empty_id"),
        ("WithholdingBps", json!(-1), "/WithholdingBps", "out_of_range"),
        ("WithholdingBps", json!(10_001), "/WithholdingBps", "out_of_range"),
        ("WithholdingBps", json!(1.5), "/WithholdingBps", "invalid_type"),
    ] {
        let answer = payer.post(&payouts(), with(body.clone(), member, value)).await;
        answer.expect_refusal("VALIDATION_FAILED", field, code);
    }
    for member in ["RunKey", "PeriodFrom", "PeriodTo"] {
        let answer = payer.post(&payouts(), without(body.clone(), member)).await;
        answer.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "required");
    }
    let end = ago(Duration::seconds(1));
    let start = end - Duration::days(366);
    let whole = with(body.clone(), "PeriodTo", written(end));
    let longer = with(whole.clone(), "PeriodFrom", written(start - Duration::microseconds(1)));
    let refused = payer.post(&payouts(), longer).await;
    refused.expect_refusal("VALIDATION_FAILED", "/PeriodTo", "out_of_bounds");
    let whole = with(with(whole, "PeriodFrom", written(start)), "AgentUserIds", json!(many[..1_000]));
    let key = format!("A-z.0_{}{}", guid(), "9".repeat(22));
    assert_eq!(payer.post(&payouts(), with(whole, "RunKey", key.clone())).await.expect(201)["RunKey"], key);
    for (id, code) in [
        (guid().to_string(), "AGENT_PAYOUT_RUN_NOT_FOUND"),
        (Uuid::nil().to_string(), "AGENT_PAYOUT_RUN_NOT_FOUND"),
        ("x".to_owned(), "NOT_FOUND"),
    ] {
        payer.get(&format!("{PLATFORM}/payout-runs/{id}")).await.expect_problem(404, code);
    }
}

/// What a run comes to is told as it is, also beyond 64 bits; what an account comes to is not beyond them.
#[tokio::test]
async fn a_run_may_come_to_more_than_64_bits() {
    let (service, one, other) = (service(), guid(), guid());
    for agent in [one, other] {
        Owed::to(agent, i64::MAX).write(service).await;
    }
    let (run, made) = pay(service, with(run_of(&[one, other]), "WithholdingBps", 5_000)).await;
    assert_eq!(made.len(), 2);
    let total = serde_json::to_string(&run["Totals"][0]["Gross"]).unwrap();
    assert!(total.contains("18446744073709551614"), "{total}");
    let half = i64::MAX / 2 + 1;
    assert_eq!(made[0]["Withheld"], money(half, "RUB"), "half to even");
    assert_eq!(made[0]["Net"], money(i64::MAX - half, "RUB"));
}

/// It is what an account comes to that is held to 64 bits: debts are taken first, and what is paid with them makes up for it.
#[tokio::test]
async fn a_debt_beside_the_greatest_sum_is_paid_with_it() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    let less = Owed { kind: "Correction", adjusts: Some(base), ..Owed::to(agent, -60) };
    less.write(service).await;
    Owed::to(agent, i64::MAX - 40).write(service).await;
    let payout = pay_one(service, agent).await;
    assert_eq!((&payout["AccrualsCount"], &payout["Gross"]), (&json!(3), &money(i64::MAX, "RUB")));
    let paid = payer(service).post(&to(&payout, "confirm"), json!({})).await.expect(200);
    assert_eq!(paid["Status"], "Paid");
    assert_eq!(balances(service, agent, "RUB").await["Paid"], i64::MAX);
}

/// A payout of 5,000 lines is made, shown, confirmed and failed as one of few.
#[tokio::test]
async fn a_payout_of_5000_lines_is_one_like_any_other() {
    let (service, agent) = (service(), guid());
    let written = Owed::to(agent, 1).write_all(service, 5_001).await;
    let payout = pay_one(service, agent).await;
    assert_eq!((&payout["AccrualsCount"], &payout["Gross"]), (&json!(5_000), &money(5_000, "RUB")));
    let payer = payer(service);
    payer.post(&to(&payout, "fail"), json!({"Reason": "no such account"})).await.expect(200);
    let payout = pay_one(service, agent).await;
    assert_eq!(payout["AccrualsCount"], 5_000);
    let statement = payer.get(&to(&payout, "statement")).await.expect(200);
    assert_eq!(list(&statement["Lines"]).len(), 5_000);
    let csv = payer.get(&to(&payout, "statement?Format=Csv")).await;
    assert_eq!(csv.text.matches("\r\n").count(), 5_001);
    payer.post(&to(&payout, "confirm"), json!({})).await.expect(200);
    let ids: Vec<Uuid> = written.iter().map(|accrual| accrual.id).collect();
    let published = || ids.iter().filter(|id| !service.bus().events(id).is_empty()).count();
    eventually("5,000 events", async || (published() >= 5_000).then_some(())).await;
    service.bus().read_to_end().await;
    assert_eq!(ids.iter().flat_map(|id| service.bus().events(id)).count(), 5_000);
    let path = format!("{PLATFORM}/commission-accruals?AgentUserId={agent}&Status=Approved");
    assert_eq!(decider(service).get(&path).await.expect(200)["TotalCount"], 1);
}
