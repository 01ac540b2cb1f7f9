//! `cargo dev trace`: a drawing of the trace of one request, as an OpenTelemetry Collector received
//! it.

mod otel;
mod picture;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::collector::Collector;
use testkit::ports;
use tokio::time::{Instant, sleep};

use self::otel::Otel;
use self::picture::{Bar, Picture};
use devkit::Settings;
use devkit::actors::{ANNA, Actor, DMITRI, IGOR, PAVEL};
use devkit::bus::Kind;
use devkit::http;
use devkit::identity::Identity;
use devkit::postgres::Cluster;
use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::{self, Stack};
use devstack::fixtures::building::Flats;
use devstack::running::Running;
use devstack::up::Up;

/// A flat that no deal of the demo data uses.
const FLAT: u32 = 12;
/// The end of the root span's name.
const ROOT: &str = "/override-status";
/// The services that consume the events of the override, or an event that follows from them.
const CONSUMERS: [&str; 4] = ["chessboard", "selections", "messenger", "agent"];
/// Timeout of the collector's start, and of the wait for a complete trace.
const TRACE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without new spans after which the trace is complete.
const QUIET_PERIOD: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Draw the trace of an override, from the edge to its last consumer
///
/// The stack runs a process for each role of each service. All of them export their spans to a real
/// OpenTelemetry Collector, which is built once from its Go modules into .dev/collector (minutes;
/// needs Go). A deal in Sale is overridden to Cancelled, and the spans of that request are drawn.
/// Exits with 1 if a consuming service is missing from the trace.
#[derive(Args)]
pub struct Trace {
    /// Path of the picture
    #[arg(long, value_name = "FILE", default_value = "docs/trace.svg")]
    picture: PathBuf,
}

impl Trace {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        let mut running = Running::new()?;
        let mut otel = None;
        let result = tokio::select! {
            result = self.draw(&mut running, &mut otel) => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let stopped = running.stop().await;
        let ended = match otel {
            Some(otel) => Otel::stop(otel).await,
            None => Ok(()),
        };
        result.and(stopped).and(ended)
    }

    async fn draw(&self, running: &mut Running, otel: &mut Option<Otel>) -> anyhow::Result<()> {
        let step = Step::start("collector");
        let program = otel::build(&step).await?;
        let port = ports::free()?;
        step.done(program.display());
        let options = Up {
            port: 0,
            fresh: true,
            no_seed: false,
            broker: Kind::Embedded,
            processes: true,
            media: false,
            cluster: Cluster::TRACE,
            settings: Settings::from([
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}")),
                ("OTEL_BSP_SCHEDULE_DELAY", "200".to_owned()),
            ]),
        };
        let stack = running.start(&options).await?;
        // Spans of the start are not needed.
        let received = Collector::start();
        *otel = Some(Otel::start(&program, port, &received.url()).await?);

        let step = Step::start("override");
        let spans = collect_trace(&received, play(&stack)).await?;
        let picture = Picture::of(spans);
        for consumer in CONSUMERS {
            ensure!(picture.has(consumer), "{consumer} is not in the trace");
        }
        let file = stack::root().join(&self.picture);
        std::fs::write(&file, picture.to_string()).with_context(|| file.display().to_string())?;
        step.done(format!("{picture:?}, in {}", file.display()));
        Ok(())
    }
}

/// Plays the story, and returns the spans of the override's trace once the trace is complete.
/// `received` has the spans that the real collector has forwarded.
async fn collect_trace(
    received: &Collector,
    story: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Vec<Bar>> {
    story.await?;
    let deadline = Instant::now() + TRACE_TIMEOUT;
    let (mut bars, mut since) = (Vec::new(), Instant::now());
    loop {
        let all: Vec<_> = received.by_service().collect();
        let roots =
            all.iter().filter(|(_, span)| span.name.starts_with("POST ") && span.name.ends_with(ROOT));
        let root = roots.max_by_key(|(_, span)| span.start_time_unix_nano);
        let trace = root.map(|(_, root)| root.trace_id.clone());
        let ours = all.into_iter().filter(|(_, span)| Some(&span.trace_id) == trace.as_ref());
        let now: Vec<_> = ours.map(|(service, span)| Bar::of(service, &span)).collect();
        if now.len() != bars.len() {
            (bars, since) = (now, Instant::now());
        }
        if !bars.is_empty() && since.elapsed() > QUIET_PERIOD {
            return Ok(bars);
        }
        if Instant::now() > deadline {
            bail!("the trace is not complete in time, with {} spans so far", bars.len());
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Creates and books a deal, records its contract, and overrides it to Sale and then to Cancelled.
async fn play(stack: &Stack) -> anyhow::Result<()> {
    let (identity, flats) = (Identity::of(stack)?, Flats::of(stack).await?);
    let client = http::client()?;
    let send = async |method: Method, path: &str, by: &Actor, body: Value| {
        let url = format!("{}/api/{path}", stack.base_url);
        let request = client.request(method.clone(), &url).bearer_auth(identity.token(by).await?).json(&body);
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{method} {url}: {status} {text}");
        anyhow::Ok(serde_json::from_str::<Value>(&text)?)
    };
    let body = json!({
        "PropertyObjectId": flats.id(FLAT), "ClientUserId": ANNA.user, "AgentUserId": IGOR.user,
        "RequestId": flats.id(FLAT),
    });
    let made = send(Method::POST, "v1/crm/deals", &DMITRI, body).await?;
    let deal = made["DealId"].as_str().context("a deal without an id")?;
    send(Method::POST, &format!("v1/crm/deals/{deal}/booking"), &DMITRI, json!({})).await?;
    let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Mortgage"});
    send(Method::PUT, &format!("v1/crm/deals/{deal}/contract"), &DMITRI, contract).await?;
    let override_status = format!("platform-manager/crm/deals/{deal}{ROOT}");
    let sale = json!({"TargetStatus": "Sale", "Comment": "Both sides have signed"});
    send(Method::POST, &override_status, &PAVEL, sale).await?;
    // After this delay all services have applied the earlier events. The picture then shows the
    // last override only.
    sleep(QUIET_PERIOD).await;
    let cancelled = json!({"TargetStatus": "Cancelled", "Comment": "The bank has refused the mortgage"});
    send(Method::POST, &override_status, &PAVEL, cancelled).await?;
    Ok(())
}
