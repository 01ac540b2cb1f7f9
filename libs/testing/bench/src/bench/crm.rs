//! Overrides of a deal's status against the same statements alone, their latency, an export, and
//! the board with few and many deals.

use std::time::Duration;

use anyhow::ensure;
use reqwest::Client;
use testkit::issuer::Claims;
use uuid::Uuid;

use super::bare;
use super::environment::Environment;
use super::load::{Load, Outcome, download, find_wrk, latencies, measure_p95, pgbench};
use super::peers::{self, Peer};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::deals;
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "crm",
    about: "the override of a deal's status against the same statements alone; an export, and the board of a developer with few deals and with many",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// A developer with a number of deals.
struct Tenant {
    id: &'static str,
    /// Number of the first deal.
    first: i64,
    deals: i64,
}

const FEW: Tenant = Tenant { id: "5eed0005-0000-4000-8000-000000000001", first: 1_000_001, deals: 1_000 };
const MANY: &str = "5eed0005-0000-4000-8000-000000000002";

/// Deals of the developer whose pipeline has fifty steps. Half of them are in one step.
const SEEDED: u64 = 100_000;

/// A developer with the default pipeline.
const DEVELOPER: &str = "insert into developer (id, name, version) values ($1::text::uuid, 'Bench', 1)";
const STEPS: &str = "insert into step (id, tenant_id, \"group\", name, sort_order, is_default) \
    select md5($1 || place)::uuid, $1::text::uuid, kind, place::text, place, place in (0, 2, 3, 5, 6) \
    from (values (0, 'Application'), (1, 'Application'), (2, 'Booking'), (3, 'Contract'), (4, 'Contract'), \
    (5, 'Completed'), (6, 'Cancelled')) as made (place, kind)";
const OBJECTS: &str = "insert into property_object \
    (id, tenant_id, project_name, building_name, number, price, currency, status, version, folded_project_name, \
    folded_number) select ('5eed0006-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, $1::text::uuid, 'Riverside', \
    '1', n::text, 700000000, 'RUB', 'Available', 1, 'riverside', n::text from generate_series($2::bigint, $3::bigint) n";
/// The first half of the deals is in one column, the rest in four.
const DEALS: &str = "insert into deal \
    (id, tenant_id, property_object_id, client_user_id, amount, currency, status, step_id, step_group, step_entered_at, \
    contract_type, payment_method, cancelled_at, cancel_reason, created_at, created_by_user_id, updated_at, row_version) \
    select ('5eed0007-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, $1::text::uuid, \
    ('5eed0006-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid(), 700000000 + n, 'RUB', \
    case kind when 'Contract' then 'Sale' else kind end, md5($1 || place)::uuid, kind, made_at, \
    case kind when 'Contract' then 'Ddu' end, case kind when 'Contract' then 'Cash' end, \
    case kind when 'Cancelled' then made_at end, case kind when 'Cancelled' then 'x' end, made_at, gen_random_uuid(), made_at, 1 \
    from generate_series($2::bigint, $3::bigint) n, lateral (select now() - make_interval(secs => n % 1000000) as made_at, \
    case when n - $2 < ($3 - $2) / 2 then 0 else 1 + n % 4 end as part) of_one \
    join (values (0, 0, 'Application'), (1, 1, 'Application'), (2, 2, 'Booking'), (3, 3, 'Contract'), (4, 6, 'Cancelled')) \
    as made (part, place, kind) using (part)";
const STAGES: &str = "insert into stage (deal_id, row_version, step_id, status, entered_at) \
    select id, 1, step_id, status, step_entered_at from deal where tenant_id = $1::text::uuid";
/// Resets the overridden deals, except for their history.
const RESET: &str = "update deal set status = 'Application', step_id = md5($1 || 0)::uuid, step_group = 'Application' \
    where tenant_id = $1::text::uuid and id < ('5eed0007-0000-4000-8000-' || lpad($2::bigint::text, 12, '0'))::uuid \
    and step_id = md5($1 || 2)::uuid";

impl Tenant {
    async fn fill(&self, connection: &Connection) -> anyhow::Result<()> {
        let (client, last) = (&connection.client, self.first + self.deals - 1);
        client.execute(DEVELOPER, &[&self.id]).await?;
        client.execute(STEPS, &[&self.id]).await?;
        client.execute(OBJECTS, &[&self.id, &self.first, &last]).await?;
        client.execute(DEALS, &[&self.id, &self.first, &last]).await?;
        client.execute(STAGES, &[&self.id]).await?;
        Ok(())
    }
}

