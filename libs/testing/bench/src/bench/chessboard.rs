//! Queries and changes of the catalog against the same SQL alone, with few objects and with two
//! million, and with 1,000 to 100,000 projects.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use testkit::issuer::Claims;
use tokio::time::Instant;
use uuid::Uuid;

use super::bare;
use super::environment::Environment;
use super::load::{Load, WRK_TIMEOUT, find_wrk, pgbench_of};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::catalog::{self, Size};
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "chessboard",
    about: "the catalog's card, lists, facets, search and grid, and a grid replaced, against the same SQL alone, among up to two million objects and 100,000 projects",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const PROJECTS: u64 = 1_000;
/// Objects of each project while the number of projects varies.
const OBJECTS_OF_PROJECT: u64 = 20;
const CONNECTIONS: u32 = 32;
/// The developer of the first ten created projects.
const DEVELOPER: &str = "5eed0010-0000-4000-8000-000000000001";
/// Flats of the large grid.
const GRID: u32 = 5_000;
/// Replaced grids in a round.
const GRIDS: u32 = 3;

/// A query with several paths.
struct MeasuredQuery {
    what: &'static str,
    paths: Vec<String>,
    /// Goal of the ratio to the same SQL alone, unless most of the work is outside of SQL.
    goal: Option<f64>,
    /// Goal of the p95 at half of the highest rate, in milliseconds.
    max_p95: f64,
}

struct Bench<'g> {
    environment: &'g Environment,
    connection: Connection,
    service: Service,
    client: Client,
    manager: String,
    /// Path of the building with the large grid, below that of projects.
    building: String,
    building_id: String,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("chessboard");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let connection = environment.connect("chessboard").await?;
    let own = [("GUEST_READS_PER_MINUTE", "0".to_owned())];
    let service = platform.start("chessboard", "serve", &own).await?;
    let manager = Claims::user(Uuid::from_u128(rand::random())).company(DEVELOPER.parse()?);
    let manager = platform.issuer.token(&manager.permission("chessboard.developers.manage"))?;
    let client = devkit::http::client()?;
    let (building, building_id) = (String::new(), String::new());
    let mut bench = Bench { environment, connection, service, client, manager, building, building_id };
    let mut among_few: Vec<(&str, f64)> = Vec::new();
    for objects in effort.choose(vec![20_000, 2_000_000], vec![20_000]) {
        let begun = Instant::now();
        let size = Size { projects: PROJECTS, buildings: catalog::BUILDINGS, objects };
        catalog::fill(&bench.connection.client, size, &step).await?;
        bench.connection.client.batch_execute("checkpoint").await?;
        let took = Rounds::new(vec![begun.elapsed().as_secs_f64() * 1e3]);
        rows.push(Row::new(format!("{objects} objects: filled in"), Unit::Milliseconds, took));
        if bench.building.is_empty() {
            bench.make_building().await?;
        }
        bench.wait_for_index().await?;
        let mut rates = Vec::new();
        for measured_query in measured_queries(&bench.deep_pages().await?, &bench.building) {
            step.note(format!("{objects} objects: {}", measured_query.what));
            let (measured, rate) =
                bench.measure_query(&measured_query, effort, &format!("{objects} objects")).await?;
            rows.extend(measured);
            rates.push((measured_query.what, rate));
        }
        step.note(format!("{objects} objects: a grid replaced"));
        let (measured, rate) = bench.replace(effort, objects).await?;
        rows.extend(measured);
        rates.push(("grid of 5,000 replaced", rate));
        rows.extend(compare_rates(&among_few, &rates, &objects.to_string()));
        among_few = rates;
    }
    step.note("objects are published");
    let worker = platform.start("chessboard", "work", &[]).await?;
    rows.push(bench.propagate(effort).await?);
    worker.stop().await?;
    bench.service.stop().await?;
    let mut among_few = Vec::new();
    for projects in effort.choose(vec![1_000, 10_000, 100_000], vec![1_000, 10_000]) {
        catalog::clear(&bench.connection.client).await?;
        let size = Size { projects, buildings: 2, objects: projects * OBJECTS_OF_PROJECT };
        catalog::fill(&bench.connection.client, size, &step).await?;
        bench.connection.client.batch_execute("checkpoint").await?;
        bench.service = platform.start("chessboard", "serve", &own).await?;
        let memory = bench.service.memory()?;
        let loading = Instant::now();
        bench.wait_for_index().await?;
        let took = Rounds::new(vec![loading.elapsed().as_secs_f64() * 1e3]);
        rows.push(Row::new(format!("{projects} projects: index loaded"), Unit::Milliseconds, took));
        let grown = Rounds::new(vec![bench.service.memory()? - memory]);
        rows.push(Row::new(format!("{projects} projects: memory of the index"), Unit::Mebibytes, grown));
        let mut rates = Vec::new();
        for measured_query in queries_of_projects() {
            step.note(format!("{projects} projects: {}", measured_query.what));
            let (measured, rate) =
                bench.measure_query(&measured_query, effort, &format!("{projects} projects")).await?;
            rows.extend(measured);
            rates.push((measured_query.what, rate));
        }
        rows.extend(compare_rates(&among_few, &rates, &format!("{projects} projects")));
        if among_few.is_empty() {
            among_few = rates;
        }
        bench.service.stop().await?;
    }
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

