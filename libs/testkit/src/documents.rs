//! Compares the written documents of a service with the service: its contracts, the table of
//! settings in its README, and the variables of its chart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use runtime::{Env, telemetry};
use serde::Deserialize;
use service::Service;

use crate::service::Running;
use crate::{breaking, described};

/// The part of a chart's values that names variables.
#[derive(Deserialize)]
struct Chart {
    variables: Variables,
}

#[derive(Deserialize)]
struct Variables {
    #[serde(default)]
    common: BTreeSet<String>,
    #[serde(default)]
    own: BTreeSet<String>,
}

/// The part of a chart's values that names the metrics of the service's own alerts.
#[derive(Deserialize)]
struct AlertValues {
    app: AlertApp,
}

#[derive(Deserialize)]
struct AlertApp {
    #[serde(rename = "prometheusRule", default)]
    rule: Rule,
}

#[derive(Default, Deserialize)]
struct Rule {
    own: Vec<OwnAlert>,
}

#[derive(Deserialize)]
struct OwnAlert {
    metric: String,
}

/// The values of a service's chart. The chart depends on `helm/lib` under the name `app`, so the
/// values for `helm/lib` are under `app`.
#[derive(Deserialize)]
struct ServiceValues {
    app: Chart,
}

/// Compares a service with its documents in `contracts/`, their released versions, the table of
/// settings in its README, the variables in the specification, and those of its chart.
///
/// # Panics
/// If one of them differs, or if a parameter or member of the API has no description.
pub fn check<S: Service>() {
    let name = S::NAME;
    let present = service::contracts::<S>().expect("contracts");
    for (kind, present) in [("openapi", &present.openapi), ("asyncapi", &present.asyncapi)] {
        let written = read(&format!("contracts/{kind}/{name}.yaml"));
        assert!(written == *present, "{kind}: run `cargo dev contracts`");
        // Contracts grow by addition, since clients rely on the released documents.
        let released = read(&format!("contracts/released/{kind}/{name}.yaml"));
        assert_eq!(breaking::changes(&released, present), [""; 0], "{kind}");
    }
    for document in [&present.openapi, &present.asyncapi] {
        let document = yaml_serde::from_str(document).expect("a document in YAML");
        assert_eq!(described::faults(&document), [""; 0]);
    }
    let mut env = Env::new(|_| None);
    telemetry::Config::read(&mut env);
    service::configure::<S>(&mut env);
    let readme = read(&format!("services/{name}/README.md"));
    let specification = ["common", name].map(|page| read(&format!("docs/spec/{page}.md"))).concat();
    for variable in env.variables() {
        let is_specified = specification.contains(&format!("`{}`", variable.name));
        assert!(is_specified, "docs/spec does not contain {}", variable.name);
        let default = match variable.default.as_deref() {
            None => "required".to_owned(),
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let row = format!("| `{}` | {default} | {} |", variable.name, variable.about);
        assert!(readme.contains(&row), "the README lacks\n{row}");
    }
    let is_read = |name: &str| env.variables().iter().any(|variable| variable.name == name);
    let stale: Vec<_> = documented_variables(&readme).filter(|name| !is_read(name)).collect();
    assert!(stale.is_empty(), "the README has variables that the service does not read: {stale:?}");
    let reads = env.variables().iter().map(|variable| variable.name.to_owned());
    // The chart's templates set the listen addresses.
    let reads: BTreeSet<_> = reads.filter(|name| !name.ends_with("_LISTEN")).collect();
    assert_eq!(chart_variables(name), reads, "helm/{name}/values.yaml: variables.own");
}

/// Returns the variables in the tables of a README.
fn documented_variables(readme: &str) -> impl Iterator<Item = &str> {
    let is_variable = |name: &str| name.chars().all(|c| matches!(c, 'A'..='Z' | '0'..='9' | '_'));
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, _)| name).filter(move |name| is_variable(name))
}

/// Checks that a running service has every metric of its alerts and dashboards. A service without
/// consumers lacks the metrics of consumers.
///
/// # Panics
/// If a metric does not exist.
pub async fn check_metrics<S: Service>(service: &Running) {
    // The metrics of a route appear after its first request.
    service.guest().get("/").await;
    let metrics = service.operator().get("/metrics").await.text;
    let existing: BTreeSet<_> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let own: AlertValues = yaml(&format!("helm/{}/values.yaml", S::NAME));
    let own = own.app.rule.own.into_iter().map(|alert| alert.metric);
    let templates = ["alerts", "dashboard"].map(|name| read(&format!("helm/lib/templates/_{name}.tpl")));
    let named: BTreeSet<_> =
        templates.iter().flat_map(|text| named_metrics(text)).map(str::to_owned).chain(own).collect();
    assert!(named.len() > 20, "{named:?}");
    // Prometheus itself writes `up` for each target.
    let is_expected = |name: &str| name != "up" && !(S::CONSUMERS.is_empty() && is_of_consumers(name));
    let unknown: Vec<_> =
        named.iter().filter(|name| is_expected(name) && !existing.contains(&***name)).collect();
    assert!(unknown.is_empty(), "{}: {unknown:?} do not exist among {existing:?}", S::NAME);
}

fn is_of_consumers(name: &str) -> bool {
    ["access_revocations_", "consumer_", "dead_letters"].iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the metric names of the `PromQL` expressions in a template. Each name precedes `{OF`,
/// which the chart replaces with the labels of the service. Skips names that the template takes
/// from the values of a chart.
fn named_metrics(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("{OF").filter_map(|(end, _)| {
        let before =
            text[..end].trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let name = &text[before.len()..end];
        (!name.is_empty() && !before.ends_with('%')).then_some(name)
    })
}

/// Returns the variables of a service's chart.
fn chart_variables(service: &str) -> BTreeSet<String> {
    let shared: Chart = yaml("helm/lib/values.yaml");
    let values: ServiceValues = yaml(&format!("helm/{service}/values.yaml"));
    &shared.variables.common | &values.app.variables.own
}

fn yaml<T: for<'a> Deserialize<'a>>(path: &str) -> T {
    yaml_serde::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
