//! Pages of the site: the grid of a building, the board and a chat, each against the same SQL
//! alone, with its bytes on the wire.

use anyhow::{Context, ensure};
use reqwest::header::{ACCEPT_ENCODING, ETAG, IF_NONE_MATCH};
use reqwest::{RequestBuilder, StatusCode};
use testkit::issuer::Claims;
use uuid::Uuid;

use super::bare;
use super::environment::Environment;
use super::load::{download, measure_p95};
use super::platform::{Platform, Service};
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use crate::bulk_data::{catalog, chats, deals};
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "pages",
    about: "the grid of a building, the board and a chat, against the same SQL alone, with their bytes on the wire",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// Objects of the building.
const GRID: u32 = 500;
/// Deals of all developers. The second developer has the last thousand, and a pipeline of seven
/// steps.
const DEALS: u64 = 101_000;
const MESSAGES: u64 = 1_000;

/// A page of the site, read by one request.
struct Page<'p> {
    what: String,
    environment: &'p Environment,
    connection: &'p Connection,
    request: RequestBuilder,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("pages");
    let platform = Platform::prepare(environment).await?;
    let client = devkit::http::client()?;

    step.note("the grid of a building");
    let (connection, service) = start(environment, &platform, "chessboard").await?;
    catalog::fill_developer(&connection.client, GRID).await?;
    let request = client.get(format!("{}{}", service.url, catalog::first_building()));
    let what = format!("grid of {GRID} objects");
    rows.extend(Page { what, environment, connection: &connection, request }.measure(effort).await?);
    connection.client.batch_execute("delete from outbox").await?;
    service.stop().await?;

    step.note("the board");
    let (connection, service) = start(environment, &platform, "crm").await?;
    deals::fill(&connection.client, DEALS, &step).await?;
    let arbiter = Claims::user(Uuid::from_u128(rand::random())).permission("crm.deals.manage@platform");
    let path = format!("/api/platform-manager/crm/board?TenantId={}", deals::developer_id(2));
    let request = client.get(format!("{}{path}", service.url)).bearer_auth(platform.issuer.token(&arbiter)?);
    let what = "board of seven columns".to_owned();
    rows.extend(Page { what, environment, connection: &connection, request }.measure(effort).await?);
    connection.client.batch_execute("delete from outbox").await?;
    service.stop().await?;

    step.note("a chat");
    let (connection, service) = start(environment, &platform, "messenger").await?;
    let counts = chats::Counts { chats: 1, messages: MESSAGES, longest: MESSAGES };
    chats::fill(&connection.client, &counts, &step).await?;
    let member = platform.issuer.token(&Claims::user(chats::manager_id(1)))?;
    let path = format!("/api/messenger/chats/{}/messages?PageSize=50", chats::chat_id(1));
    let request = client.get(format!("{}{path}", service.url)).bearer_auth(member);
    let what = format!("newest 50 of {MESSAGES} messages of a chat");
    rows.extend(Page { what, environment, connection: &connection, request }.measure(effort).await?);
    service.stop().await?;

    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

async fn start(
    environment: &Environment,
    platform: &Platform,
    name: &str,
) -> anyhow::Result<(Connection, Service)> {
    let unlimited = [("GUEST_READS_PER_MINUTE", "0".to_owned())];
    Ok((environment.connect(name).await?, platform.start(name, "serve", &unlimited).await?))
}

impl Page<'_> {
    /// Measures the p95 of sequential requests for the compressed page, in turns with the same SQL
    /// alone, and its bytes.
    async fn measure(&self, effort: Effort) -> anyhow::Result<Vec<Row>> {
        let script = bare::statements(self.environment, &self.connection.client, self.request()?).await?;
        let (_, plain) = download(self.request()?).await?;
        let (_, compressed) = download(self.compressed()?).await?;
        let response = self.compressed()?.send().await?.error_for_status()?;
        let tag = response.headers().get(ETAG).cloned();
        let (mut opened, mut alone, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            opened.push(measure_p95(async || download(self.compressed()?).await.map(drop)).await?);
            let sql = async || bare::run(&self.connection.client, &script).await.map(drop);
            alone.push(measure_p95(sql).await?);
            if let Some(tag) = &tag {
                let read = async || {
                    let response = self.compressed()?.header(IF_NONE_MATCH, tag).send().await?;
                    ensure!(response.status() == StatusCode::NOT_MODIFIED, "{}", response.status());
                    Ok(())
                };
                unchanged.push(measure_p95(read).await?);
            }
        }
        let what = &self.what;
        let milliseconds =
            |name: &str, took| Row::new(format!("{what}: {name}"), Unit::Milliseconds, Rounds::new(took));
        let size = |name: &str, bytes: usize| -> anyhow::Result<Row> {
            let kibibytes = f64::from(u32::try_from(bytes)?) / 1024.0;
            Ok(Row::new(format!("{what}: {name}"), Unit::Kibibytes, Rounds::new(vec![kibibytes])))
        };
        let mut rows = vec![
            milliseconds("p95", opened).goal(Goal::Below(50.0)),
            milliseconds("p95 of the same SQL alone", alone),
            size("body", plain)?,
            size("compressed body", compressed)?,
        ];
        if tag.is_some() {
            rows.push(milliseconds("p95 of an unchanged page (304)", unchanged));
        }
        Ok(rows)
    }

    fn request(&self) -> anyhow::Result<RequestBuilder> {
        self.request.try_clone().context("the request has a stream")
    }

    fn compressed(&self) -> anyhow::Result<RequestBuilder> {
        Ok(self.request()?.header(ACCEPT_ENCODING, "gzip"))
    }
}
