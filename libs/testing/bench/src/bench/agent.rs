//! Events of CRM applied, the queries of an agent against the same SQL alone, and a payout run over
//! all agents.

mod intake;

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use tokio::time::Instant;
use uuid::Uuid;

use super::bare;
use super::environment::Environment;
use super::load::{Load, find_wrk, pgbench_of};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::accruals;
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "agent",
    about: "events of CRM applied; performance and summary of an agent with 100,000 deals, against the same SQL alone; a payout run over a million accruals",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// The period of 366 days that contains all created deals.
const FROM: &str = "2025-10-31T00:00:00Z";
const TO: &str = "2026-11-01T00:00:00Z";

/// Progress of a run: whether it is completed, its payouts and their accruals.
const RUN: &str = "select run.status = 'Completed', count(payout.id), coalesce(sum(payout.accruals_count), 0)::bigint \
    from payout_run as run left join payout on payout.run_id = run.id \
    where run.id = $1::text::uuid group by run.id";

/// Accounts of created agents with an approved balance.
const PAYABLE: &str = "select count(*) from account where approved > 0 \
    and agent_user_id between $1::text::uuid and $2::text::uuid";

const ADDS_UP: &str = "select (select sum(in_payout) from account) = (select sum(gross) from payout)";

/// A query of an agent.
struct MeasuredQuery {
    what: &'static str,
    path: String,
    connections: u32,
    /// Goal of the ratio to the same SQL alone.
    goal: f64,
    /// Goal of the p95 at half of the highest rate, in milliseconds.
    max_p95: f64,
}

/// The service and its clients.
struct Bench<'g> {
    environment: &'g Environment,
    platform: Platform,
    connection: Connection,
    service: Service,
    client: Client,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("agent");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let bench = Bench {
        environment,
        connection: environment.connect("agent").await?,
        service: platform.start("agent", "serve", &[]).await?,
        client: devkit::http::client()?,
        platform,
    };
    rows.push(intake::run(&bench, effort, &step).await?);
    let accruals = effort.choose(1_000_000, 100_000);
    let begun = Instant::now();
    accruals::fill(&bench.connection.client, accruals, &step).await?;
    bench.connection.client.batch_execute("checkpoint").await?;
    let took = Rounds::new(vec![begun.elapsed().as_secs_f64()]);
    rows.push(Row::new(format!("{accruals} accruals: filled in"), Unit::Seconds, took));
    let deals = accruals::deals_of_first_agent(accruals);
    for measured_query in measured_queries() {
        rows.extend(
            bench.measure_query(&measured_query, effort, deals, &step).await.context(measured_query.what)?,
        );
    }
    rows.extend(bench.pay(accruals, &step).await?);
    bench.service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

fn measured_queries() -> [MeasuredQuery; 2] {
    [
        MeasuredQuery {
            what: "performance over 366 days",
            path: format!("/api/v1/my/agent-performance?From={FROM}&To={TO}"),
            // Each request reads all deals of the agent.
            connections: 8,
            goal: 0.7,
            max_p95: 200.0,
        },
        MeasuredQuery {
            what: "summary",
            path: "/api/v1/my/commission-summary".to_owned(),
            connections: 32,
            goal: 0.85,
            max_p95: 50.0,
        },
    ]
}

