//! What is written down is what is served: the contracts, the table of the README, the variables of the chart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use runtime::{Env, telemetry};
use serde::Deserialize;
use service::Service;

use crate::breaking;

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
