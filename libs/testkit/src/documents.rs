//! What is written down is what is served: the contracts, the table of the README, the variables of the chart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use runtime::{Env, telemetry};
use serde::Deserialize;
use service::Service;

use crate::breaking;
use crate::service::Running;

/// The values of a chart, as far as they name variables.
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

/// Of an area's chart, the metrics of its own that it alerts on.
#[derive(Deserialize)]
struct Watched {
    app: WatchedApp,
}

#[derive(Deserialize)]
struct WatchedApp {
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

/// An area's values lie below the name that its chart gives to `helm/lib`.
#[derive(Deserialize)]
struct Area {
    app: Chart,
}

/// Holds a service to its documents in `contracts/`, to what was released of them, to the table of settings in its
/// README, and to the variables that its chart takes.
///
/// # Panics
/// When one of them says something else.
pub fn check<S: Service>() {
    let name = S::NAME;
    let present = service::contracts::<S>().expect("contracts");
    for (kind, present) in [("openapi", &present.openapi), ("asyncapi", &present.asyncapi)] {
        let written = read(&format!("contracts/{kind}/{name}.yaml"));
        assert!(written == *present, "{kind}: run `cargo dev contracts`");
        // Contracts grow by addition: what was released holds as long as there is anybody who relies on it.
        let released = read(&format!("contracts/released/{kind}/{name}.yaml"));
        assert_eq!(breaking::changes(&released, present), [""; 0], "{kind}");
    }
    let mut env = Env::new(|_| None);
    telemetry::Config::read(&mut env);
    service::configure::<S>(&mut env);
    let readme = read(&format!("services/{name}/README.md"));
    for variable in env.variables() {
        let default = match variable.default.as_deref() {
            None => "required".to_owned(),
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let row = format!("| `{}` | {default} | {} |", variable.name, variable.about);
        assert!(readme.contains(&row), "the README lacks\n{row}");
    }
    let reads = env.variables().iter().map(|variable| variable.name.to_owned());
    // Where it listens is the templates' own business.
    let reads: BTreeSet<_> = reads.filter(|name| !name.ends_with("_LISTEN")).collect();
    assert_eq!(charted(name), reads, "helm/{name}/values.yaml: variables.own");
}

/// Holds alerts and dashboards to a running service that consumes and has jobs: each metric that they name is one that it tells.
///
/// # Panics
/// When it does not tell one.
pub async fn check_watched(service: &Running) {
    // A route is told of once it has been asked for.
    service.guest().get("/").await;
    let told = service.operator().get("/metrics").await.text;
    let told: BTreeSet<_> = told
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let own: Watched = yaml(&format!("helm/{}/values.yaml", service.name));
    let own = own.app.rule.own.into_iter().map(|alert| alert.metric);
    let templates = ["alerts", "dashboard"].map(|name| read(&format!("helm/lib/templates/_{name}.tpl")));
    let named: BTreeSet<_> =
        templates.iter().flat_map(|text| metrics(text)).map(str::to_owned).chain(own).collect();
    assert!(named.len() > 20, "{named:?}");
    // It is Prometheus that says which of its targets are up.
    let unknown: Vec<_> = named.iter().filter(|name| *name != "up" && !told.contains(&***name)).collect();
    assert!(unknown.is_empty(), "{}: nobody tells {unknown:?} of {told:?}", service.name);
}

/// The names before `{OF` in templates of `PromQL`, but for one that is a value of the area.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("{OF").filter_map(|(end, _)| {
        let before =
            text[..end].trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let name = &text[before.len()..end];
        (!name.is_empty() && !before.ends_with('%')).then_some(name)
    })
}

/// The variables that the chart of an area takes.
fn charted(area: &str) -> BTreeSet<String> {
    let shared: Chart = yaml("helm/lib/values.yaml");
    let area: Area = yaml(&format!("helm/{area}/values.yaml"));
    &shared.variables.common | &area.app.variables.own
}

fn yaml<T: for<'a> Deserialize<'a>>(path: &str) -> T {
    yaml_serde::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
