//! Concurrent events, runs and decisions, with a worker that crashes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::Service;
use rand::RngExt;
use serde_json::{Value, json};
use testkit::bus::skip_to_end;
use testkit::client::{Client, Response};
use testkit::database;
use testkit::deployed::Deployed;
use uuid::Uuid;

use super::invariants::InvariantChecker;
use super::model::{Amount, Change, Deal, World};
use crate::{
    CABINET, CANCELLED, COMMISSIONS, COMPLETED, CREATED, MY, PAYOUTS, PLATFORM, STAGE_CHANGED, claims_of,
    eventually, guid, id_of, in_days, in_millis, list, money, next, service, text,
};

/// Two deals of each agent with each developer. The first one begins with [`OPENING`].
const DEALS: usize = 18;
/// The service does not know the status `Frozen`.
const STATUSES: [&str; 7] = ["Application", "Booking", "Sale", "Sale", "Completed", "Cancelled", "Frozen"];
const AMOUNTS: [Amount; 3] = [(10_000, "RUB"), (12_350, "RUB"), (777, "USD")];
/// The first changes of half of the deals, so that a Correction and a payable accrual exist.
const OPENING: [(&str, Amount); 2] = [("Sale", AMOUNTS[0]), ("Completed", AMOUNTS[1])];
const RATES: [Option<i64>; 3] = [Some(300), Some(1_250), None];

/// The events of a deal by topic and in order, and its stage changes.
struct History {
    deal: Deal,
    changes: Vec<Change>,
    queues: BTreeMap<&'static str, VecDeque<Value>>,
}

