//! Runs that meet each other, changes of deals, and crashes: sections 6 and 7.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::json;
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::owed::{Owed, balances, complete, pay, pay_one, payer, payouts_of, run_of};
use crate::payout_runs::payouts;
use crate::{
    COMPLETED, Deal, PLATFORM, id_of, in_days, in_millis, money, next, rub, service, start, without,
};

/// INV-AGT-8: a deal that is being changed is waited for. Where nothing newer is known of it then it is paid, else it is held.
#[tokio::test]
async fn a_deal_in_other_hands_is_waited_for() {
    for (change, gross) in [
        ("update deal set is_unrated = false where id = $1::text::uuid", 11),
        ("update deal set known_row_version = 2, held_since = now() where id = $1::text::uuid", 10),
    ] {
        let (service, agent) = (service(), guid());
        let busy = Owed::to(agent, 1).write(service).await;
        Owed::to(agent, 10).write(service).await;
        let mut sql = service.sql().await;
        let tx = sql.transaction().await.unwrap();
        tx.execute(change, &[&busy.deal.to_string()]).await.unwrap();
        let begun = payer(service).post(&payouts(), run_of(&[agent])).await.expect(201);
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Whoever changes the deal gets the account meanwhile: nobody waits in a circle.
        tx.execute(
            "select from account where agent_user_id = $1::text::uuid for update",
            &[&agent.to_string()],
        )
        .await
        .unwrap();
        let path = format!("{PLATFORM}/payout-runs/{}", id_of(&begun["Id"]));
        assert_eq!(payer(service).get(&path).await.expect(200)["Status"], "Running");
        tx.commit().await.unwrap();
        let run = complete(service, &begun["Id"]).await;
        assert_eq!(run["Totals"][0]["Gross"], money(gross, "RUB"));
    }
}

/// A run misses nothing of what is payable when it comes, whatever is told of its deals again meanwhile.
#[tokio::test]
async fn repeats_keep_nothing_from_being_paid() {
    let (service, developer, agent) = (service(), guid(), guid());
    crate::pay(developer, 1_000).await;
    let mut told = Vec::new();
    for _ in 0..10 {
        let mut deal = Deal::new(agent, developer, rub(1_000));
        deal.bring_to("Sale", &in_days(-2)).await;
        let at = in_days(-1);
        deal.bring_to("Completed", &at).await;
        told.push(deal.completed(&at));
    }
    let repeats = join_all((0..30).map(|at| {
        let told = &told[at % told.len()];
        async move { service.bus().publish(COMPLETED, id_of(&told["DealId"]), next(), told).await }
    }));
    let (_, made) = join(repeats, pay_one(service, agent)).await;
    assert_eq!((&made["AccrualsCount"], &made["Gross"]), (&json!(10), &rub(1_000)));
}

/// Twenty runs of one key: one is begun, the others are told of it.
#[tokio::test]
async fn of_runs_with_one_key_one_is_begun() {
    let (service, agent) = (service(), guid());
    Owed::to(agent, 10).write(service).await;
    let (body, path) = (run_of(&[agent]), payouts());
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(20).collect();
    let answers = join_all(callers.iter().map(|caller| caller.post(&path, body.clone()))).await;
    let begun = answers.iter().filter(|answer| answer.status == 201).count();
    let repeated = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((begun, repeated), (1, 19), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body["Id"] == answers[0].body["Id"]));
    let run = complete(service, &answers[0].body["Id"]).await;
    assert_eq!(payouts_of(service, &run).await.len(), 1);
}

/// INV-AGT-5: runs side by side pay nothing twice.
#[tokio::test]
async fn runs_side_by_side_pay_nothing_twice() {
    let service = service();
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(10).collect();
    for agent in &agents {
        Owed::to(*agent, 10).write_all(service, 20).await;
    }
    let path = payouts();
    let callers: Vec<_> = std::iter::repeat_with(|| payer(service)).take(6).collect();
    let begun = join_all(callers.iter().map(|caller| caller.post(&path, run_of(&agents)))).await;
    let mut paid = 0;
    for run in begun {
        let run = complete(service, &run.expect(201)["Id"]).await;
        for payout in payouts_of(service, &run).await {
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

/// A run that was broken off goes on where it stood, and pays nobody twice.
#[tokio::test]
async fn a_run_goes_on_after_a_crash() {
    let first = start(&[]);
    let agents: Vec<Uuid> = std::iter::repeat_with(guid).take(300).collect();
    for agent in &agents {
        Owed::to(*agent, 10).write(&first).await;
    }
    let begun = payer(&first).post(&payouts(), without(run_of(&[]), "AgentUserIds")).await.expect(201);
    let sql = first.sql().await;
    let made = async || -> i64 { sql.query_one("select count(*) from payout", &[]).await.unwrap().get(0) };
    eventually("some payouts", async || (made().await > 0).then_some(())).await;
    // As whoever is killed: what is under way is not finished.
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
               where datname = current_database() and pid <> pg_backend_pid()";
    sql.execute(cut, &[]).await.unwrap();
    let url = first.database_url.clone();
    drop(first);
    let second = start(&[("DATABASE_URL", &url)]);
    let run = complete(&second, &begun["Id"]).await;
    assert_eq!(run["PayoutsCount"], 300);
    assert_eq!(run["Totals"][0]["Gross"], money(3_000, "RUB"));
}

/// A sale that ends while a run takes its accrual: it is Reversed and in no payout, or in the payout and undone by a Reversal.
#[tokio::test]
async fn a_sale_that_ends_while_a_run_takes_its_accrual_comes_to_nothing() {
    let (service, developer) = (service(), guid());
    crate::pay(developer, 1_000).await;
    for _ in 0..5 {
        let agent = guid();
        let mut deals: Vec<Deal> =
            std::iter::repeat_with(|| Deal::new(agent, developer, rub(1_000))).take(6).collect();
        for deal in &mut deals {
            deal.bring_to("Sale", &in_days(-2)).await;
            deal.bring_to("Completed", &in_days(-1)).await;
        }
        let now = in_millis(0);
        let ends = join_all(deals.iter_mut().map(|deal| deal.bring_to("Cancelled", &now)));
        let (_, (_, made)) = join(ends, pay(service, run_of(&[agent]))).await;
        let mut within = 0;
        for deal in &deals {
            let accruals = crate::accruals_of(deal.id).await;
            let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
            let reversals =
                accruals.iter().filter(|accrual| accrual["ReversesAccrualId"] == base["Id"]).count();
            if base["PayoutId"].is_null() {
                assert_eq!((&base["Status"], reversals), (&json!("Reversed"), 0));
            } else {
                assert_eq!((&base["Status"], reversals), (&json!("Approved"), 1));
                within += 100;
            }
        }
        let gross = made.first().map_or(0, |payout| payout["Gross"]["AmountMinor"].as_i64().unwrap());
        // A Reversal may have come early enough to be in it.
        assert!(gross <= within, "{made:?}");
        assert_eq!(balances(service, agent, "RUB").await["Total"], 0);
    }
}
