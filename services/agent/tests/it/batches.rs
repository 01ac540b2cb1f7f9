//! Deal events that share a transaction.
//!
//! A test locks what the first event of a partition needs. The later events are then ready
//! together, and are applied in one transaction when the test releases the lock.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::guid;
use testkit::held::HeldLocks;
use testkit::service::Running;
use uuid::Uuid;

use crate::fixtures::decider;
use crate::{
    CANCELLED, COMPLETED, CREATED, Deal, PLATFORM, STAGE_CHANGED, await_applied, deliver, key_of, money,
    next, rub, start, with,
};

const AT: &str = "2026-05-01T10:00:00Z";
/// The time in which a consumer fetches the events that a test has published.
const FETCH_TIME: Duration = Duration::from_secs(1);

/// Returns a service that only these tests use, since their locks delay its events.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&[]))
}

/// Serializes the tests, since the locks of one delay the events of another.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ALONE.lock().await
}

async fn set_rate(developer: Uuid, rate_bps: i64) {
    let rates = json!([{"RateBps": rate_bps, "ValidFrom": "2000-01-01T00:00:00Z", "ValidTo": null}]);
    let card = json!({"DeveloperCompanyId": developer, "Rates": rates});
    decider(service()).put(&format!("{PLATFORM}/commission-rates"), card).await.expect(200);
}

