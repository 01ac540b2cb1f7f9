//! A Prometheus of this clone with the rules of the charts.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use testkit::ports;
use tokio::process::Command;
use tokio::time::Instant;

use super::{SERVICES, until};
use devkit::children::Child;
use devkit::files;
use devkit::progress::Step;
use devkit::{http, stack};

/// The interval of scrapes and evaluations: short enough for durations that are divided by 240.
const INTERVAL: &str = "250ms";

pub(super) struct Prometheus {
    child: Child,
    base: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// Starts Prometheus with `targets`, each a service and an address, as the charts'
    /// `PodMonitor`s define them.
    pub(super) async fn start(targets: &[(&str, String)], haste: u32) -> anyhow::Result<Self> {
        let step = Step::start("prometheus");
        let folder = stack::dev_path("watch")?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        step.note("rendering the charts' rules");
        // Dependencies are packed in a copy, so that the charts do not change.
        let charts = folder.join("helm");
        files::copy_folder(&stack::root().join("helm"), &charts)?;
        let mut config = format!(
            "global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, evaluation_interval: {INTERVAL}}}\nrule_files: [rules-*.yaml]\nscrape_configs:\n"
        );
        for service in SERVICES {
            std::fs::write(
                folder.join(format!("rules-{service}.yaml")),
                rules(&charts, service, haste).await?,
            )?;
            let addresses =
                targets.iter().filter(|(of, _)| *of == service).map(|(_, address)| format!("{address:?}"));
            let addresses: Vec<_> = addresses.collect();
            writeln!(
                config,
                "  - {{job_name: platform/{service}, static_configs: [{{targets: [{}]}}]}}",
                addresses.join(", ")
            )?;
        }
        std::fs::write(folder.join("prometheus.yaml"), config)?;
        let address = format!("127.0.0.1:{}", ports::free()?);
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(folder.join("prometheus.yaml"));
        command.arg("--storage.tsdb.path").arg(folder.join("data")).args(["--log.level", "warn"]);
        command.arg("--web.listen-address").arg(&address);
        let child =
            Child::spawn("prometheus", &mut command).context("failed to run Prometheus; install it")?;
        let prometheus = Self { child, base: format!("http://{address}"), client: http::client()? };
        let ready = format!("{}/-/ready", prometheus.base);
        let is_ready = until(async || {
            Ok(prometheus
                .client
                .get(&ready)
                .send()
                .await
                .is_ok_and(|response| response.status().is_success()))
        });
        ensure!(is_ready.await?, "Prometheus does not start");
        step.done(format!("{}, the charts' durations are {haste} times shorter", prometheus.base));
        Ok(prometheus)
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        self.child.stop().await
    }

    /// Returns the names of all alerts with rules.
    pub(super) async fn alerts(&self) -> anyhow::Result<Vec<String>> {
        let response = self.get("/api/v1/rules", &[("type", "alert")]).await?;
        let groups = response["data"]["groups"].as_array().context("no groups of rules")?;
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
        let mut names: Vec<_> = rules.filter_map(|rule| rule["name"].as_str()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Returns true if an alert has fired since `began`.
    pub(super) async fn has_fired(&self, alert: &str, began: Instant) -> anyhow::Result<bool> {
        let since = began.elapsed().as_millis().max(1);
        let query =
            format!("count_over_time(ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}[{since}ms])");
        Ok(!self.query(&query).await?.is_empty())
    }

    /// Waits until none of the included alerts fires.
    ///
    /// # Errors
    /// The alerts that still fire after `timeout`.
    pub(super) async fn wait_until_quiet(
        &self,
        timeout: Duration,
        is_included: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let mut firing = Vec::new();
        let is_quiet = tokio::time::timeout(
            timeout,
            until(async || {
                firing = self.query("ALERTS{alertstate=\"firing\"}").await?;
                firing.retain(|alert| is_included(alert));
                Ok(firing.is_empty())
            }),
        );
        ensure!(is_quiet.await.unwrap_or(Ok(false))?, "still firing: {firing:?}");
        Ok(())
    }

    /// Returns the alerts of the series that an expression returns.
    async fn query(&self, expression: &str) -> anyhow::Result<Vec<String>> {
        let response = self.get("/api/v1/query", &[("query", expression)]).await?;
        let series =
            response["data"]["result"].as_array().with_context(|| format!("{expression}: {response}"))?;
        Ok(series
            .iter()
            .filter_map(|series| series["metric"]["alertname"].as_str())
            .map(str::to_owned)
            .collect())
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Value> {
        let url = reqwest::Url::parse_with_params(&format!("{}{path}", self.base), query)?;
        Ok(self.client.get(url).send().await?.json().await?)
    }
}

/// Returns the rules of a service as a file for Prometheus.
async fn rules(charts: &Path, service: &str, haste: u32) -> anyhow::Result<String> {
    let helm = devkit::variable("HELM").unwrap_or_else(|| "helm".to_owned());
    let chart = charts.join(service);
    run(Command::new(&helm).args(["dependency", "update"]).arg(&chart)).await?;
    let mut template = Command::new(&helm);
    template.arg("template").arg(service).arg(&chart).args(["--namespace", "platform", "--values"]);
    template.arg(charts.join("ci/default.yaml"));
    template.args(["--set", &format!("app.prometheusRule.enabled=true,app.prometheusRule.haste={haste}")]);
    let manifests = run(&mut template).await?;
    let manifest = manifests.split("\n---\n").find(|one| one.contains("\nkind: PrometheusRule\n"));
    let (_, rules) =
        manifest.and_then(|one| one.split_once("\nspec:\n")).context("the chart has no rules")?;
    Ok(rules.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect::<Vec<_>>().join("\n"))
}

/// Runs a command and returns its output.
async fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.as_std().get_program().to_owned();
    let output = command.output().await.with_context(|| format!("failed to run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}