/// Compares the rates of queries among many rows with those among few.
fn compare_rates(few: &[(&str, f64)], many: &[(&str, f64)], among: &str) -> Vec<Row> {
    let row = |((what, many), (_, few)): (&(&str, f64), &(&str, f64))| {
        let ratio = Rounds::new(vec![few / many]);
        Row::new(format!("{what}: times as long among {among}"), Unit::Ratio, ratio).goal(Goal::AtMost(1.5))
    };
    many.iter().zip(few).map(row).collect()
}

/// Returns the queries whose time may depend on the number of projects.
fn queries_of_projects() -> Vec<MeasuredQuery> {
    let projects = "/api/v1/public/projects";
    let several = |path: &dyn Fn(u64) -> String| (0..16).map(path).collect();
    let prices = |n: u64| {
        let from = (4_000_000 + n * 100_000) * 100;
        format!("PriceFrom={from}&PriceTo={}", from + 400_000_000)
    };
    let measured_query = |what, paths| MeasuredQuery { what, paths, goal: None, max_p95: 100.0 };
    vec![
        measured_query("facets of all projects", vec![format!("{projects}/facets")]),
        measured_query("facets by city", several(&|n| format!("{projects}/facets?City=City%20{}", n * 3))),
        measured_query("facets by rooms", several(&|n| format!("{projects}/facets?Rooms={}", n % 5))),
        measured_query("facets by prices", several(&|n| format!("{projects}/facets?{}", prices(n)))),
        measured_query("list by city", several(&|n| format!("{projects}?City=City%20{}", n * 3))),
        measured_query("list by rooms", several(&|n| format!("{projects}?Rooms={}", n % 5))),
        measured_query("list by prices", several(&|n| format!("{projects}?{}", prices(n)))),
        measured_query("list in order of price", vec![format!("{projects}?Sort=PriceFrom")]),
    ]
}

/// Returns the queries. `deep` are pages of the search; `building` is the path of the large grid.
fn measured_queries(deep: &[String], building: &str) -> Vec<MeasuredQuery> {
    let several = |path: fn(u64) -> String| (0..16).map(path).collect();
    let measured_query = |what, goal, max_p95, paths| MeasuredQuery { what, paths, goal, max_p95 };
    vec![
        measured_query(
            "card of an object",
            Some(0.85),
            20.0,
            // Ids of created objects: project, building, number.
            several(|n| {
                let number = ((n * 61 + 1) * 100 + n % 20 + 1) * 10_000 + 1;
                format!("/api/v1/public/property-objects/5eed0013-0000-4000-8000-{number:012x}")
            }),
        ),
        measured_query(
            "list of projects, filtered",
            Some(0.7),
            100.0,
            several(|n| format!("/api/v1/public/projects?City=City%20{}&Class=Comfort,Business", n * 3)),
        ),
        measured_query(
            "facets",
            None,
            100.0,
            several(|n| {
                let from = (4_000_000 + n * 100_000) * 100;
                format!("/api/v1/public/projects/facets?PriceFrom={from}&PriceTo={}", from + 400_000_000)
            }),
        ),
        measured_query("page of the search at any depth", Some(0.7), 50.0, deep.to_vec()),
        measured_query("grid of 5,000 read", Some(0.6), 300.0, vec![format!("/api/v1/public{building}")]),
    ]
}