impl Bench<'_> {
    async fn worker(&self) -> anyhow::Result<Service> {
        // The embedded broker admits a new member only after the session of the previous one has
        // expired.
        self.platform.start("agent", "work", &[("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned())]).await
    }

    /// Measures a query of the first agent in turns with the same SQL alone.
    async fn measure_query(
        &self,
        measured_query: &MeasuredQuery,
        effort: Effort,
        deals: u64,
        step: &Step,
    ) -> anyhow::Result<Vec<Row>> {
        let agent = Claims::user(accruals::agent_id(1)).permission("agent.cabinet.use");
        let token = self.platform.issuer.token(&agent)?;
        let url = format!("{}{}", self.service.url, measured_query.path);
        let request = self.client.get(url).bearer_auth(&token);
        let script = bare::statements(self.environment, &self.connection.client, request).await?;
        let files = bare::write_scripts("agent", &[script]).await?;
        let (arguments, seconds) = ([measured_query.path.clone(), token], effort.choose(5, 2));
        let connections = measured_query.connections;
        let load = |rate| Load { script: "token", arguments: &arguments, connections, seconds, rate };
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        load(None).run(&self.service.url).await?;
        for round in 1..=effort.rounds() {
            step.note(format!("{}, round {round}", measured_query.what));
            measured.push(load(None).run(&self.service.url).await?.per_second);
            baseline.push(pgbench_of(self.environment, "agent", &files, &[], connections, seconds).await?);
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let (measured, baseline) = (Rounds::new(measured), Rounds::new(baseline));
        let mut p95_by_round = Vec::new();
        for round in 1..=effort.rounds() {
            step.note(format!("{} at half of its rate, round {round}", measured_query.what));
            p95_by_round.push(load(Some(measured.median() / 2.0)).run(&self.service.url).await?.p95);
        }
        let what = format!("an agent with {deals} deals: {}", measured_query.what);
        let p95 = format!("{what}: p95 at half of that rate");
        Ok(vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, measured),
            Row::new(format!("{what}: the same SQL alone/s"), Unit::PerSecond, baseline),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(measured_query.goal)),
            Row::new(p95, Unit::Milliseconds, Rounds::new(p95_by_round))
                .goal(Goal::Below(measured_query.max_p95)),
        ])
    }

    /// Measures one payout run over all agents.
    async fn pay(&self, accruals: u64, step: &Step) -> anyhow::Result<Vec<Row>> {
        let client = &self.connection.client;
        let (first, last) = (accruals::agent_id(1).to_string(), accruals::agent_id(u32::MAX).to_string());
        let accounts: i64 = client.query_one(PAYABLE, &[&first, &last]).await?.get(0);
        let worker = self.worker().await?;
        let begun = Instant::now();
        let id = self.begin_run().await?;
        let mut stall = StallDetector::new();
        let (payouts, paid) = loop {
            let row = client.query_one(RUN, &[&id]).await?;
            let (is_done, payouts, paid): (bool, i64, i64) = (row.get(0), row.get(1), row.get(2));
            if is_done {
                break (payouts, paid);
            }
            step.note(format!("a run: {payouts} of {accounts} payouts, {paid} accruals"));
            stall.observe(payouts)?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let took = begun.elapsed().as_secs_f64();
        worker.stop().await?;
        ensure!(payouts == accounts, "{payouts} payouts were made of {accounts}");
        let adds_up: bool = client.query_one(ADDS_UP, &[]).await?.get(0);
        ensure!(adds_up, "the accounts differ from the payouts");
        let what = format!("a run over {accruals} accruals, {payouts} payouts of {paid}");
        let rate = |count: i64| anyhow::Ok(Rounds::new(vec![u32::try_from(count).map(f64::from)? / took]));
        Ok(vec![
            Row::new(format!("{what}: until Completed"), Unit::Seconds, Rounds::new(vec![took])),
            Row::new(format!("{what}: payouts/s"), Unit::PerSecond, rate(payouts)?),
            Row::new(format!("{what}: accruals/s"), Unit::PerSecond, rate(paid)?),
        ])
    }

    /// Starts a payout run and returns its id.
    async fn begin_run(&self) -> anyhow::Result<String> {
        let manager =
            Claims::user(Uuid::from_u128(rand::random())).permission("agent.payouts.manage@platform");
        let token = self.platform.issuer.token(&manager)?;
        let url = format!("{}/api/platform-manager/agent/payouts", self.service.url);
        let body = json!({"RunKey": "bench", "PeriodFrom": FROM, "PeriodTo": TO});
        let response = self.client.post(url).bearer_auth(&token).json(&body).send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "{status} {body}");
        let run: Value = serde_json::from_str(&body)?;
        Ok(run["Id"].as_str().context("no id")?.to_owned())
    }
}

/// A timer that expires when a value does not change for some time.
struct StallDetector {
    seen: i64,
    since: Instant,
}

impl StallDetector {
    const STALL_TIMEOUT: Duration = Duration::from_mins(2);

    fn new() -> Self {
        Self { seen: 0, since: Instant::now() }
    }

    fn observe(&mut self, count: i64) -> anyhow::Result<()> {
        if count != self.seen {
            *self = Self { seen: count, since: Instant::now() };
        }
        ensure!(self.since.elapsed() < Self::STALL_TIMEOUT, "no progress at {count}");
        Ok(())
    }
}