/// Creates a history of `days` stage changes, one a day. Those of `opening` come first, and the
/// others are random.
fn history(
    agent: Uuid,
    developer: Uuid,
    rate: Option<i64>,
    opening: &[(&'static str, Amount)],
    days: i64,
) -> History {
    let mut rng = rand::rng();
    let mut opening = opening.iter().copied();
    let mut crm_deal = crate::Deal::new(agent, developer, money(AMOUNTS[0].0, AMOUNTS[0].1));
    let mut queues: BTreeMap<&'static str, VecDeque<Value>> = BTreeMap::new();
    queues.entry(CREATED).or_default().push_back(crm_deal.created(&in_days(-200)));
    let (mut changes, mut is_completed) = (Vec::new(), false);
    for day in 0..days {
        let at = in_days(-190 + day);
        let opened = opening.next();
        let random =
            (STATUSES[rng.random_range(0..STATUSES.len())], AMOUNTS[rng.random_range(0..AMOUNTS.len())]);
        let (mut to, amount) = opened.unwrap_or(random);
        // The service ignores a second completion of a sale, and the model does not.
        if to == "Completed" && is_completed && crm_deal.status != "Completed" {
            to = "Cancelled";
        }
        is_completed = to == "Completed" || is_completed && matches!(to, "Sale" | "Frozen");
        crm_deal.amount = money(amount.0, amount.1);
        crm_deal.agent = (opened.is_some() || rng.random_bool(0.9)).then_some(agent);
        queues.entry(STAGE_CHANGED).or_default().push_back(crm_deal.stage_changed(to, &at));
        match to {
            "Cancelled" => queues.entry(CANCELLED).or_default().push_back(crm_deal.cancelled(&at)),
            "Completed" => queues.entry(COMPLETED).or_default().push_back(crm_deal.completed(&at)),
            _ => {}
        }
        changes.push(Change { to, version: crm_deal.row_version, agent: crm_deal.agent, amount, at });
    }
    let deal = Deal { id: crm_deal.id, rate, status: "Application", sale: None, applied: 0, known: 0 };
    History { deal, changes, queues }
}

/// A deployed service with a database of its own.
struct ConcurrentTest {
    /// The process that answers HTTP.
    serve: Deployed,
    settings: Vec<(&'static str, String)>,
    /// The agents of the three groups of [`compare`].
    agents: [Uuid; 3],
    /// True once every event is applied.
    is_over: AtomicBool,
}

impl ConcurrentTest {
    async fn start() -> Self {
        let suffix = format!(".{}", guid().simple());
        skip_to_end::<Service>(&suffix).await.unwrap();
        let settings = vec![
            ("DATABASE_URL", database::create().await.unwrap()),
            ("KAFKA_GROUP_SUFFIX", suffix),
            ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
            ("AGENT_PAYOUT_RUN_POLL_MS", "100".to_owned()),
            ("AGENT_PAYOUT_MAX_LINES", "4".to_owned()),
        ];
        let serve = deploy(&settings, "serve").await;
        Self { serve, settings, agents: [guid(), guid(), guid()], is_over: AtomicBool::new(false) }
    }

    async fn sql(&self) -> tokio_postgres::Client {
        let sql = database::connect(&self.settings[0].1).await.unwrap();
        sql.batch_execute("set search_path = agent").await.unwrap();
        sql
    }

    fn by(&self, permission: &str) -> Client {
        self.serve.caller(&claims_of(guid(), &[permission]))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Publishes all events, and crashes the worker twice.
    ///
    /// The events of a deal on one topic keep their order, and all others are mixed. Some are
    /// published twice.
    ///
    /// Returns the last worker.
    async fn publish(&self, mut histories: Vec<BTreeMap<&'static str, VecDeque<Value>>>) -> Deployed {
        let mut rng = rand::rng();
        let mut worker = deploy(&self.settings, "work").await;
        let count: usize = histories.iter().flat_map(BTreeMap::values).map(VecDeque::len).sum();
        let mut published: Vec<(&'static str, Uuid, i64, Value)> = Vec::new();
        // The numbers of published events after which the worker crashes, the last crash first.
        let mut crashes = vec![2 * count / 3, count / 3];
        while published.len() < count {
            let chosen = rng.random_range(0..histories.len());
            let waiting: Vec<&'static str> = histories[chosen]
                .iter()
                .filter(|(_, queue)| !queue.is_empty())
                .map(|(topic, _)| *topic)
                .collect();
            if waiting.is_empty() {
                continue;
            }
            let topic = waiting[rng.random_range(0..waiting.len())];
            let payload = histories[chosen].get_mut(topic).unwrap().pop_front().unwrap();
            let (key, sequence) = (id_of(&payload["DealId"]), next());
            service().bus().publish(topic, key, sequence, &payload).await;
            published.push((topic, key, sequence, payload));
            if rng.random_bool(0.2) {
                let (topic, key, sequence, payload) = &published[rng.random_range(0..published.len())];
                let sequence = if rng.random_bool(0.5) { *sequence } else { next() };
                service().bus().publish(topic, *key, sequence, payload).await;
            }
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..12))).await;
            if crashes.pop_if(|at| published.len() >= *at).is_some() {
                worker.process.kill().await.unwrap();
                worker = deploy(&self.settings, "work").await;
            }
        }
        self.await_all_applied(&published).await;
        self.is_over.store(true, Ordering::Relaxed);
        worker
    }

    /// Waits until the ledger has applied every stage change.
    async fn await_all_applied(&self, published: &[(&'static str, Uuid, i64, Value)]) {
        let sql = self.sql().await;
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for (topic, key, _, payload) in published {
            if *topic == STAGE_CHANGED {
                let version = last.entry(key.to_string()).or_default();
                *version = payload["RowVersion"].as_i64().unwrap().max(*version);
            }
        }
        for (deal, version) in last {
            let applied = "select 1 from deal where id = $1::text::uuid and applied_row_version = $2 and known_row_version = $2";
            eventually("the last change of a deal", async || {
                sql.query_opt(applied, &[&deal, &version]).await.unwrap()
            })
            .await;
        }
    }

    /// Starts runs in pairs, and requests random transitions of payouts, until the test is over and
    /// one payout is Paid.
    async fn pay(&self) {
        let mut rng = rand::rng();
        let by = self.by(PAYOUTS);
        let mut was_paid = false;
        while !self.is_over() || !was_paid {
            let run = || {
                let body = json!({
                    "RunKey": guid().to_string(), "PeriodFrom": in_days(-300), "PeriodTo": in_millis(-1),
                    "AgentUserIds": self.agents[1..], "WithholdingBps": 1_300,
                });
                let (by, path) = (by.clone(), format!("{PLATFORM}/payouts"));
                async move { by.post(&path, body).await.expect(201) }
            };
            tokio::join!(run(), run());
            for agent in &self.agents[1..] {
                let path =
                    format!("{PLATFORM}/payouts?AgentUserId={agent}&Status=Scheduled,InTransit&PageSize=10");
                for payout in list(&by.get(&path).await.expect(200)["Items"]) {
                    let operations = ["send", "confirm", "confirm", "fail", "cancel"];
                    let path = format!("{PLATFORM}/payouts/{}", text(&payout["Id"]));
                    let act = |operation: &'static str| {
                        let (by, path) = (by.clone(), format!("{path}/{operation}"));
                        let body =
                            if operation == "fail" { json!({"Reason": "закрыт"}) } else { json!({}) };
                        async move { by.post(&path, body).await }
                    };
                    let mut choose = || operations[rng.random_range(0..operations.len())];
                    let (one, other) = (choose(), choose());
                    let (one, other) = tokio::join!(act(one), act(other));
                    for response in [one, other] {
                        assert!(matches!(response.status, 200 | 409), "{}", response.text);
                        was_paid |= response.status == 200 && response.expect(200)["Status"] == "Paid";
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }

    /// Files and decides requests, and rejects and reverses accruals at random, until the test is
    /// over and one call has succeeded.
    async fn decide(&self) {
        let mut rng = rand::rng();
        let (by, agent) = (self.by(COMMISSIONS), self.agents[2]);
        let own = self.serve.caller(&claims_of(agent, &[CABINET]));
        let mut has_succeeded = false;
        while !self.is_over() || !has_succeeded {
            let path = format!("{MY}/commission-accruals?PageSize=100");
            for accrual in list(&own.get(&path).await.expect(200)["Items"]) {
                let id = text(&accrual["Id"]);
                let of_platform = format!("{PLATFORM}/commission-accruals/{id}");
                let response: Response = match rng.random_range(0..12) {
                    0 => by.post(&format!("{of_platform}/reject"), json!({"Comment": "нет"})).await,
                    1 => by.post(&format!("{of_platform}/reverse"), json!({"Comment": "нет"})).await,
                    2 | 3 => {
                        let whole =
                            rng.random_range(0..=accrual["BaseAmount"]["AmountMinor"].as_i64().unwrap());
                        let amount = money(whole, text(&accrual["Amount"]["Currency"]));
                        let body = json!({"Reason": "Other", "Comment": "мало", "RequestedAmount": amount});
                        own.post(&format!("{MY}/commission-accruals/{id}/adjustment-requests"), body).await
                    }
                    4 | 5 if accrual["AdjustmentRequest"]["Status"] == "Open" => {
                        let request = text(&accrual["AdjustmentRequest"]["Id"]);
                        let path = format!("{PLATFORM}/adjustment-requests/{request}");
                        let (approve, reject) = (format!("{path}/approve"), format!("{path}/reject"));
                        let (approved, rejected) = tokio::join!(
                            by.post(&approve, json!({})),
                            by.post(&reject, json!({"Comment": "нет"}))
                        );
                        assert!(
                            approved.status != 200 || rejected.status != 200,
                            "two decisions about a request succeeded"
                        );
                        approved
                    }
                    _ => continue,
                };
                assert!(matches!(response.status, 200 | 201 | 409 | 422), "{}", response.text);
                has_succeeded |= response.status < 300;
            }
            tokio::time::sleep(Duration::from_millis(80)).await;
        }
    }

    /// Checks the invariants until the test is over, and returns the number of checks.
    async fn check_invariants(&self) -> usize {
        let mut checker = InvariantChecker::with_client(self.sql().await).await;
        while !self.is_over() {
            checker.check().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        checker.checks
    }
}

async fn deploy(settings: &[(&'static str, String)], role: &str) -> Deployed {
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Deployed::start(env!("CARGO_BIN_EXE_agent"), &[role], &settings).await
}

/// The compared data of an accrual: sale, kind, base, rate, amount, currency, status.
type Line = (i64, String, i64, i64, i64, String, String);

/// INV-AGT-1, INV-AGT-2, INV-AGT-3, INV-AGT-4, INV-AGT-5, INV-AGT-6, INV-AGT-7, INV-AGT-8: a
/// second connection finds no violation during events in any order, runs, decisions and crashes.
///
/// In the end [`compare`] finds the ledger of the same changes in sequence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_and_crashes_keep_the_invariants() {
    let test = ConcurrentTest::start().await;
    let by = test.by(COMMISSIONS);
    let developers = RATES.map(|rate| (guid(), rate));
    for (developer, rate) in developers {
        let Some(rate) = rate else { continue };
        let rates = json!([{"RateBps": rate, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
        let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
        by.put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
    }
    let histories: Vec<History> = (0..DEALS)
        .map(|at| {
            let (developer, rate) = developers[(at / 3) % 3];
            let opening = if at < DEALS / 2 { &OPENING[..] } else { &[] };
            // One deal of each agent has only the opening, so that its accruals stay payable.
            let has_only_opening = (3..6).contains(&at);
            let days = if has_only_opening { 2 } else { rand::rng().random_range(3..9) };
            history(test.agents[at % 3], developer, rate, opening, days)
        })
        .collect();
    let queues = histories.iter().map(|history| history.queues.clone()).collect();
    let all =
        async { tokio::join!(test.publish(queues), test.pay(), test.decide(), test.check_invariants()) };
    let in_time = tokio::time::timeout(Duration::from_mins(3), all).await;
    let (_worker, (), (), checks) = in_time.expect("events, a payment and a decision in time");
    assert!(checks > 10, "only {checks} checks");
    let sql = test.sql().await;
    // The last runs are completed, too.
    let running = "select 1 from payout_run where status = 'Running'";
    eventually("the runs to be completed", async || {
        sql.query(running, &[]).await.unwrap().is_empty().then_some(())
    })
    .await;
    InvariantChecker::with_client(test.sql().await).await.check().await;

    let mut world = World::default();
    for (at, history) in histories.iter().enumerate() {
        world.deals.push(history.deal.clone());
        for change in &history.changes {
            world.change(at, change);
        }
        let expected: Vec<Line> = world
            .accruals
            .iter()
            .filter(|one| one.deal == at)
            .map(|one| {
                let (kind, currency) = (one.kind.to_owned(), one.currency.to_owned());
                (one.sale, kind, one.base, one.rate, one.amount, currency, one.status.to_owned())
            })
            .collect();
        let stored = sql
            .query(
                "select sale_row_version, kind, base_amount, rate_bps::bigint, amount, currency, status from accrual \
                where deal_id = $1::text::uuid",
                &[&history.deal.id.to_string()],
            )
            .await
            .unwrap();
        let stored: Vec<Line> = stored
            .iter()
            .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5), row.get(6)))
            .collect();
        compare(at % 3, &stored, &expected);
    }
}

/// Compares the accruals of a deal with the model, as far as the agent's group allows.
///
/// Group 0 has no payouts, group 1 has payouts and Reversals, and group 2 has decisions, too.
fn compare(group: usize, stored: &[Line], expected: &[Line]) {
    let sorted = |lines: &[Line]| -> Vec<_> {
        let mut lines = lines.to_vec();
        lines.sort();
        lines
    };
    let bases = |lines: &[Line]| -> Vec<_> {
        let mut bases: Vec<_> = lines
            .iter()
            .filter(|line| line.1 == "Base")
            .map(|line| (line.0, line.2, line.3, line.4, line.5.clone()))
            .collect();
        bases.sort();
        bases
    };
    let sums = |lines: &[Line]| -> BTreeMap<(i64, String), i64> {
        let mut sums = BTreeMap::new();
        for line in lines {
            let is_counted = !matches!(line.6.as_str(), "Rejected" | "Reversed");
            *sums.entry((line.0, line.5.clone())).or_default() += if is_counted { line.4 } else { 0 };
        }
        sums
    };
    match group {
        0 => assert_eq!(sorted(stored), sorted(expected)),
        1 => assert_eq!(sums(stored), sums(expected)),
        _ => {}
    }
    assert_eq!(bases(stored), bases(expected));
}
