//! Races of a release with the end of a sale, a payout run or another release.
//!
//! A test locks the account. The first of two changes then waits for the test, and the second one
//! for the first.

use std::sync::OnceLock;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use testkit::held::HeldLocks;
use testkit::service::Running;
use uuid::Uuid;

use crate::approval_limit::release_path;
use crate::fixtures::{
    AccrualFixture, accrual, await_completion, balance, decider, list_payouts, payer, run_body,
};
use crate::payout_runs::payouts_path;
use crate::{Deal, PLATFORM, STAGE_CHANGED, deliver, id_of, in_days, list, rub, start};

/// An amount above the default of `AGENT_AUTO_APPROVE_LIMIT`.
const AMOUNT: i64 = 5_000_000_000;

/// Returns a service that only tests of races use, so that messages and runs of other tests cause
/// no delay.
pub fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[]))
}

/// A completed sale whose accrual awaits its release.
struct Race {
    agent: Uuid,
    deal: Deal,
    unreleased: Value,
}

impl Race {
    async fn start() -> Self {
        let (service, agent, developer) = (service(), guid(), guid());
        let rates = json!([{"RateBps": 10_000, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
        let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
        decider(service).put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
        let mut deal = Deal::new(agent, developer, rub(AMOUNT));
        for (status, days) in [("Sale", -2), ("Completed", -1)] {
            let change = deal.stage_changed(status, &in_days(days));
            deliver(service, STAGE_CHANGED, &change).await;
        }
        let path = format!("{PLATFORM}/commission-accruals?DealId={}", deal.id);
        let page = decider(service).get(&path).await.expect(200);
        let unreleased = list(&page["Items"])[0].clone();
        assert_eq!(unreleased["AwaitsRelease"], true);
        Self { agent, deal, unreleased }
    }

    async fn lock_account(&self) -> HeldLocks {
        let lock = format!("select from account where agent_user_id = '{}' for update", self.agent);
        HeldLocks::lock(service(), &lock).await
    }

    async fn read_accrual(&self) -> Value {
        accrual(service(), self.agent, id_of(&self.unreleased["Id"])).await
    }

    async fn total(&self) -> Value {
        balance(service(), self.agent, "RUB").await["Total"].clone()
    }
}

/// RULE-AGT-060: the end of a sale undoes an earlier release.
#[tokio::test]
async fn release_before_a_cancellation_is_undone() {
    let mut race = Race::start().await;
    let cancelled = race.deal.stage_changed("Cancelled", &in_days(0));
    let (decider, path) = (decider(service()), release_path(&race.unreleased));
    let account = race.lock_account().await;
    let cancel = deliver(service(), STAGE_CHANGED, &cancelled);
    let (response, ()) = account.queue(HeldLocks::ANY, decider.post(&path, Value::Null), cancel).await;
    assert_eq!(response.expect(200)["Status"], "Approved");
    assert_eq!(race.read_accrual().await["Status"], "Reversed");
    assert_eq!(race.total().await, 0);
}

/// RULE-AGT-060: a release after the end of its sale is refused.
#[tokio::test]
async fn release_after_a_cancellation_is_refused() {
    let mut race = Race::start().await;
    let cancelled = race.deal.stage_changed("Cancelled", &in_days(0));
    let (decider, path) = (decider(service()), release_path(&race.unreleased));
    let account = race.lock_account().await;
    let cancel = deliver(service(), STAGE_CHANGED, &cancelled);
    let ((), response) = account.queue(HeldLocks::ANY, cancel, decider.post(&path, Value::Null)).await;
    response.expect_problem(409, "AGENT_ACCRUAL_NOT_RELEASABLE");
    assert_eq!(
        (race.read_accrual().await["Status"].clone(), race.total().await),
        (json!("Reversed"), json!(0))
    );
}

/// RULE-AGT-060: if a run and a release race, the accrual is paid once, in this run or in the next
/// one.
#[tokio::test]
async fn release_beside_a_run_is_paid_once() {
    for release_first in [true, false] {
        let race = Race::start().await;
        let (service, agent) = (service(), race.agent);
        AccrualFixture::approved(agent, 10).write(service).await;
        let (decider, payer, path) = (decider(service), payer(service), release_path(&race.unreleased));
        let (body, runs) = (run_body(&[agent]), payouts_path());
        let account = race.lock_account().await;
        let (release, run) = (decider.post(&path, Value::Null), payer.post(&runs, body));
        let (response, started) = if release_first {
            account.queue(HeldLocks::ANY, release, run).await
        } else {
            let (started, response) = account.queue(HeldLocks::ANY, run, release).await;
            (response, started)
        };
        assert_eq!(response.expect(200)["Status"], "Approved");
        let mut gross = 0;
        let first = await_completion(service, &started.expect(201)["Id"]).await;
        let (next, _) = crate::fixtures::pay(service, run_body(&[agent])).await;
        for run in [first, next] {
            for payout in list_payouts(service, &run).await {
                gross += payout["Gross"]["AmountMinor"].as_i64().unwrap();
            }
        }
        assert_eq!(gross, AMOUNT + 10);
        let balance = balance(service, agent, "RUB").await;
        assert_eq!((&balance["InPayout"], &balance["Approved"]), (&json!(AMOUNT + 10), &json!(0)));
    }
}

/// RULE-AGT-060: parallel releases all succeed, and the accrual changes and is logged once.
#[tokio::test]
async fn parallel_releases_change_the_accrual_once() {
    let race = Race::start().await;
    let path = release_path(&race.unreleased);
    let callers: Vec<_> = std::iter::repeat_with(|| decider(service())).take(8).collect();
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, Value::Null))).await;
    let version = race.unreleased["Version"].as_i64().unwrap() + 1;
    for response in responses {
        let released = response.expect(200);
        assert_eq!((&released["Status"], &released["Version"]), (&json!("Approved"), &json!(version)));
    }
    let log = format!("{PLATFORM}/money-log?SubjectId={}", id_of(&race.unreleased["Id"]));
    let log = decider(service()).get(&log).await.expect(200);
    let releases = list(&log["Items"]).iter().filter(|entry| entry["Action"] == "AccrualReleased");
    assert_eq!(releases.count(), 1, "{log}");
}
