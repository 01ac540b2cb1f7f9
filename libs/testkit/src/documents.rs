//! What is written down is what is served: the contracts, and the table of the README.

use std::fs;
use std::path::Path;

use runtime::{Env, telemetry};
use service::Service;

use crate::breaking;

/// Holds a service to its documents in `contracts/`, to what was released of them, and to the table of settings in its
/// README.
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
    let readme = read(&format!("services/{name}/README.md"));
    let mut env = Env::new(|_| None);
    telemetry::Config::read(&mut env);
    service::configure::<S>(&mut env);
    for variable in env.variables() {
        let default = match variable.default.as_deref() {
            None => "required".to_owned(),
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let row = format!("| `{}` | {default} | {} |", variable.name, variable.about);
        assert!(readme.contains(&row), "the README lacks\n{row}");
    }
}

fn read(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
