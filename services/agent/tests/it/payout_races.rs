//! Races of payout runs with other runs and with changes of deals, and crashes of a run.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::json;
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::fixtures::{
    AccrualFixture, await_completion, balance, list_payouts, pay, pay_one, payer, run_body, write_each,
};
use crate::payout_runs::payouts_path;
use crate::{
    COMPLETED, Deal, PLATFORM, id_of, in_days, in_millis, money, next, rub, service, start, without,
};

/// INV-AGT-8: a run waits for a locked deal.
/// After the change it pays the deal, unless the deal is held.
#[tokio::test]
async fn run_waits_for_a_locked_deal() {
    for (change, gross) in [
        ("update deal set is_unrated = false where id = $1::text::uuid", 11),
        ("update deal set known_row_version = 2, held_since = now() where id = $1::text::uuid", 10),
    ] {
        let (service, agent) = (service(), guid());
        let locked = AccrualFixture::approved(agent, 1).write(service).await;
        AccrualFixture::approved(agent, 10).write(service).await;
        let mut sql = service.sql().await;
        let tx = sql.transaction().await.unwrap();
        tx.execute(change, &[&locked.deal.to_string()]).await.unwrap();
        let started = payer(service).post(&payouts_path(), run_body(&[agent])).await.expect(201);
        // The job of the run reaches the deal in this time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        // The run has not locked the account yet, so the transaction that changes the deal can lock
        // the account without a deadlock.
        tx.execute(
            "select from account where agent_user_id = $1::text::uuid for update",
            &[&agent.to_string()],
        )
        .await
        .unwrap();
        let path = format!("{PLATFORM}/payout-runs/{}", id_of(&started["Id"]));
        assert_eq!(payer(service).get(&path).await.expect(200)["Status"], "Running");
        tx.commit().await.unwrap();
        let run = await_completion(service, &started["Id"]).await;
        assert_eq!(run["Totals"][0]["Gross"], money(gross, "RUB"));
    }
}

/// INV-AGT-8: repeated events about deals do not keep a run from paying their accruals.
#[tokio::test]
async fn repeated_events_do_not_delay_a_payment() {
    let (service, developer, agent) = (service(), guid(), guid());
    crate::set_rate(developer, 1_000).await;
    let mut payloads = Vec::new();
    for _ in 0..10 {
        let mut deal = Deal::new(agent, developer, rub(1_000));
        deal.move_to("Sale", &in_days(-2)).await;
        let at = in_days(-1);
        deal.move_to("Completed", &at).await;
        payloads.push(deal.completed(&at));
    }
    let repeats = join_all((0..30).map(|at| {
        let payload = &payloads[at % payloads.len()];
        async move { service.bus().publish(COMPLETED, id_of(&payload["DealId"]), next(), payload).await }
    }));
    let (_, created) = join(repeats, pay_one(service, agent)).await;
    assert_eq!((&created["AccrualsCount"], &created["Gross"]), (&json!(10), &rub(1_000)));
}

/// RULE-AGT-030: twenty parallel requests with one key start one run, and all return it.
#[tokio::test]
async fn concurrent_requests_with_one_key_start_one_run() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 10).write(service).await;
    let (body, path) = (run_body(&[agent]), payouts_path());
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(20).collect();
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, body.clone()))).await;
    let started = responses.iter().filter(|response| response.status == 201).count();
    let repeated = responses.iter().filter(|response| response.status == 200).count();
    assert_eq!((started, repeated), (1, 19), "{responses:?}");
    assert!(responses.iter().all(|response| response.body["Id"] == responses[0].body["Id"]));
    let run = await_completion(service, &responses[0].body["Id"]).await;
    assert_eq!(list_payouts(service, &run).await.len(), 1);
}

