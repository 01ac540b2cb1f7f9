//! The exported feed of a large developer, with and without a change, and an import into all of its
//! buildings, each against the same SQL alone.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::header::{ACCEPT_ENCODING, ETAG};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::issuer::Claims;
use tokio::time::Instant;
use uuid::Uuid;

use super::bare;
use super::environment::Environment;
use super::load::{Load, download, find_wrk, pgbench_of};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::catalog;
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "feeds",
    about: "a developer's feed of 100,000 objects, unchanged and built, and an import of as many offers, against the same SQL alone, with the memory of each",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const CONNECTIONS: u32 = 32;
const IMPORTS: &str = "/api/v1/developers/feed-imports";
/// Timeout of the validation or the application of an import.
const IMPORT_TIMEOUT: Duration = Duration::from_mins(10);

struct Bench<'g> {
    environment: &'g Environment,
    connection: Connection,
    service: Service,
    client: Client,
    manager: String,
    /// Objects of each building.
    in_building: u32,
    /// Objects of the developer.
    objects: f64,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("feeds");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let connection = environment.connect("chessboard").await?;
    let own = [("GUEST_READS_PER_MINUTE", "0".to_owned())];
    let service = platform.start("chessboard", "serve", &own).await?;
    let manager = Claims::user(Uuid::from_u128(rand::random())).company(catalog::DEVELOPER.parse()?);
    let manager = platform.issuer.token(&manager.permission("chessboard.developers.manage"))?;
    let in_building = effort.choose(500, 50);
    step.note("filling");
    catalog::fill_developer(&connection.client, in_building).await?;
    let objects = f64::from(in_building) * f64::from(u32::try_from(catalog::buildings().count())?);
    let client = devkit::http::client()?;
    let bench = Bench { environment, connection, service, client, manager, in_building, objects };
    step.note("builds of the feed");
    rows.extend(bench.build(effort).await?);
    step.note("the unchanged feed");
    rows.extend(bench.unchanged(effort).await?);
    let worker = platform.start("chessboard", "work", &[]).await?;
    rows.extend(bench.import(&worker, effort, &step).await?);
    worker.stop().await?;
    // Other services consume the events of chessboard.
    bench.connection.client.batch_execute("delete from outbox").await?;
    bench.service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