/// The service and its clients.
struct Bench<'g> {
    environment: &'g Environment,
    connection: Connection,
    service: Service,
    peer: Option<Peer>,
    client: Client,
    token: String,
    many: Tenant,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("crm");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let arbiter = Claims::user(Uuid::from_u128(rand::random())).permission("crm.deals.manage@platform");
    let peer = Peer::start(environment, &platform, "crm").await?;
    let mut bench = Bench {
        environment,
        connection: environment.connect("crm").await?,
        service: platform.start("crm", "serve", &[]).await?,
        peer,
        client: devkit::http::client()?,
        token: platform.issuer.token(&arbiter)?,
        many: Tenant { id: MANY, first: 1, deals: effort.choose(100_000, 20_000) },
    };
    for tenant in [&FEW, &bench.many] {
        step.note(format!("{} deals", tenant.deals));
        tenant.fill(&bench.connection).await?;
    }
    bench.connection.client.batch_execute("vacuum analyze").await?;
    bench.connection.client.batch_execute("checkpoint").await?;
    rows.extend(bench.overrides(effort, &step).await?);
    if let Some(peer) = bench.peer.take() {
        peer.stop().await?;
    }
    // The baseline leaves rows in the outbox whose payloads are no valid events. Other services
    // would dead-letter them.
    bench.connection.client.batch_execute("delete from outbox").await?;
    deals::fill(&bench.connection.client, SEEDED, &step).await?;
    step.note("summing totals");
    let worker = platform.start("crm", "work", &[]).await?;
    bench.wait_for_jobs().await?;
    worker.stop().await?;
    step.note("an export of all deals");
    rows.extend(bench.export(effort).await?);
    for size in [20, 100] {
        step.note(format!("the board, {size} cards a column"));
        rows.extend(bench.board(effort, size).await?);
    }
    step.note("the board of fifty columns");
    rows.push(bench.wide_board(effort).await?);
    bench.service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