/// INV-AGT-5: concurrent runs pay no accrual twice.
#[tokio::test]
async fn concurrent_runs_pay_no_accrual_twice() {
    let service = service();
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(10).collect();
    for agent in &agents {
        AccrualFixture::approved(*agent, 10).write_all(service, 20).await;
    }
    let path = payouts_path();
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(6).collect();
    let started = join_all(callers.iter().map(|caller| caller.post(&path, run_body(&agents)))).await;
    let mut paid = 0;
    for run in started {
        let run = await_completion(service, &run.expect(201)["Id"]).await;
        for payout in list_payouts(service, &run).await {
            paid += payout["Gross"]["AmountMinor"].as_i64().unwrap();
        }
    }
    assert_eq!(paid, 10 * 20 * 10);
    let sql = service.sql().await;
    let twice = "select count(*) from (select accrual_id from payout_line join accrual on accrual.id = accrual_id \
                 where agent_user_id = any($1::text[]::uuid[]) group by accrual_id having count(*) > 1) as twice";
    let agents: Vec<String> = agents.iter().map(Uuid::to_string).collect();
    let twice: i64 = sql.query_one(twice, &[&agents]).await.unwrap().get(0);
    assert_eq!(twice, 0);
}

/// RULE-AGT-022: an interrupted run continues where it stopped, and pays no agent twice.
#[tokio::test]
async fn run_continues_after_a_crash() {
    let first = start(&[]);
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(100).collect();
    write_each(&first, agents.iter().map(|agent| AccrualFixture::approved(*agent, 10))).await;
    let started =
        payer(&first).post(&payouts_path(), without(run_body(&[]), "AgentUserIds")).await.expect(201);
    let sql = first.sql().await;
    let created = async || -> i64 { sql.query_one("select count(*) from payout", &[]).await.unwrap().get(0) };
    eventually("some payouts", async || (created().await > 0).then_some(())).await;
    assert!(created().await < 100, "the run ended before the crash");
    // The loss of all connections rolls open transactions back, as a kill does.
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
               where datname = current_database() and pid <> pg_backend_pid()";
    sql.execute(cut, &[]).await.unwrap();
    let url = first.database_url.clone();
    drop(first);
    let second = start(&[("DATABASE_URL", &url)]);
    let run = await_completion(&second, &started["Id"]).await;
    assert_eq!(run["PayoutsCount"], 100);
    assert_eq!(run["Totals"][0]["Gross"], money(1_000, "RUB"));
}

/// RULE-AGT-030: a sale that ends during a run sums to 0.
///
/// Its accrual is Reversed and in no payout, or it is in the payout and has a Reversal.
#[tokio::test]
async fn sale_that_ends_during_a_run_sums_to_zero() {
    let (service, developer) = (service(), guid());
    crate::set_rate(developer, 1_000).await;
    for _ in 0..5 {
        let agent = guid();
        let mut deals: Vec<Deal> =
            std::iter::repeat_with(|| Deal::new(agent, developer, rub(1_000))).take(6).collect();
        let complete = deals.iter_mut().map(async |deal| {
            deal.move_to("Sale", &in_days(-2)).await;
            deal.move_to("Completed", &in_days(-1)).await;
        });
        join_all(complete).await;
        let now = in_millis(0);
        let ends = join_all(deals.iter_mut().map(|deal| deal.move_to("Cancelled", &now)));
        let (_, (_, created)) = join(ends, pay(service, run_body(&[agent]))).await;
        let mut in_payout = 0;
        for deal in &deals {
            let accruals = crate::accruals_of(deal.id).await;
            let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
            let reversals =
                accruals.iter().filter(|accrual| accrual["ReversesAccrualId"] == base["Id"]).count();
            if base["PayoutId"].is_null() {
                assert_eq!((&base["Status"], reversals), (&json!("Reversed"), 0));
            } else {
                assert_eq!((&base["Status"], reversals), (&json!("Approved"), 1));
                in_payout += 100;
            }
        }
        let gross = created.first().map_or(0, |payout| payout["Gross"]["AmountMinor"].as_i64().unwrap());
        // A Reversal that preceded the run may be in the payout.
        assert!(gross <= in_payout, "{created:?}");
        assert_eq!(balance(service, agent, "RUB").await["Total"], 0);
    }
}