impl Bench<'_> {
    fn path() -> String {
        format!("/api/v1/public/developers/{}/feed.yrl", catalog::DEVELOPER)
    }

    fn feed(&self) -> RequestBuilder {
        self.client.get(format!("{}{}", self.service.url, Self::path())).header(ACCEPT_ENCODING, "gzip")
    }

    /// Changes the version of the feed, so that the next request builds it.
    async fn change(&self) -> anyhow::Result<()> {
        let change = "update developer set version = version + 1 where id = $1::text::uuid";
        self.connection.client.execute(change, &[&catalog::DEVELOPER]).await?;
        Ok(())
    }

    /// Measures builds of the compressed feed in turns with the same SQL alone.
    async fn build(&self, effort: Effort) -> anyhow::Result<Vec<Row>> {
        let before = self.service.memory()?;
        self.change().await?;
        let script = bare::statements(self.environment, &self.connection.client, self.feed()).await?;
        let (mut built, mut baseline, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            self.change().await?;
            let ((seconds, _), highest) = self.service.highest_memory(download(self.feed())).await?;
            built.push(self.objects / seconds);
            memory.push(highest - before);
            baseline.push(self.objects / bare::run(&self.connection.client, &script).await?);
        }
        let ratios = Rounds::ratios(&built, &baseline);
        let what = format!("{} objects: feed built", self.objects);
        Ok(vec![
            Row::new(format!("{what}: objects/s"), Unit::PerSecond, Rounds::new(built)),
            Row::new(
                format!("{what}: the same SQL alone: objects/s"),
                Unit::PerSecond,
                Rounds::new(baseline),
            ),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.3)),
            // The cached feed has up to 16 MiB.
            Row::new(format!("{what}: memory beyond that before"), Unit::Mebibytes, Rounds::new(memory))
                .goal(Goal::AtMost(48.0)),
        ])
    }

    /// Measures requests of callers that have the current feed, in turns with the same SQL alone.
    async fn unchanged(&self, effort: Effort) -> anyhow::Result<Vec<Row>> {
        let response = self.feed().send().await?.error_for_status()?;
        let tag = response.headers().get(ETAG).context("no tag")?.to_str()?.to_owned();
        response.bytes().await?;
        // The service reads the version of the feed with the same statement, whether it returns 304
        // or the cached feed.
        let script = bare::statements(self.environment, &self.connection.client, self.feed()).await?;
        let files = bare::write_scripts("feeds", &[script]).await?;
        let seconds = effort.choose(3, 2);
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        let arguments = [Self::path(), tag];
        let load =
            Load { script: "tagged", arguments: &arguments, connections: CONNECTIONS, seconds, rate: None };
        load.run(&self.service.url).await?;
        for _ in 1..=effort.rounds() {
            measured.push(load.run(&self.service.url).await?.per_second);
            baseline
                .push(pgbench_of(self.environment, "chessboard", &files, &[], CONNECTIONS, seconds).await?);
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let what = format!("{} objects: unchanged feed (304)", self.objects);
        Ok(vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, Rounds::new(measured)).goal(Goal::AtLeast(500.0)),
            Row::new(format!("{what}: the same SQL alone/s"), Unit::PerSecond, Rounds::new(baseline)),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.7)),
        ])
    }

    /// Returns a file with an offer for each object. Its prices rise by 10 in each round. They
    /// therefore also differ from the stored prices, which the bare statements raise by 1.00.
    fn file(&self, round: usize) -> String {
        let raise = u32::try_from(round).unwrap_or_default() * 10;
        let mut file = "<realty-feed>\n".to_owned();
        for (at, (project, building)) in catalog::buildings().enumerate() {
            for n in 1..=self.in_building {
                let price = 5_000_000 + n * 1_000 + raise;
                let _ = writeln!(
                    file,
                    "<offer internal-id=\"bench-{at}-{n}\"><type>продажа</type><category>квартира</category>\
                     <location><apartment>{n}</apartment></location>\
                     <price><value>{price}</value><currency>RUB</currency></price>\
                     <area><value>54,25</value><unit>кв. м</unit></area><rooms>2</rooms><floor>{}</floor>\
                     <building-name>{project}</building-name><building-section>{building}</building-section></offer>",
                    1 + n / 4 % 25
                );
            }
        }
        file + "</realty-feed>\n"
    }

    /// Measures the validation and the application of imports that change the price of every
    /// object that is not sold. The application takes turns with bare statements that write the
    /// same number of rows.
    async fn import(&self, worker: &Service, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
        let before = worker.memory()?;
        let sql: String = self.bare_changes().await?;
        let (mut validated, mut applied, mut baseline, mut memory) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("import, round {round}"));
            let import = self.call(Method::POST, "", Some(json!({}))).await?;
            let path = format!("/{}", import["Id"].as_str().context("no id")?);
            let upload = self.request(Method::PUT, &format!("{path}/file")).body(self.file(round));
            upload.send().await?.error_for_status()?;
            let (seconds, highest) = worker.highest_memory(self.wait_for(&path, "Validated")).await?;
            validated.push(self.objects / seconds);
            let changed = self.changed(&path).await?;
            ensure!(changed > 0.0, "the import changes nothing");
            let body = json!({"SkipRejected": true});
            self.call(Method::POST, &format!("{path}/apply"), Some(body)).await?;
            let (seconds, also) = worker.highest_memory(self.wait_for(&path, "Applied")).await?;
            applied.push(changed / seconds);
            memory.push(highest.max(also) - before);
            baseline.push(changed / bare::run(&self.connection.client, &sql).await?);
            // One call would be one transaction, in which `vacuum` fails.
            let clean = "delete from outbox; vacuum property_object, outbox";
            for statement in clean.split("; ") {
                self.connection.client.batch_execute(statement).await?;
            }
        }
        let ratios = Rounds::ratios(&applied, &baseline);
        let what = format!("{} offers imported", self.objects);
        Ok(vec![
            Row::new(format!("{what}: validated/s"), Unit::PerSecond, Rounds::new(validated))
                .goal(Goal::AtLeast(2_000.0)),
            Row::new(format!("{what}: changes applied/s"), Unit::PerSecond, Rounds::new(applied)),
            Row::new(
                format!("{what}: the same rows by bare statements/s"),
                Unit::PerSecond,
                Rounds::new(baseline),
            ),
            Row::new(format!("{what}: applied, of the bare statements"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.3)),
            Row::new(format!("{what}: memory beyond that before"), Unit::Mebibytes, Rounds::new(memory))
                .goal(Goal::AtMost(64.0)),
        ])
    }

    /// Returns statements that change all objects of the developer that are not sold, building by
    /// building.
    async fn bare_changes(&self) -> anyhow::Result<String> {
        let script = include_str!("../../scripts/replace_grid.sql")
            .replace("removed_at is null", "removed_at is null and status <> 'Sold'");
        let ids = "select id::text from building where tenant_id = $1::text::uuid order by id";
        let ids = self.connection.client.query(ids, &[&catalog::DEVELOPER]).await?;
        let of_one = |id: &str| script.replace(":building", &format!("'{id}'::uuid"));
        Ok(ids.iter().map(|row| of_one(row.get(0))).collect())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{IMPORTS}{path}", self.service.url);
        self.client.request(method, url).bearer_auth(&self.manager)
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let request = self.request(method, path);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until an import is in a state. Returns the seconds.
    async fn wait_for(&self, path: &str, state: &str) -> anyhow::Result<f64> {
        let begun = Instant::now();
        while begun.elapsed() < IMPORT_TIMEOUT {
            let import = self.call(Method::GET, path, None).await?;
            ensure!(import["State"] != "Failed", "{import}");
            if import["State"] == state {
                return Ok(begun.elapsed().as_secs_f64());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("{path} is not {state} within {IMPORT_TIMEOUT:?}")
    }

    /// Returns the number of objects that an import changes.
    async fn changed(&self, path: &str) -> anyhow::Result<f64> {
        let count = "select coalesce(sum(updated_count + created_count), 0)::float8 from feed_building \
                     where import_id = $1::text::uuid";
        let id = path.trim_start_matches('/');
        Ok(self.connection.client.query_one(count, &[&id]).await?.get(0))
    }
}
