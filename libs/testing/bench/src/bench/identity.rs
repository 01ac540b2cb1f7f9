//! Claims for tokens against the same SQL alone; search, lists and the audit log with few and many
//! companies.

use anyhow::ensure;
use reqwest::Client;
use testkit::issuer::Claims;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::environment::Environment;
use super::load::{Load, find_wrk, latencies, measure_p95, pgbench};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::{self, Counts};
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "identity",
    about: "claims for tokens, against the same SQL alone; search, lookup, employees and log, among up to a million companies",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const EMPLOYEES: u64 = 50_000;
/// The created company with the employees.
const LARGE: &str = "5eed0000-0000-4000-8000-000000000001";

/// The conditions by which the service finds rare and common words.
const RARE: &str = "trigrams(search_text) @> trigrams($1) and search_text like '%' || $1 || '%'";
const COMMON: &str = "search_text like '%' || $1 || '%'";

/// A query with the goal of its p95 in milliseconds.
struct MeasuredQuery {
    what: &'static str,
    path: String,
    goal: f64,
    /// The search word and the condition of the same query in SQL, if it is measured alone.
    bare: Option<(&'static str, &'static str)>,
}

/// The service and its clients.
struct Bench {
    connection: Connection,
    service: Service,
    internal: String,
    client: Client,
    token: String,
    /// The machine token with which the issuer reads claims.
    issuer_token: String,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("identity");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let claims = Claims::user(Uuid::from_u128(rand::random()))
        .company(LARGE.parse()?)
        .permission("identity.tenants.read@platform")
        .permission("identity.employee-roles.manage");
    let bench = Bench {
        connection: environment.connect("identity").await?,
        service: platform.start("identity", "serve", &[]).await?,
        internal: platform.internal("identity"),
        client: devkit::http::client()?,
        token: platform.issuer.token(&claims)?,
        issuer_token: platform.issuer.token(&Claims::client("issuer"))?,
    };
    for (tenants, entries) in
        effort.choose(vec![(10_000, 100_000), (1_000_000, 10_000_000)], vec![(10_000, 100_000)])
    {
        let counts = Counts { tenants, employees: EMPLOYEES, entries };
        bulk_data::fill(&bench.connection.client, &counts, &step).await?;
        rows.extend(bench.claims(environment, effort, tenants, &step).await?);
        for measured_query in measured_queries() {
            step.note(format!("{tenants} companies: {}", measured_query.what));
            rows.extend(bench.measure_query(&measured_query, effort, tenants).await?);
        }
    }
    bench.service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

fn measured_queries() -> Vec<MeasuredQuery> {
    let measured_query = |what, path: &str, goal| MeasuredQuery {
        what,
        path: format!("/api/identity/{path}"),
        goal,
        bare: None,
    };
    let search = |what, query: &str, bare| MeasuredQuery {
        bare,
        ..measured_query(what, &format!("admin/tenants/search?{query}"), 200.0)
    };
    vec![
        search("search that finds nothing", "Query=qqqzzz", Some(("qqqzzz", RARE))),
        search("search that finds one in 10,000", "Query=zephyr", Some(("zephyr", RARE))),
        search("search that finds half", "Query=group", Some(("group", COMMON))),
        search("search that finds half, by name", "Query=group&Sort=Name", None),
        search(
            "search that finds half, archived agencies",
            "Query=group&Types=Agency&Statuses=Archived",
            None,
        ),
        search("search that finds half, page 500", "Query=group&Page=500", None),
        search("search without words, page 500 by name", "Page=500&Sort=Name", None),
        search("search by two letters", "Query=ma", None),
        measured_query("lookup that finds nothing", "admin/tenants/lookup?Query=qqqzzz", 50.0),
        measured_query("lookup that finds one in 10,000", "admin/tenants/lookup?Query=zephyr", 50.0),
        measured_query("lookup that finds half", "admin/tenants/lookup?Query=group", 50.0),
        measured_query("card", &format!("admin/tenants/{LARGE}"), 10.0),
        measured_query("50,000 employees, first page", "employees", 50.0),
        measured_query("50,000 employees, page 500 by creation", "employees?Page=500&Sort=-CreatedAt", 50.0),
        measured_query("50,000 employees, one found", "employees?Query=person4999%40", 50.0),
        measured_query("log, newest", "admin/audit", 50.0),
        measured_query("log of the large company, newest", &format!("admin/audit?TenantId={LARGE}"), 50.0),
    ]
}

impl Bench {
    async fn claims(
        &self,
        environment: &Environment,
        effort: Effort,
        tenants: u64,
        step: &Step,
    ) -> anyhow::Result<Vec<Row>> {
        let seconds = effort.choose(3, 2);
        let arguments = [self.issuer_token.clone(), EMPLOYEES.to_string()];
        let load =
            |connections, rate| Load { script: "claims", arguments: &arguments, connections, seconds, rate };
        load(32, None).run(&self.internal).await?;
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("{tenants} companies: claims, round {round}"));
            measured.push(load(32, None).run(&self.internal).await?.per_second);
            let variables = [("employees", EMPLOYEES.to_string())];
            baseline.push(pgbench(environment, "identity", "claims", &variables, 32, seconds).await?);
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let (measured, baseline) = (Rounds::new(measured), Rounds::new(baseline));
        let mut outcomes = Vec::new();
        for _ in 1..=effort.rounds() {
            outcomes.push(load(256, Some(measured.median() / 2.0)).run(&self.internal).await?);
        }
        let what = format!("{tenants} companies: claims at 32 connections");
        let mut rows = vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, measured),
            Row::new(format!("{what}: the same SQL alone/s"), Unit::PerSecond, baseline),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.85)),
        ];
        rows.extend(latencies(&format!("{tenants} companies: claims at half of that rate"), &outcomes));
        Ok(rows)
    }

    /// Measures the p95 of sequential requests, in turns with the bare SQL.
    async fn measure_query(
        &self,
        measured_query: &MeasuredQuery,
        effort: Effort,
        tenants: u64,
    ) -> anyhow::Result<Vec<Row>> {
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            measured.push(measure_p95(async || self.get(&measured_query.path).await).await?);
            if let Some((query, condition)) = measured_query.bare {
                baseline.push(measure_p95(async || self.search(query, condition).await).await?);
            }
        }
        let what = format!("{tenants} companies: {}", measured_query.what);
        let row = Row::new(format!("{what}: p95"), Unit::Milliseconds, Rounds::new(measured));
        let mut rows = vec![row.goal(Goal::Below(measured_query.goal))];
        if !baseline.is_empty() {
            let row = Row::new(
                format!("{what}: p95 of the same SQL alone"),
                Unit::Milliseconds,
                Rounds::new(baseline),
            );
            rows.push(row);
        }
        Ok(rows)
    }

    async fn get(&self, path: &str) -> anyhow::Result<()> {
        let response =
            self.client.get(format!("{}{path}", self.service.url)).bearer_auth(&self.token).send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        Ok(())
    }

    /// Runs the SQL of a search: the newest page and the count.
    async fn search(&self, query: &str, condition: &str) -> anyhow::Result<()> {
        let client = &self.connection.client;
        let page = format!(
            "select id, name, legal_name, type, status, tax_number, employees_count, suspended_at, \
            suspension_reason, created_at, updated_at, version from tenant where {condition} \
            order by created_at desc, id limit 20"
        );
        let count =
            format!("select count(*) from (select id from tenant where {condition} limit 10001) as found");
        let bound: [&(dyn ToSql + Sync); 1] = [&query];
        let (page, count) = tokio::join!(client.query(&page, &bound), client.query_one(&count, &bound));
        page.and(count.map(drop))?;
        Ok(())
    }
}