impl Bench<'_> {
    /// Waits until the service has loaded its index of projects and applied all changes to it.
    async fn wait_for_index(&self) -> anyhow::Result<()> {
        let metrics = format!("{}/metrics", self.service.admin);
        loop {
            let metrics = self.client.get(&metrics).send().await?.error_for_status()?.text().await?;
            if metrics.lines().any(|line| line.starts_with("catalog_index_bytes ") && !line.ends_with(" 0")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let facets = format!("{}/api/v1/public/projects/facets", self.service.url);
        self.client.get(facets).send().await?.error_for_status()?;
        Ok(())
    }

    /// Creates a building of 5,000 flats in a published project.
    async fn make_building(&mut self) -> anyhow::Result<()> {
        let project =
            json!({"Name": "Large", "Class": "Comfort", "City": "City 1", "Address": "1 Main Street"});
        let project = self.manage(Method::POST, "/projects", &project).await?;
        let project = format!("/projects/{}", project["Id"].as_str().context("no id")?);
        let building = json!({"Name": "Tower", "SectionsCount": 10, "FloorsTotal": 100, "State": "Planned"});
        let building = self.manage(Method::POST, &format!("{project}/buildings"), &building).await?;
        building["Id"].as_str().context("no id")?.clone_into(&mut self.building_id);
        self.building = format!("{project}/buildings/{}", self.building_id);
        self.replace_grid(0).await?;
        self.manage(Method::POST, &format!("{project}/publish"), &Value::Null).await?;
        Ok(())
    }

    async fn manage(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("{}/api/v1/developers{path}", self.service.url);
        let request = self.client.request(method, url).bearer_auth(&self.manager);
        let request = if body.is_null() { request } else { request.json(body) };
        let response = request.send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        Ok(if status == StatusCode::NO_CONTENT { Value::Null } else { serde_json::from_str(&body)? })
    }

    /// Replaces the whole grid and changes each price.
    async fn replace_grid(&self, round: u32) -> anyhow::Result<()> {
        let flat = |n: u32| {
            json!({
                "Number": n.to_string(), "Kind": "Flat", "Section": n % 10 + 1, "Floor": n / 10 % 100 + 1,
                "PositionOnFloor": n / 1000 + 1, "Rooms": n % 4 + 1, "IsStudio": false, "AreaTotal": 54.5,
                "Finishing": "Finished", "Status": "Available",
                "Price": {"AmountMinor": 500_000_000 + u64::from(n) * 100 + u64::from(round), "Currency": "RUB"},
            })
        };
        let objects: Vec<_> = (0..GRID).map(flat).collect();
        let path = format!("{}/property-objects", self.building);
        self.manage(Method::PUT, &path, &json!({ "Objects": objects })).await.map(drop)
    }

    /// Returns the first page of the first developer's objects and every twentieth page after it,
    /// up to the 281st. A developer with few objects has fewer pages.
    async fn deep_pages(&self) -> anyhow::Result<Vec<String>> {
        let first = format!("/api/v1/public/property-objects?DeveloperId={DEVELOPER}&Sort=Price&PageSize=50");
        let (mut pages, mut path) = (vec![first.clone()], first.clone());
        for page in 1..300 {
            let response = self.client.get(format!("{}{path}", self.service.url)).send().await?;
            let response: Value = response.error_for_status()?.json().await?;
            let Some(cursor) = response["NextCursor"].as_str() else { break };
            path = format!("{first}&Cursor={cursor}");
            if page % 20 == 0 {
                pages.push(path.clone());
            }
        }
        Ok(pages)
    }

    /// Measures a query in turns with the same SQL alone. Also returns its rate.
    async fn measure_query(
        &self,
        measured_query: &MeasuredQuery,
        effort: Effort,
        among: &str,
    ) -> anyhow::Result<(Vec<Row>, f64)> {
        self.measure(measured_query, effort, among).await.context(measured_query.what)
    }

    async fn measure(
        &self,
        measured_query: &MeasuredQuery,
        effort: Effort,
        among: &str,
    ) -> anyhow::Result<(Vec<Row>, f64)> {
        let mut scripts = Vec::new();
        for path in &measured_query.paths {
            let request = self.client.get(format!("{}{path}", self.service.url));
            scripts.push(bare::statements(self.environment, &self.connection.client, request).await?);
        }
        let files = bare::write_scripts("chessboard", &scripts).await?;
        let seconds = effort.choose(3, 2);
        let load = |connections, rate| Load {
            script: "paths",
            arguments: &measured_query.paths,
            connections,
            seconds,
            rate,
        };
        let (mut measured, mut baseline, mut late) = (Vec::new(), Vec::new(), Vec::new());
        load(CONNECTIONS, None).run_allowing_late(&self.service.url).await?;
        for _ in 1..=effort.rounds() {
            let outcome = load(CONNECTIONS, None).run_allowing_late(&self.service.url).await?;
            measured.push(outcome.per_second);
            late.push(f64::from(outcome.late));
            baseline
                .push(pgbench_of(self.environment, "chessboard", &files, &[], CONNECTIONS, seconds).await?);
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let (measured, baseline) = (Rounds::new(measured), Rounds::new(baseline));
        let rate = measured.median();
        let what = format!("{among}: {}", measured_query.what);
        let mut rows = vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, measured),
            Row::new(format!("{what}: the same SQL alone/s"), Unit::PerSecond, baseline),
        ];
        let ratio = Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios);
        rows.push(match measured_query.goal {
            Some(goal) => ratio.goal(Goal::AtLeast(goal)),
            None => ratio,
        });
        let mut outcomes = Vec::new();
        for _ in 1..=effort.rounds() {
            let outcome = load(CONNECTIONS, Some(rate / 2.0)).run_allowing_late(&self.service.url).await?;
            late.push(f64::from(outcome.late));
            outcomes.push(outcome);
        }
        let p95 = Rounds::new(outcomes.iter().map(|outcome| outcome.p95).collect());
        let p95 = Row::new(format!("{what}: p95 at half of that rate"), Unit::Milliseconds, p95);
        rows.push(p95.goal(Goal::Below(measured_query.max_p95)));
        if late.iter().any(|late| *late > 0.0) {
            let late = Rounds::new(vec![late.iter().sum()]);
            let row = Row::new(format!("{what}: not answered within {WRK_TIMEOUT}"), Unit::Count, late);
            rows.push(row.goal(Goal::AtMost(0.0)));
        }
        Ok((rows, rate))
    }

    /// Hides and publishes a developer in turns, and measures the rate at which the job publishes
    /// its objects.
    async fn propagate(&self, effort: Effort) -> anyhow::Result<Row> {
        let client = &self.connection.client;
        let objects =
            "select count(*) from property_object where tenant_id = $1::text::uuid and removed_at is null";
        let objects: i64 = client.query_one(objects, &[&DEVELOPER]).await?.get(0);
        let mut rates = Vec::new();
        for round in 1..=effort.rounds() {
            let act = if round % 2 == 1 { "/me/hide" } else { "/me/publish" };
            let begun = Instant::now();
            self.manage(Method::POST, act, &json!({})).await?;
            while client.query_one("select exists (select from propagation)", &[]).await?.get(0) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            rates.push(u32::try_from(objects).map(f64::from)? / begun.elapsed().as_secs_f64());
        }
        let row = Row::new(
            format!("{objects} objects of one developer: published/s"),
            Unit::PerSecond,
            Rounds::new(rates),
        );
        // A hundred thousand objects within a minute.
        Ok(row.goal(Goal::AtLeast(1_667.0)))
    }

    /// Measures the replacement of a whole grid in turns with bare statements that write the same
    /// rows.
    async fn replace(&self, effort: Effort, objects: u64) -> anyhow::Result<(Vec<Row>, f64)> {
        let sql = include_str!("../../scripts/replace_grid.sql")
            .replace(":building", &format!("'{}'::uuid", self.building_id));
        let (mut replaced, mut baseline) = (Vec::new(), Vec::new());
        for round in 0..u32::try_from(effort.rounds())? {
            let begun = Instant::now();
            for grid in 0..GRIDS {
                self.replace_grid(1 + round * GRIDS + grid).await?;
            }
            replaced.push(f64::from(GRIDS) / begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            for _ in 0..GRIDS {
                self.connection.client.batch_execute(&sql).await?;
            }
            baseline.push(f64::from(GRIDS) / begun.elapsed().as_secs_f64());
            self.connection.client.batch_execute("delete from outbox").await?;
            self.connection.client.batch_execute("vacuum property_object, outbox").await?;
        }
        let ratios = Rounds::ratios(&replaced, &baseline);
        let milliseconds = |rates: &[f64]| Rounds::new(rates.iter().map(|rate| 1e3 / rate).collect());
        let what = format!("{objects} objects: grid of 5,000 replaced");
        let rows = vec![
            Row::new(what.clone(), Unit::Milliseconds, milliseconds(&replaced)).goal(Goal::Below(3_000.0)),
            Row::new(
                format!("{what}: the same rows by bare statements"),
                Unit::Milliseconds,
                milliseconds(&baseline),
            ),
            Row::new(format!("{what}: of the bare statements"), Unit::Ratio, ratios).goal(Goal::AtLeast(0.5)),
        ];
        Ok((rows, Rounds::new(replaced).median()))
    }
}