impl Bench<'_> {
    /// Waits until the jobs are done.
    async fn wait_for_jobs(&self) -> anyhow::Result<()> {
        let left = "select exists (select from step_total_change) or exists (select from outbox)";
        while self.connection.client.query_one(left, &[]).await?.get(0) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.connection.client.batch_execute("vacuum analyze").await?;
        Ok(())
    }

    async fn overrides(&self, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
        let (half, seconds) = (self.many.deals / 2, effort.choose(3, 2));
        let booking = "select md5($1::text || 2)::uuid::text";
        let booking: String = self.connection.client.query_one(booking, &[&self.many.id]).await?.get(0);
        let (mut measured, mut baseline, mut of_peer) = (Vec::new(), Vec::new(), Vec::new());
        let url = &self.service.url;
        self.override_some(url, 32, seconds, None).await?;
        for round in 1..=effort.rounds() {
            step.note(format!("overrides, round {round}"));
            measured.push(self.override_some(url, 32, seconds, None).await?.per_second);
            if let Some(peer) = &self.peer {
                of_peer.push(self.override_some(&peer.url, 32, seconds, None).await?.per_second);
            }
            let variables = [("deals", half.to_string()), ("step", booking.clone())];
            baseline.push(pgbench(self.environment, "crm", "override", &variables, 32, seconds).await?);
            self.reset().await?;
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let what = format!("{} deals: overrides at 32 connections", self.many.deals);
        let of_peer =
            (!of_peer.is_empty()).then(|| peers::rows(&what, &measured, of_peer, Goal::AtLeast(1.5)));
        let (measured, baseline) = (Rounds::new(measured), Rounds::new(baseline));
        let mut outcomes = Vec::new();
        for _ in 1..=effort.rounds() {
            outcomes.push(self.override_some(url, 64, seconds, Some(measured.median() / 2.0)).await?);
        }
        let mut rows = vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, measured),
            Row::new(format!("{what}: the same statements alone/s"), Unit::PerSecond, baseline),
            Row::new(format!("{what}: ratio to the same statements alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.5)),
        ];
        rows.extend(of_peer.into_iter().flatten());
        let what = format!("{} deals: overrides at half of that rate", self.many.deals);
        let p95 = Rounds::new(outcomes.iter().map(|outcome| outcome.p95).collect());
        rows.push(Row::new(format!("{what}: p95"), Unit::Milliseconds, p95).goal(Goal::Below(500.0)));
        rows.extend(latencies(&what, &outcomes));
        Ok(rows)
    }

    /// Overrides deals of the first column, each at most once, from Application to Booking, and
    /// resets them.
    async fn override_some(
        &self,
        url: &str,
        connections: u32,
        seconds: u64,
        rate: Option<f64>,
    ) -> anyhow::Result<Outcome> {
        let arguments = [self.token.clone(), self.many.first.to_string()];
        let load = Load { script: "override", arguments: &arguments, connections, seconds, rate };
        let outcome = load.run(url).await?;
        self.reset().await?;
        Ok(outcome)
    }

    async fn reset(&self) -> anyhow::Result<()> {
        let after = self.many.first + self.many.deals / 2;
        self.connection.client.execute(RESET, &[&self.many.id, &after]).await?;
        self.connection.client.batch_execute("vacuum analyze deal").await?;
        Ok(())
    }

    /// Measures the p95 of sequential requests, in turns for the developers with few and with many
    /// deals.
    async fn board(&self, effort: Effort, size: u32) -> anyhow::Result<Vec<Row>> {
        let board = |tenant: &Tenant| {
            format!("/api/platform-manager/crm/board?TenantId={}&PageSize={size}", tenant.id)
        };
        let (few, many) = (board(&FEW), board(&self.many));
        let (mut among_few, mut among_many) = (Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            among_few.push(measure_p95(async || self.get(&few).await).await?);
            among_many.push(measure_p95(async || self.get(&many).await).await?);
        }
        let ratios = Rounds::ratios(&among_many, &among_few);
        let p95 = |deals, took| {
            let what = format!("{deals} deals: board of {size} cards a column: p95");
            Row::new(what, Unit::Milliseconds, Rounds::new(took))
        };
        let what =
            format!("{} deals: board of {size} cards a column: of that among {}", self.many.deals, FEW.deals);
        Ok(vec![
            p95(FEW.deals, among_few),
            p95(self.many.deals, among_many).goal(Goal::Below(300.0)),
            Row::new(what, Unit::Ratio, ratios).goal(Goal::AtMost(1.5)),
        ])
    }

    /// Measures exports of all deals as CSV, in turns with the same SQL alone.
    async fn export(&self, effort: Effort) -> anyhow::Result<Vec<Row>> {
        let path = format!("/api/platform-manager/crm/exports/deals?Format=Csv&TenantId={}", self.many.id);
        let request = || self.client.get(format!("{}{path}", self.service.url)).bearer_auth(&self.token);
        let before = self.service.memory()?;
        let script = bare::statements(self.environment, &self.connection.client, request()).await?;
        let deals = f64::from(i32::try_from(self.many.deals)?);
        let (mut exported, mut baseline, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            let ((seconds, _), highest) = self.service.highest_memory(download(request())).await?;
            exported.push(deals / seconds);
            memory.push(highest - before);
            baseline.push(deals / bare::run(&self.connection.client, &script).await?);
        }
        let ratios = Rounds::ratios(&exported, &baseline);
        let what = format!("{deals} deals: CSV");
        Ok(vec![
            Row::new(format!("{what}: deals/s"), Unit::PerSecond, Rounds::new(exported)),
            Row::new(format!("{what}: the same SQL alone: deals/s"), Unit::PerSecond, Rounds::new(baseline)),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.3)),
            Row::new(format!("{what}: memory beyond that before"), Unit::Mebibytes, Rounds::new(memory))
                .goal(Goal::AtMost(32.0)),
        ])
    }

    /// Measures a board with the maximum number of columns.
    async fn wide_board(&self, effort: Effort) -> anyhow::Result<Row> {
        let path = format!("/api/platform-manager/crm/board?TenantId={}", deals::developer_id(1));
        let mut took = Vec::new();
        for _ in 1..=effort.rounds() {
            took.push(measure_p95(async || self.get(&path).await).await?);
        }
        let what = format!("{SEEDED} deals in 50 columns: board of 20 cards a column: p95");
        Ok(Row::new(what, Unit::Milliseconds, Rounds::new(took)).goal(Goal::Below(300.0)))
    }

    async fn get(&self, path: &str) -> anyhow::Result<()> {
        let response =
            self.client.get(format!("{}{path}", self.service.url)).bearer_auth(&self.token).send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        Ok(())
    }
}