/// An event of CRM and its topic.
type Event = (&'static str, Value);

/// Publishes events without waiting for them, and returns the last sequence of each topic and key.
async fn publish(events: &[Event]) -> BTreeMap<(&'static str, Uuid), i64> {
    let mut last = BTreeMap::new();
    for (topic, payload) in events {
        let (key, sequence) = (key_of(payload), next());
        service().bus().publish(topic, key, sequence, payload).await;
        last.insert((*topic, key), sequence);
    }
    last
}

async fn await_all_applied(last: BTreeMap<(&'static str, Uuid), i64>) {
    for ((topic, key), sequence) in last {
        await_applied(service(), topic, key, sequence).await;
    }
}

/// Publishes events while nothing is applied, so that they share transactions.
async fn deliver_together(events: &[Event]) {
    let table_lock = HeldLocks::lock(service(), "lock table deal in exclusive mode").await;
    let last = publish(events).await;
    tokio::time::sleep(FETCH_TIME).await;
    table_lock.release().await;
    await_all_applied(last).await;
}

/// Returns the number of batches that the service has rolled back.
async fn split_batches() -> u64 {
    let metrics = service().operator().get("/metrics").await.text;
    let of_deals =
        |line: &&str| line.starts_with("consumer_split_batches_total") && line.contains("agent.crm");
    let line = metrics.lines().find(of_deals).expect("the metric");
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count")
}

/// RULE-AGT-012, RULE-EVT-047: an event of a batch that cannot be applied is dead-lettered alone.
/// The events of other deals are applied in order.
#[tokio::test]
async fn poisoned_event_of_a_batch_is_dead_lettered_alone() {
    let _alone = alone().await;
    let (developer, developer_at_full_rate) = (guid(), guid());
    set_rate(developer, 1_000).await;
    set_rate(developer_at_full_rate, 10_000).await;
    // The first deal fills the account, so another accrual of its agent exceeds 64 bits.
    let mut first = Deal::new(guid(), developer_at_full_rate, rub(i64::MAX));
    deliver(service(), STAGE_CHANGED, &first.stage_changed("Sale", AT)).await;
    let before = split_batches().await;

    let mut deals: Vec<_> = (0..12).map(|_| Deal::new(guid(), developer, rub(1_000))).collect();
    let mut undecodable = Deal::new(guid(), developer, rub(1_000));
    let mut overflowing = Deal::new(first.agent, developer_at_full_rate, rub(1));
    let mut events = Vec::new();
    for status in ["Booking", "Sale", "Completed", "Cancelled", "Sale", "Completed"] {
        for deal in &mut deals {
            events.push((STAGE_CHANGED, deal.stage_changed(status, AT)));
        }
        let event = undecodable.stage_changed(status, AT);
        let event = if status == "Sale" { with(event, "Amount", rub(-1)) } else { event };
        events.extend([(STAGE_CHANGED, event), (STAGE_CHANGED, overflowing.stage_changed(status, AT))]);
    }
    let sql = service().sql().await;
    deliver_together(&events).await;
    assert!(split_batches().await > before, "no event failed within a batch");

    for deal in &deals {
        let select = "select array_agg(kind || ' ' || status || ' ' || version order by sale_row_version) \
            from accrual where deal_id = $1::text::uuid";
        let lines: Vec<String> = sql.query_one(select, &[&deal.id.to_string()]).await.unwrap().get(0);
        assert_eq!(lines, ["Base Reversed 3", "Base Approved 2"]);
    }
    for (deal, applied) in [(&undecodable, 2), (&overflowing, 2)] {
        let letters = "select count(*) from dead_letter where key = $1";
        let letters: i64 = sql.query_one(letters, &[&deal.id.to_string()]).await.unwrap().get(0);
        assert_eq!(letters, 5, "the poisoned event and those behind it");
        let select = "select applied_row_version from deal where id = $1::text::uuid";
        let version: i64 = sql.query_one(select, &[&deal.id.to_string()]).await.unwrap().get(0);
        assert_eq!(version, applied);
    }
    let letters = "select count(*) from dead_letter where key = any($1)";
    let keys: Vec<_> = deals.iter().map(|deal| deal.id.to_string()).collect();
    assert_eq!(sql.query_one(letters, &[&keys]).await.unwrap().get::<_, i64>(0), 0);
}

/// RULE-EVT-047: two batches whose events name the same accounts in opposite orders are both
/// applied. Each batch locks its accounts in the order of their keys.
#[tokio::test]
async fn batches_with_accounts_in_opposite_orders_do_not_deadlock() {
    let _alone = alone().await;
    let (developer, agents) = (guid(), [guid(), guid()]);
    set_rate(developer, 1_000).await;
    let (lower, upper) = (agents[0].min(agents[1]), agents[0].max(agents[1]));
    let [mut one, mut other] = deals_of_two_partitions(developer, lower, upper).await;
    let sql = service().sql().await;
    let before = split_batches().await;

    let ids = format!("('{}', '{}')", one.id, other.id);
    let deals = format!("select from deal where id in {ids} for update");
    let deals = HeldLocks::lock(service(), &deals).await;
    let lock = format!("select from account where agent_user_id = '{lower}' for update");
    let account = HeldLocks::lock(service(), &lock).await;
    let mut events = Vec::new();
    for (deal, agents) in [(&mut one, [lower, upper]), (&mut other, [upper, lower])] {
        // The first event is applied alone.
        events.push((STAGE_CHANGED, deal.stage_changed("Booking", AT)));
        for agent in agents {
            deal.agent = Some(agent);
            events.push((STAGE_CHANGED, deal.stage_changed("Sale", AT)));
            events.push((STAGE_CHANGED, deal.stage_changed("Cancelled", AT)));
        }
    }
    let last = publish(&events).await;
    tokio::time::sleep(FETCH_TIME).await;
    deals.release().await;
    // Both batches wait for the first account in the order of keys.
    account.wait_for(2, "insert into account%").await;
    account.release().await;
    await_all_applied(last).await;

    assert_eq!(split_batches().await, before, "a batch was rolled back");
    for deal in [&one, &other] {
        // The sale of version 2 ended before.
        let select = "select count(*), count(distinct xmin::text) from accrual \
            where deal_id = $1::text::uuid and sale_row_version > 3 and status = 'Reversed'";
        let row = sql.query_one(select, &[&deal.id.to_string()]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 1), "two accruals of one transaction");
    }
}

/// Creates two deals whose events are in different partitions, and the accounts of two agents.
async fn deals_of_two_partitions(developer: Uuid, lower: Uuid, upper: Uuid) -> [Deal; 2] {
    let sql = service().sql().await;
    let mut by_partition = BTreeMap::new();
    while by_partition.len() < 2 {
        let mut deal = Deal::new(lower, developer, rub(1_000));
        deliver(service(), STAGE_CHANGED, &deal.stage_changed("Sale", AT)).await;
        deliver(service(), STAGE_CHANGED, &deal.stage_changed("Cancelled", AT)).await;
        let select = "select partition from inbox where topic = $1 and key = $2";
        let row = sql.query_one(select, &[&STAGE_CHANGED, &deal.id.to_string()]).await.unwrap();
        by_partition.entry(row.get::<_, i32>(0)).or_insert(deal);
    }
    let mut of_upper = Deal::new(upper, developer, rub(1_000));
    deliver(service(), STAGE_CHANGED, &of_upper.stage_changed("Sale", AT)).await;
    let deals: Vec<_> = by_partition.into_values().collect();
    deals.try_into().unwrap()
}

/// The stored data of a deal, without the ids of accruals and without the times of writing.
const STATE: &str = "\
    select jsonb_build_object( \
        'deal', to_jsonb(deal) - 'held_since' || jsonb_build_object('is_held', held_since is not null), \
        'accruals', (select jsonb_agg(jsonb_build_array( \
                agent_user_id, sale_row_version, kind, base_amount, rate_bps, amount, currency, status, \
                reverses_accrual_id is null, adjusts_accrual_id is null, earned_at, approved_at, is_self_rated, \
                awaits_release, version \
            ) order by sale_row_version, kind, amount) from accrual where deal_id = deal.id), \
        'log', (select jsonb_agg(jsonb_build_array( \
                sale_row_version, kind, action, money_log.agent_user_id, actor_user_id, money_log.amount, \
                money_log.rate_bps \
            ) order by sale_row_version, kind, accrual.amount, money_log.id) \
            from money_log join accrual on accrual.id = subject_id where deal_id = deal.id) \
    )::text from deal where id = $1::text::uuid";

const ACCOUNTS: &str = "\
    select jsonb_agg(to_jsonb(account) order by agent_user_id = $1::text::uuid, currency)::text from account \
    where agent_user_id = any(array[$1, $2]::text[]::uuid[])";

const ACCRUALS: &str = "\
    select id::text from accrual where deal_id = $1::text::uuid order by sale_row_version, kind, amount";

/// The number of transactions that have logged changes of the accruals of a deal.
const TRANSACTIONS: &str = "\
    select count(distinct money_log.xmin::text) from money_log join accrual on accrual.id = subject_id \
    where deal_id = $1::text::uuid";

/// Deals with their events in the order of publication.
struct History {
    deals: Vec<Uuid>,
    agents: [Uuid; 2],
    events: Vec<Event>,
}

/// A change of one of three deals: the deal, the status, the amount, the agent, and whether the
/// stage change is missing.
type Step = (usize, &'static str, usize, usize, bool);

impl History {
    /// Creates the events of random changes. A missing change leaves a gap.
    async fn new(steps: &[Step]) -> Self {
        let (agents, mut deals, mut events) = ([guid(), guid()], Vec::new(), Vec::new());
        for rate in [Some(1_000), Some(10_000), None] {
            let deal = Deal::new(agents[0], guid(), rub(1_000));
            if let Some(rate) = rate {
                set_rate(deal.developer, rate).await;
            }
            events.push((CREATED, deal.created(AT)));
            deals.push(deal);
        }
        for (at, to, amount, agent, is_missing) in steps {
            let deal = &mut deals[*at];
            deal.amount = [rub(1_000), rub(2_055), money(777, "USD"), rub(50_000_000_000)][*amount].clone();
            // The third value removes the agent.
            deal.agent = agents.get(*agent).copied();
            // CRM sends 0 for the first stage change.
            let previous = if deal.row_version == 1 { 0 } else { deal.row_version };
            let change = with(deal.stage_changed(to, AT), "PreviousRowVersion", previous);
            if !is_missing {
                events.push((STAGE_CHANGED, change));
            }
            match *to {
                "Cancelled" => events.push((CANCELLED, deal.cancelled(AT))),
                "Completed" => events.push((COMPLETED, deal.completed(AT))),
                _ => {}
            }
        }
        Self { deals: deals.iter().map(|deal| deal.id).collect(), agents, events }
    }

    /// Returns the same history of other deals and agents, and the pairs of old and new ids.
    fn copy(&self) -> (Self, Vec<(String, String)>) {
        let ids = self.deals.iter().chain(&self.agents);
        let names: Vec<_> = ids.map(|id| (id.to_string(), guid().to_string())).collect();
        let renamed = |text: String| names.iter().fold(text, |text, (from, to)| text.replace(from, to));
        let rename = |id: &Uuid| renamed(id.to_string()).parse().unwrap();
        let events = self
            .events
            .iter()
            .map(|(topic, payload)| (*topic, serde_json::from_str(&renamed(payload.to_string())).unwrap()));
        let copy = Self {
            deals: self.deals.iter().map(rename).collect(),
            agents: self.agents.each_ref().map(rename),
            events: events.collect(),
        };
        (copy, names)
    }

    /// Returns the accounts, the deals with their accruals, and the published changes.
    async fn state(&self) -> String {
        let sql = service().sql().await;
        let agents = self.agents.map(|agent| agent.to_string());
        let accounts = sql.query_one(ACCOUNTS, &[&agents[0], &agents[1]]).await.unwrap();
        let mut state = vec![accounts.get::<_, Option<String>>(0).unwrap_or_default()];
        for deal in &self.deals {
            state.push(sql.query_one(STATE, &[&deal.to_string()]).await.unwrap().get(0));
            for accrual in sql.query(ACCRUALS, &[&deal.to_string()]).await.unwrap() {
                let events = service().published(accrual.get::<_, &str>(0)).await;
                let members = ["AgentUserId", "From", "To", "Amount", "Version", "ChangedByUserId"];
                let shown = |payload: &Value| members.map(|member| payload[member].to_string()).join(" ");
                state.extend(events.iter().map(|event| shown(&event.payload)));
            }
        }
        state.join("\n")
    }

    async fn count_transactions(&self) -> i64 {
        let sql = service().sql().await;
        let mut count = 0;
        for deal in &self.deals {
            count += sql.query_one(TRANSACTIONS, &[&deal.to_string()]).await.unwrap().get::<_, i64>(0);
        }
        count
    }
}

/// RULE-EVT-047, RULE-AGT-002: random events lead to the same deals, accruals, accounts, log
/// entries and published changes, applied together or one by one.
#[tokio::test]
async fn batch_leads_to_the_ledger_of_single_events() {
    let _alone = alone().await;
    let statuses =
        ["Application", "Booking", "Sale", "Sale", "Sale", "Completed", "Completed", "Cancelled", "Frozen"];
    let step = (
        0..3_usize,
        prop::sample::select(statuses.to_vec()),
        0..4_usize,
        0..3_usize,
        prop::bool::weighted(0.05),
    );
    let histories = prop::collection::vec(step, 10..30);
    let mut runner = TestRunner::default();
    let (mut of_single_events, mut of_batches) = (0, 0);
    for _ in 0..4 {
        let steps = histories.new_tree(&mut runner).unwrap().current();
        let single = History::new(&steps).await;
        let (batch, names) = single.copy();
        for (topic, payload) in &single.events {
            deliver(service(), topic, payload).await;
        }
        let before = split_batches().await;
        deliver_together(&batch.events).await;
        let expected = single.state().await;
        let state = batch.state().await;
        let state = names.iter().fold(state, |state, (from, to)| state.replace(to, from));
        assert_eq!(state, expected, "{steps:?}");
        // A batch that was split has a transaction for each event.
        if split_batches().await == before {
            of_single_events += single.count_transactions().await;
            of_batches += batch.count_transactions().await;
        }
    }
    assert!(of_batches <= of_single_events, "{of_batches} transactions instead of {of_single_events}");
}

/// RULE-AGT-012: a message of a batch keeps its own trace in the money log.
#[tokio::test]
async fn entries_of_a_batch_have_the_traces_of_their_events() {
    let _alone = alone().await;
    let developer = guid();
    set_rate(developer, 1_000).await;
    let mut deal = Deal::new(guid(), developer, rub(1_000));
    deliver_together(&[
        (STAGE_CHANGED, deal.stage_changed("Booking", AT)),
        (STAGE_CHANGED, deal.stage_changed("Sale", AT)),
        (STAGE_CHANGED, deal.stage_changed("Completed", AT)),
    ])
    .await;
    let sql = service().sql().await;
    let traces = "select count(*), count(distinct trace_id) \
        from money_log join accrual on accrual.id = subject_id where deal_id = $1::text::uuid";
    let row = sql.query_one(traces, &[&deal.id.to_string()]).await.unwrap();
    assert_eq!([0, 1].map(|column| row.get::<_, i64>(column)), [2, 2]);
}
